//! `regie config explain`: each value, where it comes from, and what could change it.

use std::path::Path;

use domain::Digest;
use models::routing::Why;
use runner::environment;
use serde_json::{Value as Json, json};

use super::{Config, KEYS, Key, Origin, env, roles};
use crate::failure::{Exit, Failure};
use crate::init::reach;
use crate::screen::{self, style, text};

/// Shows a configuration.
///
/// # Errors
/// When the output cannot be written.
pub(crate) fn show(config: &Config, root: Option<&Path>, as_json: bool) -> Result<Exit, Failure> {
    let environment = environment(config, root);
    if as_json {
        screen::put_json(&document(config, environment))?;
    } else {
        screen::put(&shown(config, environment))?;
    }
    Ok(Exit::Done)
}

fn document(config: &Config, environment: Option<Digest>) -> Json {
    let files = config.files().map(|(level, path, exists)| {
        json!({ "level": level, "path": path.display().to_string(), "exists": exists })
    });
    let keys = KEYS.into_iter().map(|key| {
        let setting = config.setting(key);
        json!({
            "key": key.name(),
            "value": setting.value.json(),
            "unit": setting.value.unit(),
            "from": from(&setting.origin),
            "note": setting.note,
            "about": key.about(),
            "env": key.env(),
            "flag": key.flag(),
        })
    });
    let env = config.given().into_iter().map(|given| {
        let (value, is_passed) = match &given.value {
            env::Value::Set(value) => (json!(value), false),
            env::Value::Passed => (Json::Null, true),
        };
        let is_set = !is_passed || std::env::var_os(&given.name).is_some();
        json!({ "name": given.name, "value": value, "passed": is_passed, "set": is_set, "from": from(&given.origin) })
    });
    let services = config.services().into_iter().map(|(service, origin)| {
        json!({ "name": service.name, "command": service.command, "ready": service.ready,
                "ready_timeout": service.ready_timeout, "from": from(&origin) })
    });
    let roles = config.roles().into_iter().map(|found| {
        let (chosen, refused) = match &found.chosen {
            Ok(chosen) => (Some(chosen), None),
            Err(refused) => (None, Some(refused.to_string())),
        };
        json!({
            "role": found.role.name(),
            "model": chosen.map(|chosen| &chosen.choice.model),
            "effort": chosen.and_then(|chosen| chosen.choice.effort),
            "or": found.or,
            "from": from(&found.origin),
            "why": chosen.map(|chosen| chosen.why.to_string()),
            "refused": refused,
        })
    });
    json!({
        "roles": roles.collect::<Vec<_>>(),
        "files": files.collect::<Vec<_>>(),
        "keys": keys.collect::<Vec<_>>(),
        "services": services.collect::<Vec<_>>(),
        "env": env.collect::<Vec<_>>(),
        "environment": environment.map(|hash| hash.to_string()),
    })
}

fn from(origin: &Origin) -> Json {
    match origin {
        Origin::BuiltIn => json!({ "kind": "built_in" }),
        Origin::File { level, path, line } => {
            json!({ "kind": level, "path": path.display().to_string(), "line": line })
        }
        Origin::Environment(name) => json!({ "kind": "environment", "name": name }),
        Origin::Flag(flag) => json!({ "kind": "flag", "name": flag }),
    }
}

/// The environment that the setup would make of the files as they are now.
fn environment(config: &Config, root: Option<&Path>) -> Option<Digest> {
    Some(environment::hash(&config.text(Key::Setup)?, &config.variables(), root?, &reach::found()))
}

/// The model of a role, as a row.
fn role(found: roles::Setting) -> (String, String, String, Option<String>) {
    let name = format!("roles.{}", found.role);
    let or = match found.or.is_empty() {
        true => String::new(),
        false => format!(" · or {}", text::line(&found.or.join(", "))),
    };
    match found.chosen {
        Ok(chosen) => {
            let why = match chosen.why {
                Why::Named => String::new(),
                why => format!(" · {}", text::line(&why.to_string())),
            };
            let model = text::model(&chosen.choice.model, chosen.choice.effort);
            (name, model, format!("{}{why}{or}", found.origin), None)
        }
        Err(refused) => {
            (name, "none".into(), format!("{}{or}", found.origin), Some(text::line(&refused.to_string())))
        }
    }
}

fn shown(config: &Config, environment: Option<Digest>) -> String {
    let mut all = String::new();
    for (_, path, exists) in config.files() {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let place = text::path(&path.display().to_string());
        let absent = if exists { "" } else { "  (not there)" };
        all.push_str(&format!("  {name:<13} {}\n", style::dim(&format!("{place}{absent}"))));
    }
    let mut rows: Vec<(String, String, String, Option<String>)> = KEYS
        .into_iter()
        .map(|key| config.setting(key))
        .map(|found| (found.key.name(), found.value.shown(), found.origin.to_string(), found.note))
        .collect();
    rows.extend(config.given().into_iter().map(|given| {
        let value = match &given.value {
            env::Value::Set(value) => text::line(value),
            env::Value::Passed if std::env::var_os(&given.name).is_some() => "•••".into(),
            env::Value::Passed => "not set here".into(),
        };
        (format!("env.{}", given.name), value, given.origin.to_string(), None)
    }));
    rows.extend(config.services().into_iter().map(|(service, origin)| {
        (format!("services.{}", service.name), text::line(&service.command), origin.to_string(), None)
    }));
    let mut before = None;
    for mut row in config.roles().into_iter().map(role) {
        // What all of them lack is said once.
        if row.3.is_some() && row.3 == before {
            row.3 = None;
        } else {
            before.clone_from(&row.3);
        }
        rows.push(row);
    }
    let names: Vec<String> = rows.iter().map(|row| row.0.clone()).collect();
    let values: Vec<String> = rows.iter().map(|row| row.1.clone()).collect();
    let wide = |texts: &[String]| texts.iter().map(|text| text.chars().count()).max().unwrap_or_default();
    let (name_wide, value_wide) = (wide(&names), wide(&values).min(40));
    all.push('\n');
    for (name, value, from, note) in &rows {
        all.push_str(&format!("  {name:<name_wide$}  {value:<value_wide$}  {}\n", style::dim(from)));
        if let Some(note) = note {
            all.push_str(&format!("  {:<name_wide$}  {} {note}\n", "", style::waiting("note:")));
        }
    }
    if let Some(hash) = environment {
        let hash = text::short_hash(&hash.to_string());
        all.push_str(&format!(
            "\n  environment {hash}  {}\n",
            style::dim("what the setup makes of these files and toolchains, as they are now")
        ));
    }
    all
}
