//! Files that git would take for unchanged although they may not be.
//!
//! Git compares whole seconds. It looks into a file whose time of modification is not older than the index;
//! but one whose time was put back, as `touch -r` does, and that was changed twice within a second at the
//! same size, looks to it as it did. What it noted of such files is taken back before it is asked.

use std::collections::HashSet;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::error::{Doing as _, Error};
use crate::git::{split_nul, to_path};
use crate::workspace::Workspace;

/// Collects them.
#[derive(Debug, Default)]
pub(crate) struct Doubt {
    /// The second in which the index was written.
    written: Option<i64>,
    files: HashSet<PathBuf>,
}

impl Doubt {
    /// With the index as it is now.
    pub(crate) fn of(workspace: &Workspace) -> Self {
        let meta = workspace.index_path().symlink_metadata();
        Self { written: meta.ok().map(|meta| meta.mtime()), files: HashSet::new() }
    }

    /// Takes in a recorded file.
    pub(crate) fn look(&mut self, path: &Path, meta: &Metadata) {
        let is_doubtful =
            self.written.is_some_and(|written| meta.ctime() >= written && meta.mtime() < written);
        if is_doubtful {
            self.files.insert(path.to_owned());
        }
    }
}

impl Workspace {
    /// Makes git look into the files that are in doubt.
    pub(crate) fn distrust(&self, doubt: &Doubt) -> Result<(), Error> {
        const DOING: &str = "record the files";
        if doubt.files.is_empty() {
            return Ok(());
        }
        let out = self.git("ls-files").args(["-s", "-z"]).run().doing(DOING)?;
        let mut again = Vec::new();
        for entry in split_nul(&out) {
            let path = entry.iter().position(|b| *b == b'\t').and_then(|tab| entry.get(tab + 1..));
            if path.is_some_and(|path| doubt.files.contains(&to_path(path))) {
                again.extend_from_slice(entry);
                again.push(0);
            }
        }
        let git = self.git("update-index").args(["-z", "--index-info"]).stdin(again);
        git.run().map(|_| ()).doing(DOING)
    }
}
