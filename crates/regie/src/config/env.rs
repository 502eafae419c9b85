//! `[env]`: variables of the steps' environment. A repository sets values that are its own; only the
//! owner's file passes values of the owner's environment on, as a repository must not pull secrets in.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::Error;
use super::file::Reader;
use super::key::Level;

/// The table.
pub(super) const TABLE: &str = "env";
/// The list in it of names that are passed on.
const PASS: &str = "pass";

/// What Regie itself sets, or what would change which code runs before a step's own command does.
const KEPT: &[&str] = &[
    "BASH_ENV",
    "CARGO_HOME",
    "ENV",
    "GOCACHE",
    "GOMODCACHE",
    "GRADLE_USER_HOME",
    "HOME",
    "IFS",
    "OLDPWD",
    "PATH",
    "PIP_CACHE_DIR",
    "PWD",
    "SHELL",
    "TMPDIR",
    "USER",
    "UV_CACHE_DIR",
    "XDG_CACHE_HOME",
    "npm_config_cache",
];
/// How names of the loader and of Regie begin.
const KEPT_BEGINNINGS: [&str; 3] = ["LD_", "DYLD_", "REGIE_"];
/// The keys that model calls are made with. They stay out of every jail.
const VENDORS: [&str; 3] = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY"];

/// A variable of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) value: Value,
    pub(crate) line: usize,
}

/// What a variable is.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// This text.
    Set(String),
    /// What the owner's environment has.
    Passed,
}

impl std::fmt::Debug for Value {
    /// Without the text: it may be worth keeping to oneself.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Set(_) => "Set(…)",
            Self::Passed => "Passed",
        })
    }
}

/// What is said in the table, each with its place in the text.
pub(super) fn parse(reader: &Reader<'_>, table: &DeTable<'_>) -> Vec<(usize, Result<Variable, Error>)> {
    let mut found = Vec::new();
    for (name, value) in table {
        let (at, name) = (name.span().start, name.get_ref().as_ref());
        if name == PASS {
            found.extend(passed(reader, at, value));
            continue;
        }
        let refused = |why: &str| reader.refused(&format!("{TABLE}.{name}"), at, why.to_owned());
        let variable = match (check(name, false), value.get_ref()) {
            (Err(why), _) => Err(refused(why)),
            (Ok(()), DeValue::String(text)) if text.contains('\0') => {
                Err(refused("no variable can hold a NUL character"))
            }
            (Ok(()), DeValue::String(text)) => {
                let value = Value::Set(text.clone().into_owned());
                Ok(Variable { name: name.to_owned(), value, line: reader.line(at) })
            }
            (Ok(()), _) => Err(refused("expected a text in quotes")),
        };
        found.push((at, variable));
    }
    found
}

fn passed(
    reader: &Reader<'_>,
    at: usize,
    value: &Spanned<DeValue<'_>>,
) -> Vec<(usize, Result<Variable, Error>)> {
    let key = format!("{TABLE}.{PASS}");
    if reader.level != Level::Installation {
        return vec![(at, Err(reader.misplaced(&key, at)))];
    }
    let names: Option<Vec<(usize, &str)>> = match value.get_ref() {
        DeValue::Array(items) => {
            items.iter().map(|item| Some((item.span().start, item.get_ref().as_str()?))).collect()
        }
        _ => None,
    };
    let Some(names) = names else {
        return vec![(
            at,
            Err(reader.refused(&key, at, "expected a list of names, as [\"NPM_TOKEN\"]".into())),
        )];
    };
    let variable = |(at, name): (usize, &str)| match check(name, true) {
        Ok(()) => Ok(Variable { name: name.to_owned(), value: Value::Passed, line: reader.line(at) }),
        Err(why) => Err(reader.refused(&format!("{key}: {name}"), at, why.to_owned())),
    };
    names.into_iter().map(|named| (named.0, variable(named))).collect()
}

fn check(name: &str, is_passed: bool) -> Result<(), &'static str> {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    let is_name = name.starts_with(letter) && name.chars().all(|c| letter(c) || c.is_ascii_digit());
    if !is_name {
        return Err("a name has letters, digits and underscores, and begins with no digit");
    }
    if KEPT.contains(&name) || KEPT_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning)) {
        return Err("it belongs to the jail: Regie sets it itself, or lets nobody set it");
    }
    if is_passed && VENDORS.contains(&name) {
        return Err("the key of model calls stays out of the jail");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_open_the_jail_are_refused() {
        for name in
            ["PATH", "HOME", "LD_PRELOAD", "DYLD_INSERT_LIBRARIES", "REGIE_HOME", "BASH_ENV", "1A", "A B", ""]
        {
            assert!(check(name, false).is_err(), "{name}");
        }
        for name in ["DATABASE_URL", "_x", "NODE_ENV", "ANTHROPIC_API_KEY"] {
            assert_eq!(check(name, false), Ok(()), "{name}");
        }
        assert!(check("ANTHROPIC_API_KEY", true).is_err());
        assert!(!format!("{:?}", Value::Set("hidden".into())).contains("hidden"));
    }
}
