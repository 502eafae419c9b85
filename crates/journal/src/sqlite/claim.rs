//! Claims: who moves a run, and the fence that keeps all earlier holders out.
//!
//! The writer judges them in queue order with the appends, so a claim wins over every append that is
//! queued after it.

use domain::event::Head;
use domain::{Millis, RunId, Timestamp};
use kernel::port::{Claim, ClaimError};
use rusqlite::{Connection, OptionalExtension, params};

use super::failure::Failure;
use super::value::{digest, int, uint};

/// A claim that is asked for.
pub(super) struct Wanted {
    pub(super) run: RunId,
    pub(super) holder: String,
    pub(super) now: Timestamp,
    pub(super) ttl: Millis,
    /// Takes it even from a living holder.
    pub(super) force: bool,
}

struct Row {
    fence: u64,
    holder: Option<String>,
    expires_at: Timestamp,
    head: Head,
}

fn load(connection: &Connection, run: RunId) -> rusqlite::Result<Option<Row>> {
    connection
        .prepare_cached(
            "SELECT fence, holder, claim_expires_at, head_seq, head_hash FROM runs WHERE run = ?1",
        )?
        .query_row([run.as_bytes()], |row| {
            Ok(Row {
                fence: uint(row, 0)?,
                holder: row.get(1)?,
                expires_at: Timestamp(uint(row, 2)?),
                head: Head { seq: uint(row, 3)?, hash: digest(row, 4)? },
            })
        })
        .optional()
}

/// Raises the fence for a new holder.
pub(super) fn take(connection: &Connection, wanted: &Wanted) -> Result<Result<Claim, ClaimError>, Failure> {
    let run = wanted.run;
    let Some(row) = load(connection, run)? else { return Ok(Err(ClaimError::NoSuchRun(run))) };
    if let Some(holder) = row.holder
        && !wanted.force
        && holder != wanted.holder
        && wanted.now < row.expires_at
    {
        return Ok(Err(ClaimError::Held { run, holder }));
    }
    let fence = row.fence.saturating_add(1);
    connection
        .prepare_cached("UPDATE runs SET fence = ?2, holder = ?3, claim_expires_at = ?4 WHERE run = ?1")?
        .execute(params![run.as_bytes(), int(fence), wanted.holder, int(wanted.now.plus(wanted.ttl).0)])?;
    Ok(Ok(Claim { run, fence, head: row.head }))
}

/// Prolongs a claim. One that has expired and that nobody took is still its holder's.
pub(super) fn renew(
    connection: &Connection,
    claim: &Claim,
    until: Timestamp,
) -> Result<Result<(), ClaimError>, Failure> {
    let Some(row) = load(connection, claim.run)? else {
        return Ok(Err(ClaimError::NoSuchRun(claim.run)));
    };
    if row.fence != claim.fence || row.holder.is_none() {
        return Ok(Err(ClaimError::Lost(claim.run)));
    }
    connection
        .prepare_cached("UPDATE runs SET claim_expires_at = ?2 WHERE run = ?1")?
        .execute(params![claim.run.as_bytes(), int(until.0)])?;
    Ok(Ok(()))
}

/// Gives a claim back, if it is still its holder's.
pub(super) fn release(connection: &Connection, claim: &Claim) -> Result<Result<(), ClaimError>, Failure> {
    connection
        .prepare_cached("UPDATE runs SET holder = NULL, claim_expires_at = 0 WHERE run = ?1 AND fence = ?2")?
        .execute(params![claim.run.as_bytes(), int(claim.fence)])?;
    Ok(Ok(()))
}
