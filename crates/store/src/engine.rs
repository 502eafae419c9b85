//! What every engine of a tree does: commits that are there whole or not at all, cheap forks, snapshots that
//! nobody can change, differences, roll-back, and the merge of a branch or the paths that are in its way.
//!
//! | engine | for | a fork costs | what it leaves out of a snapshot |
//! |---|---|---|---|
//! | [`Git`] | repositories; the default | one ref | what `.gitignore` names, empty directories |
//! | [`Plain`] | small data where no git is | one file | empty directories |
//!
//! Neither records special files, nor anything whose name some system takes for that of a git dir. One
//! behaviour suite (`tests/it/contract.rs`) holds both to the same answers, so that a third engine fits later.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::id::{Commit, TreeId};
use crate::message::{Message, Provenance, Signature};

mod git;
pub mod plain;

pub use git::Git;
pub use plain::Plain;

/// The files of one branch, in a directory that has exactly one writer.
#[derive(Clone, Copy, Debug)]
pub struct Checkout<'a> {
    /// The branch, `<role>/<run>`.
    pub branch: &'a str,
    /// Where its files are.
    pub dir: &'a Path,
    /// Now, in seconds since 1970: what is made here lives on from this moment.
    pub now: i64,
}

/// What a commit says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The commits that it comes after; the first is the line's.
    pub parents: Vec<Commit>,
    /// The files.
    pub files: TreeId,
    /// The first line of its message.
    pub subject: String,
    /// Who acted, for whom, in which run, under which lease: what the last paragraph of the message says, which
    /// only Regie writes.
    pub provenance: Provenance,
    /// The name that it was committed under. Whoever can commit chooses it.
    pub by: String,
    /// When, in seconds since 1970.
    pub seconds: i64,
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// A file.
    File,
    /// A file that may be executed.
    Program,
    /// A symbolic link.
    Link,
    /// The commit of a submodule.
    Submodule,
}

/// A path that differs between two trees. A rename is a path that is gone and one that is new.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// The path; names are bytes.
    pub path: PathBuf,
    /// What was there.
    pub before: Option<Mode>,
    /// What is there.
    pub after: Option<Mode>,
}

/// A branch in the recycle bin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binned {
    /// Its name.
    pub name: String,
    /// Its head.
    pub head: Commit,
    /// The files that come back: those of the head, or what its workspace held.
    pub files: TreeId,
    /// When it was put there, in seconds since 1970.
    pub at: i64,
}

/// An engine of one tree.
///
/// Names of branches are `<role>/<run>`; `lines/<name>` is a line, which moves by a merge alone. Whoever moves
/// a branch says where it stands: of two writers the second is refused with [`Error::Moved`]. When a call
/// fails, every branch stands where it stood.
pub trait Engine: Debug + Send + Sync {
    /// The name of the engine, for people.
    fn name(&self) -> &'static str;

    /// Begins a line or a branch with a commit of no files.
    ///
    /// # Errors
    /// [`Error::BranchName`], [`Error::BranchExists`].
    fn begin(&self, name: &str, message: &Message, signature: &Signature) -> Result<Commit, Error>;

    /// Opens a branch at a commit. Repeating it is harmless.
    ///
    /// # Errors
    /// [`Error::BranchName`], [`Error::BranchExists`] when it stands elsewhere.
    fn fork(&self, name: &str, at: &Commit, now: i64) -> Result<(), Error>;

    /// Where a branch or a line stands.
    ///
    /// # Errors
    /// [`Error::BranchMissing`].
    fn head(&self, name: &str) -> Result<Commit, Error>;

    /// All branches and lines.
    ///
    /// # Errors
    /// When they cannot be read.
    fn heads(&self) -> Result<BTreeMap<String, Commit>, Error>;

    /// Writes the files of a branch into a directory that is empty or absent.
    ///
    /// # Errors
    /// [`Error::Occupied`], [`Error::BranchMissing`].
    fn checkout(&self, at: Checkout<'_>) -> Result<(), Error>;

    /// Records the files as they are; no branch moves.
    ///
    /// # Errors
    /// [`Error::Quota`], [`Error::Unstable`] when files change meanwhile.
    fn snapshot(&self, at: Checkout<'_>) -> Result<TreeId, Error>;

    /// Makes the files equal to a snapshot again.
    ///
    /// # Errors
    /// When a file cannot be written; repeating it is safe.
    fn restore(&self, at: Checkout<'_>, files: &TreeId) -> Result<(), Error>;

    /// Commits the files as they are; `None` when the branch holds them already.
    ///
    /// # Errors
    /// [`Error::Moved`] when the branch does not stand at `expected`, [`Error::Quota`].
    fn commit(
        &self,
        at: Checkout<'_>,
        expected: &Commit,
        message: &Message,
        signature: &Signature,
    ) -> Result<Option<Commit>, Error>;

    /// What a commit says.
    ///
    /// # Errors
    /// When it is not there, or damaged.
    fn record(&self, commit: &Commit) -> Result<Record, Error>;

    /// What differs between two trees, by path.
    ///
    /// # Errors
    /// When one of them is not there, or damaged.
    fn diff(&self, from: &TreeId, to: &TreeId) -> Result<Vec<Change>, Error>;

    /// What differs between a directory as it is and a tree.
    ///
    /// # Errors
    /// As [`Engine::snapshot`] and [`Engine::diff`].
    fn changed(&self, at: Checkout<'_>, since: &TreeId) -> Result<Vec<Change>, Error> {
        self.diff(since, &self.snapshot(at)?)
    }

    /// Merges a commit into a line or a branch with a commit of two parents. An engine may merge within a file;
    /// one that does not names the file.
    ///
    /// # Errors
    /// [`Error::Conflict`] with the paths, [`Error::Moved`], [`Error::NothingToMerge`].
    fn merge(
        &self,
        from: &Commit,
        into: &str,
        expected: &Commit,
        message: &Message,
        signature: &Signature,
    ) -> Result<Commit, Error>;

    /// Holds everything that branches, lines and the bin reach against its name.
    ///
    /// # Errors
    /// [`Error::Corrupt`], which names the first thing that is damaged.
    fn verify(&self) -> Result<(), Error>;

    /// Puts a branch into the recycle bin. It is a branch no more, and nothing of it is lost. Repeating it is
    /// harmless; a line is refused.
    ///
    /// # Errors
    /// [`Error::BranchName`], [`Error::BranchMissing`].
    fn recycle(&self, name: &str, now: i64) -> Result<(), Error>;

    /// What is in the bin, by name.
    ///
    /// # Errors
    /// When it cannot be read.
    fn bin(&self) -> Result<Vec<Binned>, Error>;

    /// Brings a branch back out of the bin, under a name that is free.
    ///
    /// # Errors
    /// [`Error::BranchMissing`] when it is not in the bin, [`Error::BranchExists`].
    fn bin_restore(&self, name: &str, to: &str, now: i64) -> Result<Commit, Error>;

    /// Lets go of what the bin holds under a name.
    ///
    /// # Errors
    /// [`Error::BranchMissing`] when it is not in the bin.
    fn bin_empty(&self, name: &str) -> Result<(), Error>;
}

/// Whether a name can be that of a line: letters, digits, `-`, `_` and `.`, no path.
fn is_line(name: &str) -> bool {
    let first_ok = name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    let rest_ok = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    first_ok
        && rest_ok
        && name.len() <= 100
        && !name.contains("..")
        && !name.ends_with(['.'])
        && !name.ends_with(".lock")
}
