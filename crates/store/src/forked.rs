//! The files that a fork goes on from: a ref of its own holds them, so that no collection of what is
//! unreachable takes them away. And what is undone of a run that did not begin.

use crate::error::{Doing as _, Error};
use crate::follow::base_ref;
use crate::git::Git;
use crate::id::{TreeId, Treeish as _};
use crate::tree::{Tree, branch_ref};
use crate::workspace::remove_if_there;

impl Tree {
    /// Whether a snapshot is still there.
    ///
    /// # Errors
    /// When git cannot be asked.
    pub fn snapshot_is_there(&self, snapshot: &TreeId) -> Result<bool, Error> {
        let outcome = Git::at(self.git_dir(), "cat-file")
            .args(["-e", &format!("{snapshot}^{{tree}}")])
            .outcome()
            .doing("look for a snapshot")?;
        Ok(outcome.code == 0)
    }

    /// Holds the snapshot that the run of the branch `name` goes on from. Repeating it is harmless.
    ///
    /// # Errors
    /// [`Error::BranchName`], or when git cannot move the ref.
    pub fn snapshot_hold(&self, name: &str, snapshot: &TreeId) -> Result<(), Error> {
        let held = held_ref(&branch_ref(name)?);
        let hold = self.lock()?;
        remove_if_there(&self.git_dir().join(format!("{held}.lock")))?;
        let git = Git::at(self.git_dir(), "update-ref").args([held.as_str(), snapshot.hex()]).under(&hold);
        git.run().map(|_| ()).doing("hold a snapshot")
    }

    /// Takes the branch `name` away, and what is held for it: for a run that did not begin. What is not
    /// there is no matter.
    ///
    /// # Errors
    /// [`Error::BranchName`], or when git cannot move the refs.
    pub fn branch_remove(&self, name: &str) -> Result<(), Error> {
        let branch = branch_ref(name)?;
        let hold = self.lock()?;
        for reference in [held_ref(&branch), base_ref(name), branch] {
            remove_if_there(&self.git_dir().join(format!("{reference}.lock")))?;
            let git = Git::at(self.git_dir(), "update-ref").args(["-d", reference.as_str()]).under(&hold);
            git.run().doing("take a branch away")?;
        }
        Ok(())
    }
}

/// The ref that holds what the run of a branch goes on from.
pub(crate) fn held_ref(branch: &str) -> String {
    branch.replacen("refs/heads/", "refs/regie/forked/", 1)
}
