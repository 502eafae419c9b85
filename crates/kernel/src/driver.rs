//! Drivers: what moves a run forward.

use bytes::Bytes;
use domain::budget::Amount;
use domain::run::End;
use domain::time::{Millis, Timestamp};
use domain::{Effect, Header, Payload, Risk, RunState, StepKind, StepNo};

/// A driver folds events into a view of its own and says what comes next. It is pure: the same
/// events lead to the same answers, and nothing is executed twice because it is asked twice.
pub trait Driver: Send {
    /// Takes in one recorded event, in order. `payload` is `None` when it was forgotten.
    fn fold(&mut self, header: &Header, payload: Option<&Payload>);

    /// Takes in one recorded event of a run that this one goes on from, in order and before the first of
    /// its own. `header` names the run that it belongs to.
    fn inherit(&mut self, header: &Header, payload: Option<&Payload>);

    /// What comes next. Called when no step is open.
    fn next(&self, state: &RunState) -> Next;

    /// The exact request bytes of an open step that was planned as [`Request::Composed`], from the
    /// events up to and including `upto`.
    fn compose(&self, step: StepNo, upto: u64) -> Result<Bytes, ComposeError>;
}

/// A request cannot be made again from the recorded parts.
#[derive(Debug, thiserror::Error)]
#[error("the request of step {step} cannot be composed from the journal: {reason}")]
pub struct ComposeError {
    /// The step.
    pub step: StepNo,
    /// What is wrong.
    pub reason: String,
}

/// A driver's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// These steps, in this order. Adjacent reads run side by side, everything else one by one.
    Run(Vec<StepSpec>),
    /// Nothing until something is said or answered.
    Wait,
    /// The run rests until its owner lets it go on.
    Rest {
        /// A stable code, as `run.stalled`.
        code: String,
        /// What, and how to go on.
        hint: String,
    },
    /// The run is over.
    End {
        /// How.
        end: End,
        /// Why, in words for the owner: what happened and what can be done.
        reason: String,
    },
}

/// Where the bytes of a request are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Recorded as the payload of the planned step.
    Whole(Bytes),
    /// Made of recorded parts; only the digest is recorded, so that a long run's journal stays linear.
    Composed(Bytes),
}

impl Request {
    /// The exact bytes.
    pub const fn bytes(&self) -> &Bytes {
        match self {
            Self::Whole(bytes) | Self::Composed(bytes) => bytes,
        }
    }
}

/// A step that a driver asks for. The kernel gives it its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepSpec {
    /// Its kind.
    pub kind: StepKind,
    /// What it does to the world.
    pub effect: Effect,
    /// Its risk class.
    pub risk: Risk,
    /// The tool, or the model for a `model_call`.
    pub tool: String,
    /// What is asked for.
    pub request: Request,
    /// What it may use at most.
    pub reserve: Amount,
    /// When it is ended, counted from its start.
    pub timeout: Millis,
    /// For a `timer`: the instant.
    pub due: Option<Timestamp>,
}

impl Driver for Box<dyn Driver> {
    fn fold(&mut self, header: &Header, payload: Option<&Payload>) {
        (**self).fold(header, payload);
    }

    fn inherit(&mut self, header: &Header, payload: Option<&Payload>) {
        (**self).inherit(header, payload);
    }

    fn next(&self, state: &RunState) -> Next {
        (**self).next(state)
    }

    fn compose(&self, step: StepNo, upto: u64) -> Result<Bytes, ComposeError> {
        (**self).compose(step, upto)
    }
}
