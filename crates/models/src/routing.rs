//! Which model does what: roles, what is wanted of each, and who can be asked for it.
//!
//! Pure: the same wishes and the same reach give the same choice. A run asks one model from its first turn to
//! its last, so a choice is made when a run begins and at no other time.

use std::fmt;

use domain::{Effort, Instead};

use crate::Wire;
use crate::config::{TOKEN_ENV, key_names};

/// What a model is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Cuts a goal into parts.
    Planner,
    /// Does the work: the main loop.
    Worker,
    /// Judges the work, best as somebody else.
    Evaluator,
    /// Condenses what is to be remembered.
    Consolidator,
    /// Sorts many small things.
    Classifier,
}

/// A model, and how much work it puts into an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The model's name.
    pub model: String,
    /// The vendor's default when absent.
    pub effort: Option<Effort>,
}

/// What is wanted for one role. Nothing said is the built-in tier of a vendor whose key is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// The first choice.
    pub model: Option<String>,
    /// How much work is put into an answer.
    pub effort: Option<Effort>,
    /// Others, in their order, for when the first choice cannot be asked.
    pub or: Vec<String>,
}

/// Whether a vendor can be asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// Its key is not there.
    #[default]
    NoKey,
    /// As far as is known.
    Ready,
    /// It did not answer lately: how, for people.
    Out(String),
}

/// Who can be asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    messages: Status,
    responses: Status,
    chat: Status,
}

/// A choice, and why it is this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// What is to be asked.
    pub choice: Choice,
    /// Why.
    pub why: Why,
}

/// Why a choice is the one that it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// Somebody named it.
    Named,
    /// The built-in tier.
    BuiltIn,
    /// The built-in tier of the vendor whose key is there; that of the others is not.
    OnlyKey(Wire),
    /// The built-in tier of another vendor than the one that was to be avoided.
    OtherVendor(Wire),
    /// The built-in tier, and no other vendor could be asked.
    SameVendor(Wire),
    /// The first choice cannot be asked.
    Instead(Instead),
    /// It did not answer lately, and there is no other.
    OutAsWell(String),
}

/// Nothing that is wanted can be asked: which keys are missing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no key for {}; set {}{}", any(.lacks, |wire| wire.to_string()), any(.lacks, key_names), own(*.is_built_in))]
pub struct Refused {
    /// Whose keys would do.
    pub lacks: Vec<Wire>,
    /// Whether nobody named a model.
    pub is_built_in: bool,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Planner, Self::Worker, Self::Evaluator, Self::Consolidator, Self::Classifier];

    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Planner => "planner",
            Self::Worker => "worker",
            Self::Evaluator => "evaluator",
            Self::Consolidator => "consolidator",
            Self::Classifier => "classifier",
        }
    }

    /// The built-in model of a vendor for this role; a server of one's own has none.
    #[must_use]
    pub const fn model(self, wire: Wire) -> Option<&'static str> {
        Some(match (self, wire) {
            (_, Wire::Chat) => return None,
            (Self::Planner, Wire::Messages) => "claude-fable-5-2",
            (Self::Planner, Wire::Responses) => "gpt-6-astra",
            (Self::Worker, Wire::Messages) => crate::catalogue::DEFAULT_MODEL,
            (Self::Worker, Wire::Responses) => "gpt-6.1-sol",
            (Self::Evaluator, Wire::Messages) => "claude-sonnet-5-5",
            (Self::Evaluator, Wire::Responses) => "gpt-6.1-terra",
            (Self::Consolidator | Self::Classifier, Wire::Messages) => "claude-haiku-5-5",
            (Self::Consolidator | Self::Classifier, Wire::Responses) => "gpt-6-luna",
        })
    }

    /// The built-in effort that goes with a built-in model; the vendor's default when absent.
    #[must_use]
    pub const fn effort(self) -> Option<Effort> {
        match self {
            Self::Planner => Some(Effort::High),
            Self::Worker | Self::Evaluator | Self::Consolidator | Self::Classifier => None,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Reach {
    /// As `status` says of each wire.
    #[must_use]
    pub fn new(mut status: impl FnMut(Wire) -> Status) -> Self {
        Self {
            messages: status(Wire::Messages),
            responses: status(Wire::Responses),
            chat: status(Wire::Chat),
        }
    }

    /// By the keys of an environment alone. A server of one's own needs none.
    #[must_use]
    pub fn of_keys(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let is_set = |name: &str| lookup(name).is_some_and(|value| !value.trim().is_empty());
        Self::new(|wire| {
            let has_token = wire == Wire::Messages && is_set(TOKEN_ENV);
            match wire == Wire::Chat || has_token || is_set(wire.key_env()) {
                true => Status::Ready,
                false => Status::NoKey,
            }
        })
    }

    /// Whether a vendor can be asked.
    #[must_use]
    pub const fn status(&self, wire: Wire) -> &Status {
        match wire {
            Wire::Messages => &self.messages,
            Wire::Responses => &self.responses,
            Wire::Chat => &self.chat,
        }
    }

    fn has_key(&self, wire: Wire) -> bool {
        *self.status(wire) != Status::NoKey
    }
}

impl Chosen {
    /// The first choice that this one stands in for.
    #[must_use]
    pub const fn instead_of(&self) -> Option<&Instead> {
        match &self.why {
            Why::Instead(instead) => Some(instead),
            _ => None,
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named => f.write_str("named"),
            Self::BuiltIn => f.write_str("the default"),
            Self::OnlyKey(wire) => write!(f, "the default of {wire}, whose key is there"),
            Self::OtherVendor(wire) => write!(f, "the default of {wire}: another vendor than the worker's"),
            Self::SameVendor(wire) => {
                write!(f, "the default of {wire}, as the worker: no other can be asked")
            }
            Self::Instead(Instead { model, why }) => write!(f, "instead of {model}: {why}"),
            Self::OutAsWell(why) => write!(f, "no other can be asked, though {why}"),
        }
    }
}

/// Chooses for a role. `avoid` is the vendor whose work is judged: where nobody named a model, another one's
/// goes first.
///
/// A first choice whose vendor has no key, or did not answer lately, gives way to the first of the others
/// that can be asked. When all that have a key are out, the first of them is chosen all the same: an outage is
/// a guess about the next minutes. What is built in gives way for want of a key alone, as nobody said that
/// another vendor may be asked as well.
///
/// # Errors
/// When no vendor of what is wanted has a key.
pub fn choose(role: Role, policy: &Policy, reach: &Reach, avoid: Option<Wire>) -> Result<Chosen, Refused> {
    let named = policy.model.as_ref().map(|model| (model.clone(), Why::Named));
    let first = named.or_else(|| built_in(role, reach, avoid));
    let others = policy.or.iter().filter(|other| first.as_ref().is_none_or(|(first, _)| first != *other));
    let wanted: Vec<(String, Why)> =
        first.iter().cloned().chain(others.map(|other| (other.clone(), Why::Named))).collect();
    let with_key: Vec<&(String, Why)> =
        wanted.iter().filter(|(model, _)| reach.has_key(Wire::of(model))).collect();
    let is_ready = |model: &str| *reach.status(Wire::of(model)) == Status::Ready;
    let ready = with_key.iter().find(|(model, _)| is_ready(model));
    let Some((model, why)) = ready.or(with_key.first()).copied() else {
        return Err(refused(&wanted, policy));
    };
    let why = match (&first, reach.status(Wire::of(model))) {
        (Some((first, _)), _) if first != model => Why::Instead(instead(first, reach)),
        (None, _) => Why::Instead(instead(role.model(Wire::Messages).unwrap_or_default(), reach)),
        (Some(_), Status::Out(how)) => Why::OutAsWell(how.clone()),
        (Some(_), Status::Ready | Status::NoKey) => why.clone(),
    };
    let is_built_in = policy.model.is_none() && !matches!(why, Why::Instead(_));
    let effort = policy.effort.or_else(|| role.effort().filter(|_| is_built_in));
    Ok(Chosen { choice: Choice { model: model.clone(), effort }, why })
}

/// The tier of a vendor whose key is there; `None` when there is none.
fn built_in(role: Role, reach: &Reach, avoid: Option<Wire>) -> Option<(String, Why)> {
    let vendors = || [Wire::Messages, Wire::Responses].into_iter().filter(|wire| reach.has_key(*wire));
    let another = |wire: &Wire| avoid.is_some_and(|avoid| avoid != *wire);
    let is_ready = |wire: &Wire| *reach.status(*wire) == Status::Ready;
    let other = vendors().find(|wire| another(wire) && is_ready(wire)).or_else(|| vendors().find(another));
    let (wire, why) = match (other, avoid) {
        (Some(wire), _) => (wire, Why::OtherVendor(wire)),
        (None, Some(_)) => vendors().next().map(|wire| (wire, Why::SameVendor(wire)))?,
        (None, None) => {
            let wire = vendors().next()?;
            (wire, if vendors().count() == 1 { Why::OnlyKey(wire) } else { Why::BuiltIn })
        }
    };
    Some((role.model(wire)?.to_owned(), why))
}

fn instead(model: &str, reach: &Reach) -> Instead {
    let wire = Wire::of(model);
    let why = match reach.status(wire) {
        Status::Out(how) => how.clone(),
        Status::NoKey | Status::Ready => format!("there is no key for {wire}"),
    };
    Instead { model: model.to_owned(), why }
}

fn refused(wanted: &[(String, Why)], policy: &Policy) -> Refused {
    let is_built_in = policy.model.is_none();
    let named = wanted.iter().map(|(model, _)| Wire::of(model));
    let all = named.chain([Wire::Messages, Wire::Responses].into_iter().filter(|_| is_built_in));
    let mut lacks: Vec<Wire> = Vec::new();
    for wire in all {
        if !lacks.contains(&wire) {
            lacks.push(wire);
        }
    }
    Refused { lacks, is_built_in }
}

fn any(wires: &[Wire], name: impl Fn(Wire) -> String) -> String {
    wires.iter().map(|wire| name(*wire)).collect::<Vec<_>>().join(" or ")
}

const fn own(is_built_in: bool) -> &'static str {
    if is_built_in { ", or name a model of your own server: --model local/NAME" } else { "" }
}
