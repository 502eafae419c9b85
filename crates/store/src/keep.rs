//! Snapshots that must outlive the run that took them: a ref of their own holds them, so that no
//! collection of what is unreachable takes them away.

use crate::error::{Doing as _, Error};
use crate::git::Git;
use crate::id::{TreeId, Treeish as _};
use crate::tree::{Tree, branch_ref};
use crate::workspace::remove_if_there;

impl Tree {
    /// Whether the store has this tree.
    ///
    /// # Errors
    /// When git cannot be asked.
    pub fn has(&self, tree: &TreeId) -> Result<bool, Error> {
        let outcome = Git::at(self.git_dir(), "cat-file")
            .args(["-e", &format!("{tree}^{{tree}}")])
            .outcome()
            .doing("look for a snapshot")?;
        Ok(outcome.code == 0)
    }

    /// Keeps a tree for as long as the branch `name` of a run counts. Repeating it is harmless.
    ///
    /// # Errors
    /// [`Error::BranchName`], or when git cannot move the ref.
    pub fn keep(&self, name: &str, tree: &TreeId) -> Result<(), Error> {
        let branch = branch_ref(name)?;
        let kept = branch.replacen("refs/heads/", "refs/keeps/", 1);
        let hold = self.lock()?;
        remove_if_there(&self.git_dir().join(format!("{kept}.lock")))?;
        let git = Git::at(self.git_dir(), "update-ref").args([kept.as_str(), tree.hex()]).under(&hold);
        git.run().map(|_| ()).doing("keep a snapshot")
    }
}
