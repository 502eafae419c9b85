//! Schedules: at every turn the seed picks what happens next.

use domain::run::Status;
use kernel::machine::Input;

use super::check::{Check, hold};
use super::dice::Dice;
use super::journal::Flaws;
use super::program::Program;
use super::world::{Owner, World};

/// How many turns a run may take to end once nothing goes wrong any more.
const PATIENCE: usize = 4_000;

/// What may still go wrong, and how often. All zero: nothing.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Faults {
    daemon: u64,
    runner: u64,
    pause: u64,
    storage: u64,
    workspace: u64,
    refuse: u64,
    again: u64,
    lease: u64,
    revoke: u64,
    stop: u64,
    cancel: u64,
    say: u64,
    /// The owner's answers are mistaken, late or doubled.
    odd_answers: u64,
}

/// What can happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Boot,
    Commit(usize),
    Ack(usize),
    Deliver(usize, usize),
    Hear(usize),
    Task(usize, usize),
    Chore(usize),
    Job(usize),
    Orphan(usize),
    Wait,
    Sync,
    Resume,
    Answer,
    Unpause(usize),
    Renew(usize),
    CrashDaemon(usize),
    CrashRunner,
    Pause(usize),
    FailAppend(usize),
    FailChore(usize),
    Refuse(usize, usize),
    Again,
    ChangeLease,
    Revoke,
    Stop,
    Cancel,
    Say,
    OddAnswer,
}

/// What a simulation is made of.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Everything follows from it.
    pub seed: u64,
    /// Mistakes of the world.
    pub flaws: Flaws,
    /// A mistake of the machine.
    #[cfg(feature = "mutants")]
    pub mutant: Option<kernel::machine::Mutant>,
}

/// What a schedule came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// What happened how often: facts by name, faults in words.
    pub counts: std::collections::BTreeMap<&'static str, u64>,
}

/// An invariant that does not hold.
#[derive(Debug, thiserror::Error)]
#[error("seed {seed}: {what}\n{trace}\nreproduce it with SEED={seed}")]
pub struct Failure {
    /// The seed that leads here.
    pub seed: u64,
    /// What does not hold.
    pub what: String,
    /// What happened before.
    pub trace: String,
}

/// Runs the schedule of a seed to its end.
///
/// # Errors
/// The first invariant that does not hold, with a trace.
pub fn run(options: Options) -> Result<Report, Box<Failure>> {
    attempt(options, None).map_err(|(what, _)| {
        // Once more with a trace: a schedule is nothing but its seed.
        let trace = attempt(options, Some(Vec::new())).err().map(|(_, trace)| trace).unwrap_or_default();
        let trace = trace.join("\n");
        Box::new(Failure { seed: options.seed, what, trace })
    })
}

fn attempt(options: Options, trace: Option<Vec<String>>) -> Result<Report, (String, Vec<String>)> {
    let dice = Dice::new(options.seed.wrapping_mul(0x5851_f42d_4c95_7f2d));
    let program = Program::random(&dice);
    let mut world = World::new(program, options.seed, options.flaws).map_err(|what| (what, Vec::new()))?;
    world.trace = trace;
    world.faults = Faults::random(&dice);
    #[cfg(feature = "mutants")]
    {
        world.mutant = options.mutant;
    }
    if world.trace.is_some() {
        let line = format!("{:?}", world.program);
        world.note(|| line);
    }
    let turns = 30 + dice.below(400);
    let result = (0..turns).try_for_each(|_| world.turn().map(drop)).and_then(|()| world.finish());
    match result {
        Ok(report) => Ok(report),
        Err(what) => Err((what, world.trace.unwrap_or_default())),
    }
}

impl Faults {
    pub(super) fn random(dice: &Dice) -> Self {
        let some = |percent: u64, most: u64| if dice.chance(percent) { 1 + dice.below(most) } else { 0 };
        Self {
            daemon: some(70, 4),
            runner: some(50, 3),
            pause: some(40, 2),
            storage: some(25, 3),
            workspace: some(15, 2),
            refuse: some(20, 2),
            again: some(40, 6),
            lease: some(30, 3),
            revoke: some(6, 1),
            stop: some(20, 2),
            cancel: some(12, 1),
            odd_answers: some(40, 4),
            say: some(30, 3),
        }
    }
}

impl World {
    /// One turn. False when nothing can happen any more.
    pub(super) fn turn(&mut self) -> Check<bool> {
        let choices = self.choices();
        let total: u64 = choices.iter().map(|(weight, _)| weight).sum();
        if total == 0 {
            return Ok(false);
        }
        let mut pick = self.dice.below(total);
        for (weight, choice) in choices {
            if pick < weight {
                self.happen(choice)?;
                break;
            }
            pick -= weight;
        }
        for p in 0..self.processes.len() {
            self.compare(p)?;
        }
        Ok(true)
    }

    /// Lets everything go well until the run is over, and holds it against the reference.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn finish(&mut self) -> Result<Report, String> {
        self.faults = Faults::default();
        self.note(|| "from here on nothing goes wrong".into());
        for _ in 0..PATIENCE {
            if !self.turn()? {
                break;
            }
        }
        hold!(!self.turn()?, "the run does not come to its end: {:?}", self.checker.state);
        self.compare_fresh()?;
        self.checker.finish(&self.outside)?;
        let mut counts = self.counts.clone();
        counts.extend(self.checker.facts.iter().map(|(name, count)| (*name, *count)));
        Ok(Report { counts })
    }

    /// Lets things happen without any fault until `reached`.
    ///
    /// # Errors
    /// An invariant that does not hold, or that this never comes.
    pub fn until(&mut self, mut reached: impl FnMut(&Self) -> bool) -> Result<(), String> {
        for _ in 0..PATIENCE {
            if reached(self) {
                return Ok(());
            }
            hold!(self.turn()?, "it never comes to this");
        }
        Err("it never comes to this".into())
    }

    /// Lets this many things happen without any fault, or as many as can.
    ///
    /// # Errors
    /// An invariant that does not hold.
    pub fn turns(&mut self, turns: usize) -> Result<(), String> {
        for _ in 0..turns {
            if !self.turn()? {
                break;
            }
        }
        Ok(())
    }

    fn choices(&self) -> Vec<(u64, Choice)> {
        let mut choices = Vec::with_capacity(24);
        let current = self.current();
        let status = &self.checker.state.status;
        let ended = matches!(status, Status::Ended { .. });
        let held = current.is_some_and(|p| !self.processes[p].paused);
        // Another daemon claimed the run after this one, and did not bring it to its end. A run that the
        // last claimant leaves alone is a defect, and nobody comes to its rescue.
        let overtaken = current.is_some_and(|p| self.processes[p].fence != self.journal.fence);
        let driven = self
            .processes
            .iter()
            .any(|process| process.machine.is_some() && process.fence == self.journal.fence);
        let orphaned = *status == Status::Active && overtaken && !driven;
        if (!held || orphaned) && !ended {
            choices.push((4, Choice::Boot));
        }
        if held && !ended {
            self.owner_choices(&mut choices);
        }
        for p in 0..self.processes.len() {
            self.process_choices(p, &mut choices);
        }
        for (place, _) in self.outside.jobs.iter().enumerate() {
            choices.push((4, Choice::Job(place)));
        }
        for (place, _) in self.outside.orphans.iter().enumerate() {
            choices.push((3, Choice::Orphan(place)));
        }
        if self.journal.synced < self.journal.events.len() {
            choices.push((1, Choice::Sync));
        }
        // An owner who answers does so in time.
        let asked = self.ahead().is_some_and(|state| !state.gates.is_empty());
        let prompt = matches!(self.owner, Owner::Says(_)) && asked;
        if self.next_due().is_some() && !prompt {
            choices.push((2, Choice::Wait));
        }
        if !ended {
            self.fault_choices(&mut choices);
        }
        choices
    }

    fn owner_choices(&self, choices: &mut Vec<(u64, Choice)>) {
        let state = &self.checker.state;
        let idle = self.processes.last().is_some_and(|process| process.queue.is_empty());
        if idle && matches!(state.status, Status::Parked { .. }) {
            choices.push((2, Choice::Resume));
        }
        if !state.gates.is_empty() && self.owner != Owner::Away {
            choices.push((2, Choice::Answer));
            if self.faults.odd_answers > 0 {
                choices.push((2, Choice::OddAnswer));
            }
        }
        if self.faults.stop > 0 {
            choices.push((1, Choice::Stop));
        }
        if self.faults.say > 0 {
            choices.push((1, Choice::Say));
        }
        if self.faults.cancel > 0 && self.dice.chance(10) {
            choices.push((1, Choice::Cancel));
        }
    }

    fn process_choices(&self, p: usize, choices: &mut Vec<(u64, Choice)>) {
        let process = &self.processes[p];
        if !process.said.is_empty() {
            choices.push((5, Choice::Hear(p)));
        }
        if process.dead {
            return;
        }
        if !process.queue.is_empty() {
            choices.push((6, Choice::Commit(p)));
            if self.faults.storage > 0 {
                choices.push((1, Choice::FailAppend(p)));
            }
        }
        if process.paused {
            choices.push((1, Choice::Unpause(p)));
            return;
        }
        if process.machine.is_some() && process.fence != self.journal.fence {
            choices.push((1, Choice::Renew(p)));
        }
        if !process.acks.is_empty() {
            choices.push((6, Choice::Ack(p)));
        }
        for place in 0..process.inbox.len() {
            if self.may_arrive(p, place) {
                choices.push((3, Choice::Deliver(p, place)));
            }
        }
        for (place, job) in process.tasks.iter().enumerate() {
            choices.push((3, Choice::Task(p, place)));
            if self.faults.refuse > 0 && job.stage == 0 {
                choices.push((1, Choice::Refuse(p, place)));
            }
        }
        if !process.chores.is_empty() {
            choices.push((3, Choice::Chore(p)));
            if self.faults.workspace > 0 {
                choices.push((1, Choice::FailChore(p)));
            }
        }
    }

    fn fault_choices(&self, choices: &mut Vec<(u64, Choice)>) {
        let faults = &self.faults;
        if let Some(p) = self.current() {
            if faults.daemon > 0 {
                choices.push((1, Choice::CrashDaemon(p)));
            }
            if faults.pause > 0 && !self.processes[p].paused {
                choices.push((1, Choice::Pause(p)));
            }
        }
        if faults.runner > 0 && !self.outside.jobs.is_empty() {
            choices.push((1, Choice::CrashRunner));
        }
        if faults.again > 0 && !self.delivered.is_empty() {
            choices.push((1, Choice::Again));
        }
        if faults.lease > 0 {
            choices.push((1, Choice::ChangeLease));
        }
        if faults.revoke > 0 && self.dice.chance(10) {
            choices.push((1, Choice::Revoke));
        }
    }

    /// Answers about one step, or about the workspace, keep their order; all others overtake.
    fn may_arrive(&self, p: usize, place: usize) -> bool {
        let inbox = &self.processes[p].inbox;
        let topic = topic(&inbox[place].1);
        inbox.iter().take(place).all(|(_, earlier)| self::topic(earlier) != topic)
    }

    fn happen(&mut self, choice: Choice) -> Check {
        match choice {
            Choice::Boot => return self.boot(),
            Choice::Commit(p) => return self.commit(p, false),
            Choice::Ack(p) => return self.acknowledge(p),
            Choice::Deliver(p, place) => {
                let (generation, input) = self.processes[p].inbox.remove(place);
                return self.deliver(p, generation, input);
            }
            Choice::Hear(p) => return self.hear(p),
            Choice::Task(p, place) => return self.progress_task(p, place, false),
            Choice::Chore(p) => return self.progress_chore(p, false),
            Choice::Job(place) => return self.progress_job(place),
            Choice::Orphan(place) => return self.progress_orphan(place),
            Choice::Wait => return self.wait(),
            Choice::Sync => return self.sync(),
            Choice::Resume => {
                let _ = self.resume()?;
            }
            Choice::Answer => return self.answer(),
            Choice::Unpause(p) => {
                self.note(|| format!("d{p} goes on"));
                self.processes[p].paused = false;
            }
            Choice::Renew(p) => {
                self.note(|| format!("d{p} cannot renew its claim"));
                return self.halt(p, kernel::machine::Halt::Fenced);
            }
            fault => return self.go_wrong(fault),
        }
        Ok(())
    }

    fn go_wrong(&mut self, fault: Choice) -> Check {
        match fault {
            Choice::CrashDaemon(p) => {
                self.faults.daemon -= 1;
                self.crash(p);
            }
            Choice::CrashRunner => {
                self.faults.runner -= 1;
                self.crash_runner();
            }
            Choice::Pause(p) => {
                self.faults.pause -= 1;
                self.pause(p);
            }
            Choice::FailAppend(p) => {
                self.faults.storage -= 1;
                return self.commit(p, true);
            }
            Choice::FailChore(p) => {
                self.faults.workspace -= 1;
                return self.progress_chore(p, true);
            }
            Choice::Refuse(p, place) => {
                self.faults.refuse -= 1;
                return self.progress_task(p, place, true);
            }
            Choice::Again => {
                self.faults.again -= 1;
                let input = self.delivered[self.dice.index(self.delivered.len())].clone();
                if let Some(p) = self.current() {
                    let generation = self.processes[p].generation;
                    self.tell((p, generation), input);
                }
            }
            Choice::ChangeLease => {
                self.faults.lease -= 1;
                self.change_lease(false);
            }
            Choice::Revoke => {
                self.faults.revoke -= 1;
                self.change_lease(true);
            }
            Choice::Stop => {
                self.faults.stop -= 1;
                // Which of the two takes no dice: the seeds of known failures keep their schedules.
                let _ = if self.now.0.is_multiple_of(2) { self.stop()? } else { self.stop_now()? };
            }
            Choice::Cancel => {
                self.faults.cancel -= 1;
                let _ = self.cancel()?;
            }
            Choice::Say => {
                self.faults.say -= 1;
                let now = self.dice.chance(60);
                let _ = self.say(now)?;
            }
            Choice::OddAnswer => {
                self.faults.odd_answers -= 1;
                return self.answer_oddly();
            }
            _ => {}
        }
        Ok(())
    }

    /// Holds a daemon up: what it hears and says waits, and another one takes the run over.
    pub(super) fn pause(&mut self, p: usize) {
        self.note(|| format!("d{p} is held up"));
        self.count("pause");
        self.processes[p].paused = true;
    }

    /// Changes the lease, which makes every decision under it old; `revoked` takes it back.
    pub(super) fn change_lease(&mut self, revoked: bool) {
        self.note(|| format!("the lease changes, revoked: {revoked}"));
        self.count(if revoked { "revocation" } else { "lease change" });
        self.policy.epoch += 1;
        self.policy.revoked |= revoked;
    }

    /// The daemon's executor refuses what it was about to start; false when there is no such task.
    ///
    /// # Errors
    /// An invariant that does not hold.
    pub fn refuse(&mut self) -> Result<bool, String> {
        let Some(p) = self.current() else { return Ok(false) };
        let waiting = self.processes[p].tasks.iter().position(|job| job.stage == 0);
        waiting.map_or(Ok(false), |place| self.progress_task(p, place, true).map(|()| true))
    }

    /// The disk is full when the next append is written.
    ///
    /// # Errors
    /// An invariant that does not hold.
    pub fn fail_append(&mut self) -> Result<(), String> {
        self.current().map_or(Ok(()), |p| self.commit(p, true))
    }

    fn acknowledge(&mut self, p: usize) -> Check {
        let Some((generation, ticket, result)) = self.processes[p].acks.pop_front() else { return Ok(()) };
        if generation != self.processes[p].generation {
            return Ok(());
        }
        self.feed(p, Input::Appended(ticket, result))
    }

    fn deliver(&mut self, p: usize, generation: u64, input: Input) -> Check {
        if generation != self.processes[p].generation && !self.flaws.stale_inbox {
            return Ok(());
        }
        if matches!(input, Input::Finished(..)) && self.delivered.len() < 16 {
            self.delivered.push(input.clone());
        }
        self.feed(p, input)
    }

    /// When a daemon that is not held up has to be woken.
    fn next_due(&self) -> Option<domain::Timestamp> {
        let awake = self.processes.iter().filter(|process| !process.paused);
        awake.filter_map(|process| process.machine.as_ref()?.wake_at()).min()
    }

    /// Time passes: a little, or until something is due.
    fn wait(&mut self) -> Check {
        let due = self.next_due();
        let little = self.now.plus(1 + self.dice.below(60));
        self.now = match due {
            Some(due) if self.dice.chance(15) => due.max(self.now),
            _ => little,
        };
        let now = self.now;
        for p in 0..self.processes.len() {
            let process = &self.processes[p];
            let due = process.machine.as_ref().and_then(|machine| machine.wake_at());
            if due.is_some_and(|due| due <= now) && !process.paused {
                self.feed(p, Input::Tick)?;
            }
        }
        Ok(())
    }
}

/// What an answer is about. A connection that breaks is noticed at any time.
const fn topic(input: &Input) -> u64 {
    match input {
        Input::Finished(step, ..)
        | Input::Refused(step, ..)
        | Input::Status(step, _)
        | Input::Probed(step, _)
        | Input::Killed(step) => step.0,
        Input::Snapshotted(_) | Input::Restored(_) | Input::WorkspaceFailed(_) => 0,
        Input::Lost(..) | Input::Tick | Input::Appended(..) => u64::MAX,
    }
}
