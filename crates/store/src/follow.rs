//! A branch follows the line that it is meant for: what others have merged since comes into the branch
//! and its workspace, so that what is judged is what a merge will give.

use std::path::PathBuf;

use crate::error::{Doing as _, Error};
use crate::git::{self, Git, to_path};
use crate::id::{Commit, TreeId, Treeish as _};
use crate::message::{Message, Signature};
use crate::tree::{Merged, Tree, branch_ref};
use crate::workspace::Workspace;

/// How a conflict begins and ends in a file.
const MARKS: [&[u8]; 2] = [b"<<<<<<< ", b">>>>>>> "];

/// A branch that contains its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    /// The head of the branch.
    pub head: Commit,
    /// What its own changes are counted against: what it started from, on the line as it is now.
    pub base: Commit,
    /// Paths that both sides changed in the same places. They hold both versions between marks.
    pub conflicts: Vec<PathBuf>,
}

impl Workspace {
    /// Merges the line of the owner's branch `line` into the branch, from its commit `head` on, and makes
    /// the files what that gives. `start` is what the branch began from. `None`: the line has nothing new.
    ///
    /// `message` carries the key under which this happens once; repeating it is harmless.
    ///
    /// # Errors
    /// When git fails or the files cannot be written. A conflict is none.
    pub fn follow(
        &self,
        line: &str,
        head: &Commit,
        start: &Commit,
        message: &Message,
        signature: &Signature,
    ) -> Result<Option<Followed>, Error> {
        let tree = self.tree();
        let hold = tree.lock()?;
        let reference = branch_ref(self.branch())?;
        let current = tree.branch_head(self.branch())?;
        if let Some(key) = message.key()
            && tree.commit_has_key(&current, key)?
            && let (Some(ours), Some(theirs)) = (tree.parent(&current, 1)?, tree.parent(&current, 2)?)
        {
            // It was interrupted after the branch had moved.
            let (merged, conflicts) = tree.merge_marked(&ours, &theirs)?;
            self.restore(&merged)?;
            let base = tree.base(self.branch())?.unwrap_or(theirs);
            return Ok(Some(Followed { head: current, base, conflicts }));
        }
        let Some(theirs) = tree.line_head(line)? else { return Ok(None) };
        if tree.is_ancestor(&theirs, head)? {
            return Ok(None);
        }
        let (merged, conflicts) = tree.merge_marked(head, &theirs)?;
        let base = tree.start_on(&theirs, start, signature)?;
        let commit = tree.commit_write(&merged, &[head, &theirs], message, signature)?;
        let bases = base_ref(self.branch());
        tree.ref_move(&hold, &bases, &base, tree.ref_head(&bases)?.as_ref())?;
        tree.ref_move(&hold, &reference, &commit, Some(&current))?;
        drop(hold);
        self.restore(&merged)?;
        Ok(Some(Followed { head: commit, base, conflicts }))
    }
}

impl Tree {
    /// What the changes of a branch that has followed its line are counted against; `None` while it has
    /// not.
    ///
    /// # Errors
    /// When git fails.
    pub fn base(&self, branch: &str) -> Result<Option<Commit>, Error> {
        branch_ref(branch)?;
        self.ref_head(&base_ref(branch))
    }

    /// The head of a branch before it followed its line, from the commit that it followed with; `None`
    /// when that commit is no merge.
    ///
    /// # Errors
    /// When git fails.
    pub fn before_following(&self, commit: &Commit) -> Result<Option<Commit>, Error> {
        Ok(self.parent(commit, 2)?.and(self.parent(commit, 1)?))
    }

    /// Those of the paths whose content in `commit` still has the marks of a conflict.
    ///
    /// # Errors
    /// When git fails.
    pub fn unresolved(&self, commit: &Commit, paths: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
        const DOING: &str = "look for marks of a conflict";
        let mut left = Vec::new();
        for path in paths {
            let mut name = std::ffi::OsString::from(format!("{commit}:"));
            name.push(path);
            let blob =
                Git::at(self.git_dir(), "cat-file").args(["blob"]).arg(&name).outcome().doing(DOING)?;
            // A path that is gone is resolved.
            let has =
                |mark: &[u8]| blob.stdout.split(|byte| *byte == b'\n').any(|line| line.starts_with(mark));
            if blob.code == 0 && MARKS.iter().all(|mark| has(mark)) {
                left.push(path.clone());
            }
        }
        Ok(left)
    }

    /// The tree that merging two commits gives, and the paths in it that hold both versions.
    fn merge_marked(&self, ours: &Commit, theirs: &Commit) -> Result<(TreeId, Vec<PathBuf>), Error> {
        const DOING: &str = "merge the line into the branch";
        let outcome = Git::at(self.git_dir(), "merge-tree")
            .args(["--write-tree", "-z", "--name-only", "--no-messages"])
            .args([ours.hex(), theirs.hex()])
            .outcome()
            .doing(DOING)?;
        if !matches!(outcome.code, 0 | 1) {
            return Err(outcome.failure("merge-tree")).doing(DOING);
        }
        let mut fields = git::split_nul(&outcome.stdout);
        let tree = fields.next().and_then(|name| std::str::from_utf8(name).ok()?.parse().ok());
        let tree = tree.ok_or_else(|| git::unreadable("merge-tree")).doing(DOING)?;
        Ok((tree, fields.map(to_path).collect()))
    }

    /// What a branch began from, as if it had begun on the line as it is now.
    fn start_on(&self, line: &Commit, start: &Commit, signature: &Signature) -> Result<Commit, Error> {
        if self.is_ancestor(start, line)? {
            return Ok(line.clone());
        }
        match self.merge_trees(line, start)? {
            Merged::Clean(tree) => {
                let subject = "What the run started from, on the line as it is now".to_owned();
                let message = Message { subject, ..Message::default() };
                self.commit_write(&tree, &[line, start], &message, signature)
            }
            Merged::Conflict(_) => Ok(line.clone()),
        }
    }
}

pub(crate) fn base_ref(branch: &str) -> String {
    format!("refs/bases/{branch}")
}
