//! `[roles.NAME]`: which model does what. What is said of the worker is what `[mission] model` and `effort`
//! say, in another place.

use domain::Effort;
use models::Wire;
use models::routing::{self, Chosen, Policy, Refused, Role};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::Error;
use super::file::{Entry, File, Reader};
use super::key::Key;
use super::merge::{Config, Origin};
use super::value::{self, Value};

/// The table.
pub(super) const TABLE: &str = "roles";
/// What a role has.
const FIELDS: [&str; 3] = ["model", "effort", "or"];

/// A model, an effort or a list of models that a file gives a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) role: Role,
    pub(super) what: What,
    pub(super) line: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    Model(String),
    Effort(Effort),
    Or(Vec<String>),
}

/// What a table says: of the worker, what keys of their own say.
pub(super) enum Said {
    Entry(Entry),
    Wanted(Wanted),
}

/// What holds for a role, and why.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) role: Role,
    pub(crate) chosen: Result<Chosen, Refused>,
    pub(crate) or: Vec<String>,
    /// Whose word the model is.
    pub(crate) origin: Origin,
}

/// The names that a misspelt one is held against.
pub(super) fn names() -> impl Iterator<Item = String> {
    let of = |role: Role| {
        let own = format!("{TABLE}.{role}");
        let fields = FIELDS.map(|field| format!("{own}.{field}"));
        [own].into_iter().chain(fields)
    };
    [TABLE.to_owned()].into_iter().chain(Role::ALL.into_iter().flat_map(of))
}

/// What is said in the table, each with its place in the text.
pub(super) fn parse(reader: &Reader<'_>, table: &DeTable<'_>) -> Vec<(usize, Result<Said, Error>)> {
    let mut all = Vec::new();
    for (name, value) in table {
        let (at, full) = (name.span().start, format!("{TABLE}.{}", name.get_ref()));
        let Some(role) = Role::ALL.into_iter().find(|role| role.name() == *name.get_ref()) else {
            all.push((at, Err(reader.unknown(&full, at))));
            continue;
        };
        let DeValue::Table(fields) = value.get_ref() else {
            let why = format!("expected a table: write [{full}] on a line of its own");
            all.push((at, Err(reader.refused(&full, at, why))));
            continue;
        };
        for (own, value) in fields {
            let at = own.span().start;
            all.push((at, field(reader, role, own.get_ref(), at, value)));
        }
    }
    all
}

fn field(
    reader: &Reader<'_>,
    role: Role,
    own: &str,
    at: usize,
    value: &Spanned<DeValue<'_>>,
) -> Result<Said, Error> {
    let full = format!("{TABLE}.{role}.{own}");
    let refused = |why: String| reader.refused(&full, at, why);
    let line = reader.line(at);
    let entry = |key: Key| -> Result<Said, Error> {
        let value = key.kind().of_toml(value.get_ref()).map_err(refused)?;
        Ok(Said::Entry(Entry { key, value, line }))
    };
    let what = match (own, role, value.get_ref()) {
        ("model", Role::Worker, _) => return entry(Key::Model),
        ("effort", Role::Worker, _) => return entry(Key::Effort),
        ("model", _, DeValue::String(model)) => What::Model(named(model).map_err(refused)?),
        ("model", ..) => return Err(refused("expected a string".into())),
        ("effort", _, DeValue::String(text)) => What::Effort(value::effort(text).map_err(refused)?),
        ("effort", ..) => return Err(refused(value::EFFORT_WANTED.into())),
        ("or", _, DeValue::Array(items)) => {
            let models = items.iter().map(|item| match item.get_ref() {
                DeValue::String(model) => named(model),
                _ => Err("expected a list of models, each a string".into()),
            });
            What::Or(models.collect::<Result<_, String>>().map_err(refused)?)
        }
        ("or", ..) => return Err(refused("expected a list of models, as [\"gpt-6.1-sol\"]".into())),
        _ => return Err(reader.unknown(&full, at)),
    };
    Ok(Said::Wanted(Wanted { role, what, line }))
}

fn named(model: &str) -> Result<String, String> {
    if model.trim().is_empty() { Err("it is blank".into()) } else { Ok(model.to_owned()) }
}

impl Wanted {
    /// The models that it names.
    pub(super) fn models(&self) -> &[String] {
        match &self.what {
            What::Model(model) => std::slice::from_ref(model),
            What::Or(models) => models,
            What::Effort(_) => &[],
        }
    }
}

impl Config {
    /// What is wanted of a role, and whose word its model is. An option names one model and no other.
    pub(crate) fn policy(&self, role: Role) -> (Policy, Origin) {
        let found = |is: fn(&What) -> bool| {
            let files = [self.project(), Some(self.installation())].into_iter().flatten();
            let mut all = files.flat_map(|file| file.roles.iter().map(move |wanted| (file, wanted)));
            all.find(|(_, wanted)| wanted.role == role && is(&wanted.what))
        };
        let place = |file: &File, line| Origin::File { level: file.level, path: file.path.clone(), line };
        let or = match found(|what| matches!(what, What::Or(_))) {
            Some((_, Wanted { what: What::Or(models), .. })) => models.clone(),
            _ => Vec::new(),
        };
        if role == Role::Worker {
            let (model, effort) = (self.said(Key::Model), self.said(Key::Effort));
            let origin = model.as_ref().map_or(Origin::BuiltIn, |model| model.origin.clone());
            let text = |setting: super::merge::Setting| match setting.value {
                Value::Text(text) => Some(text),
                _ => None,
            };
            let or = if matches!(origin, Origin::Flag(_)) { Vec::new() } else { or };
            let effort = effort.and_then(text).and_then(|effort| value::effort(&effort).ok());
            return (Policy { model: model.and_then(text), effort, or }, origin);
        }
        let (model, origin) = match found(|what| matches!(what, What::Model(_))) {
            Some((file, Wanted { what: What::Model(model), line, .. })) => {
                (Some(model.clone()), place(file, *line))
            }
            _ => (None, Origin::BuiltIn),
        };
        let effort = match found(|what| matches!(what, What::Effort(_))) {
            Some((_, Wanted { what: What::Effort(effort), .. })) => Some(*effort),
            _ => None,
        };
        (Policy { model, effort, or }, origin)
    }

    /// What each role comes to with the keys that are there. Who did not answer lately the daemon alone knows.
    pub(crate) fn roles(&self) -> Vec<Setting> {
        let worker = routing::choose(Role::Worker, &self.policy(Role::Worker).0, self.reach(), None);
        let worker = worker.ok().map(|chosen| Wire::of(&chosen.choice.model));
        let setting = |role: Role| {
            let (policy, origin) = self.policy(role);
            let avoid = worker.filter(|_| role == Role::Evaluator);
            let chosen = routing::choose(role, &policy, self.reach(), avoid);
            Setting { role, chosen, or: policy.or, origin }
        };
        Role::ALL.into_iter().map(setting).collect()
    }

    /// The model of the main loop with the keys that are there.
    pub(super) fn worker(&self) -> Option<String> {
        let policy = Policy { or: Vec::new(), ..Policy::default() };
        let chosen = routing::choose(Role::Worker, &policy, self.reach(), None).ok()?;
        Some(chosen.choice.model)
    }
}
