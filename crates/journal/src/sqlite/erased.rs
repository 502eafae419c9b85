//! Forgetting: contents are overwritten where they lie, and what is missing is held against the erasures on record.

use domain::erasure::{self, Erasure};
use domain::{Digest, RunId};
use kernel::port::JournalError;
use rusqlite::{Connection, params};

use super::failure::Failure;
use super::value::int;

/// Deletes salts and payloads; `secure_delete` overwrites them. Gives how many there were.
pub(super) fn erase(
    connection: &Connection,
    run: RunId,
    events: &[(u64, u64)],
) -> Result<Result<u64, JournalError>, Failure> {
    let mut erased = 0_u64;
    for (first, last) in events {
        let gone = connection
            .prepare_cached(
                "DELETE FROM payloads WHERE position IN
                     (SELECT position FROM events WHERE run = ?1 AND seq BETWEEN ?2 AND ?3)",
            )?
            .execute(params![run.as_bytes(), int(*first), int(*last)])?;
        erased = erased.saturating_add(u64::try_from(gone).unwrap_or(u64::MAX));
    }
    Ok(Ok(erased))
}

/// The erasures on record, as far as they follow one another.
#[derive(Debug)]
pub(super) struct Erasures {
    all: Vec<Erasure>,
    /// Where the first does not follow: the number, and what is wrong with it.
    broken: Option<(u64, String)>,
}

impl Erasures {
    pub(super) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let mut statement =
            connection.prepare_cached("SELECT key, body FROM records WHERE kind = ?1 ORDER BY key")?;
        let mut rows = statement.query([erasure::KIND])?;
        let mut found = Self { all: Vec::new(), broken: None };
        let mut previous = Digest::ZERO;
        let mut number = 0_u64;
        while let Some(row) = rows.next()? {
            let (key, body): (String, Vec<u8>) = (row.get(0)?, row.get(1)?);
            number = number.saturating_add(1);
            match serde_json::from_slice::<Erasure>(&body) {
                _ if key != erasure::key(number) => {
                    found.broken = Some((number, "it is missing".into()));
                }
                Ok(erasure) if erasure.previous == previous => {
                    previous = Digest::of(&body);
                    found.all.push(erasure);
                    continue;
                }
                Ok(_) => found.broken = Some((number, "it does not follow the one before".into())),
                Err(_) => found.broken = Some((number, "it cannot be read".into())),
            }
            break;
        }
        Ok(found)
    }

    pub(super) fn cover(&self, run: RunId, seq: u64) -> bool {
        self.all.iter().any(|erasure| erasure.covers(run, seq))
    }

    /// The break of their chain, told of the run whose erasure was the last that follows.
    pub(super) fn broken(self) -> Option<(RunId, u64, String)> {
        let (number, what) = self.broken?;
        let run = self.all.last().map_or(RunId::from_bytes([0; 16]), |erasure| erasure.run);
        Some((run, 0, format!("erasure {number} of this home: {what}")))
    }
}
