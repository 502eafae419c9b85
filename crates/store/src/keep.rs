//! What stays when a git dir is cleaned up. Snapshots are reachable from no branch, so those that are on
//! record, and what a workspace held when it was taken away, are held by refs of their own.

use std::collections::BTreeSet;
use std::fs;

use crate::error::{Doing as _, Error};
use crate::git::{self, Git};
use crate::id::{TreeId, Treeish as _};
use crate::snapshot::{Skipped, Snapshot, Why};
use crate::tree::Tree;
use crate::workspace::{Workspace, remove_if_there};

/// How long what nothing refers to stays: whatever was just written is not yet on record.
const PRUNE: &str = "--prune=2.weeks.ago";

impl Tree {
    /// Holds the snapshots of a run, those that are still there, in place of what was held for it.
    ///
    /// # Errors
    /// When git fails, or `run` is no plain name.
    pub fn keep(&self, run: &str, snapshots: &BTreeSet<TreeId>) -> Result<(), Error> {
        const DOING: &str = "keep the snapshots of a run";
        let reference = reference("kept", run)?;
        if snapshots.is_empty() {
            return Ok(());
        }
        let names: String = snapshots.iter().map(|tree| format!("{tree}\n")).collect();
        let found = Git::at(self.git_dir(), "cat-file")
            .args(["--batch-check=%(objectname) %(objecttype)"])
            .stdin(names.into_bytes())
            .run()
            .doing(DOING)?;
        let found = String::from_utf8_lossy(&found);
        let there = found.lines().filter_map(|line| line.strip_suffix(" tree"));
        let entries: String = there.map(|tree| format!("040000 tree {tree}\t{tree}\n")).collect();
        if entries.is_empty() {
            return Ok(());
        }
        let all: TreeId =
            Git::at(self.git_dir(), "mktree").stdin(entries.into_bytes()).object().doing(DOING)?;
        self.point(&reference, &all)
    }

    /// Holds what was in the workspace of a run when it was taken away.
    ///
    /// # Errors
    /// When git fails, or `run` is no plain name.
    pub fn leave(&self, run: &str, files: &TreeId) -> Result<(), Error> {
        self.point(&reference("left", run)?, files)
    }

    /// What was in the workspace of a run when it was taken away.
    ///
    /// # Errors
    /// When git fails, or `run` is no plain name.
    pub fn left(&self, run: &str) -> Result<Option<TreeId>, Error> {
        let outcome = Git::at(self.git_dir(), "rev-parse")
            .args(["-q", "--verify"])
            .arg(format!("{}^{{tree}}", reference("left", run)?))
            .outcome()
            .doing("find what a workspace held")?;
        if outcome.code != 0 {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&outcome.stdout);
        let name = text.trim().parse().map(Some).map_err(|_| git::unreadable("rev-parse"));
        name.doing("find what a workspace held")
    }

    /// Objects that lie in files of their own.
    pub fn loose_objects(&self) -> usize {
        let folders = fs::read_dir(self.git_dir().join("objects")).into_iter().flatten().flatten();
        let hashed = folders.filter(|entry| entry.file_name().len() == 2);
        hashed.map(|entry| fs::read_dir(entry.path()).map_or(0, Iterator::count)).sum()
    }

    /// Packs what refs reach, and lets go of what nothing has referred to for two weeks. Nobody may have
    /// a run under way in this tree: its index would not be seen.
    ///
    /// # Errors
    /// When git fails; nothing that refs reach is lost by it.
    pub fn collect(&self) -> Result<(), Error> {
        let hold = self.lock()?;
        // The mark of a collection that was killed: under the hold nobody else can have made it.
        remove_if_there(&self.git_dir().join("gc.pid"))?;
        Git::at(self.git_dir(), "gc")
            .args(["-q", PRUNE])
            .under(&hold)
            .run()
            .map(|_| ())
            .doing("clean the store up")
    }

    fn point(&self, reference: &str, tree: &TreeId) -> Result<(), Error> {
        let hold = self.lock()?;
        remove_if_there(&self.git_dir().join(format!("{reference}.lock")))?;
        let git = Git::at(self.git_dir(), "update-ref").args([reference, tree.hex()]);
        git.under(&hold).run().map(|_| ()).doing("keep files of a run")
    }
}

/// A workspace whose files are recorded for good. Until it is dropped nobody else works on it: what is
/// taken away under a snapshot would be an empty one.
#[derive(Debug)]
pub struct PutBy {
    /// What no tree can hold although somebody may want it. The workspace may go when that is nothing.
    pub skipped: Vec<Skipped>,
    _hold: Workspace,
}

impl Workspace {
    /// Records the files for good, under the name of the run.
    ///
    /// # Errors
    /// As [`Workspace::snapshot`].
    pub fn put_by(&self, run: &str) -> Result<PutBy, Error> {
        let held = self.held()?;
        let Snapshot { tree, skipped } = held.record()?;
        self.tree().leave(run, &tree)?;
        let skipped = skipped.into_iter().filter(|skipped| skipped.why != Why::Special).collect();
        Ok(PutBy { skipped, _hold: held })
    }
}

pub(crate) fn reference(kind: &str, run: &str) -> Result<String, Error> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if !run.is_empty() && run.len() <= 64 && run.bytes().all(plain) {
        Ok(format!("refs/regie/{kind}/{run}"))
    } else {
        Err(Error::BranchName { name: run.chars().take(100).collect() })
    }
}
