//! What the last snapshot saw, so that the next one of unchanged files starts no git: a look at each file
//! and directory is enough. Of files that did change, git is given those alone.
//!
//! Only what can be told for certain is kept. A change after the snapshot began moves a change time to
//! that moment or later, so files are remembered only when all their change times are older.

use std::collections::{HashMap, HashSet};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::git::{join_nul, split_nul, to_path};
use crate::id::TreeId;
use crate::snapshot::{Tracked, is_git_name, is_place_of_git};
use crate::workspace::Workspace;

/// The most directories without recorded files that are looked at; more are not worth it.
const MOST_STRAY: usize = 5_000;

/// A moment of the file system's clock: seconds and nanoseconds.
pub(crate) type Moment = (i64, i64);

/// The state of a workspace, of which nothing was left out.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) tree: TreeId,
    index: Stamp,
    /// The recorded files first, then what else was looked at.
    entries: Vec<(PathBuf, Stamp)>,
    files: usize,
    submodules: HashSet<PathBuf>,
}

/// What differs once a file was changed, replaced or given other rights, or a directory has other names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    mode: u32,
    size: u64,
    changed: Moment,
    modified: Moment,
}

impl Stamp {
    fn of(path: &Path) -> io::Result<Self> {
        Ok(Self::from(&path.symlink_metadata()?))
    }
}

impl From<&Metadata> for Stamp {
    fn from(meta: &Metadata) -> Self {
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            mode: meta.mode(),
            size: meta.size(),
            changed: (meta.ctime(), meta.ctime_nsec()),
            modified: (meta.mtime(), meta.mtime_nsec()),
        }
    }
}

impl Seen {
    /// Whether the files and the index of the workspace are still as they were.
    pub(crate) fn holds(&self, workspace: &Workspace) -> bool {
        let same = |path: &Path, stamp: &Stamp| Stamp::of(path).is_ok_and(|now| now == *stamp);
        same(workspace.index_path(), &self.index)
            && self.entries.iter().all(|(path, stamp)| same(&workspace.dir().join(path), stamp))
    }

    /// Whether the index is still as the snapshot left it.
    pub(crate) fn knows_index(&self, workspace: &Workspace) -> bool {
        Stamp::of(workspace.index_path()).is_ok_and(|now| now == self.index)
    }

    /// What the index holds, as long as it is known.
    pub(crate) fn tracked(&self) -> Tracked {
        let files = self.entries.iter().take(self.files).map(|(path, _)| path.clone()).collect();
        Tracked { files, submodules: self.submodules.clone() }
    }

    /// Those of the files `present` that are not as they were recorded.
    pub(crate) fn changed<'a>(&self, present: &'a [(PathBuf, Stamp)]) -> Vec<&'a Path> {
        let recorded: HashMap<&Path, &Stamp> =
            self.entries.iter().take(self.files).map(|(path, stamp)| (path.as_path(), stamp)).collect();
        let changed = present.iter().filter(|(path, now)| recorded.get(path.as_path()) != Some(&now));
        changed.map(|(path, _)| path.as_path()).collect()
    }

    /// Looks at the workspace whose snapshot `tree`, begun at `begun`, then saw and recorded the files
    /// `present` beside the submodules `submodules` and skipped nothing; `None` when a change since could
    /// pass unseen.
    pub(crate) fn take(
        workspace: &Workspace,
        tree: &TreeId,
        present: Vec<(PathBuf, Stamp)>,
        submodules: HashSet<PathBuf>,
        begun: Moment,
    ) -> Option<Self> {
        let (files, mut known, mut last) = (present.len(), HashSet::new(), None);
        for (path, _) in &present {
            // Most files stand beside the one before.
            if path.parent() != last {
                known.extend(path.ancestors().skip(1).map(Path::to_owned));
                last = path.parent();
            }
        }
        let mut look = Look { workspace, known, entries: present };
        look.known.insert(PathBuf::new());
        let mut strays = Vec::new();
        for dir in look.known.clone() {
            look.directory(&dir, &mut strays)?;
        }
        look.strays(strays)?;
        let index = Stamp::of(workspace.index_path()).ok()?;
        let entries = look.entries;
        let is_older = entries.iter().all(|(_, stamp)| stamp.changed < begun);
        // A file system that counts whole seconds says nothing about what happened within one.
        let is_fine = entries.iter().any(|(_, stamp)| stamp.changed.1 != 0);
        let tree = tree.clone();
        (is_older && is_fine).then_some(Self { tree, index, entries, files, submodules })
    }
}

/// A walk over everything in which a new file would count.
struct Look<'a> {
    workspace: &'a Workspace,
    /// Directories that hold recorded files, at some depth.
    known: HashSet<PathBuf>,
    entries: Vec<(PathBuf, Stamp)>,
}

impl Look<'_> {
    fn stamp(&mut self, path: &Path) -> Option<()> {
        let stamp = Stamp::of(&self.workspace.dir().join(path)).ok()?;
        self.entries.push((path.to_owned(), stamp));
        Some(())
    }

    /// Looks at one directory, and adds those in it that hold no recorded file to `strays`.
    fn directory(&mut self, dir: &Path, strays: &mut Vec<PathBuf>) -> Option<()> {
        self.stamp(dir)?;
        for entry in fs::read_dir(self.workspace.dir().join(dir)).ok()? {
            let entry = entry.ok()?;
            let name = entry.file_name();
            let path = dir.join(&name);
            if is_git_name(name.as_bytes()) {
                if !is_place_of_git(&self.workspace.dir().join(dir), &name, dir) {
                    return None;
                }
                // It counts once something is in it.
                self.stamp(&path)?;
                continue;
            }
            let is_directory = entry.file_type().ok()?.is_dir();
            if is_directory && !self.known.contains(&path) {
                strays.push(path);
            } else if !is_directory && name.as_bytes() == b".gitignore" {
                // It counts even where it is ignored itself.
                self.stamp(&path)?;
            }
        }
        Some(())
    }

    /// Looks into directories without recorded files, unless they are ignored as a whole.
    fn strays(&mut self, mut strays: Vec<PathBuf>) -> Option<()> {
        if strays.is_empty() {
            return Some(());
        }
        // It takes no literal names, and none that begins like this for a pattern.
        let here = Path::new(".");
        let names: Vec<PathBuf> = strays.iter().map(|path| here.join(path)).collect();
        let git = self.workspace.git("check-ignore").env("GIT_LITERAL_PATHSPECS", "0");
        let git = git.args(["-z", "--stdin"]).stdin(join_nul(names.iter().map(PathBuf::as_path)));
        let asked = git.outcome().ok().filter(|asked| matches!(asked.code, 0 | 1) && !asked.truncated)?;
        let ignored = split_nul(&asked.stdout).map(to_path);
        let ignored: HashSet<PathBuf> =
            ignored.filter_map(|path| Some(path.strip_prefix(here).ok()?.to_owned())).collect();
        strays.retain(|path| !ignored.contains(path));
        let mut looked = 0;
        while let Some(dir) = strays.pop() {
            looked += 1;
            if looked > MOST_STRAY {
                return None;
            }
            self.directory(&dir, &mut strays)?;
        }
        Some(())
    }
}
