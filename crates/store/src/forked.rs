//! The files that a fork goes on from: a ref of its own holds them, so that no collection of what is
//! unreachable takes them away.

use crate::error::{Doing as _, Error};
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
        let held = branch_ref(name)?.replacen("refs/heads/", "refs/regie/forked/", 1);
        let hold = self.lock()?;
        remove_if_there(&self.git_dir().join(format!("{held}.lock")))?;
        let git = Git::at(self.git_dir(), "update-ref").args([held.as_str(), snapshot.hex()]).under(&hold);
        git.run().map(|_| ()).doing("hold a snapshot")
    }
}
