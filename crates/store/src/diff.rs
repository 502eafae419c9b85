//! What changed between two trees: per file for the eye, and as a patch.

use std::path::PathBuf;

use crate::error::{Doing as _, Error};
use crate::git::{self, Git, to_path};
use crate::id::Treeish;
use crate::tree::Tree;

/// The longest patch that is kept, in bytes.
const PATCH_LIMIT: usize = 8 << 20;

/// The difference between two trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diff {
    /// One entry per changed file, in the order of their names.
    pub files: Vec<FileChange>,
    /// The unified diff.
    pub patch: Vec<u8>,
    /// Whether the patch was cut at 8 MiB; `files` is always complete.
    pub patch_cut: bool,
}

/// What happened to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// Its name now (before, when it was deleted); names are bytes.
    pub path: PathBuf,
    /// What happened.
    pub status: Status,
    /// Lines added; `None` for binary content.
    pub added: Option<u64>,
    /// Lines removed; `None` for binary content.
    pub removed: Option<u64>,
}

/// What happened to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is new.
    Added,
    /// It is gone.
    Deleted,
    /// Its content or its executable bit changed.
    Modified,
    /// It became a symbolic link, a file or a submodule.
    TypeChanged,
    /// It has another name, and maybe other content.
    Renamed {
        /// Its name before.
        from: PathBuf,
    },
}

impl Diff {
    /// Lines added and removed over all text files.
    pub fn totals(&self) -> (u64, u64) {
        totals(&self.files)
    }
}

/// Lines added and removed over all text files.
pub(crate) fn totals(files: &[FileChange]) -> (u64, u64) {
    let added = files.iter().filter_map(|file| file.added).sum();
    (added, files.iter().filter_map(|file| file.removed).sum())
}

impl Tree {
    /// Compares two trees, renames detected.
    ///
    /// # Errors
    /// [`Error::Git`] when one of them is not in this tree's store.
    pub fn diff(&self, from: &impl Treeish, to: &impl Treeish) -> Result<Diff, Error> {
        let files = self.file_changes(from, to)?;
        let outcome = Git::at(self.git_dir(), "diff-tree")
            .args(["-r", "-p", "-M", "--full-index", "--no-ext-diff", "--no-textconv"])
            .args(["--no-color", "--submodule=short", from.hex(), to.hex()])
            .limit(PATCH_LIMIT)
            .outcome()
            .doing("write the patch")?;
        if !outcome.truncated && outcome.code != 0 {
            return Err(outcome.failure("diff-tree")).doing("write the patch");
        }
        Ok(Diff { files, patch: outcome.stdout, patch_cut: outcome.truncated })
    }

    /// The files of [`Tree::diff`], without the patch.
    pub(crate) fn file_changes(
        &self,
        from: &impl Treeish,
        to: &impl Treeish,
    ) -> Result<Vec<FileChange>, Error> {
        let out = Git::at(self.git_dir(), "diff-tree")
            .args(["-r", "-z", "-M", "--raw", "--numstat", "--no-ext-diff", "--no-textconv"])
            .args([from.hex(), to.hex()])
            .run()
            .doing("compare two trees")?;
        parse(&out).ok_or_else(|| git::unreadable("diff-tree")).doing("compare two trees")
    }
}

/// Reads the raw entries and then the counts; git gives both in the same order.
fn parse(out: &[u8]) -> Option<Vec<FileChange>> {
    let mut fields = out.split(|b| *b == 0);
    let mut files = Vec::new();
    let mut counted = 0;
    while let Some(field) = fields.next() {
        if field.is_empty() {
            continue;
        }
        if field.first() == Some(&b':') {
            let letter = *field.rsplit(|b| *b == b' ').next()?.first()?;
            let first = to_path(fields.next()?);
            let (path, status) = match letter {
                b'A' => (first, Status::Added),
                b'D' => (first, Status::Deleted),
                b'M' => (first, Status::Modified),
                b'T' => (first, Status::TypeChanged),
                b'R' => (to_path(fields.next()?), Status::Renamed { from: first }),
                _ => return None,
            };
            files.push(FileChange { path, status, added: None, removed: None });
            continue;
        }
        let mut parts = field.splitn(3, |b| *b == b'\t');
        let file: &mut FileChange = files.get_mut(counted)?;
        file.added = count(parts.next()?)?;
        file.removed = count(parts.next()?)?;
        if parts.next()?.is_empty() {
            // A rename: both names follow as fields of their own.
            fields.next()?;
            fields.next()?;
        }
        counted += 1;
    }
    (counted == files.len()).then_some(files)
}

/// A number of lines, or `-` for binary content.
fn count(field: &[u8]) -> Option<Option<u64>> {
    match std::str::from_utf8(field).ok()? {
        "-" => Some(None),
        digits => digits.parse().ok().map(Some),
    }
}
