//! The journal: events, claims, positions, and the rows that are projected from them.

use domain::event::{Head, Recorded, Sealed};
use domain::run::End;
use domain::{GateId, LeaseId, Millis, RunId, Timestamp};

/// What an append expects to find; otherwise nothing of it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expect {
    /// The fence of the writer's claim.
    pub fence: u64,
    /// The end of the chain.
    pub head: Head,
    /// The lease and the epoch that decisions in this batch were made under.
    pub lease: Option<(LeaseId, u64)>,
    /// What the money that this batch reserves must still fit under. Checked in the transaction that
    /// reserves it, so that runs which decided at the same moment cannot pass the cap together.
    pub day: Option<DayCap>,
}

/// The most money of all runs on one UTC day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DayCap {
    /// The day, counted from 1970-01-01.
    pub day: u64,
    /// What may be settled and reserved on it together, in nanodollars.
    pub nanodollars: u64,
}

/// Events of one run that are written together or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Append {
    /// The run.
    pub run: RunId,
    /// What must still hold.
    pub expect: Expect,
    /// The events, sealed in order.
    pub events: Vec<Sealed>,
}

/// Where the events are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The position of the last event.
    pub position: u64,
}

/// Why an append was not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// Another claim has been taken since.
    #[error("run {run} was taken over by another daemon (fence {current}, ours {ours})")]
    Fenced {
        /// The run.
        run: RunId,
        /// The fence on record.
        current: u64,
        /// The writer's fence.
        ours: u64,
    },
    /// The chain has another end.
    #[error("run {0} has another head than expected")]
    HeadMoved(RunId),
    /// The lease was changed or revoked since the decision.
    #[error("lease {0} was changed after the decision")]
    LeaseMoved(LeaseId),
    /// Other runs have reserved since the decision, and what this one reserves no longer fits.
    #[error("day {0} has no room left for what run {1} would reserve")]
    DayFull(u64, RunId),
    /// The write failed. Nothing of the batch is on record.
    #[error("the journal cannot write: {0}")]
    Storage(String),
}

/// A claim on a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The run.
    pub run: RunId,
    /// Its fencing token, above all earlier ones.
    pub fence: u64,
    /// The end of the chain at that moment.
    pub head: Head,
}

/// Why a run could not be claimed or a claim not renewed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// Somebody else holds it.
    #[error("run {run} is claimed by {holder}")]
    Held {
        /// The run.
        run: RunId,
        /// Who holds it.
        holder: String,
    },
    /// The claim was lost.
    #[error("the claim on run {0} was lost to another daemon")]
    Lost(RunId),
    /// There is no such run.
    #[error("there is no run {0}; `regie runs` lists them")]
    NoSuchRun(RunId),
    /// The write failed.
    #[error("the journal cannot write a claim: {0}")]
    Storage(String),
}

/// Why reading failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// There is no such run.
    #[error("there is no run {0}; `regie runs` lists them")]
    NoSuchRun(RunId),
    /// The content that is needed was forgotten on purpose.
    #[error("what run {0} was about was forgotten; `regie audit acts` says when")]
    Forgotten(RunId),
    /// The journal cannot be read.
    #[error("the journal cannot be read: {0}")]
    Storage(String),
    /// The journal is not what it should be.
    #[error("the journal is damaged at event {seq} of run {run}: {what}")]
    Damaged {
        /// The run.
        run: RunId,
        /// The event.
        seq: u64,
        /// What is wrong.
        what: String,
    },
}

/// One run, as projected from its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRow {
    /// The run.
    pub run: RunId,
    /// `active`, `parked` or `ended`.
    pub status: &'static str,
    /// How it ended.
    pub end: Option<End>,
    /// When it started.
    pub started_at: Timestamp,
    /// When its last event was written.
    pub updated_at: Timestamp,
    /// The end of its chain.
    pub head: Head,
    /// The fence of the last claim.
    pub fence: u64,
    /// Settled money, in nanodollars.
    pub nanodollars: u64,
    /// Settled tokens.
    pub tokens: u64,
    /// Settled calls without a known price.
    pub unpriced: u64,
    /// Model turns that have a result.
    pub turns: u64,
    /// Gates without an answer.
    pub open_gates: u64,
}

/// One gate, as projected from its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateRow {
    /// The gate.
    pub gate: GateId,
    /// Its run.
    pub run: RunId,
    /// The event that opened it.
    pub opened_seq: u64,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// When no answer becomes a refusal.
    pub expires_at: Timestamp,
    /// The event that answered it.
    pub answered_seq: Option<u64>,
}

/// What a verification of all chains found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verification {
    /// Runs looked at.
    pub runs: u64,
    /// Events looked at.
    pub events: u64,
    /// Payloads that were forgotten on purpose: an erasure on record names them.
    pub erased: u64,
    /// The first broken link of each broken run: run, event, what is wrong.
    pub broken: Vec<(RunId, u64, String)>,
}

/// Called once when an append is durable, or has failed. It must not block.
pub type OnAppended = Box<dyn FnOnce(Result<Appended, AppendError>) + Send>;

/// Events, claims and positions. Appends are ordered: a later one is never durable before an
/// earlier one. Positions are assigned inside the group commit, so that no cursor skips an event.
pub trait Journal: Send + Sync {
    /// Writes a run's first events (the run must not exist). Blocks until durable.
    ///
    /// # Errors
    /// When the run exists or the write fails.
    fn create(&self, append: Append) -> Result<Appended, AppendError>;

    /// Queues an append; `done` is called when it is durable or has failed.
    fn append(&self, append: Append, done: OnAppended);

    /// Takes a run over: raises its fence. `force` takes it even from a living holder (a daemon that
    /// holds the installation's lock does that at its start).
    ///
    /// # Errors
    /// When another holder's claim has not expired, the run does not exist, or the write fails.
    fn claim(
        &self,
        run: RunId,
        holder: &str,
        now: Timestamp,
        ttl: Millis,
        force: bool,
    ) -> Result<Claim, ClaimError>;

    /// Prolongs a claim.
    ///
    /// # Errors
    /// When the claim was lost.
    fn renew(&self, claim: &Claim, now: Timestamp, ttl: Millis) -> Result<(), ClaimError>;

    /// Gives a claim back. A claim that was lost is not an error.
    ///
    /// # Errors
    /// When the write fails.
    fn release(&self, claim: &Claim) -> Result<(), ClaimError>;

    /// The events of a run after `after_seq`, in order, at most `limit`.
    ///
    /// # Errors
    /// When the run does not exist or cannot be read.
    fn history(&self, run: RunId, after_seq: u64, limit: usize) -> Result<Vec<Recorded>, JournalError>;

    /// The events of all runs after a position, in order, at most `limit`.
    ///
    /// # Errors
    /// When the journal cannot be read.
    fn stream(&self, after: u64, limit: usize) -> Result<Vec<Recorded>, JournalError>;

    /// The position of the last durable event.
    fn position(&self) -> u64;

    /// Runs, newest first. `only_open` leaves out those that ended.
    ///
    /// # Errors
    /// When the journal cannot be read.
    fn runs(&self, only_open: bool, limit: usize) -> Result<Vec<RunRow>, JournalError>;

    /// One run.
    ///
    /// # Errors
    /// When it does not exist or cannot be read.
    fn run(&self, run: RunId) -> Result<RunRow, JournalError>;

    /// Gates, oldest first. `only_open` leaves out those that were answered.
    ///
    /// # Errors
    /// When the journal cannot be read.
    fn gates(&self, only_open: bool) -> Result<Vec<GateRow>, JournalError>;

    /// Money settled and reserved by all runs on a UTC day, in nanodollars.
    ///
    /// # Errors
    /// When the journal cannot be read.
    fn spent_on(&self, day: u64) -> Result<u64, JournalError>;

    /// Destroys the contents of events, by first and last number, and gives how many there were still. Their
    /// links stay. An erasure that names them must be on record before
    /// ([`domain::erasure`]); repeating it is harmless. Durable when it returns. Who cannot says so.
    ///
    /// # Errors
    /// When the write fails, or what was written before cannot be overwritten while others read it.
    fn erase(&self, run: RunId, events: &[(u64, u64)]) -> Result<u64, JournalError> {
        let _ = (run, events);
        Err(JournalError::Storage("contents cannot be destroyed in it".into()))
    }

    /// Verifies every chain.
    ///
    /// # Errors
    /// When the journal cannot be read; broken links are part of the result.
    fn verify(&self) -> Result<Verification, JournalError>;
}
