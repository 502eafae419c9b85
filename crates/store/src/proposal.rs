//! Proposals: a branch asking to be merged into a line, and the merge itself.

use crate::diff::{FileChange, totals};
use crate::error::{Doing as _, Error};
use crate::git::{self, Git};
use crate::id::{Commit, Treeish as _};
use crate::message::{Message, Signature};
use crate::tree::{Merged, Tree, branch_ref, line_ref};

/// A branch that asks to be merged into Regie's line of an owner's branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The branch of the run.
    pub branch: String,
    /// The owner's branch whose line it would enter.
    pub line: String,
    /// Where branch and line part.
    pub base: Commit,
    /// The head of the branch: exactly this is merged.
    pub head: Commit,
    /// The head of the line when the proposal was made.
    pub line_head: Commit,
    /// What the branch changed since `base`.
    pub files: Vec<FileChange>,
    /// Lines added over all text files.
    pub added: u64,
    /// Lines removed over all text files.
    pub removed: u64,
}

impl Tree {
    /// Says what the branch `branch` would bring into the line of the owner's branch `line`.
    ///
    /// # Errors
    /// [`Error::BranchMissing`] when one of them is not there.
    pub fn propose(&self, branch: &str, line: &str) -> Result<Proposal, Error> {
        let head = self.branch_head(branch)?;
        let line_head = self.line_head(line)?;
        let line_head = line_head.ok_or_else(|| Error::BranchMissing { name: line.to_owned() })?;
        let base: Commit = Git::at(self.git_dir(), "merge-base")
            .args([line_head.hex(), head.hex()])
            .object()
            .doing("find where the branch began")?;
        let files = self.file_changes(&base, &head)?;
        let (added, removed) = totals(&files);
        Ok(Proposal {
            branch: branch.to_owned(),
            line: line.to_owned(),
            base,
            head,
            line_head,
            files,
            added,
            removed,
        })
    }

    /// Merges the head of `proposal` into its line with a commit of two parents, and gives it.
    ///
    /// The line moves only from `expected_line_head`. The same `key` again, with the same expected
    /// head, gives the commit that was made the first time.
    ///
    /// # Errors
    /// [`Error::Conflict`], [`Error::Moved`] when the line stands elsewhere,
    /// [`Error::NothingToMerge`].
    pub fn merge(
        &self,
        proposal: &Proposal,
        message: &Message,
        signature: &Signature,
        key: &str,
        expected_line_head: &Commit,
    ) -> Result<Commit, Error> {
        branch_ref(&proposal.branch)?;
        let hold = self.lock()?;
        let found = self.line_head(&proposal.line)?;
        let found = found.ok_or_else(|| Error::BranchMissing { name: proposal.line.clone() })?;
        if found != *expected_line_head {
            return match self.merged_under(key, expected_line_head, &found)? {
                Some(merge) => Ok(merge),
                None => Err(Error::Moved {
                    name: format!("lines/{}", proposal.line),
                    expected: expected_line_head.clone(),
                    found,
                }),
            };
        }
        if self.is_ancestor(&proposal.head, &found)? {
            return Err(Error::NothingToMerge { name: proposal.branch.clone() });
        }
        let tree = match self.merge_trees(&found, &proposal.head)? {
            Merged::Clean(tree) => tree,
            Merged::Conflict(paths) => return Err(Error::Conflict { paths }),
        };
        let parents = [&found, &proposal.head];
        let merge = self.commit_write(&tree, &parents, &message.keyed(key), signature)?;
        self.ref_move(&hold, &line_ref(&proposal.line), &merge, Some(&found))?;
        Ok(merge)
    }

    /// The merge that was made under `key` on the line since `from`, if there is one.
    fn merged_under(&self, key: &str, from: &Commit, to: &Commit) -> Result<Option<Commit>, Error> {
        let list = Git::at(self.git_dir(), "rev-list")
            .args(["--first-parent", "--merges", "--max-count=1000"])
            .arg(format!("{from}..{to}"))
            .run()
            .doing("look for an earlier merge")?;
        for name in String::from_utf8_lossy(&list).lines() {
            let commit = name.parse().map_err(|_| git::unreadable("rev-list"));
            let commit = commit.doing("look for an earlier merge")?;
            if self.commit_has_key(&commit, key)? {
                return Ok(Some(commit));
            }
        }
        Ok(None)
    }
}
