//! What a daemon and a runner say to each other: one JSON object a line, both ways.

use domain::{Digest, Effect, Millis, Outcome, RunId, StepKind, StepNo};
use serde::{Deserialize, Serialize};

use crate::output::ToolOutput;

/// The version of this protocol. Daemon and runner come from one binary, but a runner may outlive
/// the daemon's upgrade.
pub(crate) const VERSION: u32 = 1;

/// A longer line is none of ours.
pub(crate) const LONGEST_LINE: u64 = 64 << 20;

/// A step as it is handed to a runner; [`kernel::port::Work`] in words for the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Work {
    pub(crate) run: RunId,
    pub(crate) step: StepNo,
    pub(crate) attempt: u32,
    pub(crate) key: Digest,
    pub(crate) fence: u64,
    pub(crate) kind: StepKind,
    pub(crate) effect: Effect,
    pub(crate) tool: String,
    pub(crate) request: String,
    pub(crate) timeout: Millis,
}

impl Work {
    /// The work for the wire; `None` when its request is no text, which a step's always is.
    pub(crate) fn of(work: &kernel::port::Work) -> Option<Self> {
        Some(Self {
            run: work.run,
            step: work.step,
            attempt: work.attempt,
            key: work.key,
            fence: work.fence,
            kind: work.kind,
            effect: work.effect,
            tool: work.tool.clone(),
            request: std::str::from_utf8(&work.request).ok()?.to_owned(),
            timeout: work.timeout,
        })
    }
}

/// What a daemon says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Request {
    /// The first line.
    Hello { version: u32 },
    /// Start a step.
    Start { work: Work },
    /// What has become of a step? Its result follows when it runs.
    Status { work: Work },
    /// End a step and all that it started.
    Kill { step: StepNo, fence: u64 },
    /// The results of these steps are on record.
    Forget { upto: StepNo, fence: u64 },
    /// The run has ended: leave when nothing runs and nobody is connected.
    Bye,
}

/// What a runner says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Answer {
    /// The first line.
    Hello { version: u32, run: RunId },
    /// The step has begun.
    Started { step: StepNo, attempt: u32 },
    /// Live output, not kept anywhere.
    Progress { step: StepNo, text: String },
    /// The step has ended, and its result is on disk.
    Finished { result: Box<Spooled> },
    /// The step did not begin, and nothing of it happened.
    Refused { step: StepNo, attempt: u32, code: String, hint: String },
    /// The step's result could not be kept: it may have happened, in part or whole.
    Lost { step: StepNo, attempt: u32 },
    /// The answer to `status`.
    Status { step: StepNo, state: State },
    /// The step and all that it started are gone.
    Killed { step: StepNo },
    /// Another daemon has taken over; this one is told nothing.
    Fenced { step: StepNo, current: u64 },
}

/// What has become of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// It runs.
    Running,
    /// It ended, with this result.
    Spooled(Box<Spooled>),
    /// Neither.
    Unknown,
}

/// A step's result as it lies in the spool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spooled {
    pub(crate) run: RunId,
    pub(crate) step: StepNo,
    pub(crate) attempt: u32,
    pub(crate) key: Digest,
    pub(crate) fence: u64,
    pub(crate) outcome: Outcome,
    pub(crate) output: ToolOutput,
    /// Whether the spool has a file with the output that `output` leaves out.
    pub(crate) has_artifact: bool,
    /// What the agent has seen or written by this step.
    pub(crate) seen: Option<Seen>,
}

impl Spooled {
    /// Whether this is the answer to that work. A later attempt to read or to write in the
    /// workspace is a new one: the kernel has put the workspace back in between.
    pub(crate) fn answers(&self, work: &Work) -> bool {
        let repeats = matches!(work.effect, Effect::Read | Effect::WorkspaceWrite);
        self.key == work.key && (self.attempt >= work.attempt || !repeats)
    }
}

/// A file's content as the agent knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seen {
    /// Relative to the workspace, without links.
    pub(crate) path: String,
    /// The digest of the whole content.
    pub(crate) digest: Digest,
}
