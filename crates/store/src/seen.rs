//! What the last snapshot saw, so that the next one of unchanged files starts no git: a look at each file
//! and directory is enough. Where only contents changed, `quick` does it; else git is given the changed files alone.
//!
//! Only what can be told for certain is kept. A change after the snapshot began moves a change time to
//! that moment or later, so what has no older one is taken for changed the next time.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use sha2::{Digest as _, Sha256};

use crate::git::{join_nul, split_nul, to_path};
use crate::id::TreeId;
use crate::quick::Trees;
use crate::snapshot::{Tracked, is_git_name, is_place_of_git};
use crate::workspace::Workspace;

/// The most directories without recorded files that are looked at; more are not worth it.
const MOST_STRAY: usize = 5_000;

/// Of fewer entries one asker has made an end before another one begins.
const FEW: usize = 2_000;
/// More do not help.
const MOST_ASKERS: usize = 4;

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
    /// What names are in each directory, as [`names`] tells.
    names: HashMap<PathBuf, [u8; 32]>,
    /// Files of which the index says something else than `tree`.
    unindexed: HashSet<PathBuf>,
    /// Trees that were read on the way.
    pub(crate) trees: Trees,
}

/// What is not as it was, where that is nothing but contents of recorded files.
#[derive(Debug)]
pub(crate) struct Touched {
    /// As they are now.
    pub(crate) files: Vec<(PathBuf, Stamp)>,
    /// Directories with the same names as before.
    dirs: Vec<(PathBuf, Stamp)>,
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

    /// That of nothing: what has it is taken for changed.
    const NEVER: Self = Self { device: 0, inode: 0, mode: 0, size: 0, changed: (0, 0), modified: (0, 0) };

    /// Itself, unless a change from `begun` on could pass unseen.
    fn before(self, begun: Moment) -> Self {
        if self.changed < begun { self } else { Self::NEVER }
    }

    fn is(&self, kind: FileType) -> bool {
        FileType::from_raw_mode(self.mode) == kind
    }

    pub(crate) fn is_link(&self) -> bool {
        self.is(FileType::Symlink)
    }

    /// The mode that a tree gives it. `None`: it has no content.
    pub(crate) fn mode(&self) -> Option<&'static [u8]> {
        match FileType::from_raw_mode(self.mode) {
            FileType::Symlink => Some(b"120000"),
            FileType::RegularFile if self.mode & 0o100 != 0 => Some(b"100755"),
            FileType::RegularFile => Some(b"100644"),
            _ => None,
        }
    }
}

impl From<&Stat> for Stamp {
    #[expect(clippy::unnecessary_cast, reason = "the fields have other types on other architectures")]
    fn from(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            mode: stat.st_mode as u32,
            size: stat.st_size as u64,
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
        }
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
    /// What is not as it was. `None`: more than contents.
    pub(crate) fn touched(&self, workspace: &Workspace) -> Option<Touched> {
        if !self.knows_index(workspace) {
            return None;
        }
        let mut touched = Touched { files: Vec::new(), dirs: Vec::new() };
        for (at, now) in self.others(workspace)? {
            let (path, _) = self.entries.get(at)?;
            let is_rule = path.file_name().is_some_and(|name| name == ".gitignore");
            if at < self.files && now.mode().is_some() && !is_rule {
                touched.files.push((path.clone(), now));
            } else if now.is(FileType::Directory)
                && let Some(before) = self.names.get(path)
                && names(&workspace.dir().join(path)).is_some_and(|now| now == *before)
            {
                touched.dirs.push((path.clone(), now));
            } else {
                return None;
            }
        }
        Some(touched)
    }

    /// The entries that are not as they were, by their places, and how they are. `None`: one is gone.
    fn others(&self, workspace: &Workspace) -> Option<Vec<(usize, Stamp)>> {
        let top = File::open(workspace.dir()).ok()?;
        let askers = if self.entries.len() < FEW { 1 } else { askers() };
        let share = self.entries.len().div_ceil(askers).max(1);
        let shares = self.entries.chunks(share).enumerate();
        if askers == 1 {
            return differing(&top, &self.entries, 0);
        }
        thread::scope(|scope| {
            let top = &top;
            let asked: Vec<_> =
                shares.map(|(at, part)| scope.spawn(move || differing(top, part, at * share))).collect();
            let mut all = Vec::new();
            for one in asked {
                all.extend(one.join().ok()??);
            }
            Some(all)
        })
    }

    /// Takes what was touched for what a snapshot recorded that began at `begun`.
    pub(crate) fn keep(&mut self, touched: Touched, begun: Moment) {
        self.unindexed.extend(touched.files.iter().map(|(path, _)| path.clone()));
        let now = touched.files.into_iter().chain(touched.dirs);
        self.stamp(now.map(|(path, stamp)| (path, stamp.before(begun))).collect());
    }

    /// Takes the files `written`, and what stands around them, for changed the next time.
    pub(crate) fn doubt(&mut self, touched: Touched, written: Vec<PathBuf>) {
        let around = written.iter().filter_map(|path| Some(path.parent()?.to_owned()));
        let around: Vec<PathBuf> = around.chain(touched.dirs.into_iter().map(|(path, _)| path)).collect();
        self.unindexed.extend(written.iter().cloned());
        self.stamp(written.into_iter().chain(around).map(|path| (path, Stamp::NEVER)).collect());
    }

    fn stamp(&mut self, new: HashMap<PathBuf, Stamp>) {
        if new.is_empty() {
            return;
        }
        for (path, stamp) in &mut self.entries {
            if let Some(new) = new.get(path) {
                *stamp = *new;
            }
        }
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
        let changed = present.iter().filter(|(path, now)| {
            self.unindexed.contains(path) || recorded.get(path.as_path()) != Some(&now)
        });
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
        let mut look = Look { workspace, known, entries: present, names: HashMap::new() };
        look.known.insert(PathBuf::new());
        let mut strays = Vec::new();
        for dir in look.known.clone() {
            look.directory(&dir, &mut strays)?;
        }
        look.strays(strays)?;
        let index = Stamp::of(workspace.index_path()).ok()?;
        let (mut entries, mut names) = (look.entries, look.names);
        // A file system that counts whole seconds says nothing about what happened within one.
        let is_fine = entries.iter().any(|(_, stamp)| stamp.changed.1 != 0);
        for (path, stamp) in &mut entries {
            *stamp = stamp.before(begun);
            if *stamp == Stamp::NEVER {
                // A name may have come after the snapshot had looked, and before these were taken.
                names.remove(path);
            }
        }
        let (tree, unindexed, trees) = (tree.clone(), HashSet::new(), Trees::new());
        is_fine.then_some(Self { tree, index, entries, files, submodules, names, unindexed, trees })
    }
}

/// The entries that are not as they were, by their places from `first` on.
fn differing(top: &File, entries: &[(PathBuf, Stamp)], first: usize) -> Option<Vec<(usize, Stamp)>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut others = Vec::new();
    // Most files stand beside the one before: their directory is walked to once.
    let mut beside: Option<(&Path, OwnedFd)> = None;
    for (at, (path, stamp)) in entries.iter().enumerate() {
        let found = match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) if !parent.as_os_str().is_empty() => {
                if beside.as_ref().is_none_or(|(dir, _)| *dir != parent) {
                    beside = Some((parent, rustix::fs::openat(top, parent, flags, Mode::empty()).ok()?));
                }
                rustix::fs::statat(&beside.as_ref()?.1, name, AtFlags::SYMLINK_NOFOLLOW)
            }
            (_, Some(name)) => rustix::fs::statat(top, name, AtFlags::SYMLINK_NOFOLLOW),
            _ => rustix::fs::fstat(top),
        };
        let now = Stamp::from(&found.ok()?);
        if now != *stamp {
            others.push((first + at, now));
        }
    }
    Some(others)
}

fn askers() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get).min(MOST_ASKERS)
}

/// What names a directory has, and what kinds of things they are.
fn names(dir: &Path) -> Option<[u8; 32]> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).ok()? {
        let entry = entry.ok()?;
        all.push((entry.file_name(), kind(entry.file_type().ok()?)));
    }
    Some(digest(all))
}

fn kind(kind: fs::FileType) -> u8 {
    match kind {
        kind if kind.is_dir() => b'd',
        kind if kind.is_file() => b'f',
        kind if kind.is_symlink() => b'l',
        _ => b'o',
    }
}

fn digest(mut all: Vec<(OsString, u8)>) -> [u8; 32] {
    all.sort_unstable();
    let mut hasher = Sha256::new();
    for (name, kind) in all {
        hasher.update(name.as_bytes());
        hasher.update([0, kind]);
    }
    hasher.finalize().into()
}

/// A walk over everything in which a new file would count.
struct Look<'a> {
    workspace: &'a Workspace,
    /// Directories that hold recorded files, at some depth.
    known: HashSet<PathBuf>,
    entries: Vec<(PathBuf, Stamp)>,
    names: HashMap<PathBuf, [u8; 32]>,
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
        let mut all = Vec::new();
        for entry in fs::read_dir(self.workspace.dir().join(dir)).ok()? {
            let entry = entry.ok()?;
            let name = entry.file_name();
            let path = dir.join(&name);
            all.push((name.clone(), kind(entry.file_type().ok()?)));
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
        self.names.insert(dir.to_owned(), digest(all));
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
