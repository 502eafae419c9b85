//! The sans-I/O state machine of one run.
//!
//! [`Machine::handle`] takes one [`Input`] and gives [`Output`]s. It reads no clock and touches
//! nothing: the host performs its outputs on real ports, and the simulator on simulated ones.
//!
//! The machine is ahead of the journal: it applies a fact when it submits it, and holds everything
//! that depends on the fact back until the append is acknowledged. Appends are ordered, so an
//! acknowledged intention means that every earlier result is durable too. When an append fails, the
//! machine is ahead of nothing: it halts, and whoever hosts it loads the run again.

mod advance;
mod cancel;
mod interrupt;
mod recover;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use domain::event::{self, Event, Head, Recorded, Salt, Sealed};
use domain::fact::{End, Parking};
use domain::gate::Answer;
use domain::run::{Command, Refusal, Status as RunStatus};
use domain::{Digest, Fact, GateId, LeaseId, Payload, RunId, RunState, Source, StepNo, Timestamp};

use crate::driver::Driver;
use crate::port::{
    Append, AppendError, Appended, Authority, DayCap, Expect, Finished, Probe, Refused, Rng, Status, Work,
};

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
    /// A try of a step ended.
    Finished(StepNo, u32, Finished),
    /// A try of a step could not start; nothing of it happened.
    Refused(StepNo, u32, Refused),
    /// The executor of a running try died.
    Lost(StepNo, u32),
    /// The executor's answer about a step of an earlier daemon.
    Status(StepNo, Status),
    /// A non-idempotent tool's answer.
    Probed(StepNo, Probe),
    /// A step and all that it started are gone.
    Killed(StepNo),
    /// Time has passed.
    Tick,
}

/// What somebody asks of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Answers a gate, having seen `action`.
    Answer {
        /// The gate.
        gate: GateId,
        /// The hash of the action that was shown; `None` answers whatever is asked.
        action: Option<Digest>,
        /// The answer.
        answer: Answer,
        /// Who answers.
        by: String,
    },
    /// Stop at the next boundary; can be resumed.
    Stop {
        /// Who asks.
        by: String,
    },
    /// Stop now: what runs is interrupted; can be resumed.
    StopNow {
        /// Who asks.
        by: String,
    },
    /// Cancel; final.
    Cancel {
        /// Who asks.
        by: String,
    },
    /// Go on after a rest.
    Resume {
        /// Who asks.
        by: String,
    },
    /// Say something to the agent; a run that rests keeps it for later.
    Say {
        /// Who says it.
        by: String,
        /// The words.
        text: String,
        /// Interrupt what runs, so that it is read at once.
        now: bool,
    },
}

/// What a machine wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Write these events and answer with [`Input::Appended`] and this ticket.
    Append(u64, Append),
    /// Start a step.
    Start(Work),
    /// Ask about a step.
    Status(Work),
    /// Ask whether a step was done.
    Probe(Work),
    /// Kill a step.
    Kill(Work),
    /// Record the workspace.
    Snapshot,
    /// Roll the workspace back.
    Restore(StepNo, String),
    /// The machine has nothing more to do. Nothing follows.
    Halted(Halt),
}

/// Why a machine halted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Halt {
    /// The run is over.
    Ended(End),
    /// The run rests.
    Parked(Parking),
    /// Another daemon has taken the run over.
    Fenced,
    /// The lease or the day's room changed under a decision: load the run again and decide again.
    Reload,
    /// The journal cannot write; nothing was started. Load the run again later.
    Storage(String),
}

/// What a machine needs to answer one input.
pub struct Context<'a> {
    /// The present instant.
    pub now: Timestamp,
    /// Judges actions.
    pub authority: &'a dyn Authority,
    /// Makes salts and gate ids.
    pub rng: &'a dyn Rng,
}

/// Where the execution of an open step is, as far as this machine knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flight {
    /// Its intention is submitted and not yet durable.
    Starting,
    /// Its executor has it.
    Running,
    /// Its executor is asked what it knows.
    Asking,
    /// Its executor died while it was asked: that it runs is no news any more.
    Doubting,
    /// Its tool is asked whether it was done.
    Probing,
    /// It is being killed, before its workspace is rolled back.
    Clearing,
    /// Its workspace is being rolled back.
    Restoring,
    /// It is being killed for a cancellation.
    Killing,
}

/// What the machine knows of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Workspace {
    /// It may differ from every snapshot.
    Stale,
    /// A snapshot is being taken.
    Taking,
    /// It is this snapshot.
    Fresh(String),
}

/// A test's deliberate mistake, to show that the suites would see it.
#[cfg(feature = "mutants")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// Starts a step before its intention is durable.
    EffectBeforeIntent,
    /// Repeats a non-idempotent step without asking.
    BlindRetry,
}

/// See the module.
pub struct Machine<D> {
    state: RunState,
    driver: D,
    head: Head,
    fence: u64,
    requests: BTreeMap<StepNo, Bytes>,
    flights: BTreeMap<StepNo, Flight>,
    /// Steps whose executor knows nothing, and that may simply run again under their key.
    repeat: BTreeSet<StepNo>,
    workspace: Workspace,
    /// Steps of which nobody knows whether they were done, with their tools: also those that were closed
    /// by a cancellation.
    doubtful: BTreeMap<StepNo, String>,
    /// Why nothing new may start.
    rest: Option<Parking>,
    batch: Batch,
    ticket: u64,
    pending: BTreeMap<u64, Vec<Output>>,
    halted: bool,
    outputs: Vec<Output>,
    #[cfg(feature = "mutants")]
    mutant: Option<Mutant>,
}

/// What is written together at the end of one input.
#[derive(Default)]
struct Batch {
    from: Option<Head>,
    events: Vec<Sealed>,
    lease: Option<(LeaseId, u64)>,
    day: Option<DayCap>,
    /// What may happen once it is durable.
    after: Vec<Output>,
}

impl Batch {
    /// Whether an answer of the model is in it.
    fn holds_answer(&self) -> bool {
        let answered = |sealed: &Sealed| {
            let header = &sealed.header;
            header.source == Source::Agent && matches!(header.fact, Fact::StepCompleted { .. })
        };
        self.events.iter().any(answered)
    }
}

impl<D: Driver> Machine<D> {
    /// The machine of a run from all its events. It does nothing before [`claim`](Self::claim).
    pub fn load(run: RunId, history: &[Recorded], driver: D) -> Self {
        let mut machine = Self {
            state: RunState::new(run),
            driver,
            head: Head::EMPTY,
            fence: 0,
            requests: BTreeMap::new(),
            flights: BTreeMap::new(),
            repeat: BTreeSet::new(),
            doubtful: BTreeMap::new(),
            workspace: Workspace::Stale,
            rest: None,
            batch: Batch::default(),
            ticket: 0,
            pending: BTreeMap::new(),
            halted: false,
            outputs: Vec::new(),
            #[cfg(feature = "mutants")]
            mutant: None,
        };
        for recorded in history {
            machine.head = Head { seq: recorded.header.seq, hash: recorded.hash };
            machine.doubt(&recorded.header.fact);
            machine.state.evolve(recorded.header.at, &recorded.header.fact);
            machine.driver.fold(&recorded.header, recorded.payload.as_ref());
            machine.keep_request(&recorded.header.fact, recorded.payload.as_ref());
            machine.drop_closed();
        }
        machine
    }

    /// Makes one deliberate mistake from here on.
    #[cfg(feature = "mutants")]
    pub fn mutate(&mut self, mutant: Mutant) {
        self.mutant = Some(mutant);
    }

    /// The state of the run, ahead of the journal by what is not yet acknowledged.
    pub const fn state(&self) -> &RunState {
        &self.state
    }

    /// The driver.
    pub const fn driver(&self) -> &D {
        &self.driver
    }

    /// When [`Input::Tick`] is next of use.
    pub fn wake_at(&self) -> Option<Timestamp> {
        let timers = self.state.open.values().filter_map(|step| match step.phase {
            domain::run::Phase::Sleeping { due } => Some(due),
            _ => None,
        });
        let gates = self.state.gates.values().map(|gate| gate.expires_at);
        timers.chain(gates).min()
    }

    /// Begins to move the run under a new claim. A run that rests does so only for the sake of an
    /// order.
    ///
    /// # Errors
    /// When the claim or the order is refused; nothing has changed then, and the machine is of no
    /// more use.
    pub fn claim(
        &mut self,
        context: &Context<'_>,
        fence: u64,
        holder: &str,
        order: Option<Order>,
    ) -> Result<Vec<Output>, Refusal> {
        self.fence = fence;
        let command = Command::Claim { fence, holder: holder.into() };
        self.apply(context, Source::Kernel, command, Payload::EMPTY)?;
        if let Some(order) = order {
            self.obey(context, order)?;
        }
        Ok(self.finish(context))
    }

    /// Takes an input in.
    pub fn handle(&mut self, context: &Context<'_>, input: Input) -> Vec<Output> {
        if self.halted {
            return Vec::new();
        }
        match input {
            Input::Appended(ticket, result) => self.appended(ticket, result),
            Input::Snapshotted(snapshot) => {
                if self.workspace == Workspace::Taking {
                    self.workspace = Workspace::Fresh(snapshot);
                }
            }
            Input::WorkspaceFailed(refused) => self.workspace_failed(refused),
            Input::Restored(step) => self.restored(context, step),
            Input::Finished(step, attempt, finished) => {
                if self.is_current(step, attempt) {
                    self.complete(context, step, finished);
                }
            }
            Input::Refused(step, attempt, refused) => {
                if self.is_current(step, attempt) {
                    self.refused(context, step, refused);
                }
            }
            Input::Lost(step, attempt) => {
                if self.is_current(step, attempt) {
                    self.lost(step);
                }
            }
            Input::Status(step, status) => self.status(context, step, status),
            Input::Probed(step, probe) => self.probed(context, step, probe),
            Input::Killed(step) => self.killed(context, step),
            Input::Tick => {}
        }
        self.finish(context)
    }

    /// Takes an order in. When it is accepted, it is in force once the last append among the outputs
    /// is durable.
    ///
    /// # Errors
    /// The rule that forbids it; nothing has changed then.
    pub fn order(&mut self, context: &Context<'_>, order: Order) -> Result<Vec<Output>, Refusal> {
        if self.halted {
            return Err(if self.state.has_ended() { Refusal::Ended } else { Refusal::Parked });
        }
        self.obey(context, order)?;
        Ok(self.finish(context))
    }

    fn obey(&mut self, context: &Context<'_>, order: Order) -> Result<(), Refusal> {
        let command = match order {
            Order::Answer { gate, action, answer, by } => Command::AnswerGate { gate, action, answer, by },
            Order::Stop { by } => Command::Stop { by },
            Order::StopNow { by } => Command::StopNow { by },
            Order::Resume { by } => Command::Resume { by },
            Order::Say { by, text, now } => {
                let words = Payload(text.into_bytes());
                return self.apply(context, Source::Owner, Command::Say { by, now }, words);
            }
            Order::Cancel { by } => {
                // What rests has to move to come to its end.
                if matches!(self.state.status, RunStatus::Parked { .. }) {
                    let resume = Command::Resume { by: by.clone() };
                    self.apply(context, Source::Owner, resume, Payload::EMPTY)?;
                }
                Command::Cancel { by }
            }
        };
        self.apply(context, Source::Owner, command, Payload::EMPTY)
    }

    fn finish(&mut self, context: &Context<'_>) -> Vec<Output> {
        self.advance(context);
        self.flush();
        std::mem::take(&mut self.outputs)
    }

    fn appended(&mut self, ticket: u64, result: Result<Appended, AppendError>) {
        match result {
            Ok(_) => {
                for output in self.pending.remove(&ticket).unwrap_or_default() {
                    match output {
                        Output::Start(work) => self.start(work),
                        Output::Halted(halt) => self.halt(halt),
                        other => self.outputs.push(other),
                    }
                }
            }
            Err(AppendError::Fenced { .. }) => self.halt(Halt::Fenced),
            Err(AppendError::HeadMoved(_) | AppendError::LeaseMoved(_) | AppendError::DayFull(..)) => {
                self.halt(Halt::Reload);
            }
            Err(AppendError::Storage(why)) => self.halt(Halt::Storage(why)),
        }
    }

    fn start(&mut self, work: Work) {
        self.flights.insert(work.step, Flight::Running);
        self.outputs.push(Output::Start(work));
    }

    fn halt(&mut self, halt: Halt) {
        if !self.halted {
            self.halted = true;
            self.outputs.push(Output::Halted(halt));
        }
    }

    /// Lets the run rest once nothing runs any more.
    fn rest_for(&mut self, refused: Refused) {
        let Refused { code, hint } = refused;
        self.rest.get_or_insert(Parking::Blocked { code, hint });
    }

    fn is_current(&self, step: StepNo, attempt: u32) -> bool {
        self.state.open.get(&step).is_some_and(|open| {
            open.attempts == attempt && matches!(open.phase, domain::run::Phase::Intended { .. })
        })
    }

    fn is_moving(&self) -> bool {
        !self.halted && self.state.status == RunStatus::Active
    }

    /// Decides a command, and records what it leads to: the payload goes with the last fact.
    fn apply(
        &mut self,
        context: &Context<'_>,
        source: Source,
        command: Command,
        payload: Payload,
    ) -> Result<(), Refusal> {
        let facts = self.state.decide(context.now, command)?;
        let last = facts.len().saturating_sub(1);
        let mut payload = Some(payload);
        for (index, fact) in facts.into_iter().enumerate() {
            let payload = if index == last { payload.take().unwrap_or_default() } else { Payload::EMPTY };
            self.record(context, source, fact, payload);
        }
        Ok(())
    }

    /// Applies a command of the kernel's own, which its rules allow by construction.
    fn must(&mut self, context: &Context<'_>, command: Command) {
        self.must_with(context, Source::Kernel, command, Payload::EMPTY);
    }

    fn must_with(&mut self, context: &Context<'_>, source: Source, command: Command, payload: Payload) {
        if let Err(refusal) = self.apply(context, source, command, payload) {
            // A defect of the kernel: stop before anything else happens, with the journal intact.
            tracing::error!(run = %self.state.id, %refusal, "the run's own rules refuse the kernel");
            self.halt(Halt::Storage(format!("internal: a command of the kernel was refused: {refusal}")));
        }
    }

    fn record(&mut self, context: &Context<'_>, source: Source, fact: Fact, payload: Payload) {
        let mut salt = Salt::default();
        context.rng.fill(&mut salt);
        self.batch.from.get_or_insert(self.head);
        let event = Event { at: context.now, source, fact, payload };
        for sealed in event::seal(self.state.id, self.head, vec![event], || salt) {
            self.head = Head { seq: sealed.header.seq, hash: sealed.hash };
            self.doubt(&sealed.header.fact);
            self.state.evolve(context.now, &sealed.header.fact);
            self.driver.fold(&sealed.header, Some(&sealed.payload));
            self.batch.events.push(sealed);
        }
        self.drop_closed();
    }

    /// Submits what this input led to, as one append.
    fn flush(&mut self) {
        let Batch { from, events, lease, day, after } = std::mem::take(&mut self.batch);
        let Some(head) = from else { return };
        self.ticket = self.ticket.saturating_add(1);
        // What was submitted after the run came to rest has woken it, or halts it again with this append.
        for held_back in self.pending.values_mut() {
            held_back.retain(|output| !matches!(output, Output::Halted(Halt::Parked(_))));
        }
        let expect = Expect { fence: self.fence, head, lease, day };
        self.outputs.push(Output::Append(self.ticket, Append { run: self.state.id, expect, events }));
        #[cfg(feature = "mutants")]
        if self.mutant == Some(Mutant::EffectBeforeIntent) {
            for output in after {
                match output {
                    Output::Start(work) => self.start(work),
                    other => self.pending.entry(self.ticket).or_default().push(other),
                }
            }
            return;
        }
        self.pending.insert(self.ticket, after);
    }

    /// Holds an output back until everything is durable that led to it.
    fn once_durable(&mut self, output: Output) {
        if self.batch.from.is_some() {
            self.batch.after.push(output);
        } else if let Some(mut last) = self.pending.last_entry() {
            last.get_mut().push(output);
        } else {
            self.outputs.push(output);
        }
    }

    fn keep_request(&mut self, fact: &Fact, payload: Option<&Payload>) {
        if let (Fact::StepPlanned(planned), Some(payload)) = (fact, payload)
            && planned.composed_upto.is_none()
        {
            self.requests.insert(planned.step, Bytes::copy_from_slice(&payload.0));
        }
    }

    fn drop_closed(&mut self) {
        let open = &self.state.open;
        if self.requests.len() + self.flights.len() + self.repeat.len() > 0 {
            self.requests.retain(|step, _| open.contains_key(step));
            self.flights.retain(|step, _| open.contains_key(step));
            self.repeat.retain(|step| open.contains_key(step));
        }
    }
}
