//! What comes after a setup and after a trial of criteria. Both run in the jail like any step. Before the
//! success of a setup is told, what it made is noted in the workspace and kept for later runs; before a
//! trial's result is told, the files are put back as it found them. A crash in between is followed by the
//! same again, as the result lies in the spool until it is on record.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::fact::RunStarted;
use domain::{Fact, Mission, Outcome, RunId, StepKind, StepNo};
use engine::host::{SETUP, TRIAL};
use kernel::machine::Input;
use kernel::port::{Executor, Inbox, Journal, Status, Work};
use store::{Commit, TreeId};

use crate::layout::Layout;
use crate::runs::Charter;
use crate::{environments, view};

/// Events read at a time.
const PAGE: usize = 1024;

/// Executes setups and trials through the executor of the jail.
#[derive(Clone)]
pub struct SetupExecutor {
    jail: Arc<dyn Executor>,
    keeper: Arc<Keeper>,
}

struct Keeper {
    layout: Layout,
    journal: Arc<dyn Journal>,
    /// One at a time: a machine that is loaded again may ask about a result that is being kept.
    turn: Mutex<()>,
    /// Whose files are being kept.
    busy: Mutex<HashSet<(RunId, StepNo)>>,
    /// The tries whose files are seen to. Later the run has gone on, and they are its own again.
    settled: Mutex<HashSet<(RunId, StepNo, u32)>>,
}

impl SetupExecutor {
    /// Over the executor of jailed steps.
    pub fn new(layout: Layout, journal: Arc<dyn Journal>, jail: Arc<dyn Executor>) -> Self {
        Self {
            jail,
            keeper: Arc::new(Keeper {
                layout,
                journal,
                turn: Mutex::default(),
                busy: Mutex::default(),
                settled: Mutex::default(),
            }),
        }
    }

    /// Whether this is a setup or a trial.
    pub fn has(work: &Work) -> bool {
        match work.kind {
            StepKind::ToolCall => work.tool == SETUP,
            StepKind::Verdict => work.tool == TRIAL,
            _ => false,
        }
    }

    fn listening(&self, work: &Work, inbox: Arc<dyn Inbox>) -> Arc<dyn Inbox> {
        let runtime = tokio::runtime::Handle::current();
        Arc::new(Listening { keeper: Arc::clone(&self.keeper), work: work.clone(), inbox, runtime })
    }
}

impl Executor for SetupExecutor {
    fn start(&self, work: Work, inbox: Arc<dyn Inbox>) {
        let inbox = self.listening(&work, inbox);
        self.jail.start(work, inbox);
    }

    fn status(&self, work: Work, inbox: Arc<dyn Inbox>) {
        let inbox = self.listening(&work, inbox);
        self.jail.status(work, inbox);
    }

    fn probe(&self, work: Work, inbox: Arc<dyn Inbox>) {
        self.jail.probe(work, inbox);
    }

    fn kill(&self, work: Work, inbox: Arc<dyn Inbox>) {
        let inbox = self.listening(&work, inbox);
        self.jail.kill(work, inbox);
    }
}

/// The inbox of a setup or a trial: the result passes once its files are seen to.
struct Listening {
    keeper: Arc<Keeper>,
    work: Work,
    inbox: Arc<dyn Inbox>,
    runtime: tokio::runtime::Handle,
}

impl Inbox for Listening {
    fn send(&self, input: Input) {
        let outcome = match &input {
            Input::Finished(_, _, finished) | Input::Status(_, Status::Spooled(finished)) => finished.outcome,
            Input::Killed(_) => return self.after_keeping(input),
            _ => return self.inbox.send(input),
        };
        let (keeper, inbox, work) = (Arc::clone(&self.keeper), Arc::clone(&self.inbox), self.work.clone());
        let of = (work.run, work.step);
        keeper.busy().insert(of);
        self.runtime.spawn_blocking(move || {
            // It has ended: what it made is there, and a later run makes it again.
            if let Err(why) = keeper.settle(&work, outcome) {
                tracing::warn!(run = %work.run, why, "what a {} left behind is not seen to", work.tool);
            }
            inbox.send(input);
            keeper.busy().remove(&of);
        });
    }
}

impl Listening {
    /// Passes the end of a kill on behind the result that came with it: until then the workspace is not
    /// at rest.
    fn after_keeping(&self, input: Input) {
        let of = (self.work.run, self.work.step);
        let (keeper, inbox) = (Arc::clone(&self.keeper), Arc::clone(&self.inbox));
        self.runtime.spawn(async move {
            while keeper.busy().contains(&of) {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            inbox.send(input);
        });
    }
}

impl Keeper {
    fn busy(&self) -> MutexGuard<'_, HashSet<(RunId, StepNo)>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settle(&self, work: &Work, outcome: Outcome) -> Result<(), String> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut settled = self.settled.lock().unwrap_or_else(PoisonError::into_inner);
        if !settled.insert((work.run, work.step, work.attempt)) {
            return Ok(());
        }
        drop(settled);
        let run = work.run;
        let words = |error: &dyn std::error::Error| view::with_causes(error);
        let Charter { started, mission } =
            Charter::read(&*self.journal, run).map_err(|error| words(&error))?;
        let tree = store::Tree::open_or_create(&self.layout.tree(mission.project)).map_err(|e| words(&e))?;
        let workspace = tree.workspace_open(&started.branch, &self.layout.workspace(run));
        let workspace = workspace.map_err(|error| words(&error))?;
        if work.kind == StepKind::Verdict {
            let Some(files) = self.found(run, work.step)? else { return Ok(()) };
            return workspace.restore(&files).map_err(|error| words(&error));
        }
        let files = begun_with(&tree, &started, &mission)?;
        if outcome == Outcome::Cancelled {
            // Half made, and perhaps made again.
            workspace.clean().map_err(|error| words(&error))?;
            return workspace.restore(&files).map_err(|error| words(&error));
        }
        // What a failed one has left is no more the agent's work than what a good one made.
        workspace.settle(&files).map_err(|error| words(&error))?;
        match mission.environment {
            Some(environment) if outcome == Outcome::Succeeded => {
                environments::keep(&self.layout, mission.project, environment.hash, &workspace)
            }
            _ => Ok(()),
        }
    }
}

impl Keeper {
    /// The files as a step found them.
    fn found(&self, run: RunId, step: StepNo) -> Result<Option<TreeId>, String> {
        let (mut seq, mut found) = (0, None);
        loop {
            let page = self.journal.history(run, seq, PAGE).map_err(|error| view::with_causes(&error))?;
            let Some(last) = page.last() else { break };
            seq = last.header.seq;
            for event in page {
                match event.header.fact {
                    Fact::StepIntended { step: of, snapshot: Some(snapshot), .. } if of == step => {
                        found = Some(snapshot);
                    }
                    _ => {}
                }
            }
        }
        let parsed = found.map(|found| found.parse().map_err(|_| format!("`{found}` is no snapshot")));
        parsed.transpose()
    }
}

/// The files that a run began with: those of its base, or of the run that it goes on from.
fn begun_with(tree: &store::Tree, started: &RunStarted, mission: &Mission) -> Result<TreeId, String> {
    let snapshot = started.forked.as_ref().and_then(|forked| forked.snapshot.as_deref());
    if let Some(snapshot) = snapshot {
        return snapshot.parse().map_err(|_| "what the run goes on from is no snapshot".to_owned());
    }
    let base: Commit = mission.base.parse().map_err(|_| "the run's base is no commit".to_owned())?;
    tree.tree_of(&base).map_err(|error| view::with_causes(&error))
}
