//! The kernel's workspace port over the store.

use std::sync::Arc;

use domain::{RunId, StepNo};
use kernel::machine::Input;
use kernel::port::{Inbox, Journal, Refused, Workspaces};
use store::{TreeId, Treeish as _};

use crate::layout::Layout;
use crate::runs::Charter;
use crate::view;

/// Snapshots and roll-backs in the git dir of the run's project.
#[derive(Clone)]
pub struct StoreWorkspaces {
    layout: Layout,
    journal: Arc<dyn Journal>,
}

impl StoreWorkspaces {
    /// The workspaces of an installation.
    pub fn new(layout: Layout, journal: Arc<dyn Journal>) -> Self {
        Self { layout, journal }
    }

    fn open(&self, run: RunId) -> Result<store::Workspace, String> {
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
        let tree: TreeId = snapshot.parse().map_err(|_| format!("`{snapshot}` is no snapshot"))?;
        self.open(run)?.restore(&tree).map_err(|error| view::with_causes(&error))
    }
}

impl Workspaces for StoreWorkspaces {
    fn snapshot(&self, run: RunId, inbox: Arc<dyn Inbox>) {
        let this = self.clone();
        tokio::task::spawn_blocking(move || {
            inbox.send(this.snapshot_now(run).map_or_else(failed, Input::Snapshotted));
        });
    }

    fn restore(&self, run: RunId, step: StepNo, snapshot: &str, inbox: Arc<dyn Inbox>) {
        let (this, snapshot) = (self.clone(), snapshot.to_owned());
        tokio::task::spawn_blocking(move || {
            inbox.send(this.restore_now(run, &snapshot).map_or_else(failed, |()| Input::Restored(step)));
        });
    }
}

fn failed(hint: String) -> Input {
    Input::WorkspaceFailed(Refused { code: "workspace.failed".into(), hint })
}
