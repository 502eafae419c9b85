//! `regie config explain`: each value, where it comes from, and what could change it.

use serde_json::{Value as Json, json};

use super::{Config, KEYS, Origin};
use crate::failure::{Exit, Failure};
use crate::screen::{self, style, text};

/// Shows a configuration.
///
/// # Errors
/// When the output cannot be written.
pub(crate) fn show(config: &Config, as_json: bool) -> Result<Exit, Failure> {
    if as_json {
        screen::put_json(&document(config))?;
    } else {
        screen::put(&shown(config))?;
    }
    Ok(Exit::Done)
}

fn document(config: &Config) -> Json {
    let files = config.files().map(|(level, path, exists)| {
        json!({ "level": level, "path": path.display().to_string(), "exists": exists })
    });
    let keys = KEYS.into_iter().map(|key| {
        let setting = config.setting(key);
        let from = match &setting.origin {
            Origin::BuiltIn => json!({ "kind": "built_in" }),
            Origin::File { level, path, line } => {
                json!({ "kind": level, "path": path.display().to_string(), "line": line })
            }
            Origin::Environment(name) => json!({ "kind": "environment", "name": name }),
            Origin::Flag(flag) => json!({ "kind": "flag", "name": flag }),
        };
        json!({
            "key": key.name(),
            "value": setting.value.json(),
            "unit": setting.value.unit(),
            "from": from,
            "note": setting.note,
            "about": key.about(),
            "env": key.env(),
            "flag": key.flag(),
        })
    });
    json!({ "files": files.collect::<Vec<_>>(), "keys": keys.collect::<Vec<_>>() })
}

fn shown(config: &Config) -> String {
    let mut all = String::new();
    for (_, path, exists) in config.files() {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let place = text::path(&path.display().to_string());
        let absent = if exists { "" } else { "  (not there)" };
        all.push_str(&format!("  {name:<13} {}\n", style::dim(&format!("{place}{absent}"))));
    }
    let settings: Vec<_> = KEYS.into_iter().map(|key| config.setting(key)).collect();
    let names: Vec<String> = KEYS.into_iter().map(super::Key::name).collect();
    let values: Vec<String> = settings.iter().map(|setting| setting.value.shown()).collect();
    let wide = |texts: &[String]| texts.iter().map(|text| text.chars().count()).max().unwrap_or_default();
    let (name_wide, value_wide) = (wide(&names), wide(&values).min(40));
    all.push('\n');
    for ((setting, name), value) in settings.iter().zip(&names).zip(&values) {
        let from = style::dim(&setting.origin.to_string());
        all.push_str(&format!("  {name:<name_wide$}  {value:<value_wide$}  {from}\n"));
        if let Some(note) = &setting.note {
            all.push_str(&format!("  {:<name_wide$}  {} {note}\n", "", style::waiting("note:")));
        }
    }
    all
}
