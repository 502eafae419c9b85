//! What a simulated run does: a list of batches of operations.

use domain::budget::{Amount, Caps};
use domain::{Effect, Risk, StepKind};

use super::dice::Dice;

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// A paid model call, executed in the daemon.
    Model,
    /// Reads the workspace, in the runner.
    Read,
    /// Writes in the workspace in two halves, in the runner.
    Write,
    /// Judges a criterion, which may write in the workspace.
    Verdict,
    /// An idempotent write of the host, executed in the daemon under its key.
    Put,
    /// Commits the workspace, as [`Act::Put`].
    Commit,
    /// Leaves the house and must not be repeated blindly, in the runner.
    Send,
    /// Waits this many milliseconds.
    Timer(u64),
}

/// What the authority says of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// It may happen.
    Allow,
    /// A human is asked.
    Ask,
    /// It must not happen.
    Deny,
    /// It does not fit under the cap of the day.
    Day,
}

/// One operation. It becomes one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Op {
    /// What it does.
    pub act: Act,
    /// What the authority says.
    pub rule: Rule,
    /// It runs and reports a failure.
    pub fails: bool,
    /// Its tool can tell whether it was done. Of use for [`Act::Send`].
    pub probes: bool,
    /// Its request is composed from recorded parts. Of use for [`Act::Model`].
    pub composed: bool,
}

/// Batches of operations: each is planned at once, when the one before it is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    batches: Vec<Vec<Op>>,
    /// The bounds of the run.
    pub caps: Caps,
}

impl Op {
    /// An operation that is allowed and succeeds.
    pub const fn new(act: Act) -> Self {
        Self { act, rule: Rule::Allow, fails: false, probes: true, composed: matches!(act, Act::Model) }
    }

    /// The same under another rule.
    pub const fn ruled(mut self, rule: Rule) -> Self {
        self.rule = rule;
        self
    }

    /// The same with a tool that cannot tell whether it was done.
    pub const fn unprobed(mut self) -> Self {
        self.probes = false;
        self
    }

    /// The kind of its step.
    pub const fn kind(&self) -> StepKind {
        match self.act {
            Act::Model => StepKind::ModelCall,
            Act::Verdict => StepKind::Verdict,
            Act::Commit => StepKind::Checkpoint,
            Act::Timer(_) => StepKind::Timer,
            Act::Read | Act::Write | Act::Put | Act::Send => StepKind::ToolCall,
        }
    }

    /// Its effect class.
    pub const fn effect(&self) -> Effect {
        match self.act {
            Act::Model => Effect::ModelCall,
            Act::Read | Act::Timer(_) => Effect::Read,
            Act::Write | Act::Verdict => Effect::WorkspaceWrite,
            Act::Put | Act::Commit => Effect::IdempotentWrite,
            Act::Send => Effect::NonIdempotent,
        }
    }

    /// Its risk class.
    pub const fn risk(&self) -> Risk {
        match self.act {
            Act::Send => Risk::External,
            Act::Write | Act::Verdict | Act::Put | Act::Commit => Risk::Workspace,
            _ => Risk::Read,
        }
    }

    /// What it may use at most.
    pub const fn reserve(&self) -> Amount {
        match self.act {
            Act::Model => Amount { tokens: 100, nanodollars: 1_000, calls: 1, unpriced: 0, turns: 1 },
            Act::Send => Amount { tokens: 0, nanodollars: 10, calls: 1, unpriced: 0, turns: 0 },
            Act::Timer(_) => Amount { tokens: 0, nanodollars: 0, calls: 0, unpriced: 0, turns: 0 },
            _ => Amount::CALL,
        }
    }

    fn random(dice: &Dice) -> Self {
        let act = match dice.below(16) {
            0..4 => Act::Read,
            4..8 => Act::Write,
            8 => Act::Verdict,
            9 => Act::Commit,
            10..12 => Act::Put,
            12..15 => Act::Send,
            _ => Act::Timer(1 + dice.below(300)),
        };
        let rule = match dice.below(100) {
            0..78 => Rule::Allow,
            78..93 => Rule::Ask,
            93..98 => Rule::Deny,
            _ => Rule::Day,
        };
        Self { act, rule, fails: dice.chance(12), probes: dice.chance(60), composed: false }
    }

    fn random_model(dice: &Dice) -> Self {
        let rule = match dice.below(100) {
            0..94 => Rule::Allow,
            94..97 => Rule::Ask,
            97..99 => Rule::Deny,
            _ => Rule::Day,
        };
        Self { rule, fails: dice.chance(3), composed: dice.chance(70), ..Self::new(Act::Model) }
    }
}

impl Program {
    /// These batches, under default caps.
    pub fn of(batches: &[&[Op]]) -> Self {
        Self { batches: batches.iter().map(|batch| batch.to_vec()).collect(), caps: Caps::default() }
    }

    /// Up to three turns: a model call and what it asks for.
    pub fn random(dice: &Dice) -> Self {
        let mut batches = Vec::new();
        for _ in 0..=dice.below(3) {
            batches.push(vec![Op::random_model(dice)]);
            let calls: Vec<_> = (0..dice.below(5)).map(|_| Op::random(dice)).collect();
            if !calls.is_empty() {
                batches.push(calls);
            }
        }
        let calls = if dice.chance(15) { 1 + dice.below(12) } else { Caps::default().calls };
        Self { batches, caps: Caps { calls, ..Caps::default() } }
    }

    /// The operation of this number, counted from 0 over all batches.
    pub fn op(&self, index: usize) -> Option<&Op> {
        self.ops().nth(index)
    }

    /// The operation that a step's tool name stands for.
    pub fn op_of(&self, tool: &str) -> Option<(usize, &Op)> {
        let index = index_of(tool)?;
        self.op(index).map(|op| (index, op))
    }

    /// All operations in order.
    pub fn ops(&self) -> impl Iterator<Item = &Op> {
        self.batches.iter().flatten()
    }

    /// The batch that begins at this operation.
    pub fn batch_at(&self, index: usize) -> Option<&[Op]> {
        let mut begin = 0;
        for batch in &self.batches {
            if begin == index {
                return Some(batch);
            }
            begin += batch.len();
        }
        None
    }
}

/// The tool name of an operation.
pub(super) fn tool_of(index: usize) -> String {
    format!("op{index}")
}

fn index_of(tool: &str) -> Option<usize> {
    tool.strip_prefix("op")?.parse().ok()
}
