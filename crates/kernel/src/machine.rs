//! The sans-I/O state machine of one run.
//!
//! [`Machine::handle`] takes one [`Input`] and gives [`Output`]s. It reads no clock and touches
//! nothing: the host performs its outputs on real ports, and the simulator on simulated ones.

use domain::{Digest, GateId, StepNo};

use crate::port::{AppendError, Appended, Finished, Probe, Refused, Status};

/// What happens to a run from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// An append is durable, or has failed.
    Appended(u64, Result<Appended, AppendError>),
    /// The workspace is recorded.
    Snapshotted(String),
    /// The workspace could not be recorded or rolled back.
    WorkspaceFailed(Refused),
    /// The workspace is what it was before this step.
    Restored(StepNo),
    /// A step ended.
    Finished(StepNo, u32, Finished),
    /// A step could not start; nothing of it happened.
    Refused(StepNo, u32, Refused),
    /// The executor of a running step died.
    Lost(StepNo, u32),
    /// The executor's answer about a step of an earlier daemon.
    Status(StepNo, Status),
    /// A non-idempotent tool's answer.
    Probed(StepNo, Probe),
    /// A step and all that it started are gone.
    Killed(StepNo),
    /// A gate is answered by somebody who saw `action`.
    Answer {
        /// The gate.
        gate: GateId,
        /// What was shown.
        action: Option<Digest>,
        /// The answer.
        answer: domain::gate::Answer,
        /// Who answers.
        by: String,
    },
    /// Stop at the next boundary.
    Stop(String),
    /// Cancel.
    Cancel(String),
    /// Time has passed.
    Tick,
}

/// What a machine wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {}

/// See the module.
#[derive(Debug)]
pub struct Machine;
