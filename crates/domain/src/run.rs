//! The state of a run, folded from its facts.
//!
//! [`RunState::evolve`] applies one recorded event and never fails on a journal that
//! [`decide`](RunState::decide) wrote. The state holds no content of models or tools: a driver folds
//! that into a view of its own. Finished steps leave the state, so its size is bounded by what is
//! open, not by the length of the run.

mod decide;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::budget::{Amount, Budget, Caps};
use crate::digest::Digest;
use crate::effect::Effect;
pub use crate::fact::End;
use crate::fact::{Fact, Parking, RunStarted, StepPlanned};
use crate::gate::{Answer, Question};
use crate::id::{GateId, RunId};
use crate::lease::Decision;
use crate::step::{OUTAGE, StepKind, StepNo};
use crate::time::{Millis, Timestamp};

pub use decide::{Command, Refusal};

/// More than anything takes besides steps, in milliseconds.
const BETWEEN_STEPS: Millis = 5 * 60 * 1000;

/// Whether a run moves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Status {
    /// It has something to do, or waits for a gate or a timer.
    Active,
    /// It rests until it is resumed.
    Parked {
        /// Why.
        reason: Parking,
    },
    /// It is over.
    Ended {
        /// How.
        end: End,
    },
}

/// How far an open step has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub enum Phase {
    /// It has a number.
    Planned,
    /// It waits for a gate.
    Asked {
        /// Which one.
        gate: GateId,
    },
    /// Its intention is on record.
    Intended {
        /// What it may use.
        reserved: Amount,
        /// The workspace as it was before.
        snapshot: Option<String>,
    },
    /// Nobody knows whether it happened.
    Uncertain {
        /// What it may have used.
        reserved: Amount,
    },
    /// A `wait_human` step.
    Waiting {
        /// Its gate.
        gate: GateId,
    },
    /// A `timer` step.
    Sleeping {
        /// Until when.
        due: Timestamp,
    },
}

/// A step without a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OpenStep {
    /// What was planned.
    pub planned: StepPlanned,
    /// How far it has come.
    pub phase: Phase,
    /// Tries so far.
    pub attempts: u32,
    /// The gate that approved it. Repeating it needs no second answer.
    pub approved: Option<GateId>,
    /// The owner interrupted it: it is ended, and not tried again.
    pub interrupted: bool,
}

/// A gate without an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OpenGate {
    /// Its `wait_human` step.
    pub step: StepNo,
    /// The step that waits for it.
    pub subject: StepNo,
    /// What is asked.
    pub question: Question,
    /// The hash of the exact action.
    pub action: Digest,
    /// The decision that asked.
    pub decision: Option<Decision>,
    /// When no answer becomes a refusal.
    pub expires_at: Timestamp,
}

/// What the kernel knows of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunState {
    /// The run.
    pub id: RunId,
    /// Its first fact.
    pub started: Option<RunStarted>,
    /// When it started.
    pub started_at: Timestamp,
    /// The number of its events.
    pub seq: u64,
    /// The fence of the last claim.
    pub fence: u64,
    /// Whether it moves.
    pub status: Status,
    /// A stop was asked for.
    pub stopping: bool,
    /// A cancellation was asked for.
    pub cancelling: bool,
    /// The number that the next step gets.
    pub next_step: StepNo,
    /// Steps without a result.
    pub open: BTreeMap<StepNo, OpenStep>,
    /// Gates without an answer.
    pub gates: BTreeMap<GateId, OpenGate>,
    /// Caps, reservations, spending.
    pub budget: Budget,
    /// Time spent waiting for humans, and for who does not answer, so far.
    waited: Millis,
    /// Since when it has been waiting for one of them.
    waiting_since: Option<Timestamp>,
    /// When its last event was decided.
    seen_at: Timestamp,
}

impl RunState {
    /// A run before its first event.
    pub fn new(id: RunId) -> Self {
        Self {
            id,
            started: None,
            started_at: Timestamp::default(),
            seq: 0,
            fence: 0,
            status: Status::Active,
            stopping: false,
            cancelling: false,
            next_step: StepNo::FIRST,
            open: BTreeMap::new(),
            gates: BTreeMap::new(),
            budget: Budget::new(Caps::default()),
            waited: 0,
            waiting_since: None,
            seen_at: Timestamp::default(),
        }
    }

    /// The time that counts against [`Caps::millis`]: since the start, without what was spent waiting for
    /// humans or through an outage, and without the hours in which the machine slept or no daemon ran.
    pub fn active_time(&self, now: Timestamp) -> Millis {
        let waiting = self.waiting_since.map_or_else(|| self.idle(now), |since| now.since(since));
        now.since(self.started_at).saturating_sub(self.waited.saturating_add(waiting))
    }

    /// The part of the time since the last event in which nobody can have worked: no step that is open may
    /// take that long. It follows from what is on record, so that it is the same after a restart.
    fn idle(&self, now: Timestamp) -> Millis {
        if self.started.is_none() || self.waiting_since.is_some() {
            return 0;
        }
        let longest = self.open.values().map(|open| match open.phase {
            Phase::Sleeping { due } => due.since(self.seen_at),
            _ => open.planned.timeout,
        });
        let longest = longest.max().unwrap_or(0).saturating_add(BETWEEN_STEPS);
        now.since(self.seen_at).saturating_sub(longest)
    }

    /// The timers that wait for somebody outside who does not answer.
    pub fn outages(&self) -> impl Iterator<Item = StepNo> {
        self.open.iter().filter(|(_, open)| open.waits_out()).map(|(step, _)| *step)
    }

    /// Whether the run is over.
    pub const fn has_ended(&self) -> bool {
        matches!(self.status, Status::Ended { .. })
    }

    /// Applies one fact.
    pub fn evolve(&mut self, at: Timestamp, fact: &Fact) {
        self.seq = self.seq.saturating_add(1);
        self.waited = self.waited.saturating_add(self.idle(at));
        self.seen_at = at;
        match fact {
            Fact::RunStarted(started) => {
                self.started_at = at;
                self.budget = Budget::new(started.caps);
                self.started = Some(started.clone());
            }
            Fact::Claimed { fence, .. } => self.fence = *fence,
            Fact::StepPlanned(planned) => self.plan(planned),
            Fact::StepIntended { step, attempt, reserved, snapshot, .. } => {
                // A repeated read or keyed write leaves the reservation of its lost try behind.
                let lost = self.open.get(step).map_or(Amount::default(), OpenStep::reserved);
                self.budget.settle(lost, Amount::default());
                self.budget.reserve(*reserved);
                self.with_step(*step, |open| {
                    open.attempts = *attempt;
                    open.phase = Phase::Intended { reserved: *reserved, snapshot: snapshot.clone() };
                });
            }
            Fact::StepDenied { step, .. } => self.close(*step, Amount::default()),
            Fact::StepCompleted { step, spent, .. } => self.close(*step, *spent),
            Fact::StepUncertain { step } => self.with_step(*step, |open| {
                let reserved = open.reserved();
                open.phase = Phase::Uncertain { reserved };
                // From here on it is the owner's answer that counts.
                open.interrupted = false;
            }),
            Fact::ModelCallLost { step, spent, .. } => self.release(*step, *spent),
            // The try keeps its number: a late word about it must not be taken for the next one's.
            Fact::StepReturned { step } => self.release(*step, Amount::default()),
            Fact::WorkspaceRestored { step, .. } => self.release(*step, Amount::CALL),
            Fact::GateOpened { gate, step, subject, question, action, decision, expires_at } => {
                self.ask(
                    *gate,
                    OpenGate {
                        step: *step,
                        subject: *subject,
                        question: *question,
                        action: *action,
                        decision: decision.clone(),
                        expires_at: *expires_at,
                    },
                );
            }
            Fact::GateAnswered { gate, answer, .. } => self.answer(*gate, *answer),
            Fact::TimerSet { step, due } => {
                self.with_step(*step, |open| open.phase = Phase::Sleeping { due: *due });
            }
            Fact::TimerFired { step } => self.close(*step, Amount::default()),
            Fact::StopRequested { .. } => self.stopping = true,
            Fact::CancelRequested { .. } => self.cancelling = true,
            Fact::Parked { reason } => {
                self.stopping = false;
                self.status = Status::Parked { reason: reason.clone() };
            }
            Fact::Resumed { .. } => {
                self.stopping = false;
                self.status = Status::Active;
            }
            Fact::Ended { end } => self.status = Status::Ended { end: *end },
            Fact::Said { now, .. } => {
                if *now {
                    self.interrupt();
                }
            }
            Fact::Interrupted { .. } => self.interrupt_running(),
        }
        self.account_waiting(at);
    }

    fn account_waiting(&mut self, at: Timestamp) {
        let parked = matches!(self.status, Status::Parked { .. });
        let waits = parked || !self.gates.is_empty() || self.outages().next().is_some();
        match (waits, self.waiting_since) {
            (true, None) => self.waiting_since = Some(at),
            (false, Some(since)) => {
                self.waited = self.waited.saturating_add(at.since(since));
                self.waiting_since = None;
            }
            _ => {}
        }
    }

    fn plan(&mut self, planned: &StepPlanned) {
        self.next_step = planned.step.next();
        self.open.insert(
            planned.step,
            OpenStep {
                planned: planned.clone(),
                phase: Phase::Planned,
                attempts: 0,
                approved: None,
                interrupted: false,
            },
        );
    }

    /// Marks what runs, or is about to. A keyed write of the host is short and not safe to cut, and what
    /// waits for a human waits for the answer.
    fn interrupt(&mut self) {
        for open in self.open.values_mut() {
            let begun = matches!(open.phase, Phase::Planned | Phase::Intended { .. });
            open.interrupted |= begun && open.is_executed() && open.planned.effect != Effect::IdempotentWrite;
        }
    }

    /// The same for what runs alone: what has not begun keeps its place.
    fn interrupt_running(&mut self) {
        for open in self.open.values_mut() {
            let runs = matches!(open.phase, Phase::Intended { .. });
            open.interrupted |= runs && open.is_executed() && open.planned.effect != Effect::IdempotentWrite;
        }
    }

    fn with_step(&mut self, step: StepNo, change: impl FnOnce(&mut OpenStep)) {
        if let Some(open) = self.open.get_mut(&step) {
            change(open);
        }
    }

    fn close(&mut self, step: StepNo, spent: Amount) {
        if let Some(open) = self.open.remove(&step) {
            self.budget.settle(open.reserved(), spent);
        }
    }

    /// Back to `Planned`: the step will be tried again.
    fn release(&mut self, step: StepNo, spent: Amount) {
        if let Some(open) = self.open.get_mut(&step) {
            self.budget.settle(open.reserved(), spent);
            open.phase = Phase::Planned;
        }
    }

    fn ask(&mut self, gate: GateId, open: OpenGate) {
        if open.question == Question::Approve {
            self.with_step(open.subject, |subject| subject.phase = Phase::Asked { gate });
        }
        self.with_step(open.step, |step| step.phase = Phase::Waiting { gate });
        self.gates.insert(gate, open);
    }

    fn answer(&mut self, gate: GateId, answer: Answer) {
        let Some(open) = self.gates.remove(&gate) else { return };
        self.close(open.step, Amount::default());
        match (open.question, answer) {
            (Question::Approve, Answer::Approved) => self.with_step(open.subject, |subject| {
                subject.approved = Some(gate);
                subject.phase = Phase::Planned;
            }),
            (Question::WasItDone, Answer::Repeat) => self.release(open.subject, Amount::CALL),
            // A refusal or "it was done" is followed by the fact that closes the subject.
            _ => {}
        }
    }
}

impl OpenStep {
    /// What the step holds of the budget.
    pub const fn reserved(&self) -> Amount {
        match self.phase {
            Phase::Intended { reserved, .. } | Phase::Uncertain { reserved } => reserved,
            _ => Amount::ZERO,
        }
    }

    fn waits_out(&self) -> bool {
        let is_timer = self.planned.kind == StepKind::Timer && self.planned.tool == OUTAGE;
        is_timer && matches!(self.phase, Phase::Sleeping { .. })
    }

    /// Whether the step is executed by somebody, rather than waiting for a human or an instant.
    pub const fn is_executed(&self) -> bool {
        !matches!(self.planned.kind, StepKind::WaitHuman | StepKind::Timer)
    }
}
