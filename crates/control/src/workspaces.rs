//! The kernel's workspace port over the store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use domain::{RunId, StepNo};
use kernel::machine::Input;
use kernel::port::{Inbox, Journal, Refused, Workspaces};
use store::{TreeId, Treeish as _};
use tokio::sync::mpsc;

use crate::layout::Layout;
use crate::runs::Charter;
use crate::view;

/// Snapshots and roll-backs in the git dirs of the runs' projects, one after another for each run.
pub struct StoreWorkspaces {
    trees: Arc<Trees>,
    lanes: Mutex<HashMap<RunId, mpsc::UnboundedSender<Job>>>,
}

/// How many workspaces are kept open.
const MOST_OPEN: usize = 16;

type Job = Box<dyn FnOnce() + Send>;

struct Trees {
    layout: Layout,
    journal: Arc<dyn Journal>,
    /// The workspaces used last, the latest at the end: each remembers what its last snapshot saw.
    open: Mutex<Vec<(RunId, store::Workspace)>>,
}

impl StoreWorkspaces {
    /// The workspaces of an installation.
    pub fn new(layout: Layout, journal: Arc<dyn Journal>) -> Self {
        let trees = Trees { layout, journal, open: Mutex::default() };
        Self { trees: Arc::new(trees), lanes: Mutex::default() }
    }

    /// Queues a job of a run: a roll-back that an earlier machine asked for must not come after what
    /// the next one has begun.
    fn queue(&self, run: RunId, job: Job) {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let lane = lanes.entry(run).or_insert_with(|| {
            let (sender, mut jobs) = mpsc::unbounded_channel::<Job>();
            tokio::spawn(async move {
                while let Some(job) = jobs.recv().await {
                    if tokio::task::spawn_blocking(job).await.is_err() {
                        tracing::error!(%run, "a snapshot or roll-back failed without a word");
                    }
                }
            });
            sender
        });
        let _ = lane.send(job);
    }
}

impl Trees {
    fn open(&self, run: RunId) -> Result<store::Workspace, String> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let workspace = match open.iter().position(|(of, _)| *of == run) {
            Some(at) => open.remove(at).1,
            None => self.read(run)?,
        };
        if open.len() >= MOST_OPEN {
            open.remove(0);
        }
        open.push((run, workspace.clone()));
        Ok(workspace)
    }

    fn read(&self, run: RunId) -> Result<store::Workspace, String> {
        let charter = Charter::read(&*self.journal, run).map_err(|error| view::with_causes(&error))?;
        let tree = store::Tree::open_or_create(&self.layout.tree(charter.mission.project));
        tree.and_then(|tree| tree.workspace_open(&charter.started.branch, &self.layout.workspace(run)))
            .map_err(|error| view::with_causes(&error))
    }

    fn snapshot_now(&self, run: RunId) -> Result<String, String> {
        let snapshot = self.open(run)?.snapshot().map_err(|error| view::with_causes(&error))?;
        Ok(snapshot.tree.hex().to_owned())
    }

    fn restore_now(&self, run: RunId, snapshot: &str) -> Result<(), String> {
        let words = |error: store::Error| view::with_causes(&error);
        let tree: TreeId = snapshot.parse().map_err(|_| format!("`{snapshot}` is no snapshot"))?;
        let workspace = self.open(run)?;
        // A setup begins with what the commit has: no snapshot holds what one has left half made.
        let charter = Charter::read(&*self.journal, run).map_err(|error| view::with_causes(&error))?;
        if charter.mission.environment.is_some() && !workspace.is_set_up() {
            workspace.clean().map_err(words)?;
        }
        workspace.restore(&tree).map_err(words)
    }
}

impl Workspaces for StoreWorkspaces {
    fn snapshot(&self, run: RunId, inbox: Arc<dyn Inbox>) {
        let trees = Arc::clone(&self.trees);
        self.queue(
            run,
            Box::new(move || {
                inbox.send(trees.snapshot_now(run).map_or_else(failed, Input::Snapshotted));
            }),
        );
    }

    fn restore(&self, run: RunId, step: StepNo, snapshot: &str, inbox: Arc<dyn Inbox>) {
        let (trees, snapshot) = (Arc::clone(&self.trees), snapshot.to_owned());
        self.queue(
            run,
            Box::new(move || {
                let restored = trees.restore_now(run, &snapshot);
                inbox.send(restored.map_or_else(failed, |()| Input::Restored(step)));
            }),
        );
    }
}

fn failed(hint: String) -> Input {
    Input::WorkspaceFailed(Refused { code: "workspace.failed".into(), hint })
}
