//! Snapshots of a workspace and the way back to one.
//!
//! What an agent left there is untrusted: nested repositories, special files and links. So the
//! paths to record are found without asking any repository inside, and git is told each of them;
//! it is never asked to add a directory.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::doubt::Doubt;
use crate::error::{Doing as _, DoingAt as _, Error};
use crate::git::{self, join_nul, split_nul, to_path};
use crate::id::{TreeId, Treeish as _};
use crate::seen::{Seen, Stamp};
use crate::workspace::{Workspace, remove_if_there};

/// The files of a workspace at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The tree; nothing refers to it, and nothing prunes it.
    pub tree: TreeId,
    /// What could not be recorded, in the order of the names.
    pub skipped: Vec<Skipped>,
}

/// Something that a snapshot does not hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Skipped {
    /// Its path in the workspace.
    pub path: PathBuf,
    /// Why not.
    pub why: Why,
}

/// Why something is not in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// A FIFO, socket or device: it has no content.
    Special,
    /// The git dir of a repository in the workspace, or a name that some system takes for one.
    GitDir,
    /// The files of a submodule of the owner's repository.
    Submodule,
    /// It cannot be read; when it was tracked, its last content is kept.
    Unreadable,
}

/// Why a path has no content that could be recorded; links are not followed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Absent {
    Special,
    Nothing,
    Unreadable,
}

/// What the index holds.
pub(crate) struct Tracked {
    pub(crate) files: Vec<PathBuf>,
    pub(crate) submodules: HashSet<PathBuf>,
}

impl Workspace {
    /// Records the files as they are. Ignored files are a disposable cache and left out; empty
    /// directories and permissions other than "executable" are not recorded.
    ///
    /// # Errors
    /// [`Error::Unstable`] when the files change under the hand; git and file system failures.
    pub fn snapshot(&self) -> Result<Snapshot, Error> {
        self.held()?.record()
    }

    pub(crate) fn record(&self) -> Result<Snapshot, Error> {
        self.clear_left_overs()?;
        let (begun, mut last) = (self.moment(), self.recall());
        if let Some((seen, begun)) = last.as_mut().zip(begun)
            && seen.catch_up(self, begun).is_some()
        {
            let tree = seen.tree.clone();
            self.remember(last);
            return Ok(Snapshot { tree, skipped: Vec::new() });
        }
        let last = last.filter(|seen| seen.knows_index(self));
        let tracked = match &last {
            Some(seen) => seen.tracked(),
            None => self.tracked()?,
        };
        let untracked = self.untracked()?;
        let mut scan = Scan::new(self.dir());
        scan.doubt = Doubt::of(self);
        for path in &tracked.submodules {
            scan.submodule(path);
        }
        for path in tracked.files {
            scan.tracked(path);
        }
        for path in untracked {
            scan.untracked(path);
        }
        scan.look_around();
        self.distrust(&scan.doubt)?;
        self.index_remove(&scan.gone)?;
        let is_added = self.index_add(&mut scan, last.as_ref())?;
        let submodules = match is_added {
            true => self.refuse_new_submodules(&tracked.submodules)?,
            false => tracked.submodules,
        };
        let tree = match last.filter(|_| !is_added && scan.gone.is_empty()) {
            Some(seen) => seen.tree,
            None => self.git("write-tree").object().doing("write a snapshot")?,
        };
        if let Some(begun) = begun.filter(|_| scan.skipped.is_empty()) {
            let present = std::mem::take(&mut scan.present);
            self.remember(Seen::take(self, &tree, present, submodules, begun));
        }
        Ok(Snapshot { tree, skipped: scan.skipped.into_iter().collect() })
    }

    /// Makes the files equal to a snapshot again: changed and deleted ones are rewritten, new ones
    /// and special files removed. Files that the snapshot's rules ignore stay as they are.
    ///
    /// # Errors
    /// When a file cannot be written or removed; repeating it is safe.
    pub fn restore(&self, tree: &TreeId) -> Result<(), Error> {
        self.held()?.reset(tree)
    }

    fn reset(&self, tree: &TreeId) -> Result<(), Error> {
        self.clear_left_overs()?;
        let mut last = self.recall();
        if last.as_mut().is_some_and(|seen| seen.go_back(self, tree).is_some()) {
            self.remember(last);
            return Ok(());
        }
        let mut scan = Scan::new(self.dir());
        scan.doubt = Doubt::of(self);
        for path in self.tracked()?.files {
            scan.tracked(path);
        }
        let rewrite = || {
            self.distrust(&scan.doubt)?;
            let git = self.git("read-tree").args(["--reset", "-u", tree.hex()]);
            git.run().map(|_| ()).doing("restore the workspace")
        };
        if rewrite().is_err() {
            // An agent may have taken away the owner's right to write: give it back once. Or it has filled
            // the disk: what goes in the end goes first then, which needs no room.
            make_writable(self.dir());
            self.clear_left_overs()?;
            for path in self.untracked()? {
                self.remove(&path)?;
            }
            rewrite()?;
        }
        for path in self.untracked()? {
            self.remove(&path)?;
        }
        let mut scan = Scan::new(self.dir());
        for path in self.tracked()?.files {
            scan.tracked(path);
        }
        scan.look_around();
        for skipped in scan.skipped.iter().filter(|skipped| skipped.why == Why::Special) {
            self.remove(&skipped.path)?;
        }
        Ok(())
    }

    /// The lock of a git that was killed: under the hold nobody else can have it.
    fn clear_left_overs(&self) -> Result<(), Error> {
        let mut lock = self.index_path().as_os_str().to_owned();
        lock.push(".lock");
        remove_if_there(Path::new(&lock))?;
        self.clone().checked().map(|_| ())
    }

    fn tracked(&self) -> Result<Tracked, Error> {
        const DOING: &str = "list the files";
        let out = self.git("ls-files").args(["-s", "-z"]).run().doing(DOING)?;
        let mut tracked = Tracked { files: Vec::new(), submodules: HashSet::new() };
        for entry in split_nul(&out) {
            let tab = entry.iter().position(|b| *b == b'\t');
            let Some((mode, rest)) = tab.map(|at| entry.split_at(at)) else {
                return Err(git::unreadable("ls-files")).doing(DOING);
            };
            let path = to_path(rest.get(1..).unwrap_or_default());
            if mode.starts_with(b"160000 ") {
                tracked.submodules.insert(path);
            } else {
                tracked.files.push(path);
            }
        }
        Ok(tracked)
    }

    /// The new files that count: neither brought in by the owner nor made by a setup.
    pub(crate) fn untracked(&self) -> Result<Vec<PathBuf>, Error> {
        let mut files = self.strangers()?;
        let made = self.made();
        files.retain(|path| !made.holds(path));
        Ok(files)
    }

    /// Files that are neither tracked nor ignored, those of nested repositories included.
    pub(crate) fn strangers(&self) -> Result<Vec<PathBuf>, Error> {
        let included = self.included();
        let none = self.index_path().with_extension("none");
        let mut files = Vec::new();
        let mut nested = vec![PathBuf::new()];
        while let Some(top) = nested.pop() {
            let at = self.dir().join(&top);
            if !at.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
                continue;
            }
            let index = if top.as_os_str().is_empty() { self.index_path() } else { &none };
            let out = self
                .git("ls-files")
                .work_tree(&at)
                .index(index)
                .args(["-o", "-z", "--exclude-per-directory=.gitignore"])
                .run()
                .doing("list the new files")?;
            for name in split_nul(&out) {
                match name.strip_suffix(b"/") {
                    Some(dir) => nested.push(top.join(to_path(dir))),
                    None => files.push(top.join(to_path(name))),
                }
            }
        }
        files.retain(|path| !included.contains(path));
        Ok(files)
    }

    fn index_remove(&self, paths: &[PathBuf]) -> Result<(), Error> {
        if paths.is_empty() {
            return Ok(());
        }
        let git = self.git("update-index").args(["-z", "--force-remove", "--stdin"]);
        let paths = paths.iter().map(PathBuf::as_path);
        git.stdin(join_nul(paths)).run().map(|_| ()).doing("record deleted files")
    }

    /// Records the files that are not as the last snapshot saw them; says whether there were any.
    fn index_add(&self, scan: &mut Scan, last: Option<&Seen>) -> Result<bool, Error> {
        let add = |present: &[(PathBuf, Stamp)]| {
            let input = match last {
                Some(seen) => join_nul(seen.changed(present)),
                None => join_nul(present.iter().map(|(path, _)| path.as_path())),
            };
            if input.is_empty() {
                return Ok(false);
            }
            let git = self.git("update-index").args(["-z", "--add", "--replace", "--remove"]);
            git.arg("--stdin").stdin(input).run().map(|_| true)
        };
        let failure = match add(&scan.present) {
            Ok(is_added) => return Ok(is_added),
            Err(failure) => failure,
        };
        // Only now is it worth the time to open every file.
        if !scan.drop_unreadable() {
            return Err(failure).doing("record the files");
        }
        add(&scan.present).doing("record the files")
    }

    /// A directory that became a repository between looking and recording would be a submodule.
    fn refuse_new_submodules(&self, known: &HashSet<PathBuf>) -> Result<HashSet<PathBuf>, Error> {
        let now = self.tracked()?.submodules;
        let new: Vec<PathBuf> = now.difference(known).cloned().collect();
        let Some(path) = new.first().cloned() else { return Ok(now) };
        self.index_remove(&new)?;
        Err(Error::Unstable { path })
    }

    /// Removes a file or a directory of the workspace, and the directories left empty above it.
    fn remove(&self, path: &Path) -> Result<(), Error> {
        let at = self.dir().join(path);
        let removed = match fs::remove_file(&at) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                make_writable(self.dir());
                fs::remove_file(&at)
            }
            other => other,
        };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).doing_at("remove a new file", &at);
            }
            _ => {}
        }
        let parents = path.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty());
        for parent in parents {
            if fs::remove_dir(self.dir().join(parent)).is_err() {
                break;
            }
        }
        Ok(())
    }
}

/// Sorts what is in a workspace into what can be recorded and what cannot.
struct Scan<'a> {
    dir: &'a Path,
    /// For each directory seen: whether it is a real one.
    parents: HashMap<PathBuf, Result<(), Absent>>,
    /// What can be recorded, as it was when it was looked at.
    present: Vec<(PathBuf, Stamp)>,
    gone: Vec<PathBuf>,
    skipped: BTreeSet<Skipped>,
    doubt: Doubt,
}

impl<'a> Scan<'a> {
    fn new(dir: &'a Path) -> Self {
        Self {
            dir,
            parents: HashMap::new(),
            present: Vec::new(),
            gone: Vec::new(),
            skipped: BTreeSet::new(),
            doubt: Doubt::default(),
        }
    }

    fn skip(&mut self, path: PathBuf, why: Why) {
        self.skipped.insert(Skipped { path, why });
    }

    fn submodule(&mut self, path: &Path) {
        if self.parent(path).is_ok()
            && fs::read_dir(self.dir.join(path)).is_ok_and(|mut dir| dir.next().is_some())
        {
            self.skip(path.to_owned(), Why::Submodule);
        }
    }

    fn tracked(&mut self, path: PathBuf) {
        match self.find(&path) {
            Ok(stamp) => self.present.push((path, stamp)),
            Err(Absent::Nothing) => self.gone.push(path),
            Err(Absent::Unreadable) => self.skip(path, Why::Unreadable),
            Err(Absent::Special) => {
                self.gone.push(path.clone());
                self.skip(path, Why::Special);
            }
        }
    }

    fn untracked(&mut self, path: PathBuf) {
        if path.iter().any(|name| is_git_name(name.as_bytes())) {
            return self.skip(path, Why::GitDir);
        }
        match self.find(&path) {
            Ok(stamp) => self.present.push((path, stamp)),
            Err(Absent::Nothing) => {}
            Err(Absent::Unreadable) => self.skip(path, Why::Unreadable),
            Err(Absent::Special) => self.skip(path, Why::Special),
        }
    }

    fn find(&mut self, path: &Path) -> Result<Stamp, Absent> {
        self.parent(path)?;
        match self.dir.join(path).symlink_metadata() {
            Ok(meta) if meta.is_file() || meta.is_symlink() => {
                self.doubt.look(path, &meta);
                Ok(Stamp::from(&meta))
            }
            Ok(meta) if meta.is_dir() => Err(Absent::Nothing),
            Ok(_) => Err(Absent::Special),
            Err(error) => Err(absent_or_unreadable(&error)),
        }
    }

    /// Whether all directories above `path` are real ones; each is looked at once.
    fn parent(&mut self, path: &Path) -> Result<(), Absent> {
        let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else {
            return Ok(());
        };
        if let Some(found) = self.parents.get(parent) {
            return *found;
        }
        let found = self.parent(parent).and_then(|()| match self.dir.join(parent).symlink_metadata() {
            Ok(meta) if meta.is_dir() => Ok(()),
            Ok(_) => Err(Absent::Nothing),
            Err(error) => Err(absent_or_unreadable(&error)),
        });
        self.parents.insert(parent.to_owned(), found);
        found
    }

    /// Looks for what git does not list, in the directories that hold recorded files.
    fn look_around(&mut self) {
        let real = self.parents.iter().filter(|(_, found)| found.is_ok());
        let mut dirs: Vec<PathBuf> = real.map(|(dir, _)| dir.clone()).collect();
        dirs.push(PathBuf::new());
        for dir in dirs {
            let Ok(entries) = fs::read_dir(self.dir.join(&dir)) else {
                self.skip(dir, Why::Unreadable);
                continue;
            };
            for entry in entries.flatten() {
                let name = entry.file_name();
                let Ok(kind) = entry.file_type() else { continue };
                if is_git_name(name.as_bytes()) {
                    if !is_place_of_git(&self.dir.join(&dir), &name, &dir) {
                        self.skip(dir.join(name), Why::GitDir);
                    }
                } else if !(kind.is_file() || kind.is_dir() || kind.is_symlink()) {
                    self.skip(dir.join(name), Why::Special);
                }
            }
        }
    }

    /// Takes out the files that cannot be opened; says whether there were any.
    fn drop_unreadable(&mut self) -> bool {
        let before = self.present.len();
        for (path, stamp) in std::mem::take(&mut self.present) {
            let at = self.dir.join(&path);
            let plain = at.symlink_metadata().is_ok_and(|meta| meta.is_file());
            if plain && File::open(&at).is_err() {
                self.skip(path, Why::Unreadable);
            } else {
                self.present.push((path, stamp));
            }
        }
        self.present.len() < before
    }
}

fn absent_or_unreadable(error: &io::Error) -> Absent {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Absent::Unreadable,
        _ => Absent::Nothing,
    }
}

/// Whether git on some system takes the name for that of a git dir, and so refuses to record it.
pub(crate) fn is_git_name(name: &[u8]) -> bool {
    name.split(|b| *b == b'\\').any(|part| {
        let stem = part.split(|b| *b == b':').next().unwrap_or_default();
        let end = stem.iter().rposition(|b| !matches!(b, b' ' | b'.')).map_or(0, |at| at + 1);
        let stem = stem.get(..end).unwrap_or_default();
        stem.eq_ignore_ascii_case(b".git") || stem.eq_ignore_ascii_case(b"git~1")
    })
}

/// Whether `name` in the directory `at`, which is `dir` of a workspace, is what jails mount their git dir on:
/// an empty directory at its top. It is part of no snapshot, and nothing is lost with it.
pub(crate) fn is_place_of_git(at: &Path, name: &OsStr, dir: &Path) -> bool {
    let at = at.join(name);
    dir.as_os_str().is_empty()
        && name == ".git"
        && at.symlink_metadata().is_ok_and(|meta| meta.is_dir())
        && fs::read_dir(&at).is_ok_and(|mut entries| entries.next().is_none())
}

/// Gives the user of this process all rights over the directories below `dir`, as far as it can.
pub(crate) fn make_writable(dir: &Path) {
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        let Ok(meta) = dir.symlink_metadata() else { continue };
        let mode = meta.permissions().mode();
        if mode & 0o700 != 0o700 {
            let _ = fs::set_permissions(&dir, fs::Permissions::from_mode(mode | 0o700));
        }
        let Ok(entries) = fs::read_dir(&dir) else { continue };
        let real = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|t| t.is_dir()));
        dirs.extend(real.map(|entry| entry.path()));
    }
}
