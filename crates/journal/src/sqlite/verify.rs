//! Verification: every chain recomputed from the bytes on disk.
//!
//! What it sees: a changed header, payload or salt, an event that is missing from the middle or the
//! end, events in another order, a content that is missing without an erasure on record, an erasure that was
//! altered or taken away from between others. What it cannot see alone: a chain that was rewritten as a whole, or a
//! run that was removed with all its rows; that takes a head kept outside the installation.

use domain::event::{self, Head, VERSION};
use domain::{Digest, Header, Payload, RunId};
use kernel::port::{JournalError, Verification};
use rusqlite::{Connection, OptionalExtension};

use super::erased::Erasures;
use super::read::storage;
use super::value::{digest, run_id, uint};

/// Verifies all runs. Each is read as it was at one instant, so writers need not stop.
pub(super) fn all(connection: &Connection) -> Result<Verification, JournalError> {
    let mut found = Verification::default();
    found.broken.extend(Erasures::read(connection).map_err(storage)?.broken());
    for run in runs(connection).map_err(storage)? {
        let transaction = connection.unchecked_transaction().map_err(storage)?;
        found.runs += 1;
        if let Some((seq, what)) = chain(&transaction, run, &mut found).map_err(storage)? {
            found.broken.push((run, seq, what));
        }
        transaction.finish().map_err(storage)?;
    }
    Ok(found)
}

/// Also runs whose events have lost their row, and rows that have lost their events.
fn runs(connection: &Connection) -> rusqlite::Result<Vec<RunId>> {
    connection
        .prepare("SELECT run FROM runs UNION SELECT run FROM events ORDER BY run")?
        .query_map([], |row| run_id(row, 0))?
        .collect()
}

/// An event's columns, unjudged.
struct Stored {
    position: u64,
    seq: u64,
    header: Vec<u8>,
    content: Vec<u8>,
    hash: Vec<u8>,
    /// Salt and payload; `None` when they were forgotten.
    kept: Option<(Vec<u8>, Vec<u8>)>,
}

/// The first broken event of a run.
fn chain(
    connection: &Connection,
    run: RunId,
    found: &mut Verification,
) -> rusqlite::Result<Option<(u64, String)>> {
    let mut statement = connection.prepare_cached(
        "SELECT e.position, e.seq, e.header, e.content, e.hash, p.salt, p.payload
         FROM events e LEFT JOIN payloads p ON p.position = e.position WHERE e.run = ?1 ORDER BY e.seq",
    )?;
    let mut rows = statement.query([run.as_bytes()])?;
    let mut head = Head::EMPTY;
    let mut position = 0;
    let mut erasures: Option<Erasures> = None;
    while let Some(row) = rows.next()? {
        let salt: Option<Vec<u8>> = row.get(5)?;
        let stored = Stored {
            position: uint(row, 0)?,
            seq: uint(row, 1)?,
            header: row.get(2)?,
            content: row.get(3)?,
            hash: row.get(4)?,
            kept: salt.zip(row.get(6)?),
        };
        found.events += 1;
        if stored.kept.is_none() {
            // An erasure is on record before what it names is gone, so this instant has it.
            let known = match &erasures {
                Some(known) => known,
                None => erasures.insert(Erasures::read(connection)?),
            };
            if !known.cover(run, stored.seq) {
                return Ok(Some((
                    stored.seq,
                    "its content is missing, and no erasure of it is on record".into(),
                )));
            }
            found.erased += 1;
        }
        match event(run, head, &stored) {
            Ok(_) if stored.position <= position => {
                return Ok(Some((stored.seq, "its position is not above that of the event before".into())));
            }
            Ok(next) => (head, position) = (next, stored.position),
            Err(what) => return Ok(Some((head.seq + 1, what))),
        }
    }
    let on_record = connection
        .prepare_cached("SELECT head_seq, head_hash FROM runs WHERE run = ?1")?
        .query_row([run.as_bytes()], |row| Ok(Head { seq: uint(row, 0)?, hash: digest(row, 1)? }))
        .optional()?;
    Ok(match on_record {
        None => Some((head.seq, "the run's row is missing".into())),
        Some(row) if row.seq > head.seq => Some((
            head.seq + 1,
            format!("it is missing: the run has {} events, its row says {}", head.seq, row.seq),
        )),
        Some(row) if row != head => Some((head.seq, "the run's row names another last event".into())),
        Some(_) => None,
    })
}

/// The head after this event, if it follows `head`.
fn event(run: RunId, head: Head, stored: &Stored) -> Result<Head, String> {
    let expected = head.seq + 1;
    if stored.seq != expected {
        return Err(format!("it is missing: event {} follows event {}", stored.seq, head.seq));
    }
    let content = whole(&stored.content, "content digest")?;
    if let Some((salt, payload)) = &stored.kept {
        let salt = salt.as_slice().try_into().map_err(|_| "its salt has not 16 bytes".to_owned())?;
        if event::content_digest(&salt, &Payload(payload.clone())) != content {
            return Err("its payload or salt was changed".into());
        }
    }
    let hash = event::link(head.hash, content, &stored.header);
    if hash != whole(&stored.hash, "hash")? {
        return Err("its header, content digest or hash was changed, or the event before was".into());
    }
    let header = Header::from_bytes(&stored.header).map_err(|error| error.to_string())?;
    if header.run != run || header.seq != expected || header.version != VERSION {
        return Err("its header belongs to another event".into());
    }
    Ok(Head { seq: expected, hash })
}

fn whole(bytes: &[u8], what: &str) -> Result<Digest, String> {
    bytes.try_into().map(Digest::from_bytes).map_err(|_| format!("its {what} has not 32 bytes"))
}
