//! Leases as records: granted, revoked, read as they are at this moment, and only ever narrowed.
//!
//! The version of the record is the lease's epoch: whatever changes a lease raises it, and an append
//! that was decided under an older one is refused by the journal.
//!
//! A lease that was narrowed from another one holds as long as that one does, and so on up to the root. All that
//! came from one root is a family, with a record of its own that lists it: to narrow and to revoke are each one
//! write of the family's record together with the leases, so that nothing is minted past a revocation, and a
//! revocation raises the epochs of all that it takes at once. A lease is read together with what it comes from,
//! so that even a half-written family could not hold more than its root.

pub mod narrow;
pub mod paths;
pub mod token;

use std::collections::BTreeSet;

use domain::principal::NotAPrincipal;
use domain::{Lease, LeaseId, Principal, Timestamp};
use kernel::port::{Put, RecordError, Records};
use serde::{Deserialize, Serialize};

pub use narrow::{Widening, clip, is_narrower};

/// The record kind of a lease; its key is the lease's id as text.
pub const KIND: &str = "lease";
/// The record kind of all that came from one root; its key is the root's id as text.
pub const FAMILY: &str = "lease-family";
/// The record kind of an approval given in advance; its key is the lease's id as text.
pub const STANDING_APPROVAL: &str = "standing-approval";
/// How many leases can lie between a lease and its root.
pub const DEEPEST: usize = 16;

/// What no lease can hold, whatever a tool is called: the way back is the owner's alone.
const OWNERS: [&str; 8] = ["snapshot", "snapshots", "backup", "backups", "lease", "halt", "vault", "forget"];

const MERGES: &[u8] = b"{\"approves\":\"merge\"}";

/// Why a lease cannot be granted, read or changed.
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
    /// It comes from too many others, or from itself.
    #[error("lease {0} lies deeper than {DEEPEST} below its root; narrow one that is nearer to it")]
    TooDeep(LeaseId),
    /// It would hold what is the owner's alone.
    #[error(
        "no lease can hold `{0}`: snapshots, backups, leases, the vault and the halt are the owner's own"
    )]
    Owners(String),
    /// It would be held by nobody that there is.
    #[error("the lease cannot be granted")]
    Principal(#[source] NotAPrincipal),
    /// Nobody is accountable for it.
    #[error("a lease is held on behalf of a human, and `{0}` is none")]
    Unaccountable(String),
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

/// All that came from one root, the root left out.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Family {
    members: Vec<Member>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Member {
    id: LeaseId,
    parent: LeaseId,
}

impl Family {
    /// A lease and all that came from it.
    fn below(&self, top: LeaseId) -> Vec<LeaseId> {
        let mut found = vec![top];
        let mut seen = BTreeSet::from([top]);
        let mut at = 0;
        while let Some(parent) = found.get(at).copied() {
            let children = self.members.iter().filter(|member| member.parent == parent);
            found.extend(children.map(|member| member.id).filter(|id| seen.insert(*id)));
            at += 1;
        }
        found
    }
}

/// Puts a root lease on record and gives it back with its epoch. Durable when it returns.
///
/// # Errors
/// When nobody may hold it, it is on record already, or it cannot be written.
pub fn grant(records: &dyn Records, lease: &Lease) -> Result<Lease, Error> {
    let lease = Lease { parent: None, ..checked(lease)? };
    let body = body(&lease, 1)?;
    let put = records.put(KIND, &lease.id.to_string(), 0, &body);
    let epoch = put.map_err(|source| Error::Records { lease: lease.id, source })?;
    Ok(Lease { epoch, ..lease })
}

/// Puts a lease on record that is narrower than `from`. It is held on behalf of the same human.
///
/// # Errors
/// What would be wider, or why it cannot be written.
pub fn narrow(records: &dyn Records, from: LeaseId, lease: &Lease) -> Result<Result<Lease, Widening>, Error> {
    let lease = Lease { parent: Some(from), ..checked(lease)? };
    loop {
        let chain = chain(records, from)?;
        if chain.len() >= DEEPEST {
            return Err(Error::TooDeep(from));
        }
        if let Err(widening) = is_narrower(&effective(&chain, from)?, &lease) {
            return Ok(Err(widening));
        }
        let root = root(&chain, from);
        let (mut family, version) = family(records, root)?;
        family.members.push(Member { id: lease.id, parent: from });
        let (listed, body) = (json(from, &family)?, body(&lease, 1)?);
        let (root, id) = (root.to_string(), lease.id.to_string());
        let writes = [
            Put { kind: FAMILY, key: &root, expected: version, body: &listed },
            Put { kind: KIND, key: &id, expected: 0, body: &body },
        ];
        match records.put_all(&writes) {
            Ok(()) => return Ok(Ok(Lease { epoch: 1, ..lease })),
            // Another one was narrowed or revoked in between: what holds now is looked at again.
            Err(RecordError::Moved { kind, .. }) if kind == FAMILY => {}
            Err(source) => return Err(Error::Records { lease: lease.id, source }),
        }
    }
}

/// The lease as it is on record, with its epoch, and with what was done to those that it comes from: revoked with
/// any of them, over with the first. Never cached: a revocation counts at once.
///
/// # Errors
/// When it or one that it comes from is missing or cannot be read.
pub fn read(records: &dyn Records, id: LeaseId) -> Result<Lease, Error> {
    effective(&chain(records, id)?, id)
}

/// All leases, each as [`read`] gives it; one that cannot be read is left out.
///
/// # Errors
/// When the records cannot be read.
pub fn list(records: &dyn Records) -> Result<Vec<Lease>, RecordError> {
    let ids = records.list(KIND)?.into_iter().filter_map(|record| record.key.parse::<LeaseId>().ok());
    Ok(ids.filter_map(|id| read(records, id).ok()).collect())
}

/// Takes a lease back, and with it at once all that came from it. Taking it back twice is once.
///
/// # Errors
/// When it is missing or cannot be written; then nothing of it was taken back.
pub fn revoke(records: &dyn Records, id: LeaseId) -> Result<Lease, Error> {
    change(records, id, |lease| (!lease.revoked).then_some(Lease { revoked: true, ..lease }))
}

/// Lets a lease end at an instant, and with it at once all that came from it: what it was for is over.
///
/// # Errors
/// When it is missing or cannot be written; then nothing of it has ended.
pub fn end(records: &dyn Records, id: LeaseId, at: Timestamp) -> Result<Lease, Error> {
    change(records, id, |lease| (lease.expires_at > at).then_some(Lease { expires_at: at, ..lease }))
}

/// Forgets what a lease was for, and all that came from it: the words of the owner.
///
/// # Errors
/// When it is missing or cannot be written.
pub fn forget_purpose(records: &dyn Records, id: LeaseId) -> Result<(), Error> {
    let forgotten =
        |lease: Lease| (!lease.purpose.is_empty()).then_some(Lease { purpose: String::new(), ..lease });
    change(records, id, forgotten).map(|_| ())
}

/// Changes a lease and all that came from it in one write; those of which nothing is to be changed stay.
fn change(
    records: &dyn Records,
    id: LeaseId,
    changed: impl Fn(Lease) -> Option<Lease>,
) -> Result<Lease, Error> {
    loop {
        let chain = chain(records, id)?;
        let root = root(&chain, id);
        let (family, version) = family(records, root)?;
        let mut taken = Vec::new();
        for member in family.below(id) {
            let lease = own(records, member)?;
            let epoch = lease.epoch;
            if let Some(lease) = changed(lease) {
                taken.push((member.to_string(), epoch, body(&lease, epoch.saturating_add(1))?));
            }
        }
        if taken.is_empty() {
            return read(records, id);
        }
        let (key, listed) = (root.to_string(), json(id, &family)?);
        let leases =
            taken.iter().map(|(key, expected, body)| Put { kind: KIND, key, expected: *expected, body });
        // Also where there is none yet: a first child that is minted at this moment must not slip by.
        let family = Put { kind: FAMILY, key: &key, expected: version, body: &listed };
        match records.put_all(&leases.chain([family]).collect::<Vec<_>>()) {
            // Somebody changed one in between: a change is never lost to that.
            Ok(()) | Err(RecordError::Moved { .. }) => {}
            Err(source) => return Err(Error::Records { lease: id, source }),
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

/// Whether a lease can hold a tool of this name.
///
/// # Errors
/// [`Error::Owners`] where it is for the owner alone.
pub fn can_hold(tool: &str) -> Result<(), Error> {
    let words = tool.split(|letter: char| !letter.is_ascii_alphanumeric()).map(str::to_ascii_lowercase);
    match words.into_iter().any(|word| OWNERS.contains(&word.as_str())) {
        true => Err(Error::Owners(tool.to_owned())),
        false => Ok(()),
    }
}

/// A lease that somebody may hold.
fn checked(lease: &Lease) -> Result<Lease, Error> {
    lease.principal.parse::<Principal>().map_err(Error::Principal)?;
    match lease.on_behalf_of.parse::<Principal>().map_err(Error::Principal)? {
        Principal::Human(_) => {}
        other => return Err(Error::Unaccountable(other.to_string())),
    }
    lease.tools.iter().try_for_each(|tool| can_hold(tool))?;
    Ok(Lease { revoked: false, ..lease.clone() })
}

/// A lease and those that it comes from, as each is on record, the root last.
fn chain(records: &dyn Records, id: LeaseId) -> Result<Vec<Lease>, Error> {
    let mut chain: Vec<Lease> = Vec::new();
    let mut next = Some(id);
    while let Some(one) = next {
        if chain.len() >= DEEPEST {
            return Err(Error::TooDeep(id));
        }
        let lease = own(records, one)?;
        next = lease.parent;
        chain.push(lease);
    }
    Ok(chain)
}

/// What of a chain holds at its end.
fn effective(chain: &[Lease], id: LeaseId) -> Result<Lease, Error> {
    let lease = chain.first().cloned().ok_or(Error::Missing(id))?;
    let expires_at = chain.iter().map(|lease| lease.expires_at).min().unwrap_or(lease.expires_at);
    Ok(Lease { revoked: chain.iter().any(|lease| lease.revoked), expires_at, ..lease })
}

fn root(chain: &[Lease], id: LeaseId) -> LeaseId {
    chain.last().map_or(id, |lease| lease.id)
}

/// A lease without those that it comes from.
fn own(records: &dyn Records, id: LeaseId) -> Result<Lease, Error> {
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

fn family(records: &dyn Records, root: LeaseId) -> Result<(Family, u64), Error> {
    let found =
        records.get(FAMILY, &root.to_string()).map_err(|source| Error::Records { lease: root, source })?;
    let Some(record) = found else { return Ok((Family::default(), 0)) };
    let family =
        serde_json::from_slice(&record.body).map_err(|source| Error::Damaged { lease: root, source })?;
    Ok((family, record.version))
}

/// The body of a lease's record at an epoch.
pub(crate) fn body(lease: &Lease, epoch: u64) -> Result<Vec<u8>, Error> {
    json(lease.id, &Lease { epoch, ..lease.clone() })
}

fn json(lease: LeaseId, value: &impl Serialize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(value).map_err(|source| Error::Damaged { lease, source })
}

/// Whether a lease holds at an instant.
#[must_use]
pub fn holds(lease: &Lease, now: Timestamp) -> bool {
    !lease.revoked && now < lease.expires_at
}
