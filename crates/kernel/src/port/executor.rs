//! Who executes steps, and who keeps workspaces.

use bytes::Bytes;
use domain::{Amount, Digest, Effect, Millis, Outcome, Payload, RunId, StepKind, StepNo};

use crate::machine::Input;

/// A step as it is handed to an executor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// The run.
    pub run: RunId,
    /// The step.
    pub step: StepNo,
    /// 1 for the first try.
    pub attempt: u32,
    /// The idempotency key: `SHA-256("regie/key/1\0" ‖ run ‖ step)`, the same for every try.
    pub key: Digest,
    /// The fence of the claim. An executor refuses work under an older fence than it has seen.
    pub fence: u64,
    /// Its kind.
    pub kind: StepKind,
    /// Its effect class.
    pub effect: Effect,
    /// The tool, or the model.
    pub tool: String,
    /// The exact request.
    pub request: Bytes,
    /// When to end it, counted from its start; the outcome is then [`Outcome::TimedOut`].
    pub timeout: Millis,
}

impl Work {
    /// The idempotency key of a step.
    pub fn key_of(run: RunId, step: StepNo) -> Digest {
        Digest::of_parts(&[b"regie/key/1\0", run.as_bytes(), &step.0.to_be_bytes()])
    }
}

/// What a step gave back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// How it ended.
    pub outcome: Outcome,
    /// What it used.
    pub spent: Amount,
    /// What it gave back.
    pub payload: Payload,
    /// Artifacts that the payload refers to, all of them durable.
    pub artifacts: Vec<Digest>,
}

/// What an executor knows of a step whose intention is on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// It runs; its result will come as [`Input::Finished`].
    Running,
    /// It ended while nobody listened.
    Spooled(Finished),
    /// Nothing runs and nothing is spooled. It may have happened, in part or whole.
    Unknown,
}

/// A non-idempotent tool's answer to "was it done?".
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe {
    /// It was done, with this result.
    Done(Finished),
    /// It was certainly not done.
    NotDone,
    /// Nobody can tell.
    Unknown,
}

/// Why a step could not start. Nothing of it happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// A stable code, as `model.key_missing`.
    pub code: String,
    /// What is missing, where, and how to mend it.
    pub hint: String,
}

/// Where the answers of executors and workspaces go: the inbox of the run's machine.
pub trait Inbox: Send + Sync {
    /// Delivers one input. Inputs for a machine that is gone are dropped.
    fn send(&self, input: Input);
}

/// Executes steps. Calls return at once; answers come through the inbox.
pub trait Executor: Send + Sync {
    /// Starts a step. Leads to exactly one of [`Input::Finished`], [`Input::Refused`] (nothing
    /// happened) or [`Input::Lost`] (its executor died).
    fn start(&self, work: Work, inbox: std::sync::Arc<dyn Inbox>);

    /// Asks about a step whose intention is on record. Leads to [`Input::Status`]. When it runs, its
    /// result goes to this inbox from now on and to no earlier one.
    fn status(&self, work: Work, inbox: std::sync::Arc<dyn Inbox>);

    /// Asks whether a non-idempotent step was done. Leads to [`Input::Probed`].
    fn probe(&self, work: Work, inbox: std::sync::Arc<dyn Inbox>);

    /// Kills a step and all that it started. A step that was running leads to [`Input::Finished`]
    /// with [`Outcome::Cancelled`]; one that is not known leads to nothing. Leads to
    /// [`Input::Killed`] in every case, after that.
    fn kill(&self, work: Work, inbox: std::sync::Arc<dyn Inbox>);
}

/// Keeps the workspaces of runs. What is asked for one run is done in the order of the calls.
pub trait Workspaces: Send + Sync {
    /// Records the workspace as it is. Leads to [`Input::Snapshotted`] or [`Input::WorkspaceFailed`].
    fn snapshot(&self, run: RunId, inbox: std::sync::Arc<dyn Inbox>);

    /// Makes the workspace what it was. Leads to [`Input::Restored`] or [`Input::WorkspaceFailed`].
    fn restore(&self, run: RunId, step: StepNo, snapshot: &str, inbox: std::sync::Arc<dyn Inbox>);
}
