//! The kernel's ports: everything outside that it calls, as small traits.
//!
//! Adapters live on the floor above. Each port has one behaviour suite in `testkit` that is run
//! against every adapter.

mod executor;
mod journal;
mod search;
mod storage;

pub use executor::{Executor, Finished, Inbox, Probe, Refused, Status, Work, Workspaces};
pub use journal::{
    Append, AppendError, Appended, Claim, ClaimError, DayCap, Expect, GateRow, Journal, JournalError,
    OnAppended, RunRow, Verification,
};
pub use search::{Found, Index, IndexError, Mark, Piece, Text};
pub use storage::{ArtifactError, Artifacts, Put, Record, RecordError, Records, Stored};

use domain::budget::Exhausted;
use domain::{Decision, Digest, Effect, GateId, LeaseId, Risk, RunId, StepKind, StepNo, Timestamp};

/// Reads the time.
pub trait Clock: Send + Sync {
    /// The present instant.
    fn now(&self) -> Timestamp;
}

/// Randomness for identifiers and salts.
pub trait Rng: Send + Sync {
    /// Fills the buffer with unpredictable bytes.
    fn fill(&self, buffer: &mut [u8]);
}

/// A fresh gate id.
pub fn gate_id(clock: Timestamp, rng: &dyn Rng) -> GateId {
    let mut random = [0; 10];
    rng.fill(&mut random);
    GateId::new(clock.0, random)
}

/// What the authorisation point judges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action<'a> {
    /// The run.
    pub run: RunId,
    /// Who acts.
    pub principal: &'a str,
    /// Under which lease.
    pub lease: LeaseId,
    /// Which step.
    pub step: StepNo,
    /// Its kind.
    pub kind: StepKind,
    /// Its effect class.
    pub effect: Effect,
    /// Its risk class.
    pub risk: Risk,
    /// The tool.
    pub tool: &'a str,
    /// The exact request.
    pub request: &'a [u8],
    /// Its digest, which an approval is bound to.
    pub digest: Digest,
    /// What it may cost, in nanodollars.
    pub nanodollars: u64,
    /// The gate at which a human approved exactly this action.
    pub approved: Option<GateId>,
    /// When.
    pub now: Timestamp,
}

/// The one authorisation point. Deterministic: no model takes part in a decision.
pub trait Authority: Send + Sync {
    /// Judges an action.
    ///
    /// # Errors
    /// The daily cap when the action's cost does not fit under it.
    fn decide(&self, action: &Action<'_>) -> Result<Decision, Exhausted>;

    /// What all runs of one UTC day may cost together, in nanodollars: the cap that
    /// [`decide`](Self::decide) went by, for the journal to hold where two runs decide at once.
    fn day_cap(&self) -> u64;

    /// How long a gate for this action stays open, in milliseconds.
    fn patience(&self, action: &Action<'_>) -> u64;
}
