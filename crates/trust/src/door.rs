//! The kernel's `Authority` port over the records and the journal.
//!
//! Fails closed: a lease, an approval or a figure that cannot be read denies the action and says why.
//! Nothing is cached, so that a revocation counts for the very next step; one made between decision
//! and append is caught by the lease's epoch.

use std::sync::Arc;

use domain::budget::Exhausted;
use domain::{Decision, Fact, Millis, Outcome, RunId, StepKind, StepNo, Verdict};
use kernel::port::{Action, Authority, Journal, Records};

use crate::leases;
use crate::policy::{Case, DELIVER, MERGE, Policy, Ruling};

/// How long a gate stays open.
const PATIENCE: Millis = 7 * 24 * 60 * 60 * 1000;
/// Events that are looked at in one go.
const PAGE: usize = 1_000;

/// What the door asks of the past.
pub trait History: Send + Sync {
    /// Money settled and reserved by all runs on a UTC day, in nanodollars.
    ///
    /// # Errors
    /// Why it cannot be told, in words.
    fn spent_on(&self, day: u64) -> Result<u64, String>;

    /// Whether a merge of this run is on record as done.
    ///
    /// # Errors
    /// Why it cannot be told, in words.
    fn has_merged(&self, run: RunId) -> Result<bool, String>;
}

impl<J: Journal + ?Sized> History for J {
    fn spent_on(&self, day: u64) -> Result<u64, String> {
        Journal::spent_on(self, day).map_err(|error| error.to_string())
    }

    fn has_merged(&self, run: RunId) -> Result<bool, String> {
        let mut merges: Vec<StepNo> = Vec::new();
        let mut after = 0;
        loop {
            let page = self.history(run, after, PAGE).map_err(|error| error.to_string())?;
            for event in &page {
                after = event.header.seq;
                match &event.header.fact {
                    Fact::StepPlanned(planned)
                        if planned.kind == StepKind::ToolCall && planned.tool == MERGE =>
                    {
                        merges.push(planned.step);
                    }
                    Fact::StepCompleted { step, outcome: Outcome::Succeeded, .. }
                        if merges.contains(step) =>
                    {
                        return Ok(true);
                    }
                    _ => {}
                }
            }
            if page.len() < PAGE {
                return Ok(false);
            }
        }
    }
}

/// The one authorisation point of an installation.
pub struct Door<H: ?Sized = dyn Journal> {
    policy: Policy,
    records: Arc<dyn Records>,
    history: Arc<H>,
    nanodollars_per_day: u64,
}

impl<H: History + ?Sized> Door<H> {
    /// A door with the built-in rules and a cap on the money of one UTC day, in nanodollars.
    pub fn new(records: Arc<dyn Records>, history: Arc<H>, nanodollars_per_day: u64) -> Self {
        Self { policy: Policy::built_in(), records, history, nanodollars_per_day }
    }

    fn judge(&self, action: &Action<'_>) -> Decision {
        let denied =
            |epoch, rule| Decision { verdict: Verdict::Deny, rule, lease: action.lease, epoch, gate: None };
        let lease = match leases::read(&*self.records, action.lease) {
            Ok(lease) => lease,
            Err(error) => return denied(0, in_full(&error)),
        };
        let is = |tool| action.kind == StepKind::ToolCall && action.tool == tool;
        let merge_approved = match is(MERGE) {
            true => leases::are_merges_approved(&*self.records, lease.id).map_err(|error| in_full(&error)),
            false => Ok(false),
        };
        let merged = if is(DELIVER) { self.history.has_merged(action.run) } else { Ok(false) };
        let (merge_approved, merged) = match (merge_approved, merged) {
            (Ok(merge_approved), Ok(merged)) => (merge_approved, merged),
            (Err(why), _) | (_, Err(why)) => {
                return denied(lease.epoch, format!("it cannot be told what was approved: {why}"));
            }
        };
        let Ruling { verdict, rule, gate } =
            self.policy.judge(&Case { action, lease: &lease, merge_approved, merged });
        Decision { verdict, rule, lease: lease.id, epoch: lease.epoch, gate }
    }
}

impl<H: History + ?Sized> Authority for Door<H> {
    fn decide(&self, action: &Action<'_>) -> Result<Decision, Exhausted> {
        let decision = self.judge(action);
        if decision.verdict == Verdict::Deny || action.nanodollars == 0 {
            return Ok(decision);
        }
        match self.history.spent_on(action.now.day()) {
            Ok(spent) if spent.saturating_add(action.nanodollars) > self.nanodollars_per_day => {
                Err(Exhausted::Day)
            }
            Ok(_) => Ok(decision),
            Err(why) => Ok(Decision {
                verdict: Verdict::Deny,
                rule: format!("what was spent today cannot be read: {why}"),
                gate: None,
                ..decision
            }),
        }
    }

    fn patience(&self, _: &Action<'_>) -> u64 {
        PATIENCE
    }
}

/// An error with its causes, for the one line that goes on record.
fn in_full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
