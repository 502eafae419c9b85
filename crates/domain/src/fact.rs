//! What an event states.
//!
//! A fact holds what the kernel needs to go on: numbers, hashes, classes. Content (goals, requests,
//! outputs, questions) is the event's payload, which can be forgotten while the chain stays intact.
//! The numbers of variants and fields are part of the journal's format: they are never reused.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::budget::{Amount, Caps, Exhausted};
use crate::digest::Digest;
use crate::effect::{Effect, Risk};
use crate::gate::{Answer, Question};
use crate::id::{GateId, LeaseId, MissionId, ProjectId, RunId};
use crate::lease::Decision;
use crate::step::{Outcome, StepKind, StepNo};
use crate::time::{Millis, Timestamp};

/// A fact about a run.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(tag = "fact", rename_all = "snake_case")]
pub enum Fact {
    /// The run exists. Always the first fact; its payload is the [`Mission`](crate::Mission).
    #[n(0)]
    RunStarted(#[n(0)] RunStarted),
    /// A daemon took the run over. Older fences can write nothing from here on.
    #[n(1)]
    Claimed {
        /// The new fence.
        #[n(0)]
        fence: u64,
        /// Who holds the claim.
        #[n(1)]
        holder: String,
    },
    /// A step has its number. Its payload is the request, unless `parts` says what it is made of.
    #[n(2)]
    StepPlanned(#[n(0)] StepPlanned),
    /// A step is about to start: written before anything happens.
    #[n(3)]
    StepIntended {
        /// Which step.
        #[n(0)]
        step: StepNo,
        /// 1 for the first try.
        #[n(1)]
        attempt: u32,
        /// Why it may happen.
        #[n(2)]
        decision: Decision,
        /// What it may use at most.
        #[n(3)]
        reserved: Amount,
        /// The workspace as it was before, for a `workspace_write`.
        #[n(4)]
        snapshot: Option<String>,
    },
    /// A step does not happen.
    #[n(4)]
    StepDenied {
        /// Which step.
        #[n(0)]
        step: StepNo,
        /// Why not.
        #[n(1)]
        reason: Denial,
    },
    /// A step's result. Its payload is what the step gave back.
    #[n(5)]
    StepCompleted {
        /// Which step.
        #[n(0)]
        step: StepNo,
        /// How it ended.
        #[n(1)]
        outcome: Outcome,
        /// What it used.
        #[n(2)]
        spent: Amount,
        /// Artifacts that the payload refers to.
        #[n(3)]
        artifacts: Vec<Digest>,
    },
    /// A crash left it open whether a non-idempotent step happened, and its probe does not know.
    #[n(6)]
    StepUncertain {
        /// Which step.
        #[n(0)]
        step: StepNo,
    },
    /// A model call's answer was lost in a crash. Its whole reservation counts as spent.
    #[n(7)]
    ModelCallLost {
        /// Which step.
        #[n(0)]
        step: StepNo,
        /// The try that was lost.
        #[n(1)]
        attempt: u32,
        /// The reservation.
        #[n(2)]
        spent: Amount,
    },
    /// The workspace was rolled back to the snapshot taken before a step that a crash cut short.
    #[n(8)]
    WorkspaceRestored {
        /// Which step.
        #[n(0)]
        step: StepNo,
        /// The snapshot.
        #[n(1)]
        snapshot: String,
    },
    /// A human is asked. Opens a `wait_human` step.
    #[n(9)]
    GateOpened {
        /// The gate.
        #[n(0)]
        gate: GateId,
        /// The `wait_human` step.
        #[n(1)]
        step: StepNo,
        /// The step that waits for the answer.
        #[n(2)]
        subject: StepNo,
        /// What is asked.
        #[n(3)]
        question: Question,
        /// The hash of the exact action.
        #[n(4)]
        action: Digest,
        /// The decision that asked, for [`Question::Approve`].
        #[n(5)]
        decision: Option<Decision>,
        /// When no answer becomes a refusal.
        #[n(6)]
        expires_at: Timestamp,
    },
    /// A gate is closed.
    #[n(10)]
    GateAnswered {
        /// The gate.
        #[n(0)]
        gate: GateId,
        /// The answer.
        #[n(1)]
        answer: Answer,
        /// Who answered, as `human:owner`; `svc:kernel` for an expiry.
        #[n(2)]
        by: String,
    },
    /// An instant is awaited by a `timer` step.
    #[n(11)]
    TimerSet {
        /// The timer step.
        #[n(0)]
        step: StepNo,
        /// The instant.
        #[n(1)]
        due: Timestamp,
    },
    /// The instant of a `timer` step has come.
    #[n(12)]
    TimerFired {
        /// The timer step.
        #[n(0)]
        step: StepNo,
    },
    /// The owner asked for a stop: running steps end, no new one starts. The run can be resumed.
    #[n(13)]
    StopRequested {
        /// Who asked.
        #[n(0)]
        by: String,
    },
    /// The owner cancelled the run: running steps are killed. Final.
    #[n(14)]
    CancelRequested {
        /// Who asked.
        #[n(0)]
        by: String,
    },
    /// The run rests until it is resumed.
    #[n(15)]
    Parked {
        /// Why.
        #[n(0)]
        reason: Parking,
    },
    /// A parked run goes on.
    #[n(16)]
    Resumed {
        /// Who resumed it.
        #[n(0)]
        by: String,
    },
    /// The run is over. Always the last fact; its payload says why in words.
    #[n(17)]
    Ended {
        /// The typed end.
        #[n(0)]
        end: End,
    },
    /// A step that was about to start could not: nothing of it happened.
    #[n(18)]
    StepReturned {
        /// Which step.
        #[n(0)]
        step: StepNo,
    },
    /// The owner said something to the agent while the run is under way. Its payload is the text.
    #[n(19)]
    Said {
        /// Who said it.
        #[n(0)]
        by: String,
        /// Whether what runs is interrupted, so that it is read at once.
        #[n(1)]
        now: bool,
    },
    /// The owner interrupted the steps that run; nothing was said.
    #[n(20)]
    Interrupted {
        /// Who interrupted them.
        #[n(0)]
        by: String,
    },
}

/// The particulars of [`Fact::RunStarted`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(map)]
pub struct RunStarted {
    /// The mission that the run serves.
    #[n(0)]
    pub mission: MissionId,
    /// The project that it works on.
    #[n(1)]
    pub project: ProjectId,
    /// Who acts, as `agent:coder`.
    #[n(2)]
    pub principal: String,
    /// The accountable human, as `human:owner`.
    #[n(3)]
    pub on_behalf_of: String,
    /// The root lease.
    #[n(4)]
    pub lease: LeaseId,
    /// The branch `<role>/<run_id>`.
    #[n(5)]
    pub branch: String,
    /// The driver and its version, as `native/1`.
    #[n(6)]
    pub driver: String,
    /// The version of Regie that started it.
    #[n(7)]
    pub engine: String,
    /// The system prompt, an artifact.
    #[n(8)]
    pub system: Digest,
    /// The tool list, an artifact.
    #[n(9)]
    pub tools: Digest,
    /// The bounds.
    #[n(10)]
    pub caps: Caps,
    /// Where it comes from, when it goes on from another run.
    #[n(11)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked: Option<Box<Forked>>,
}

/// Where a run comes from that goes on from another one: it stands where that one stood after an event.
/// Its events up to there are referred to, never copied.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(map)]
pub struct Forked {
    /// The run that it goes on from.
    #[n(0)]
    pub parent: RunId,
    /// The step of that run whose result is the last that counts; 0 before the first.
    #[n(1)]
    pub step: StepNo,
    /// The number of the last event that counts.
    #[n(2)]
    pub seq: u64,
    /// The hash of that event.
    #[n(3)]
    pub head: Digest,
    /// The files as they were, a snapshot; `None` when the run starts from its base commit.
    #[n(4)]
    pub snapshot: Option<String>,
    /// What it is for.
    #[n(5)]
    pub purpose: Purpose,
}

/// What a run goes on from another one for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The same mission, on another way.
    #[n(0)]
    Fork,
    /// A new mission that knows what the one before has done.
    #[n(1)]
    FollowUp,
}

/// The particulars of [`Fact::StepPlanned`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(map)]
pub struct StepPlanned {
    /// Its number.
    #[n(0)]
    pub step: StepNo,
    /// Its kind.
    #[n(1)]
    pub kind: StepKind,
    /// What it does to the world.
    #[n(2)]
    pub effect: Effect,
    /// Its risk class.
    #[n(3)]
    pub risk: Risk,
    /// The tool, or the model for a `model_call`.
    #[n(4)]
    pub tool: String,
    /// The digest of the exact request bytes.
    #[n(5)]
    pub request: Digest,
    /// When set, the request is not the payload: it is composed from the recorded parts up to and
    /// including this event of the run, and must have the digest above.
    #[n(6)]
    pub composed_upto: Option<u64>,
    /// What it may use at most.
    #[n(7)]
    pub reserve: Amount,
    /// When it is ended, counted from its start, in milliseconds; 0 for a step that is not executed.
    #[n(8)]
    pub timeout: Millis,
}

/// Why a step does not happen.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum Denial {
    /// The authorisation point said no.
    #[n(0)]
    Policy {
        /// Its decision.
        #[n(0)]
        decision: Decision,
    },
    /// A human said no, or nobody answered in time.
    #[n(1)]
    Gate {
        /// The gate.
        #[n(0)]
        gate: GateId,
        /// The answer.
        #[n(1)]
        answer: Answer,
    },
    /// Its reservation does not fit.
    #[n(2)]
    Budget {
        /// The cap it would pass.
        #[n(0)]
        cap: Exhausted,
    },
    /// The run is being cancelled.
    #[n(3)]
    Cancelled,
    /// The owner interrupted it before it began.
    #[n(4)]
    Interrupted,
}

/// Why a run rests.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum Parking {
    /// The owner stopped it.
    #[n(0)]
    Stopped,
    /// Something that only the owner can mend is missing: a vendor key, a full disk, a lost tree.
    #[n(1)]
    Blocked {
        /// A stable code, as `model.key_missing`.
        #[n(0)]
        code: String,
        /// What, where and how to mend it.
        #[n(1)]
        hint: String,
    },
}

/// How a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// All criteria pass and the proposal was decided in favour.
    #[n(0)]
    Done,
    /// Some of the work is on the branch, and was not merged.
    #[n(1)]
    Partial,
    /// The agent cannot go on by itself.
    #[n(2)]
    Blocked,
    /// An error ended it.
    #[n(3)]
    Failed,
    /// The owner cancelled it.
    #[n(4)]
    Cancelled,
    /// A cap was reached.
    #[n(5)]
    BudgetExhausted,
}

impl Fact {
    /// The name of the fact in the API, as `step_completed`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::RunStarted(_) => "run_started",
            Self::Claimed { .. } => "claimed",
            Self::StepPlanned(_) => "step_planned",
            Self::StepIntended { .. } => "step_intended",
            Self::StepDenied { .. } => "step_denied",
            Self::StepCompleted { .. } => "step_completed",
            Self::StepUncertain { .. } => "step_uncertain",
            Self::ModelCallLost { .. } => "model_call_lost",
            Self::WorkspaceRestored { .. } => "workspace_restored",
            Self::GateOpened { .. } => "gate_opened",
            Self::GateAnswered { .. } => "gate_answered",
            Self::TimerSet { .. } => "timer_set",
            Self::TimerFired { .. } => "timer_fired",
            Self::StopRequested { .. } => "stop_requested",
            Self::CancelRequested { .. } => "cancel_requested",
            Self::Parked { .. } => "parked",
            Self::Resumed { .. } => "resumed",
            Self::Ended { .. } => "ended",
            Self::StepReturned { .. } => "step_returned",
            Self::Said { .. } => "said",
            Self::Interrupted { .. } => "interrupted",
        }
    }

    /// The step that the fact is about.
    pub const fn step(&self) -> Option<StepNo> {
        match self {
            Self::StepPlanned(planned) => Some(planned.step),
            Self::StepIntended { step, .. }
            | Self::StepDenied { step, .. }
            | Self::StepCompleted { step, .. }
            | Self::StepUncertain { step }
            | Self::ModelCallLost { step, .. }
            | Self::WorkspaceRestored { step, .. }
            | Self::GateOpened { step, .. }
            | Self::TimerSet { step, .. }
            | Self::TimerFired { step }
            | Self::StepReturned { step } => Some(*step),
            _ => None,
        }
    }
}
