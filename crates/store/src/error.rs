//! What can go wrong with the tree and its workspaces.

use std::io;
use std::path::{Path, PathBuf};

use crate::id::Commit;
use crate::{git, owner};

/// A failure of the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The owner's repository cannot be used as it is.
    #[error(transparent)]
    Owner(owner::Error),
    /// git failed.
    #[error("git could not {doing}: see the cause, mend it and repeat")]
    Git {
        /// What was being done.
        doing: &'static str,
        /// How it failed.
        #[source]
        source: git::Error,
    },
    /// The file system failed.
    #[error("could not {doing} at {}: see the cause, mend it and repeat", .path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// The name cannot be that of a branch.
    #[error("`{name}` is not a branch name of the form <role>/<run>: use letters, digits, `-`, `_`")]
    BranchName {
        /// The name.
        name: String,
    },
    /// There is no such branch.
    #[error("there is no branch `{name}` in this tree: start the run again")]
    BranchMissing {
        /// The name.
        name: String,
    },
    /// The branch is there already, with other content.
    #[error("the branch `{name}` exists and stands elsewhere: take another run id")]
    BranchExists {
        /// The name.
        name: String,
    },
    /// Somebody moved the branch in between.
    #[error("the branch `{name}` stands at {found}, not at {expected}: look again and repeat")]
    Moved {
        /// The branch.
        name: String,
        /// Where it should stand.
        expected: Commit,
        /// Where it stands.
        found: Commit,
    },
    /// Both sides changed the same places.
    #[error("cannot merge cleanly, {} file(s) changed on both sides: {}", .paths.len(), list(.paths))]
    Conflict {
        /// The files.
        paths: Vec<PathBuf>,
    },
    /// The owner's branch and Regie's line of it changed the same places.
    #[error("`{branch}` and Regie's line of it have diverged in {}: merge the line into your branch", list(.paths))]
    Diverged {
        /// The owner's branch.
        branch: String,
        /// The files.
        paths: Vec<PathBuf>,
    },
    /// The branch brings nothing new.
    #[error("the branch `{name}` has nothing to merge: it changed nothing")]
    NothingToMerge {
        /// The branch.
        name: String,
    },
    /// The bytes of the owner's files are not those that git records.
    #[error("your uncommitted changes cannot be taken along, {what}: commit them, or start without --dirty")]
    Altered {
        /// What alters them.
        what: String,
    },
    /// The commit is no merge on the line.
    #[error("{commit} is no merge on Regie's line of `{line}`: nothing of it can be undone")]
    NotMerged {
        /// The commit.
        commit: Commit,
        /// The owner's branch.
        line: String,
    },
    /// What the merge brought is gone already.
    #[error("what {commit} brought is not there any more: there is nothing to undo")]
    NothingToUndo {
        /// The merge.
        commit: Commit,
    },
    /// The directory for a workspace holds other files.
    #[error("{} is not empty and no workspace of this tree: choose another directory", .dir.display())]
    Occupied {
        /// The directory.
        dir: PathBuf,
    },
    /// The tree has no room for it, by its owner's word.
    #[error("{what} would take {wanted} of {limit} that the quota allows: make room, or raise the quota")]
    Quota {
        /// What is counted: bytes or files.
        what: &'static str,
        /// How many there would be.
        wanted: u64,
        /// How many there may be.
        limit: u64,
    },
    /// What is on disk is not what was written.
    #[error("{} is damaged, {why}: bring it back from a backup; nothing was changed", .path.display())]
    Corrupt {
        /// The file or directory.
        path: PathBuf,
        /// How it shows.
        why: String,
    },
    /// Something changed while it was being recorded, or a directory became a repository.
    #[error("{} changed while it was recorded: repeat when the run is quiet", .path.display())]
    Unstable {
        /// The path.
        path: PathBuf,
    },
}

/// Says what was being done when git or the file system failed.
pub(crate) trait Doing<T> {
    fn doing(self, doing: &'static str) -> Result<T, Error>;
}

impl<T> Doing<T> for Result<T, git::Error> {
    fn doing(self, doing: &'static str) -> Result<T, Error> {
        self.map_err(|source| Error::Git { doing, source })
    }
}

/// Says what was being done and where when the file system failed.
pub(crate) trait DoingAt<T> {
    fn doing_at(self, doing: &'static str, path: &Path) -> Result<T, Error>;
}

impl<T> DoingAt<T> for io::Result<T> {
    fn doing_at(self, doing: &'static str, path: &Path) -> Result<T, Error> {
        self.map_err(|source| Error::Io { doing, path: path.to_owned(), source })
    }
}

/// The first few names of a list, for a message of one line.
pub(crate) fn list(paths: &[PathBuf]) -> String {
    let mut text: Vec<_> = paths.iter().take(3).map(|p| format!("{p:?}")).collect();
    if paths.len() > 3 {
        text.push(format!("and {} more", paths.len() - 3));
    }
    text.join(", ")
}
