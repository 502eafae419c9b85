//! Taking a merge back: a new commit on the line, as `git revert -m 1` makes it. History stays.

use crate::error::{Doing as _, Error};
use crate::git::{self, Git};
use crate::id::Commit;
use crate::message::{Message, Signature};
use crate::tree::{Merged, Tree, line_ref};

/// A merge that is to be taken back.
#[derive(Clone, Debug)]
pub struct Undoing<'a> {
    /// The owner's branch.
    pub line: &'a str,
    /// The merge on Regie's line of it.
    pub merge: &'a Commit,
    /// What the run started from. It stays, also where it came to the line by this very merge: it is
    /// the owner's own work.
    pub keep: &'a Commit,
    /// What Regie's line must still be.
    pub expected_line_head: &'a Commit,
}

impl Tree {
    /// Takes a merge back on its line, and gives the new head.
    ///
    /// The line moves only from `expected_line_head`. The same `key` again, with the same expected
    /// head, gives the commit that was made the first time.
    ///
    /// # Errors
    /// [`Error::NotMerged`] when the commit is no merge on the line, [`Error::Conflict`] when what came
    /// later changed the same places, [`Error::NothingToUndo`] when its changes are gone already, and
    /// [`Error::Moved`] when the line stands elsewhere.
    pub fn revert(
        &self,
        undoing: &Undoing<'_>,
        message: &Message,
        signature: &Signature,
        key: &str,
    ) -> Result<Commit, Error> {
        let Undoing { line, merge, keep, expected_line_head } = *undoing;
        let hold = self.lock()?;
        let found = self.line_head(line)?;
        let found = found.ok_or_else(|| Error::BranchMissing { name: line.to_owned() })?;
        if found != *expected_line_head {
            return match self.made_under(key, expected_line_head, &found)? {
                Some(commit) => Ok(commit),
                None => Err(Error::Moved {
                    name: format!("lines/{line}"),
                    expected: expected_line_head.clone(),
                    found,
                }),
            };
        }
        let not_merged = || Error::NotMerged { commit: merge.clone(), line: line.to_owned() };
        if !self.is_ancestor(merge, &found)? {
            return Err(not_merged());
        }
        let (Some(before), Some(_)) = (self.parent(merge, 1)?, self.parent(merge, 2)?) else {
            return Err(not_merged());
        };
        let before = self.with(before, keep, message, signature)?;
        let tree = match self.merge_trees_from(merge, &found, &before)? {
            Merged::Clean(tree) => tree,
            Merged::Conflict(paths) => return Err(Error::Conflict { paths }),
        };
        if tree == self.tree_of(&found)? {
            return Err(Error::NothingToUndo { commit: merge.clone() });
        }
        let commit = self.commit_write(&tree, &[&found], &message.keyed(key), signature)?;
        self.ref_move(&hold, &line_ref(line), &commit, Some(&found))?;
        Ok(commit)
    }

    /// The line before the merge, with what the run started from.
    fn with(
        &self,
        before: Commit,
        keep: &Commit,
        message: &Message,
        signature: &Signature,
    ) -> Result<Commit, Error> {
        if self.is_ancestor(keep, &before)? {
            return Ok(before);
        }
        match self.merge_trees(&before, keep)? {
            Merged::Clean(tree) => self.commit_write(&tree, &[&before, keep], message, signature),
            Merged::Conflict(paths) => Err(Error::Conflict { paths }),
        }
    }

    pub(crate) fn parent(&self, commit: &Commit, number: u8) -> Result<Option<Commit>, Error> {
        self.ref_head(&format!("{commit}^{number}"))
    }

    /// The commit that was made under `key` on the line since `from`, if there is one.
    fn made_under(&self, key: &str, from: &Commit, to: &Commit) -> Result<Option<Commit>, Error> {
        const DOING: &str = "look for an earlier commit";
        let list = Git::at(self.git_dir(), "rev-list")
            .args(["--first-parent", "--max-count=1000"])
            .arg(format!("{from}..{to}"))
            .run()
            .doing(DOING)?;
        for name in String::from_utf8_lossy(&list).lines() {
            let commit = name.parse().map_err(|_| git::unreadable("rev-list")).doing(DOING)?;
            if self.commit_has_key(&commit, key)? {
                return Ok(Some(commit));
            }
        }
        Ok(None)
    }
}
