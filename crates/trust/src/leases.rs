//! Leases as records: granted, revoked, read as they are at this moment, and only ever narrowed.
//!
//! The version of the record is the lease's epoch: whatever changes a lease raises it, and an append
//! that was decided under an older one is refused by the journal.

use domain::{Lease, LeaseId, Timestamp};
use kernel::port::{RecordError, Records};

/// The record kind of a lease; its key is the lease's id as text.
pub const KIND: &str = "lease";
/// The record kind of an approval given in advance; its key is the lease's id as text.
pub const STANDING_APPROVAL: &str = "standing-approval";

const MERGES: &[u8] = b"{\"approves\":\"merge\"}";

/// Why a lease cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not on record.
    #[error("lease {0} is not on record; start a new mission with `regie run`")]
    Missing(LeaseId),
    /// Its record is not a lease.
    #[error("lease {lease} cannot be read: its record is damaged; start a new mission with `regie run`")]
    Damaged {
        /// The lease.
        lease: LeaseId,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// The record holds another lease.
    #[error("the record of lease {0} holds another lease; start a new mission with `regie run`")]
    Other(LeaseId),
    /// The records cannot be read or written.
    #[error("lease {lease} cannot be read or written; see `regie doctor`")]
    Records {
        /// The lease.
        lease: LeaseId,
        /// Why.
        #[source]
        source: RecordError,
    },
}

/// Why a lease is not a narrower one of another.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Widening {
    /// The wider lease does not hold.
    #[error("lease {0} was revoked: nothing can be granted from it")]
    Revoked(LeaseId),
    /// It would be held for somebody else.
    #[error("the lease would serve another human than the one it comes from")]
    OnBehalfOf,
    /// It would hold a tool that the wider one lacks.
    #[error("the lease would hold the tool `{0}`, which the one it comes from does not")]
    Tool(String),
    /// It would live longer.
    #[error("the lease would outlive the one it comes from")]
    Expiry,
}

/// Puts a root lease on record and gives it back with its epoch. Durable when it returns.
///
/// # Errors
/// When it is on record already or cannot be written.
pub fn grant(records: &dyn Records, lease: &Lease) -> Result<Lease, Error> {
    write(records, lease.clone(), 0)
}

/// Puts a lease on record that is narrower than `from`.
///
/// # Errors
/// What would be wider, or why it cannot be written.
pub fn narrow(records: &dyn Records, from: LeaseId, lease: &Lease) -> Result<Result<Lease, Widening>, Error> {
    let wide = read(records, from)?;
    match is_narrower(&wide, lease) {
        Ok(()) => grant(records, lease).map(Ok),
        Err(widening) => Ok(Err(widening)),
    }
}

/// The lease as it is on record, with its epoch. Never cached: a revocation counts at once.
///
/// # Errors
/// When it is missing or cannot be read.
pub fn read(records: &dyn Records, id: LeaseId) -> Result<Lease, Error> {
    let record = records
        .get(KIND, &id.to_string())
        .map_err(|source| Error::Records { lease: id, source })?
        .ok_or(Error::Missing(id))?;
    let lease: Lease =
        serde_json::from_slice(&record.body).map_err(|source| Error::Damaged { lease: id, source })?;
    if lease.id != id {
        return Err(Error::Other(id));
    }
    Ok(Lease { epoch: record.version, ..lease })
}

/// Takes a lease back. Taking it back twice is once.
///
/// # Errors
/// When it is missing or cannot be written.
pub fn revoke(records: &dyn Records, id: LeaseId) -> Result<Lease, Error> {
    loop {
        let lease = read(records, id)?;
        if lease.revoked {
            return Ok(lease);
        }
        let epoch = lease.epoch;
        match write(records, Lease { revoked: true, ..lease }, epoch) {
            // Somebody changed it in between: a revocation is never lost to that.
            Err(Error::Records { source: RecordError::Moved { .. }, .. }) => {}
            done => return done,
        }
    }
}

/// Records that the owner approves in advance the merges made under a lease (`--yes`). Twice is once.
///
/// # Errors
/// When it cannot be written.
pub fn approve_merges(records: &dyn Records, id: LeaseId) -> Result<(), Error> {
    match records.put(STANDING_APPROVAL, &id.to_string(), 0, MERGES) {
        Ok(_) | Err(RecordError::Moved { .. }) => Ok(()),
        Err(source) => Err(Error::Records { lease: id, source }),
    }
}

/// Whether merges under a lease were approved in advance.
///
/// # Errors
/// When the records cannot be read.
pub fn are_merges_approved(records: &dyn Records, id: LeaseId) -> Result<bool, Error> {
    let found = records
        .get(STANDING_APPROVAL, &id.to_string())
        .map_err(|source| Error::Records { lease: id, source })?;
    Ok(found.is_some_and(|record| record.body == MERGES))
}

/// Whether `lease` allows nothing that `wide` does not.
///
/// # Errors
/// The first thing that would be wider.
pub fn is_narrower(wide: &Lease, lease: &Lease) -> Result<(), Widening> {
    if wide.revoked {
        return Err(Widening::Revoked(wide.id));
    }
    if wide.on_behalf_of != lease.on_behalf_of {
        return Err(Widening::OnBehalfOf);
    }
    if let Some(tool) = lease.tools.iter().find(|tool| !wide.tools.contains(tool)) {
        return Err(Widening::Tool(tool.clone()));
    }
    if lease.expires_at > wide.expires_at {
        return Err(Widening::Expiry);
    }
    Ok(())
}

/// The narrowest of what a lease holds and what is asked for: tools that it has, no longer life.
#[must_use]
pub fn clip(wide: &Lease, tools: &[String], expires_at: Timestamp) -> (Vec<String>, Timestamp) {
    let kept = tools.iter().filter(|tool| wide.tools.contains(tool)).cloned().collect();
    (kept, expires_at.min(wide.expires_at))
}

fn write(records: &dyn Records, lease: Lease, expected: u64) -> Result<Lease, Error> {
    let id = lease.id;
    let lease = Lease { epoch: expected.saturating_add(1), ..lease };
    let body = serde_json::to_vec(&lease).map_err(|source| Error::Damaged { lease: id, source })?;
    let epoch = records
        .put(KIND, &id.to_string(), expected, &body)
        .map_err(|source| Error::Records { lease: id, source })?;
    Ok(Lease { epoch, ..lease })
}
