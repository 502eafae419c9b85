//! The kill switch: while it is on, nothing is allowed to anybody.
//!
//! It is one record, read for each decision, so that it holds across a restart and for whatever takes part in the
//! installation. Switching it on takes all leases back in the same write: what was decided a moment before is
//! refused by the journal, and nothing of it goes on when the switch is lifted.

use domain::{Lease, Timestamp};
use kernel::port::{Put, RecordError, Records};
use serde::{Deserialize, Serialize};

use crate::leases;

/// The record kind of the switch.
pub const KIND: &str = "halt";
/// Its only key.
const KEY: &str = "switch";
/// How many leases are taken back in one write.
const BATCH: usize = 4096;

/// How the switch stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Halt {
    /// Whether it is on.
    pub is_on: bool,
    /// Who switched it last, as `human:owner`; empty when nobody ever did.
    #[serde(default)]
    pub by: String,
    /// When.
    #[serde(default)]
    pub at: Timestamp,
    /// Why, in the owner's words.
    #[serde(default)]
    pub why: String,
}

impl Halt {
    /// What is said to whoever wants something.
    #[must_use]
    pub fn refusal(&self) -> String {
        let why = if self.why.is_empty() { String::new() } else { format!(" ({})", self.why) };
        format!("everything is halted by {}{why}; `regie halt --lift` ends that", self.by)
    }
}

/// Why the switch cannot be read or turned.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The records cannot be read or written.
    #[error("the halt cannot be read or written; see `regie doctor`")]
    Records(#[source] RecordError),
    /// Its record is damaged.
    #[error("the record of the halt is damaged; `regie halt` writes it anew")]
    Damaged(#[source] serde_json::Error),
    /// A lease cannot be written.
    #[error("a lease cannot be taken back")]
    Lease(#[source] leases::Error),
}

/// How the switch stands at this moment.
///
/// # Errors
/// When it cannot be told: then nothing may be allowed.
pub fn state(records: &dyn Records) -> Result<Halt, Error> {
    let Some(record) = records.get(KIND, KEY).map_err(Error::Records)? else { return Ok(Halt::default()) };
    serde_json::from_slice(&record.body).map_err(Error::Damaged)
}

/// Switches it on, and takes back every lease that holds. Gives how many those were. Again takes back what was
/// granted meanwhile.
///
/// # Errors
/// When it cannot be written. The switch is on once a first part of it is.
pub fn raise(records: &dyn Records, by: &str, why: &str, now: Timestamp) -> Result<usize, Error> {
    let mut taken = 0;
    loop {
        let held: Vec<Lease> = holding(records, now)?;
        let version = version(records)?;
        let is_on = state(records).is_ok_and(|halt| halt.is_on);
        if held.is_empty() && is_on {
            return Ok(taken);
        }
        let switch = Halt { is_on: true, by: by.into(), at: now, why: why.into() };
        let switch = serde_json::to_vec(&switch).map_err(Error::Damaged)?;
        let mut leases = Vec::new();
        for lease in held.iter().take(BATCH) {
            let revoked = Lease { revoked: true, ..lease.clone() };
            let body = leases::body(&revoked, lease.epoch.saturating_add(1)).map_err(Error::Lease)?;
            leases.push((lease.id.to_string(), lease.epoch, body));
        }
        let writes = std::iter::once(Put { kind: KIND, key: KEY, expected: version, body: &switch });
        let writes = writes.chain(leases.iter().map(|(key, expected, body)| Put {
            kind: leases::KIND,
            key,
            expected: *expected,
            body,
        }));
        match records.put_all(&writes.collect::<Vec<_>>()) {
            Ok(()) => taken += leases.len(),
            Err(RecordError::Moved { .. }) => {}
            Err(error) => return Err(Error::Records(error)),
        }
    }
}

/// Switches it off. What was taken back stays so.
///
/// # Errors
/// When it cannot be written.
pub fn lift(records: &dyn Records, by: &str, now: Timestamp) -> Result<(), Error> {
    loop {
        let version = version(records)?;
        let switch = Halt { is_on: false, by: by.into(), at: now, why: String::new() };
        let body = serde_json::to_vec(&switch).map_err(Error::Damaged)?;
        match records.put(KIND, KEY, version, &body) {
            Ok(_) => return Ok(()),
            Err(RecordError::Moved { .. }) => {}
            Err(error) => return Err(Error::Records(error)),
        }
    }
}

fn version(records: &dyn Records) -> Result<u64, Error> {
    Ok(records.get(KIND, KEY).map_err(Error::Records)?.map_or(0, |record| record.version))
}

/// The leases that hold, each as it is on record by itself.
fn holding(records: &dyn Records, now: Timestamp) -> Result<Vec<Lease>, Error> {
    let read = |record: kernel::port::Record| {
        let lease: Lease = serde_json::from_slice(&record.body).ok()?;
        let lease = Lease { epoch: record.version, ..lease };
        (lease.id.to_string() == record.key && leases::holds(&lease, now)).then_some(lease)
    };
    Ok(records.list(leases::KIND).map_err(Error::Records)?.into_iter().filter_map(read).collect())
}
