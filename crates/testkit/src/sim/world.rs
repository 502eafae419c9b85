//! Daemons around one journal: who is alive, what is on its way to whom.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use domain::event::{self, Event, Recorded};
use domain::fact::RunStarted;
use domain::run::{Command, Refusal, Status};
use domain::{Digest, LeaseId, MissionId, Payload, ProjectId, RunId, RunState, Source, Timestamp};
use kernel::machine::{Context, Halt, Input, Order, Output};
use kernel::port::{Append, AppendError, Appended, Expect, Work};
use kernel::{Driver, Machine};

use super::authority::Policy;
use super::check::{Check, Checker, answer_name, hold};
use super::dice::Dice;
use super::fork::Inherited;
use super::journal::{BEGIN, Flaws, Journal};
use super::outside::{Job, Outside};
use super::program::Program;
use super::script::Script;

/// What the journal's writer answers.
pub(super) type Ack = (u64, u64, Result<Appended, AppendError>);

/// What a daemon says to the runner.
#[derive(Debug, Clone)]
pub(super) enum Said {
    Start(Work),
    Status(Work),
    Probe(Work),
    Kill(Work),
}

/// What a daemon does to the workspace.
#[derive(Debug, Clone)]
pub(super) enum Chore {
    Snapshot,
    Restore(domain::StepNo, String, bool),
}

/// One daemon. A crash takes all of it but what it said to the runner.
#[derive(Default)]
pub(super) struct Process {
    pub(super) machine: Option<Machine<Script>>,
    pub(super) paused: bool,
    pub(super) dead: bool,
    /// It lost the run to another daemon and leaves it alone.
    pub(super) fenced: bool,
    pub(super) fence: u64,
    pub(super) generation: u64,
    pub(super) queue: VecDeque<(u64, u64, Append)>,
    pub(super) acks: VecDeque<Ack>,
    pub(super) inbox: Vec<(u64, Input)>,
    pub(super) tasks: Vec<Job>,
    pub(super) chores: VecDeque<(u64, u64, Chore)>,
    pub(super) said: VecDeque<(u64, Said)>,
}

/// How the owner answers gates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Owner {
    /// Anything that the question admits, as the seed has it.
    #[default]
    Moody,
    /// Approves; and says this of steps that may have been done.
    Says(domain::gate::Answer),
    /// Not at all.
    Away,
}

/// A whole simulated installation with one run.
pub struct World {
    pub(super) program: Arc<Program>,
    /// What the run goes on from.
    pub(super) inherited: Option<Inherited>,
    pub(super) now: Timestamp,
    pub(super) dice: Dice,
    pub(super) salts: Dice,
    pub(super) policy: Policy,
    pub(super) journal: Journal,
    pub(super) checker: Checker,
    pub(super) processes: Vec<Process>,
    pub(super) flaws: Flaws,
    pub(super) faults: super::schedule::Faults,
    /// Inputs that were delivered, to be delivered again.
    pub(super) delivered: Vec<Input>,
    pub(super) trace: Option<Vec<String>>,
    /// What happened how often.
    pub(super) counts: BTreeMap<&'static str, u64>,
    /// What effects have reached.
    pub outside: Outside,
    /// How gates are answered.
    pub owner: Owner,
    /// From here on no daemon can make the run's driver: it can only be cancelled.
    pub driver_is_lost: bool,
    #[cfg(feature = "mutants")]
    pub(super) mutant: Option<kernel::machine::Mutant>,
}

impl World {
    /// A run of this program that has just been created. No daemon is there yet.
    ///
    /// # Errors
    /// When the first event breaks a rule.
    pub fn new(program: Program, seed: u64, flaws: Flaws) -> Result<Self, String> {
        let program = Arc::new(program);
        let run = RunId::new(BEGIN.0, [1; 10]);
        let mut world = Self::empty(program, run, seed, flaws);
        world.create()?;
        Ok(world)
    }

    /// A world without its run.
    pub(super) fn empty(program: Arc<Program>, run: RunId, seed: u64, flaws: Flaws) -> Self {
        let lease = LeaseId::new(BEGIN.0, [2; 10]);
        Self {
            inherited: None,
            now: BEGIN,
            dice: Dice::new(seed),
            salts: Dice::new(!seed),
            policy: Policy { program: Arc::clone(&program), lease, epoch: 1, revoked: false },
            journal: Journal::new(run, flaws),
            checker: Checker::new(run, Arc::clone(&program)),
            processes: Vec::new(),
            flaws,
            faults: super::schedule::Faults::default(),
            delivered: Vec::new(),
            trace: None,
            counts: BTreeMap::new(),
            outside: Outside::default(),
            owner: Owner::Moody,
            driver_is_lost: false,
            program,
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }

    pub(super) fn create(&mut self) -> Check {
        let (run, lease) = (self.checker.state.id, self.policy.lease);
        let started = RunStarted {
            mission: MissionId::new(BEGIN.0, [3; 10]),
            project: ProjectId::new(BEGIN.0, [4; 10]),
            principal: "agent:coder".into(),
            on_behalf_of: "human:owner".into(),
            lease,
            branch: "coder/simulated".into(),
            driver: "simulated/1".into(),
            engine: "0".into(),
            system: Digest::ZERO,
            tools: Digest::ZERO,
            caps: self.program.caps,
            forked: self.inherited.as_ref().map(Inherited::forked),
        };
        let facts =
            RunState::new(run).decide(self.now, Command::Start(started)).map_err(|e| e.to_string())?;
        let at = self.now;
        let events = facts
            .into_iter()
            .map(|fact| Event { at, source: Source::Owner, fact, payload: Payload::EMPTY })
            .collect();
        let head = self.journal.head();
        let events = event::seal(run, head, events, || [7; 16]);
        self.write(&Append { run, expect: Expect { fence: 0, head, lease: None, day: None }, events })?
            .map_err(|error| error.to_string())?;
        self.sync()
    }

    pub(super) fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(line());
        }
    }

    pub(super) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// The state of the run as the journal has it.
    pub const fn state(&self) -> &RunState {
        &self.checker.state
    }

    /// The state of the run as its daemon has it, ahead of the journal.
    pub fn ahead(&self) -> Option<&RunState> {
        self.processes.last()?.machine.as_ref().map(Machine::state)
    }

    /// Whether the present daemon is about to roll the workspace back, or doing it.
    pub fn is_rolling_back(&self) -> bool {
        let chores = self.processes.last().map(|process| &process.chores);
        chores.is_some_and(|chores| chores.iter().any(|(.., chore)| matches!(chore, Chore::Restore(..))))
    }

    /// How often something happened that is no fact, as `probe done`.
    pub fn times(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or(0)
    }

    /// How many facts of this name are durable.
    pub fn facts(&self, name: &str) -> u64 {
        self.checker.facts.get(name).copied().unwrap_or(0)
    }

    /// The daemon that holds the run, or would.
    pub(super) fn current(&self) -> Option<usize> {
        let last = self.processes.len().checked_sub(1)?;
        (!self.processes[last].dead && !self.processes[last].fenced).then_some(last)
    }

    /// Starts a daemon, which takes over an active run.
    ///
    /// # Errors
    /// What the simulator found wrong.
    pub fn boot(&mut self) -> Result<(), String> {
        self.processes.push(Process::default());
        self.count("boot");
        let last = self.processes.len() - 1;
        if self.state_in_journal() == Status::Active { self.load(last, None) } else { Ok(()) }
    }

    /// The status that a reader of the journal sees.
    fn state_in_journal(&self) -> Status {
        self.checker.state.status.clone()
    }

    /// Kills the daemon: what is in memory is gone.
    pub fn crash_daemon(&mut self) {
        if let Some(p) = self.current() {
            self.crash(p);
        }
    }

    pub(super) fn crash(&mut self, p: usize) {
        self.note(|| format!("d{p} crashes"));
        self.count("daemon crash");
        let lost = !self.processes[p].acks.is_empty();
        if lost {
            self.count("ack lost");
        }
        let said = std::mem::take(&mut self.processes[p].said);
        let restoring = self.processes[p]
            .chores
            .front()
            .is_some_and(|(.., chore)| matches!(chore, Chore::Restore(.., true)));
        if restoring {
            self.count("crash in the middle of a roll-back");
        }
        // What was said may be in the socket, or not.
        let kept = self.dice.index(said.len() + 1);
        let said = said.into_iter().take(kept).collect();
        self.processes[p] = Process { dead: true, said, ..Process::default() };
        self.journal.crash();
    }

    /// Claims the run and loads it, as a daemon does at its start and after a failed append.
    pub(super) fn load(&mut self, p: usize, order: Option<Order>) -> Check {
        let fence = self.journal.claim();
        let script = if self.driver_is_lost { self.script().lost() } else { self.script() };
        let cancels = matches!(order, Some(Order::Cancel { .. })) || self.checker.state.cancelling;
        if self.driver_is_lost && !cancels {
            let process = &mut self.processes[p];
            process.generation += 1;
            process.fence = fence;
            process.machine = None;
            return Ok(());
        }
        let mut machine = Machine::load(self.checker.state.id, &self.journal.events, script);
        #[cfg(feature = "mutants")]
        if let Some(mutant) = self.mutant {
            machine.mutate(mutant);
        }
        let context = Context { now: self.now, authority: &self.policy, rng: &self.salts };
        let result = machine.claim(&context, fence, "node:here", order);
        self.note(|| format!("d{p} claims with fence {fence}: {}", result.is_ok()));
        let process = &mut self.processes[p];
        process.generation += 1;
        process.fence = fence;
        match result {
            Ok(outputs) => {
                process.machine = Some(machine);
                self.perform(p, outputs)
            }
            Err(_) => {
                process.machine = None;
                Ok(())
            }
        }
    }

    /// What is on record.
    pub fn events(&self) -> &[Recorded] {
        &self.journal.events
    }

    /// A driver that has folded what the run goes on from.
    pub fn script(&self) -> Script {
        let mut script = Script::new(Arc::clone(&self.program));
        for recorded in self.inherited.iter().flat_map(Inherited::events) {
            script.inherit(&recorded.header, recorded.payload.as_ref());
        }
        script
    }

    /// Feeds a machine.
    pub(super) fn feed(&mut self, p: usize, input: Input) -> Check {
        self.note(|| format!("d{p} <- {}", short(&format!("{input:?}"))));
        let context = Context { now: self.now, authority: &self.policy, rng: &self.salts };
        let Some(machine) = &mut self.processes[p].machine else { return Ok(()) };
        let outputs = machine.handle(&context, input);
        self.perform(p, outputs)
    }

    /// Gives an order to the daemon that holds the run; one that rests is loaded for it.
    pub(super) fn order(&mut self, order: Order) -> Check<Result<(), Refusal>> {
        let Some(p) = self.current() else { return Ok(Err(Refusal::Parked)) };
        self.note(|| format!("d{p} <- {}", short(&format!("{order:?}"))));
        if let Order::Answer { gate, action, answer, .. } = &order {
            let asked = self.checker.state.gates.get(gate).map(|open| open.action);
            if action.is_none() || *action == asked {
                self.checker.given.insert((*gate, answer_name(*answer)));
            }
        }
        if self.processes[p].machine.is_none() {
            self.load(p, Some(order))?;
            let carried = self.processes[p].machine.is_some();
            return Ok(if carried { Ok(()) } else { Err(Refusal::Ended) });
        }
        let context = Context { now: self.now, authority: &self.policy, rng: &self.salts };
        let Some(machine) = &mut self.processes[p].machine else { return Ok(Ok(())) };
        match machine.order(&context, order) {
            Ok(outputs) => self.perform(p, outputs).map(Ok),
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    fn perform(&mut self, p: usize, outputs: Vec<Output>) -> Check {
        let mut halted = None;
        for output in outputs {
            self.note(|| format!("d{p} -> {}", describe(&output)));
            let process = &mut self.processes[p];
            let (generation, fence) = (process.generation, process.fence);
            match output {
                Output::Append(ticket, append) => process.queue.push_back((generation, ticket, append)),
                Output::Start(work) => self.ask_executor(p, Said::Start(work))?,
                Output::Status(work) => self.ask_executor(p, Said::Status(work))?,
                Output::Probe(work) => self.ask_executor(p, Said::Probe(work))?,
                Output::Kill(work) => self.ask_executor(p, Said::Kill(work))?,
                Output::Snapshot => process.chores.push_back((generation, fence, Chore::Snapshot)),
                Output::Restore(step, to) => {
                    process.chores.push_back((generation, fence, Chore::Restore(step, to, false)));
                }
                Output::Halted(halt) => halted = Some(halt),
            }
        }
        match halted {
            Some(halt) => self.halt(p, halt),
            None => Ok(()),
        }
    }

    pub(super) fn halt(&mut self, p: usize, halt: Halt) -> Check {
        self.processes[p].machine = None;
        match halt {
            Halt::Ended(_) | Halt::Parked(_) => Ok(()),
            Halt::Fenced => {
                self.count("fenced");
                self.processes[p].fenced = true;
                Ok(())
            }
            Halt::Reload => {
                self.count("reload");
                self.load(p, None)
            }
            Halt::Storage(why) => {
                hold!(!why.starts_with("internal:"), "{why}");
                self.count("storage failure");
                self.load(p, None)
            }
        }
    }

    /// Writes the first append of a daemon's queue.
    pub(super) fn commit(&mut self, p: usize, fail: bool) -> Check {
        let Some((generation, ticket, append)) = self.processes[p].queue.pop_front() else { return Ok(()) };
        let result = if fail { Err(AppendError::Storage("disk full".into())) } else { self.write(&append)? };
        self.note(|| match &result {
            Ok(_) => format!("journal: ticket {ticket} of d{p} is written"),
            Err(error) => format!("journal: ticket {ticket} of d{p}: {error}"),
        });
        if matches!(result, Err(AppendError::Fenced { .. })) {
            self.count("fenced append");
        }
        if !self.flaws.acks_before_durable {
            self.sync()?;
        }
        self.processes[p].acks.push_back((generation, ticket, result));
        Ok(())
    }

    fn write(&mut self, append: &Append) -> Check<Result<Appended, AppendError>> {
        let result = self.journal.commit(append, self.policy.epoch);
        if result.is_ok() {
            let (ours, current) = (append.expect.fence, self.journal.fence);
            hold!(ours == current, "a writer with fence {ours} wrote under fence {current}");
            for sealed in &append.events {
                self.checker.sealed(sealed)?;
            }
        }
        Ok(result)
    }

    /// What is written becomes durable.
    pub(super) fn sync(&mut self) -> Check {
        let from = usize::try_from(self.checker.state.seq).unwrap_or(usize::MAX);
        self.journal.synced = self.journal.events.len();
        self.checker.epoch = self.policy.epoch;
        self.checker.revoked = self.policy.revoked;
        for recorded in self.journal.events.iter().skip(from) {
            self.checker.durable(recorded)?;
        }
        Ok(())
    }

    /// A daemon that has nothing under way agrees with the journal.
    pub(super) fn compare(&self, p: usize) -> Check {
        let process = &self.processes[p];
        let quiet = process.queue.is_empty() && process.acks.is_empty();
        let synced = self.journal.synced == self.journal.events.len();
        let Some(machine) = &process.machine else { return Ok(()) };
        if quiet && synced && process.fence == self.journal.fence {
            let durable = &self.checker;
            hold!(machine.state() == &durable.state, "d{p} has another state than the journal");
            hold!(machine.driver().view() == durable.script.view(), "d{p} has another view than the journal");
        }
        Ok(())
    }

    /// Folds the whole journal once more from its first event.
    pub(super) fn compare_fresh(&self) -> Check {
        let mut state = RunState::new(self.checker.state.id);
        let mut script = self.script();
        for recorded in &self.journal.events {
            state.evolve(recorded.header.at, &recorded.header.fact);
            script.fold(&recorded.header, recorded.payload.as_ref());
        }
        hold!(state == self.checker.state, "a fresh fold leads to another state");
        hold!(script.view() == self.checker.script.view(), "a fresh fold leads to another view");
        Ok(())
    }
}

/// The first words of a description.
fn short(text: &str) -> String {
    text.chars().take(110).collect()
}

fn describe(output: &Output) -> String {
    match output {
        Output::Append(ticket, append) => {
            let facts: Vec<_> = append
                .events
                .iter()
                .map(|sealed| {
                    let step = sealed.header.fact.step().map_or(String::new(), |step| format!("({step})"));
                    format!("{}{step}", sealed.header.fact.name())
                })
                .collect();
            format!("append {ticket}: {}", facts.join(" "))
        }
        Output::Start(work) => format!("start {}#{} {}", work.step, work.attempt, work.tool),
        Output::Status(work) => format!("status {}#{}", work.step, work.attempt),
        Output::Probe(work) => format!("probe {}#{}", work.step, work.attempt),
        Output::Kill(work) => format!("kill {}#{}", work.step, work.attempt),
        other => short(&format!("{other:?}")),
    }
}
