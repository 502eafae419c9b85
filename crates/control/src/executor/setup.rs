//! What comes after a setup: it runs in the jail like any step, and before its success is told, what it
//! made is noted in the workspace and kept for later runs. A crash in between is followed by the same
//! again, as the result lies in the spool until it is on record.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::{Outcome, RunId, StepNo};
use engine::host::SETUP;
use kernel::machine::Input;
use kernel::port::{Executor, Inbox, Journal, Status, Work};

use crate::layout::Layout;
use crate::runs::Charter;
use crate::{environments, view};

/// Executes setups through the executor of the jail.
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
}

impl SetupExecutor {
    /// Over the executor of jailed steps.
    pub fn new(layout: Layout, journal: Arc<dyn Journal>, jail: Arc<dyn Executor>) -> Self {
        Self {
            jail,
            keeper: Arc::new(Keeper { layout, journal, turn: Mutex::default(), busy: Mutex::default() }),
        }
    }

    /// Whether a tool call of this name is a setup.
    pub fn has(tool: &str) -> bool {
        tool == SETUP
    }

    fn listening(&self, work: &Work, inbox: Arc<dyn Inbox>) -> Arc<dyn Inbox> {
        let runtime = tokio::runtime::Handle::current();
        Arc::new(Listening {
            keeper: Arc::clone(&self.keeper),
            run: work.run,
            step: work.step,
            inbox,
            runtime,
        })
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

/// The inbox of a setup: success passes once its files are kept.
struct Listening {
    keeper: Arc<Keeper>,
    run: RunId,
    step: StepNo,
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
        let (keeper, inbox, run, step) =
            (Arc::clone(&self.keeper), Arc::clone(&self.inbox), self.run, self.step);
        keeper.busy().insert((run, step));
        self.runtime.spawn_blocking(move || {
            // The setup itself has ended: what it made is there, and a later run makes it again.
            if let Err(why) = keeper.settle(run, outcome) {
                tracing::warn!(%run, why, "what a setup made is not kept");
            }
            inbox.send(input);
            keeper.busy().remove(&(run, step));
        });
    }
}

impl Listening {
    /// Passes the end of a kill on behind the result that came with it: until then the workspace is not
    /// at rest.
    fn after_keeping(&self, input: Input) {
        let (keeper, inbox, of) = (Arc::clone(&self.keeper), Arc::clone(&self.inbox), (self.run, self.step));
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

    fn settle(&self, run: RunId, outcome: Outcome) -> Result<(), String> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let words = |error: &dyn std::error::Error| view::with_causes(error);
        let Charter { started, mission } =
            Charter::read(&*self.journal, run).map_err(|error| words(&error))?;
        let tree = store::Tree::open_or_create(&self.layout.tree(mission.project)).map_err(|e| words(&e))?;
        let workspace = tree.workspace_open(&started.branch, &self.layout.workspace(run));
        let workspace = workspace.map_err(|error| words(&error))?;
        let base = mission.base.parse().map_err(|_| "the run's base is no commit".to_owned())?;
        // What a failed one has left is no more the agent's work than what a good one made.
        workspace.settle(&base).map_err(|error| words(&error))?;
        match mission.environment {
            Some(environment) if outcome == Outcome::Succeeded => {
                environments::keep(&self.layout, mission.project, environment.hash, &workspace)
            }
            _ => Ok(()),
        }
    }
}
