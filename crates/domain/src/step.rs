//! Steps: the journaled units of a run.

use std::fmt;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// A step's number in its run, counted from 1 and never changed.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(transparent)]
#[serde(transparent)]
pub struct StepNo(#[n(0)] pub u64);

impl StepNo {
    /// The first step of a run.
    pub const FIRST: Self = Self(1);

    /// The number after this one.
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for StepNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What kind of unit a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// One request to a model and its answer.
    #[n(0)]
    ModelCall,
    /// One call of a tool.
    #[n(1)]
    ToolCall,
    /// A child run is started.
    #[n(2)]
    Spawn,
    /// The envelope of a child run is awaited.
    #[n(3)]
    Join,
    /// A human is asked.
    #[n(4)]
    WaitHuman,
    /// An instant is awaited.
    #[n(5)]
    Timer,
    /// The context is summarised.
    #[n(6)]
    Compaction,
    /// The workspace is committed to the run's branch.
    #[n(7)]
    Checkpoint,
    /// A criterion of the definition of done is judged.
    #[n(8)]
    Verdict,
}

/// The tool of a timer that waits for somebody outside who does not answer. That time is nobody's work: it
/// does not count against the cap on time, and a resume ends the wait.
pub const OUTAGE: &str = "outage";

impl StepKind {
    /// The name in the API and the journal.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ModelCall => "model_call",
            Self::ToolCall => "tool_call",
            Self::Spawn => "spawn",
            Self::Join => "join",
            Self::WaitHuman => "wait_human",
            Self::Timer => "timer",
            Self::Compaction => "compaction",
            Self::Checkpoint => "checkpoint",
            Self::Verdict => "verdict",
        }
    }
}

/// How an executed step ended. What it gave back is the payload of its event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It did what it was asked for.
    #[n(0)]
    Succeeded,
    /// It ran and reported a failure (a command's exit code, a vendor's error).
    #[n(1)]
    Failed,
    /// It was ended because its time was up.
    #[n(2)]
    TimedOut,
    /// It was ended by a cancellation.
    #[n(3)]
    Cancelled,
}
