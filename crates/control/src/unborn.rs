//! What was made in the store for a run that has not begun: it goes again when the run never does.

use std::path::PathBuf;

use store::Tree;

use crate::Control;
use crate::error::Error;
use crate::{missions, view};

/// The branch of a run that is not on record yet. Dropped before the run has begun, it takes the branch
/// away, and what is held for it.
pub(crate) struct Unborn {
    tree: Tree,
    branch: String,
    has_begun: bool,
}

impl Unborn {
    /// For a branch that is about to be made.
    pub(crate) fn new(tree: Tree, branch: &str) -> Self {
        Self { tree, branch: branch.into(), has_begun: false }
    }

    /// The run is on record: its branch stays.
    pub(crate) fn begun(mut self) {
        self.has_begun = true;
    }
}

impl Drop for Unborn {
    fn drop(&mut self) {
        if !self.has_begun
            && let Err(error) = self.tree.branch_remove(&self.branch)
        {
            let error = view::with_causes(&error);
            tracing::warn!(
                branch = self.branch,
                error,
                "the branch of a run that did not begin is left behind"
            );
        }
    }
}

impl Control {
    /// Takes away what was made for a run that could not be put on record.
    pub(crate) async fn take_back(&self, unborn: Unborn, workspace: PathBuf, spool: Option<PathBuf>) {
        let taken: Result<(), Error> = self
            .blocking(move || {
                missions::take_away(&workspace);
                // One that was not made is not there.
                spool.map(std::fs::remove_dir_all);
                drop(unborn);
                Ok(())
            })
            .await;
        if let Err(error) = taken {
            tracing::warn!(%error, "what was made for a run that did not begin is left behind");
        }
    }
}
