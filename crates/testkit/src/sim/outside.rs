//! The world that effects reach: a workspace, external ledgers, and the runner with its spool. All of
//! it survives the daemon.

use std::collections::BTreeMap;

use domain::{Amount, Digest, Outcome, Payload, StepNo};
use kernel::port::{Finished, Work};

/// A step that somebody executes.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) work: Work,
    /// The operation's number.
    pub(super) index: usize,
    pub(super) fails: bool,
    pub(super) stage: u8,
    /// The process and the generation of the machine that waits for the answer.
    pub(super) to: (usize, u64),
    /// Its answer, once it is spooled.
    pub(super) spooled: Option<Finished>,
}

/// A line of the ledger of a vendor or a recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// The step.
    pub step: StepNo,
    /// The try.
    pub attempt: u32,
    /// What it cost, in nanodollars.
    pub cost: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Outside {
    /// The workspace.
    pub workspace: String,
    pub(super) snapshots: Vec<String>,
    /// What model calls cost, as the vendor sees it.
    pub billed: Vec<Line>,
    /// What left the house.
    pub sent: Vec<Line>,
    /// Idempotent writes by key, with the result of the first.
    pub keys: BTreeMap<Digest, (StepNo, String)>,
    pub(super) jobs: Vec<Job>,
    /// Processes that outlived the runner that started them.
    pub(super) orphans: Vec<Job>,
    spool: BTreeMap<(StepNo, u32), Finished>,
    /// The highest fence seen, on disk.
    pub(super) fence: u64,
    /// A step whose roll-back is half done.
    pub(super) half_restored: bool,
}

/// An answer with the step's deterministic payload.
pub(super) fn finished(fails: bool, spent: Amount, payload: String) -> Finished {
    let outcome = if fails { Outcome::Failed } else { Outcome::Succeeded };
    Finished { outcome, spent, payload: Payload(payload.into_bytes()), artifacts: Vec::new() }
}

/// What a step that was killed gives back.
pub(super) const KILLED: &str = "killed";

/// The answer of a step that was killed.
pub(super) fn killed() -> Finished {
    Finished {
        outcome: Outcome::Cancelled,
        spent: Amount::CALL,
        payload: Payload(KILLED.as_bytes().to_vec()),
        artifacts: Vec::new(),
    }
}

impl Outside {
    /// Whether a fence still counts; a higher one is remembered.
    pub(super) fn admits(&mut self, fence: u64) -> bool {
        self.fence = self.fence.max(fence);
        fence == self.fence
    }

    pub(super) fn keep(&mut self, step: StepNo, attempt: u32, finished: Finished) {
        self.spool.insert((step, attempt), finished);
    }

    pub(super) fn spooled(&self, step: StepNo, attempt: u32) -> Option<Finished> {
        self.spool.get(&(step, attempt)).cloned()
    }

    pub(super) fn snapshot(&mut self) -> String {
        self.snapshots.push(self.workspace.clone());
        format!("snap{}", self.snapshots.len())
    }

    pub(super) fn snapshot_content(&self, name: &str) -> Option<&String> {
        let number: usize = name.strip_prefix("snap")?.parse().ok()?;
        self.snapshots.get(number.checked_sub(1)?)
    }

    /// How many steps the runner executes right now.
    pub fn running(&self) -> usize {
        self.jobs.iter().filter(|job| job.spooled.is_none()).count()
    }

    /// How many results the runner has spooled and not yet told.
    pub fn untold(&self) -> usize {
        self.jobs.iter().filter(|job| job.spooled.is_some()).count()
    }

    /// How often a step left the house.
    pub(super) fn times_sent(&self, step: StepNo) -> usize {
        self.sent.iter().filter(|line| line.step == step).count()
    }

    /// Whether something of this step may still change the workspace.
    pub(super) fn is_writing(&self) -> bool {
        let writes = |job: &Job| job.work.effect == domain::Effect::WorkspaceWrite && job.spooled.is_none();
        self.jobs.iter().chain(&self.orphans).any(writes)
    }
}
