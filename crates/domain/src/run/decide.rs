//! Which facts a command leads to, or why it is refused.
//!
//! Everything that becomes a fact passes here, so that no caller can write a history that the rules
//! do not allow: a result without an intention, a second answer to a gate, a step after the end.

use super::{OpenStep, Phase, RunState, Status};
use crate::budget::Amount;
use crate::digest::Digest;
use crate::effect::Effect;
use crate::fact::{Denial, End, Fact, Parking, RunStarted, StepPlanned};
use crate::gate::{Answer, Question};
use crate::id::GateId;
use crate::lease::{Decision, Verdict};
use crate::step::{Outcome, StepKind, StepNo};
use crate::time::Timestamp;

/// What can be asked of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "each variant's fields are those of the fact it leads to")]
pub enum Command {
    /// Begins the run.
    Start(RunStarted),
    /// Takes the run over under a new fence.
    Claim { fence: u64, holder: String },
    /// Gives a step its number.
    Plan(StepPlanned),
    /// Records that a step is about to start.
    Intend { step: StepNo, decision: Decision, reserved: Amount, snapshot: Option<String> },
    /// Records that a step does not happen.
    Deny { step: StepNo, reason: Denial },
    /// Records a result.
    Complete { step: StepNo, outcome: Outcome, spent: Amount, artifacts: Vec<Digest> },
    /// Records that nobody knows whether a step happened.
    DeclareUncertain { step: StepNo },
    /// Records that a model's answer is lost.
    LoseModelCall { step: StepNo },
    /// Records that the workspace was rolled back for a step.
    Restore { step: StepNo },
    /// Records that a step could not start and nothing of it happened.
    Return { step: StepNo },
    /// Asks a human; `step` is the `wait_human` step, planned just before.
    OpenGate {
        gate: GateId,
        step: StepNo,
        subject: StepNo,
        question: Question,
        decision: Option<Decision>,
        expires_at: Timestamp,
    },
    /// Answers a gate. `action` is what the one who answers has seen.
    AnswerGate { gate: GateId, action: Option<Digest>, answer: Answer, by: String },
    /// Starts the wait of a `timer` step.
    SetTimer { step: StepNo, due: Timestamp },
    /// Ends the wait of a `timer` step.
    FireTimer { step: StepNo },
    /// Asks for a stop.
    Stop { by: String },
    /// Asks for a stop, and interrupts what runs.
    StopNow { by: String },
    /// Cancels.
    Cancel { by: String },
    /// Lets the run rest.
    Park { reason: Parking },
    /// Lets a parked run go on, or one that waits through an outage.
    Resume { by: String },
    /// Ends the run.
    End(End),
    /// Says something to the agent.
    Say { by: String, now: bool },
}

/// Why a command is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Only the first fact may start a run.
    #[error("the run has started already")]
    AlreadyStarted,
    /// Nothing happens before the start.
    #[error("the run has not started")]
    NotStarted,
    /// Nothing happens after the end.
    #[error(
        "the run has ended; start a new mission with `regie run`, or one that knows this run with \
         `regie run --follow RUN \"…\"`"
    )]
    Ended,
    /// Nobody reads what is said to a run that is being cancelled.
    #[error(
        "the run is being cancelled and reads nothing more; start a new mission with `regie run`, or one that \
         knows this run with `regie run --follow RUN \"…\"`"
    )]
    Cancelling,
    /// A fence only rises.
    #[error("the claim's fence {given} is not above {current}: another daemon has taken the run over")]
    StaleFence {
        /// The fence of the command.
        given: u64,
        /// The fence on record.
        current: u64,
    },
    /// A number is given once, in order.
    #[error("step {given} is out of order: the next step is {expected}")]
    OutOfOrder {
        /// The number of the command.
        given: StepNo,
        /// The number that is due.
        expected: StepNo,
    },
    /// The step is not open.
    #[error("step {0} is not open")]
    NoSuchStep(StepNo),
    /// The step has not come that far, or has gone further.
    #[error("step {0} is not in a phase that allows this")]
    WrongPhase(StepNo),
    /// The decision does not allow the step.
    #[error("the decision on step {0} does not allow it to start")]
    NotAllowed(StepNo),
    /// The gate is not open.
    #[error("gate {0} is not open: it was answered, or it has expired; `regie gate list` shows what waits")]
    NoSuchGate(GateId),
    /// A gate is opened once.
    #[error("gate {0} is open already")]
    GateExists(GateId),
    /// The answer belongs to another action.
    #[error(
        "gate {0} asks about another action than the one that was shown; look again with `regie gate show`"
    )]
    OtherAction(GateId),
    /// The answer does not answer this question.
    #[error("gate {0} asks another question; `regie gate show` lists the answers it takes")]
    OtherQuestion(GateId),
    /// The gate is too late to be approved.
    #[error("gate {0} has expired, which counts as a refusal")]
    Late(GateId),
    /// The run does not rest.
    #[error("the run is not parked")]
    NotParked,
    /// The run rests.
    #[error("the run is parked; `regie resume` lets it go on")]
    Parked,
    /// Steps are open.
    #[error("steps are still open")]
    StepsOpen,
}

impl RunState {
    /// The facts that `command` leads to at `now`. The state is unchanged until they are applied.
    ///
    /// # Errors
    /// The rule that forbids the command.
    pub fn decide(&self, now: Timestamp, command: Command) -> Result<Vec<Fact>, Refusal> {
        match (&command, &self.started) {
            (Command::Start(_), Some(_)) => return Err(Refusal::AlreadyStarted),
            (Command::Start(_), None) => {}
            (_, None) => return Err(Refusal::NotStarted),
            _ if self.has_ended() => return Err(Refusal::Ended),
            _ => {}
        }
        let fact = match command {
            Command::Start(started) => Fact::RunStarted(started),
            Command::Claim { fence, holder } => {
                if fence <= self.fence {
                    return Err(Refusal::StaleFence { given: fence, current: self.fence });
                }
                Fact::Claimed { fence, holder }
            }
            Command::Plan(planned) => {
                if planned.step != self.next_step {
                    return Err(Refusal::OutOfOrder { given: planned.step, expected: self.next_step });
                }
                Fact::StepPlanned(planned)
            }
            Command::Intend { step, decision, reserved, snapshot } => {
                self.intend(step, decision, reserved, snapshot)?
            }
            Command::Deny { step, reason } => {
                // What may already have happened is completed or declared uncertain, never denied; what
                // waits for a gate is denied by its answer.
                self.in_phase(step, |phase| matches!(phase, Phase::Planned | Phase::Sleeping { .. }))?;
                Fact::StepDenied { step, reason }
            }
            Command::Complete { step, outcome, spent, artifacts } => {
                self.in_phase(step, |phase| {
                    matches!(phase, Phase::Intended { .. } | Phase::Uncertain { .. })
                })?;
                if self.gates.values().any(|gate| gate.subject == step) {
                    return Err(Refusal::WrongPhase(step));
                }
                Fact::StepCompleted { step, outcome, spent, artifacts }
            }
            Command::DeclareUncertain { step } => {
                self.intended(step)?;
                Fact::StepUncertain { step }
            }
            Command::LoseModelCall { step } => {
                let open = self.intended(step)?;
                Fact::ModelCallLost { step, attempt: open.attempts, spent: open.reserved() }
            }
            Command::Restore { step } => match &self.intended(step)?.phase {
                Phase::Intended { snapshot: Some(snapshot), .. } => {
                    Fact::WorkspaceRestored { step, snapshot: snapshot.clone() }
                }
                _ => return Err(Refusal::WrongPhase(step)),
            },
            Command::Return { step } => {
                self.intended(step)?;
                Fact::StepReturned { step }
            }
            Command::OpenGate { gate, step, subject, question, decision, expires_at } => {
                let action = self.may_ask(gate, step, subject, question)?;
                Fact::GateOpened { gate, step, subject, question, action, decision, expires_at }
            }
            Command::AnswerGate { gate, action, answer, by } => {
                return self.answer_gate(now, gate, action, answer, by);
            }
            Command::SetTimer { step, due } => {
                self.planned_as(step, StepKind::Timer)?;
                Fact::TimerSet { step, due }
            }
            Command::FireTimer { step } => {
                self.in_phase(step, |phase| matches!(phase, Phase::Sleeping { .. }))?;
                Fact::TimerFired { step }
            }
            Command::Stop { by } => {
                self.moving()?;
                Fact::StopRequested { by }
            }
            Command::StopNow { by } => {
                self.moving()?;
                return Ok(vec![Fact::Interrupted { by: by.clone() }, Fact::StopRequested { by }]);
            }
            Command::Cancel { by } => Fact::CancelRequested { by },
            Command::Park { reason } => {
                self.moving()?;
                Fact::Parked { reason }
            }
            Command::Resume { by } => {
                // Who does not answer is asked again at once.
                let fired = self.outages().map(|step| Fact::TimerFired { step });
                let facts: Vec<_> = std::iter::once(Fact::Resumed { by }).chain(fired).collect();
                let is_parked = matches!(self.status, Status::Parked { .. });
                return if is_parked || facts.len() > 1 { Ok(facts) } else { Err(Refusal::NotParked) };
            }
            Command::Say { by, now } => {
                if self.cancelling {
                    return Err(Refusal::Cancelling);
                }
                Fact::Said { by, now }
            }
            Command::End(end) => {
                if !self.open.is_empty() {
                    return Err(Refusal::StepsOpen);
                }
                Fact::Ended { end }
            }
        };
        Ok(vec![fact])
    }

    fn intend(
        &self,
        step: StepNo,
        decision: Decision,
        reserved: Amount,
        snapshot: Option<String>,
    ) -> Result<Fact, Refusal> {
        self.moving()?;
        let open = self.step(step)?;
        if decision.verdict != Verdict::Allow {
            return Err(Refusal::NotAllowed(step));
        }
        // Only what may be repeated under its key goes from one intention to the next.
        let repeatable = matches!(open.planned.effect, Effect::Read | Effect::IdempotentWrite);
        let repeats = repeatable && matches!(open.phase, Phase::Intended { .. });
        if !(open.phase == Phase::Planned || repeats) || !open.is_executed() {
            return Err(Refusal::WrongPhase(step));
        }
        Ok(Fact::StepIntended {
            step,
            attempt: open.attempts.saturating_add(1),
            decision,
            reserved,
            snapshot,
        })
    }

    /// The action that a gate would ask about.
    fn may_ask(
        &self,
        gate: GateId,
        step: StepNo,
        subject: StepNo,
        question: Question,
    ) -> Result<Digest, Refusal> {
        if self.gates.contains_key(&gate) {
            return Err(Refusal::GateExists(gate));
        }
        if self.gates.values().any(|open| open.subject == subject) {
            return Err(Refusal::WrongPhase(subject));
        }
        self.planned_as(step, StepKind::WaitHuman)?;
        let asked = self.in_phase(subject, |phase| match question {
            Question::Approve => matches!(phase, Phase::Planned),
            Question::WasItDone => matches!(phase, Phase::Uncertain { .. }),
        })?;
        if asked.is_executed() { Ok(asked.planned.request) } else { Err(Refusal::WrongPhase(subject)) }
    }

    fn answer_gate(
        &self,
        now: Timestamp,
        gate: GateId,
        action: Option<Digest>,
        answer: Answer,
        by: String,
    ) -> Result<Vec<Fact>, Refusal> {
        let open = self.gates.get(&gate).ok_or(Refusal::NoSuchGate(gate))?;
        if action.is_some_and(|seen| seen != open.action) {
            return Err(Refusal::OtherAction(gate));
        }
        if !open.question.admits(answer) {
            return Err(Refusal::OtherQuestion(gate));
        }
        if answer != Answer::Expired && now >= open.expires_at {
            return Err(Refusal::Late(gate));
        }
        let answered = Fact::GateAnswered { gate, answer, by };
        let step = open.subject;
        Ok(match (open.question, answer) {
            (_, Answer::Approved | Answer::Repeat) => vec![answered],
            (Question::Approve, _) => {
                vec![answered, Fact::StepDenied { step, reason: Denial::Gate { gate, answer } }]
            }
            (Question::WasItDone, _) => {
                let outcome = if answer == Answer::WasDone { Outcome::Succeeded } else { Outcome::Failed };
                let spent = self.step(step)?.reserved();
                vec![answered, Fact::StepCompleted { step, outcome, spent, artifacts: Vec::new() }]
            }
        })
    }

    fn moving(&self) -> Result<(), Refusal> {
        match self.status {
            Status::Parked { .. } => Err(Refusal::Parked),
            _ => Ok(()),
        }
    }

    fn step(&self, step: StepNo) -> Result<&OpenStep, Refusal> {
        self.open.get(&step).ok_or(Refusal::NoSuchStep(step))
    }

    fn in_phase(&self, step: StepNo, admits: impl FnOnce(&Phase) -> bool) -> Result<&OpenStep, Refusal> {
        let open = self.step(step)?;
        if admits(&open.phase) { Ok(open) } else { Err(Refusal::WrongPhase(step)) }
    }

    fn planned_as(&self, step: StepNo, kind: StepKind) -> Result<(), Refusal> {
        let open = self.in_phase(step, |phase| matches!(phase, Phase::Planned))?;
        if open.planned.kind == kind { Ok(()) } else { Err(Refusal::WrongPhase(step)) }
    }

    fn intended(&self, step: StepNo) -> Result<&OpenStep, Refusal> {
        self.in_phase(step, |phase| matches!(phase, Phase::Intended { .. }))
    }
}
