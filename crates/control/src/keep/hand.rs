//! Whose hand takes something away: decided and on record before it is gone, whoever it is.

use std::sync::Arc;

use domain::{Grants, Lease, LeaseId, Principal, Timestamp};
use kernel::port::{Records, Rng};
use trust::acts::{self, Intent};

use crate::error::Error;
use crate::missions::{OWNER, unavailable};
use crate::view;

/// What the keeper's lease holds, and nothing else: each is one kind of thing that may go.
const ACTIONS: [&str; 8] = [
    "sweep.spool",
    "sweep.workspace",
    "sweep.branch",
    "sweep.bin",
    "sweep.left-over",
    "sweep.cache",
    "sweep.artifacts",
    "sweep.objects",
];
/// How long the keeper's lease lives, in milliseconds: a sweep a day, and some patience.
const LEASE_TIME: u64 = 26 * 60 * 60 * 1000;

/// Whoever sweeps.
pub(super) struct Hand {
    pub(super) records: Arc<dyn Records>,
    pub(super) rng: Arc<dyn Rng>,
    pub(super) by: Principal,
    pub(super) lease: Option<LeaseId>,
    pub(super) now: Timestamp,
}

impl Hand {
    /// The owner's, who asked for it.
    pub(super) fn owner(records: Arc<dyn Records>, rng: Arc<dyn Rng>, now: Timestamp) -> Self {
        Self { records, rng, by: Principal::Human("owner".into()), lease: None, now }
    }

    /// That of the service which sweeps once a day, under a lease of its own.
    ///
    /// # Errors
    /// When no lease can be had.
    pub(super) fn keeper(
        records: Arc<dyn Records>,
        rng: Arc<dyn Rng>,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let by = Principal::Service("keeper".into());
        let mut random = [0; 10];
        rng.fill(&mut random);
        let wanted = Lease {
            id: LeaseId::new(now.0, random),
            run: None,
            parent: None,
            principal: by.to_string(),
            on_behalf_of: OWNER.into(),
            purpose: "what has served its time goes, once a day".into(),
            tools: ACTIONS.map(String::from).to_vec(),
            paths: Grants { read: Vec::new(), write: Vec::new() },
            budget: None,
            labels: None,
            granted_at: Some(now),
            expires_at: now.plus(LEASE_TIME),
            epoch: 0,
            revoked: false,
        };
        let lease = acts::service_lease(&*records, &wanted, now)
            .map_err(|error| unavailable("lease.failed", &error))?;
        Ok(Self { records, rng, by, lease: Some(lease), now })
    }

    /// Does it, when it may and its intention is on record.
    ///
    /// # Errors
    /// Why not, in words.
    pub(super) fn does<T>(
        &self,
        what: &str,
        of: impl ToString,
        act: impl FnOnce() -> Result<T, String>,
    ) -> Result<T, String> {
        let mut random = [0; 8];
        self.rng.fill(&mut random);
        let intent = Intent {
            by: self.by.clone(),
            lease: self.lease,
            what: what.into(),
            of: of.to_string(),
            at: self.now,
        };
        let begun = acts::begin(&*self.records, intent, random).map_err(|error| view::with_causes(&error))?;
        let done = act();
        let outcome = match &done {
            Ok(_) => "gone".to_owned(),
            Err(why) => format!("stays: {why}"),
        };
        if let Err(error) = acts::end(&*self.records, begun, &outcome) {
            tracing::warn!(%error, what, outcome, "how an act ended is not on record");
        }
        done
    }
}
