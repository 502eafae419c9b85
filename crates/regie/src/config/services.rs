//! `[services.NAME]`: what runs beside the commands of a mission, such as a test database.

use domain::Service;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::Error;
use super::file::Reader;
use super::key::Level;
use super::value;

/// The table.
pub(super) const TABLE: &str = "services";

/// A service of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Declared {
    pub(crate) service: Service,
    pub(crate) line: usize,
}

/// What is said in the table, each with its place in the text.
pub(super) fn parse(reader: &Reader<'_>, table: &DeTable<'_>) -> Vec<(usize, Result<Declared, Error>)> {
    let declared = table.iter().map(|(name, value)| {
        let (at, name) = (name.span().start, name.get_ref().as_ref());
        (at, declared(reader, at, name, value))
    });
    declared.collect()
}

fn declared(
    reader: &Reader<'_>,
    at: usize,
    name: &str,
    value: &Spanned<DeValue<'_>>,
) -> Result<Declared, Error> {
    let key = format!("{TABLE}.{name}");
    let refused = |at: usize, key: &str, why: &str| reader.refused(key, at, why.to_owned());
    if reader.level != Level::Project {
        return Err(reader.misplaced(&key, at));
    }
    if !Service::is_name(name) {
        return Err(refused(at, &key, "a name has up to 32 letters, digits, `_` and `-`"));
    }
    let DeValue::Table(table) = value.get_ref() else {
        return Err(refused(at, &key, "expected a table: write [services.db] on a line of its own"));
    };
    let mut service = Service {
        name: name.to_owned(),
        command: String::new(),
        ready: None,
        ready_timeout: Service::READY_TIMEOUT,
    };
    for (own, value) in table {
        let (at, key) = (own.span().start, format!("{key}.{}", own.get_ref()));
        let text = match value.get_ref() {
            DeValue::String(text) if !text.trim().is_empty() && !text.contains('\0') => Ok(text),
            _ => Err(refused(at, &key, "expected a text in quotes that is not blank")),
        };
        match own.get_ref().as_ref() {
            "command" => service.command = text?.clone().into_owned(),
            "ready" => service.ready = Some(text?.clone().into_owned()),
            "ready_timeout" => {
                service.ready_timeout = value::span(text?).map_err(|why| refused(at, &key, &why))?;
            }
            _ => return Err(refused(at, &key, "a service has `command`, `ready` and `ready_timeout`")),
        }
    }
    if service.command.is_empty() {
        return Err(refused(at, &key, "it needs a `command`"));
    }
    Ok(Declared { service, line: reader.line(at) })
}
