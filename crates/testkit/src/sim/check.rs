//! What must hold of every durable event and of every effect, written without the kernel's own rules.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::event::{self, Sealed};
use domain::fact::{Denial, StepPlanned};
use domain::gate::{Answer, Question};
use domain::run::{End, Status};
use domain::{
    Amount, Digest, Effect, Fact, GateId, Header, Outcome, Recorded, RunId, RunState, StepKind, StepNo,
    Timestamp, Verdict,
};
use kernel::driver::Driver;
use kernel::port::Work;

use super::outside::Outside;
use super::program::{Act, Op, Program, Rule};
use super::reference::{Fate, halves_of, interpret};
use super::script::Script;

/// What was wrong, in words.
pub(super) type Check<T = ()> = Result<T, String>;

macro_rules! hold {
    ($condition:expr, $($words:tt)+) => {
        if !$condition {
            return Err(format!($($words)+));
        }
    };
}
pub(super) use hold;

/// What the journal says of one step.
#[derive(Debug, Default)]
struct Trail {
    op: Option<usize>,
    effect: Option<Effect>,
    request: Option<Digest>,
    tries: BTreeSet<u32>,
    running: Option<(u32, Amount, Option<String>)>,
    lost: BTreeSet<u32>,
    approved: bool,
    repeats: usize,
    uncertain: bool,
    executed: bool,
    /// The owner interrupted everything while it was open.
    interrupted: bool,
    result: Option<Fate>,
}

struct Gate {
    subject: StepNo,
    question: Question,
    expires_at: Timestamp,
}

/// Follows the durable events.
pub(super) struct Checker {
    program: Arc<Program>,
    pub(super) state: RunState,
    pub(super) script: Script,
    hash: Digest,
    trails: BTreeMap<StepNo, Trail>,
    planned: usize,
    /// Operations that are planned anew, and what became of those that are inherited.
    again: Vec<usize>,
    inherited: BTreeMap<usize, Fate>,
    gates: BTreeMap<GateId, Gate>,
    pub(super) epoch: u64,
    pub(super) revoked: bool,
    /// The answers that the owner gave to exactly what was asked.
    pub(super) given: BTreeSet<(GateId, &'static str)>,
    pub(super) facts: BTreeMap<&'static str, u64>,
}

/// A name for an answer that can be a key.
pub(super) const fn answer_name(answer: Answer) -> &'static str {
    match answer {
        Answer::Approved => "approved",
        Answer::Refused => "refused",
        Answer::Expired => "expired",
        Answer::WasDone => "was_done",
        Answer::Repeat => "repeat",
    }
}

impl Checker {
    pub(super) fn new(run: RunId, program: Arc<Program>) -> Self {
        Self {
            state: RunState::new(run),
            script: Script::new(Arc::clone(&program)),
            program,
            hash: Digest::ZERO,
            trails: BTreeMap::new(),
            planned: 0,
            again: Vec::new(),
            inherited: BTreeMap::new(),
            gates: BTreeMap::new(),
            epoch: 1,
            revoked: false,
            given: BTreeSet::new(),
            facts: BTreeMap::new(),
        }
    }

    /// Begins after what is inherited: what became of the operations that have a result there.
    pub(super) fn inherit(&mut self, events: &[Recorded], fates: BTreeMap<usize, Fate>) {
        for recorded in events {
            self.script.inherit(&recorded.header, recorded.payload.as_ref());
        }
        let results = &self.script.view().results;
        self.inherited = fates.into_iter().filter(|(index, _)| results.contains_key(index)).collect();
        self.planned = self.script.view().planned();
        self.again = (0..self.planned).filter(|index| !results.contains_key(index)).collect();
    }

    /// What became of the operations that are closed by now.
    pub(super) fn closed(&self, workspace: &str) -> Check<BTreeMap<usize, Fate>> {
        self.fates(workspace, |trail| trail.result.is_some())
    }

    /// Takes in one event that is durable now.
    pub(super) fn durable(&mut self, recorded: &Recorded) -> Check {
        let header = &recorded.header;
        hold!(header.seq == self.state.seq + 1, "event {} follows event {}", header.seq, self.state.seq);
        hold!(!self.state.has_ended(), "{} after the end", header.fact.name());
        self.fact(header)?;
        self.state.evolve(header.at, &header.fact);
        self.script.fold(header, recorded.payload.as_ref());
        *self.facts.entry(header.fact.name()).or_default() += 1;
        let held = self.state.open.values().fold(Amount::default(), |sum, open| sum.plus(open.reserved()));
        hold!(held == self.state.budget.reserved, "{held:?} is held, {:?} is booked", self.state.budget);
        Ok(())
    }

    /// The link of an event that is written, and that its bytes are what its header says.
    pub(super) fn sealed(&mut self, sealed: &Sealed) -> Check {
        let content = event::content_digest(&sealed.salt, &sealed.payload);
        let hash = event::link(self.hash, content, &sealed.bytes);
        hold!(hash == sealed.hash && content == sealed.content, "the chain breaks at {}", sealed.header.seq);
        hold!(sealed.header.to_bytes() == sealed.bytes, "event {} has other bytes", sealed.header.seq);
        self.hash = hash;
        Ok(())
    }

    fn fact(&mut self, header: &Header) -> Check {
        match &header.fact {
            Fact::StepPlanned(planned) => self.plan(planned),
            Fact::StepIntended { .. } => self.intend(&header.fact),
            Fact::GateOpened { gate, subject, question, action, expires_at, .. } => {
                let trail = self.open(*subject)?;
                hold!(trail.request == Some(*action), "gate {gate} shows another action");
                hold!(trail.running.is_none() || trail.uncertain, "gate for a running step {subject}");
                let (subject, question, expires_at) = (*subject, *question, *expires_at);
                self.gates.insert(*gate, Gate { subject, question, expires_at });
                Ok(())
            }
            Fact::GateAnswered { gate, answer, by } => self.answer(header.at, *gate, *answer, by),
            Fact::TimerSet { step, .. } => self.open(*step).map(drop),
            Fact::TimerFired { step } => {
                let due = match self.state.open.get(step).map(|open| &open.phase) {
                    Some(domain::run::Phase::Sleeping { due }) => *due,
                    _ => return Err(format!("timer {step} was not set")),
                };
                hold!(header.at >= due, "timer {step} fired too early");
                self.open(*step)?.result = Some(Fate::Ran);
                Ok(())
            }
            Fact::Ended { .. } => {
                let open = self.trails.iter().find(|(_, trail)| trail.executed && trail.result.is_none());
                hold!(open.is_none(), "the run ends with an open step: {open:?}");
                Ok(())
            }
            Fact::Said { now, .. } => {
                hold!(!self.state.cancelling, "somebody speaks to a run that is being cancelled");
                for trail in self.trails.values_mut().filter(|trail| trail.result.is_none()) {
                    trail.interrupted |= *now;
                }
                Ok(())
            }
            Fact::Interrupted { .. } => {
                for trail in self.trails.values_mut().filter(|trail| trail.running.is_some()) {
                    trail.interrupted |= trail.result.is_none();
                }
                Ok(())
            }
            Fact::RunStarted(_) | Fact::Claimed { .. } | Fact::StopRequested { .. } => Ok(()),
            Fact::CancelRequested { .. } | Fact::Parked { .. } | Fact::Resumed { .. } => Ok(()),
            _ => self.outcome(header),
        }
    }

    fn plan(&mut self, planned: &StepPlanned) -> Check {
        let expected = StepNo(self.trails.len() as u64 + 1);
        hold!(planned.step == expected, "step {} is planned, {expected} is due", planned.step);
        let waits = planned.kind == StepKind::WaitHuman;
        let op = match (waits, self.again.is_empty()) {
            (true, _) => None,
            (false, false) => Some(self.again.remove(0)),
            (false, true) => {
                self.planned += 1;
                Some(self.planned - 1)
            }
        };
        let trail = Trail {
            op,
            effect: Some(planned.effect),
            request: Some(planned.request),
            executed: !waits,
            ..Trail::default()
        };
        self.trails.insert(planned.step, trail);
        Ok(())
    }

    fn intend(&mut self, fact: &Fact) -> Check {
        let Fact::StepIntended { step, attempt, decision, reserved, snapshot } = fact else { return Ok(()) };
        hold!(self.state.status == Status::Active, "step {step} starts while the run rests");
        hold!(!self.state.cancelling, "step {step} starts after the cancellation");
        hold!(decision.verdict == Verdict::Allow, "step {step} starts without being allowed");
        hold!(decision.epoch == self.epoch && !self.revoked, "step {step} starts under an old lease");
        let before = self.trails.range(..*step).filter(|(_, trail)| trail.executed && trail.result.is_none());
        let timer = |index: usize| matches!(self.program.op(index), Some(Op { act: Act::Timer(_), .. }));
        for (earlier, trail) in before.filter(|(_, trail)| !trail.op.is_some_and(timer)) {
            let reads = self.trails.get(step).map(|trail| trail.effect) == Some(Some(Effect::Read));
            hold!(reads && trail.effect == Some(Effect::Read), "step {step} overtakes step {earlier}");
        }
        let rule = self.op_of(*step)?.1.rule;
        let trail = self.open(*step)?;
        let allowed = rule == Rule::Allow || (rule == Rule::Ask && trail.approved);
        hold!(allowed, "step {step} starts against the policy {rule:?}");
        let repeatable = matches!(trail.effect, Some(Effect::Read | Effect::IdempotentWrite));
        hold!(trail.running.is_none() || repeatable, "step {step} starts again without being recovered");
        hold!(trail.tries.insert(*attempt), "step {step} has try {attempt} twice");
        hold!(trail.tries.len() == *attempt as usize, "step {step} jumps to try {attempt}");
        let writes = trail.effect == Some(Effect::WorkspaceWrite);
        hold!(writes == snapshot.is_some(), "step {step} and its snapshot");
        trail.running = Some((*attempt, *reserved, snapshot.clone()));
        Ok(())
    }

    /// Facts that end or take back a try, or a step.
    fn outcome(&mut self, header: &Header) -> Check {
        let Some(step) = header.fact.step() else { return Ok(()) };
        if let Fact::StepDenied { reason, .. } = &header.fact {
            self.may_be_denied(header.at, step, reason)?;
        }
        let trail = self.open(step)?;
        let running = trail.running.take();
        match &header.fact {
            Fact::StepDenied { .. } => {
                hold!(running.is_none(), "step {step} may have happened and is denied");
                trail.result = Some(Fate::Denied);
                return Ok(());
            }
            Fact::StepCompleted { .. } if trail.uncertain => {}
            _ => hold!(running.is_some(), "{} of step {step} without a try", header.fact.name()),
        }
        let effect = trail.effect;
        match &header.fact {
            Fact::StepCompleted { outcome, .. } => trail.result = Some(Fate::Closed(*outcome)),
            Fact::StepUncertain { .. } => {
                hold!(effect == Some(Effect::NonIdempotent), "step {step} cannot be uncertain");
                trail.uncertain = true;
            }
            Fact::ModelCallLost { attempt, spent, .. } => {
                let same = running.is_some_and(|(a, reserved, _)| a == *attempt && reserved == *spent);
                hold!(effect == Some(Effect::ModelCall) && same, "step {step} loses try {attempt}");
                trail.lost.insert(*attempt);
            }
            Fact::WorkspaceRestored { snapshot, .. } => {
                let same = running.is_some_and(|(_, _, before)| before.as_ref() == Some(snapshot));
                hold!(same, "step {step} is rolled back to another snapshot");
            }
            _ => {}
        }
        Ok(())
    }

    fn may_be_denied(&self, at: Timestamp, step: StepNo, reason: &Denial) -> Check {
        let (_, op) = match self.op_of(step) {
            Ok(op) => op,
            // A wait for a human is closed with the run.
            Err(_) => return Ok(()),
        };
        let legitimate = match reason {
            Denial::Policy { .. } => op.rule == Rule::Deny || self.revoked,
            Denial::Gate { answer, .. } => matches!(answer, Answer::Refused | Answer::Expired),
            Denial::Budget { cap: domain::budget::Exhausted::Day } => op.rule == Rule::Day,
            Denial::Budget { cap } => {
                let elapsed = self.state.active_time(at);
                self.state.budget.check(op.reserve(), elapsed) == Err(*cap)
            }
            Denial::Cancelled => self.state.cancelling,
            Denial::Interrupted => {
                let keyed = op.effect() == Effect::IdempotentWrite;
                !keyed && self.trails.get(&step).is_some_and(|trail| trail.interrupted)
            }
        };
        hold!(legitimate, "step {step} is denied for no reason: {reason:?}");
        Ok(())
    }

    fn answer(&mut self, at: Timestamp, gate: GateId, answer: Answer, by: &str) -> Check {
        let open = self.gates.remove(&gate).ok_or_else(|| format!("{gate} is answered twice"))?;
        let late = at >= open.expires_at;
        let kernel = by == "svc:kernel";
        match answer {
            Answer::Expired => hold!(late && kernel, "{gate} expires too early"),
            Answer::Refused if kernel => hold!(self.state.cancelling, "{gate} is refused by nobody"),
            _ => {
                hold!(!late, "{gate} is answered too late");
                hold!(self.given.contains(&(gate, answer_name(answer))), "{gate}: nobody said {answer:?}");
            }
        }
        let trail = self.open(open.subject)?;
        match (open.question, answer) {
            (Question::Approve, Answer::Approved) => trail.approved = true,
            (Question::WasItDone, Answer::Repeat) => {
                trail.repeats += 1;
                trail.uncertain = false;
            }
            (Question::Approve, Answer::WasDone | Answer::Repeat)
            | (Question::WasItDone, Answer::Approved) => return Err(format!("{gate} asked something else")),
            _ => {}
        }
        Ok(())
    }

    fn open(&mut self, step: StepNo) -> Check<&mut Trail> {
        let trail = self.trails.get_mut(&step).ok_or_else(|| format!("step {step} was never planned"))?;
        hold!(trail.result.is_none(), "step {step} has a result already");
        Ok(trail)
    }

    fn op_of(&self, step: StepNo) -> Check<(usize, Op)> {
        let index = self.trails.get(&step).and_then(|trail| trail.op);
        let op = index.and_then(|index| self.program.op(index).map(|op| (index, *op)));
        op.ok_or_else(|| format!("step {step} is no operation"))
    }

    /// An executor begins a try: its intention must be durable, and its request the recorded one.
    pub(super) fn may_start(&self, work: &Work, outside: &Outside) -> Check {
        let (step, attempt) = (work.step, work.attempt);
        let trail = self.trails.get(&step).ok_or_else(|| format!("step {step} starts unplanned"))?;
        hold!(
            trail.tries.contains(&attempt),
            "try {attempt} of step {step} starts without a durable intention"
        );
        hold!(trail.request == Some(Digest::of(&work.request)), "step {step} starts with another request");
        hold!(work.key == Work::key_of(work.run, step), "step {step} starts under another key");
        if work.effect == Effect::WorkspaceWrite {
            hold!(!outside.is_writing() && !outside.half_restored, "step {step} does not write alone");
            let snapshot = trail.running.as_ref().and_then(|(_, _, snapshot)| snapshot.as_ref());
            let before = snapshot.and_then(|name| outside.snapshot_content(name));
            hold!(
                before == Some(&outside.workspace),
                "step {step} starts with a snapshot that is not its workspace"
            );
        }
        Ok(())
    }

    /// A step is about to leave the house.
    pub(super) fn may_send(&self, step: StepNo, outside: &Outside) -> Check {
        let repeats = self.trails.get(&step).map_or(0, |trail| trail.repeats);
        hold!(outside.times_sent(step) <= repeats, "step {step} happens again and nobody said so");
        Ok(())
    }

    /// What must hold at the end.
    pub(super) fn finish(&self, outside: &Outside) -> Check {
        let Status::Ended { end } = self.state.status else {
            return Err(format!("the run does not end: {:?}", self.state));
        };
        self.compare_ledgers(outside)?;
        hold!(self.state.budget.reserved == Amount::default(), "something is still reserved");
        if self.state.cancelling {
            hold!(end == End::Cancelled, "cancelled and ended as {end:?}");
            return Ok(());
        }
        let fates = self.fates(&outside.workspace, |_| true)?;
        let expected = interpret(&self.program, &fates)
            .ok_or_else(|| format!("it ended as {end:?} and some operations have no fate: {fates:?}"))?;
        let results = &self.script.view().results;
        hold!(results == &expected.results, "the results are\n{results:?}, not\n{:?}", expected.results);
        hold!(
            outside.workspace == expected.workspace,
            "the workspace is `{}`, not `{}`",
            outside.workspace,
            expected.workspace
        );
        hold!(end == expected.end, "it ended as {end:?}, not {:?}", expected.end);
        Ok(())
    }

    /// Takes the fates of all operations from the journal: an executor's result is never empty.
    fn fates(&self, workspace: &str, of: impl Fn(&Trail) -> bool) -> Check<BTreeMap<usize, Fate>> {
        let mut fates = self.inherited.clone();
        for (step, trail) in self.trails.iter().filter(|(_, trail)| of(trail)) {
            let Some(index) = trail.op else { continue };
            let fate = trail.result.ok_or_else(|| format!("step {step} has no result"))?;
            let word = self.script.view().results.get(&index).map_or("", String::as_str);
            let fate = match fate {
                Fate::Closed(Outcome::Cancelled) if trail.interrupted => {
                    Fate::Cut { halves: halves_of(index, workspace), told: !word.ends_with(':') }
                }
                Fate::Closed(Outcome::Cancelled) => return Err(format!("nobody cancelled step {step}")),
                Fate::Closed(_) if !word.ends_with(':') => Fate::Ran,
                other => other,
            };
            fates.insert(index, fate);
        }
        Ok(fates)
    }

    fn compare_ledgers(&self, outside: &Outside) -> Check {
        let mut billed = BTreeSet::new();
        for line in &outside.billed {
            let trail = self.trails.get(&line.step).ok_or("a bill for no step")?;
            hold!(
                billed.insert((line.step, line.attempt)),
                "try {} of step {} is billed twice",
                line.attempt,
                line.step
            );
            let last = trail.tries.last() == Some(&line.attempt);
            let known = last || trail.lost.contains(&line.attempt);
            hold!(
                known,
                "try {} of step {} was repeated and is not on record as lost",
                line.attempt,
                line.step
            );
        }
        let bill: u64 = outside.billed.iter().map(|line| line.cost).sum();
        let spent = self.state.budget.spent.nanodollars;
        hold!(bill <= spent, "the vendor billed {bill}, the run booked {spent}");
        for (step, trail) in &self.trails {
            let Some((_, op)) = trail.op.and_then(|_| self.op_of(*step).ok()) else { continue };
            let done = match op.act {
                Act::Send => outside.times_sent(*step),
                Act::Put | Act::Commit => outside.keys.values().filter(|(by, _)| by == step).count(),
                _ => continue,
            };
            let word = self.script.view().results.get(&trail.op.unwrap_or(0)).map_or("", String::as_str);
            let ran = word.starts_with("Succeeded:") && !word.ends_with(':');
            hold!(!ran || done >= 1, "step {step} succeeded and nothing happened");
            hold!(done == 0 || !trail.tries.is_empty(), "step {step} happened without an intention");
            hold!(
                trail.result != Some(Fate::Denied) || done == 0 || trail.repeats > 0,
                "step {step} was denied and happened"
            );
            hold!(op.act == Act::Send || done <= 1, "step {step} happened under two keys");
            hold!(done <= 1 + trail.repeats, "step {step} happened {done} times");
        }
        Ok(())
    }
}
