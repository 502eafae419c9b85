//! Records: compare-and-swap rows, written by the writer thread so that a changed lease and the
//! appends that were decided under it have one order.

use kernel::port::{Record, RecordError};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::failure::Failure;
use super::value::{int, uint};

/// A record that is to be written.
pub(super) struct Write {
    pub(super) kind: String,
    pub(super) key: String,
    /// The version that must be there, 0 for none.
    pub(super) expected: u64,
    pub(super) body: Vec<u8>,
}

/// The version of a record.
pub(super) fn version(connection: &Connection, kind: &str, key: &str) -> Result<Option<u64>, Failure> {
    Ok(connection
        .prepare_cached("SELECT version FROM records WHERE kind = ?1 AND key = ?2")?
        .query_row([kind, key], |row| uint(row, 0))
        .optional()?)
}

pub(super) fn put(connection: &Connection, write: &Write) -> Result<Result<u64, RecordError>, Failure> {
    let Write { kind, key, expected, body } = write;
    let current = version(connection, kind, key)?.unwrap_or(0);
    if current != *expected {
        let (kind, key, expected) = (kind.clone(), key.clone(), *expected);
        return Ok(Err(RecordError::Moved { kind, key, current, expected }));
    }
    let next = current.saturating_add(1);
    connection
        .prepare_cached("INSERT OR REPLACE INTO records (kind, key, version, body) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![kind, key, int(next), body])?;
    Ok(Ok(next))
}

/// Writes all of them, or none.
pub(super) fn put_all(connection: &Connection, writes: &[Write]) -> Result<Result<(), RecordError>, Failure> {
    for Write { kind, key, expected, .. } in writes {
        let current = version(connection, kind, key)?.unwrap_or(0);
        if current != *expected {
            let (kind, key, expected) = (kind.clone(), key.clone(), *expected);
            return Ok(Err(RecordError::Moved { kind, key, current, expected }));
        }
    }
    for write in writes {
        // A key that is there twice has moved by now: the batch is not written then.
        if let Err(error) = put(connection, write)? {
            return Err(Failure { text: error.to_string(), fatal: false });
        }
    }
    Ok(Ok(()))
}

pub(super) fn get(connection: &Connection, kind: &str, key: &str) -> Result<Option<Record>, RecordError> {
    let read = || {
        connection
            .prepare_cached("SELECT kind, key, version, body FROM records WHERE kind = ?1 AND key = ?2")?
            .query_row([kind, key], record)
            .optional()
    };
    read().map_err(|error| Failure::from(error).into())
}

pub(super) fn list(connection: &Connection, kind: &str) -> Result<Vec<Record>, RecordError> {
    let read = || {
        connection
            .prepare_cached("SELECT kind, key, version, body FROM records WHERE kind = ?1 ORDER BY key")?
            .query_map([kind], record)?
            .collect::<rusqlite::Result<Vec<_>>>()
    };
    read().map_err(|error| Failure::from(error).into())
}

pub(super) fn kinds(connection: &Connection) -> Result<Vec<String>, RecordError> {
    let read = || {
        connection
            .prepare_cached("SELECT DISTINCT kind FROM records ORDER BY kind")?
            .query_map([], |row| row.get(0))?
            .collect::<rusqlite::Result<Vec<_>>>()
    };
    read().map_err(|error| Failure::from(error).into())
}

fn record(row: &Row<'_>) -> rusqlite::Result<Record> {
    Ok(Record { kind: row.get(0)?, key: row.get(1)?, version: uint(row, 2)?, body: row.get(3)? })
}
