//! Forgetting what a run left in the store: its refs, and at once all that nothing else refers to.

use crate::error::{Doing as _, Error};
use crate::follow::base_ref;
use crate::forked::held_ref;
use crate::git::Git;
use crate::keep::reference;
use crate::recycle::{RESTORED, bin_ref};
use crate::tree::{Tree, branch_ref};
use crate::workspace::remove_if_there;

impl Tree {
    /// Takes away every ref that is held for a run: its branch, what came back of it, its snapshots, what its
    /// workspace held, its entry in the bin. What is not there is no matter.
    ///
    /// # Errors
    /// [`Error::BranchName`], or when git cannot move the refs.
    pub fn run_purge(&self, branch: &str, run: &str) -> Result<(), Error> {
        let own = branch_ref(branch)?;
        let back = branch_ref(&format!("{RESTORED}/{run}"))?;
        let kept = [reference("left", run)?, reference("kept", run)?];
        let hold = self.lock()?;
        for reference in
            [bin_ref(branch)?, base_ref(branch), held_ref(&own), back, own].into_iter().chain(kept)
        {
            remove_if_there(&self.git_dir().join(format!("{reference}.lock")))?;
            let git = Git::at(self.git_dir(), "update-ref").args(["-d", reference.as_str()]).under(&hold);
            git.run().doing("forget a run")?;
        }
        Ok(())
    }

    /// As [`collect`](Self::collect), but what nothing refers to goes at once, however young it is. Nobody may
    /// have a run under way in this tree, and what workspaces hold must be under refs.
    ///
    /// # Errors
    /// When git fails; nothing that refs reach is lost by it.
    pub fn collect_all(&self) -> Result<(), Error> {
        let hold = self.lock()?;
        remove_if_there(&self.git_dir().join("gc.pid"))?;
        let git = Git::at(self.git_dir(), "gc").args(["-q", "--prune=now"]).under(&hold);
        git.run().map(|_| ()).doing("clean the store up")
    }
}
