//! What is done outside of any run: a record before it is done, and what came of it after.
//!
//! A run's steps are decided and recorded by the kernel. What the owner does to authority itself, and what a
//! service of the house does by itself, passes here: it is decided, put on record, done, and the record says how it
//! ended. Where the record cannot be written nothing is done.

use domain::{Lease, LeaseId, Principal, Timestamp};
use kernel::port::{RecordError, Records};
use serde::{Deserialize, Serialize};

use crate::{halt, leases};

/// The record kind of an act; its key begins with its instant, so that they are in order.
pub const KIND: &str = "act";

/// Something that is about to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// Who does it.
    pub by: Principal,
    /// Under which lease; a human needs none.
    pub lease: Option<LeaseId>,
    /// What, as `lease.revoke`: for a service, the name of an action that its lease holds.
    pub what: String,
    /// To what.
    pub of: String,
    /// When.
    pub at: Timestamp,
}

/// What is on record of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Act {
    /// Who does it, as `svc:keeper`.
    pub by: String,
    /// The lease that it was decided under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<LeaseId>,
    /// What.
    pub what: String,
    /// To what.
    pub of: String,
    /// When it was intended.
    pub at: Timestamp,
    /// The rule that allowed it.
    pub rule: String,
    /// How it ended; without, it was cut short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
}

/// An act whose intention is on record.
#[derive(Debug)]
pub struct Begun {
    key: String,
    act: Act,
}

/// Why something is not done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not allowed.
    #[error("{by} may not do `{what}`: {why}")]
    Denied {
        /// Who.
        by: String,
        /// What.
        what: String,
        /// Why not.
        why: String,
    },
    /// It cannot be put on record.
    #[error("what is to be done cannot be put on record, so it is not done; see `regie doctor`")]
    Records(#[source] RecordError),
}

/// Decides an act and puts its intention on record.
///
/// # Errors
/// Why it must not be done.
pub fn begin(records: &dyn Records, intent: Intent, random: [u8; 8]) -> Result<Begun, Error> {
    let denied = |why: String| Error::Denied { by: intent.by.to_string(), what: intent.what.clone(), why };
    let rule = rule(records, &intent).map_err(denied)?;
    let hex: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let key = format!("{:016}-{hex}", intent.at.0);
    let Intent { by, lease, what, of, at } = intent;
    let act = Act { by: by.to_string(), lease, what, of, at, rule, outcome: None };
    let body = body(&act).map_err(Error::Records)?;
    records.put(KIND, &key, 0, &body).map_err(Error::Records)?;
    Ok(Begun { key, act })
}

/// Puts on record how an act ended.
///
/// # Errors
/// When it cannot be written: the act stays on record as cut short.
pub fn end(records: &dyn Records, begun: Begun, outcome: &str) -> Result<(), RecordError> {
    let act = Act { outcome: Some(outcome.into()), ..begun.act };
    records.put(KIND, &begun.key, 1, &body(&act)?).map(|_| ())
}

/// What was done, the oldest first.
///
/// # Errors
/// When the records cannot be read.
pub fn list(records: &dyn Records) -> Result<Vec<Act>, RecordError> {
    let acts = records.list(KIND)?;
    Ok(acts.iter().filter_map(|record| serde_json::from_slice(&record.body).ok()).collect())
}

/// The rule that allows an act.
fn rule(records: &dyn Records, intent: &Intent) -> Result<String, String> {
    if matches!(intent.by, Principal::Human(_)) {
        return Ok("the owner asked for it".into());
    }
    let in_full = |error: &dyn std::error::Error| domain::causes::in_full(error);
    let halt = halt::state(records).map_err(|error| in_full(&error))?;
    if halt.is_on {
        return Err(halt.refusal());
    }
    let id = intent.lease.ok_or("it holds no lease")?;
    let lease = leases::read(records, id).map_err(|error| in_full(&error))?;
    match () {
        () if lease.principal != intent.by.to_string() => {
            Err("the lease was granted to somebody else".into())
        }
        () if lease.revoked => Err("its lease was revoked".into()),
        () if intent.at >= lease.expires_at => Err("its lease has expired".into()),
        () if !lease.tools.contains(&intent.what) => Err("its lease does not hold that".into()),
        () => Ok(format!("its lease holds it: {}", lease.purpose)),
    }
}

/// The lease of a service for what it does by itself: granted for a while, and again when that is over.
///
/// # Errors
/// When it cannot be read or written.
pub fn service_lease(
    records: &dyn Records,
    wanted: &Lease,
    now: Timestamp,
) -> Result<LeaseId, leases::Error> {
    let failed = |source| leases::Error::Records { lease: wanted.id, source };
    let held = leases::list(records).map_err(failed)?.into_iter().find(|lease| {
        lease.principal == wanted.principal && lease.tools == wanted.tools && leases::holds(lease, now)
    });
    match held {
        Some(lease) => Ok(lease.id),
        None => leases::grant(records, wanted).map(|lease| lease.id),
    }
}

fn body(act: &Act) -> Result<Vec<u8>, RecordError> {
    serde_json::to_vec(act).map_err(|error| RecordError::Storage(error.to_string()))
}
