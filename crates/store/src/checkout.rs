//! Putting the files of a commit into the owner's checkout: the lock, what stands in the way, and
//! the replacement of each file by a rename.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, lchown};
use std::path::{Path, PathBuf};

use crate::error::{DoingAt as _, Error};
use crate::git::{self, split_nul, to_path};
use crate::id::Commit;

/// What changes at one path.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// Mode and object, as `git update-index --index-info` reads them; `None`: nothing there.
    pub(crate) old: Option<String>,
    pub(crate) new: Option<String>,
}

/// All changed paths of a delivery.
pub(crate) struct Changes(pub(crate) BTreeMap<PathBuf, Change>);

impl Changes {
    /// Reads `git diff-tree -r -z --raw --no-renames`.
    pub(crate) fn parse(raw: &[u8]) -> Result<Self, git::Error> {
        let mut changes = BTreeMap::new();
        let mut fields = split_nul(raw);
        while let Some(entry) = fields.next() {
            let entry = std::str::from_utf8(entry).unwrap_or_default();
            let parts: Vec<&str> = entry.trim_start_matches(':').split(' ').collect();
            let ([old_mode, new_mode, old, new, _], Some(path)) = (parts.as_slice(), fields.next()) else {
                return Err(git::unreadable("diff-tree"));
            };
            let side = |mode: &str, object: &str| (mode != "000000").then(|| format!("{mode} {object}"));
            let change = Change { old: side(old_mode, old), new: side(new_mode, new) };
            changes.insert(to_path(path), change);
        }
        Ok(Self(changes))
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.keys().map(PathBuf::as_path)
    }

    /// The paths that have content afterwards.
    pub(crate) fn written(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().filter(|(_, change)| change.new.is_some()).map(|(path, _)| path.as_path())
    }

    /// The paths that have none afterwards.
    fn deleted(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().filter(|(_, change)| change.new.is_none()).map(|(path, _)| path.as_path())
    }

    fn is_deleted(&self, path: &Path) -> bool {
        self.0.get(path).is_some_and(|change| change.new.is_none())
    }

    pub(crate) fn touch_submodules(&self) -> bool {
        let sides = self.0.values().flat_map(|change| [&change.old, &change.new]);
        sides.flatten().any(|side| side.starts_with("160000 "))
    }

    /// The input of `git update-index -z --index-info`.
    pub(crate) fn index_info(&self) -> Vec<u8> {
        use std::os::unix::ffi::OsStrExt as _;
        let mut out = Vec::new();
        // Deletions first: a file that became a directory must be out of the way.
        for (deleting, (path, change)) in
            [true, false].into_iter().flat_map(|d| self.0.iter().map(move |entry| (d, entry)))
        {
            if change.new.is_none() != deleting {
                continue;
            }
            let nothing = format!("0 {}", "0".repeat(40));
            out.extend_from_slice(change.new.as_ref().unwrap_or(&nothing).as_bytes());
            out.push(b'\t');
            out.extend_from_slice(path.as_os_str().as_bytes());
            out.push(0);
        }
        out
    }
}

/// What the checkout looks like before a delivery.
pub(crate) struct Standing {
    /// Paths whose index entry is neither the old nor the new one.
    pub(crate) index_foreign: BTreeSet<PathBuf>,
    /// Paths whose index entry is not the old one.
    pub(crate) index_not_old: BTreeSet<PathBuf>,
    /// Paths whose file differs from the owner's index.
    pub(crate) file_not_index: BTreeSet<PathBuf>,
    /// Paths whose file differs from what is to be delivered.
    pub(crate) file_not_new: BTreeSet<PathBuf>,
}

/// Why a change cannot be put in place without losing something of the owner's; `None`: it can.
///
/// A path may be in its old state or, after an interrupted delivery, already in its new one.
pub(crate) fn obstacle(root: &Path, changes: &Changes, now: &Standing) -> Option<String> {
    for (path, change) in &changes.0 {
        let is_old = !now.index_not_old.contains(path) && !now.file_not_index.contains(path);
        let there = exists(root, path);
        let fine = match (&change.old, &change.new) {
            _ if now.index_foreign.contains(path) => false,
            (None, Some(_)) => !there || is_new(now, path) || only_deleted_below(root, changes, path),
            (Some(_), None) => !file_exists(root, path) || is_old,
            _ => is_old || is_new(now, path),
        };
        if !fine {
            return Some(format!("{path:?} has changes of your own"));
        }
        if change.new.is_some()
            && let Some(parent) = blocking_parent(root, changes, path)
        {
            return Some(format!("{parent:?} stands where a directory is needed"));
        }
    }
    None
}

fn is_new(now: &Standing, path: &Path) -> bool {
    !now.file_not_new.contains(path)
}

/// Whether something stands at `path`, which is not looked for beyond links.
fn exists(root: &Path, path: &Path) -> bool {
    let real = |parent: &Path| root.join(parent).symlink_metadata().is_ok_and(|m| m.is_dir());
    path.ancestors().skip(1).all(real) && root.join(path).symlink_metadata().is_ok()
}

/// Whether something that is no directory stands at `path`.
fn file_exists(root: &Path, path: &Path) -> bool {
    exists(root, path) && root.join(path).symlink_metadata().is_ok_and(|meta| !meta.is_dir())
}

/// Whether `path` is a directory in which everything is about to be deleted.
fn only_deleted_below(root: &Path, changes: &Changes, path: &Path) -> bool {
    let mut dirs = vec![path.to_owned()];
    while let Some(dir) = dirs.pop() {
        let at = root.join(&dir);
        if !at.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
            return false;
        }
        let Ok(entries) = fs::read_dir(at) else { return false };
        for entry in entries {
            let Ok(entry) = entry else { return false };
            let below = dir.join(entry.file_name());
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => dirs.push(below),
                Ok(_) if changes.is_deleted(&below) => {}
                _ => return false,
            }
        }
    }
    true
}

/// A parent of `path` that is no directory and is not about to be deleted.
fn blocking_parent(root: &Path, changes: &Changes, path: &Path) -> Option<PathBuf> {
    let parents = path.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty());
    for parent in parents {
        if file_exists(root, parent) && !changes.is_deleted(parent) {
            return Some(parent.to_owned());
        }
    }
    None
}

/// Deletes and replaces the files; the new ones lie ready in `stage`, under the same names.
pub(crate) fn replace(root: &Path, stage: &Path, changes: &Changes) -> Result<(), Error> {
    const DOING: &str = "update your checkout";
    for path in changes.deleted().filter(|path| file_exists(root, path)) {
        let at = root.join(path);
        fs::remove_file(&at).doing_at(DOING, &at)?;
        for parent in path.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty()) {
            if fs::remove_dir(root.join(parent)).is_err() {
                break;
            }
        }
    }
    for path in changes.written() {
        let at = root.join(path);
        make_parents(root, path).doing_at(DOING, &at)?;
        if at.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
            fs::remove_dir(&at).doing_at(DOING, &at)?;
        }
        put(&stage.join(path), &at).doing_at(DOING, &at)?;
        keep_owner(root, &at);
    }
    Ok(())
}

/// Makes the directories above `path`, none of which may be a link.
pub(crate) fn make_parents(root: &Path, path: &Path) -> io::Result<()> {
    let mut parents: Vec<&Path> = path.ancestors().skip(1).collect();
    parents.reverse();
    for parent in parents.into_iter().filter(|parent| !parent.as_os_str().is_empty()) {
        let at = root.join(parent);
        match at.symlink_metadata() {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => return Err(io::ErrorKind::NotADirectory.into()),
            Err(_) => {
                fs::create_dir(&at)?;
                keep_owner(root, &at);
            }
        }
    }
    Ok(())
}

/// Moves a prepared file into place, over file systems if need be.
fn put(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
        other => return other,
    }
    if to.symlink_metadata().is_ok() {
        fs::remove_file(to)?;
    }
    if from.symlink_metadata()?.is_symlink() {
        return std::os::unix::fs::symlink(fs::read_link(from)?, to);
    }
    fs::copy(from, to).map(|_| ())
}

/// Where Regie runs as root, files stay those of the owner of `root`.
pub(crate) fn keep_owner(root: &Path, at: &Path) {
    let (Ok(wanted), Ok(is)) = (root.symlink_metadata(), at.symlink_metadata()) else { return };
    if wanted.uid() != is.uid() {
        let _ = lchown(at, Some(wanted.uid()), Some(wanted.gid()));
    }
}

/// How the content of a lock of Regie's begins.
const MARK: &str = "regie ";

/// git's own lock of the owner's index, so that no git of the owner's works at the same time.
///
/// Its content says which delivery holds it, so that an interrupted one can be completed; the
/// operating system's lock on it says whether that one is still alive.
pub(crate) struct IndexLock {
    path: PathBuf,
    file: File,
    /// The delivery that was interrupted while it held the lock.
    pub(crate) interrupted: Option<(Commit, Commit)>,
}

impl IndexLock {
    /// Takes the lock of the index in `git_dir`; `None` when somebody else holds it.
    pub(crate) fn take(git_dir: &Path) -> io::Result<Option<Self>> {
        let path = git_dir.join("index.lock");
        // It appears with its content and locked, so that no moment leaves a lock of nobody's.
        let draft = git_dir.join("regie.lock");
        let _ = fs::remove_file(&draft);
        let mut file = File::create_new(&draft)?;
        file.write_all(MARK.as_bytes())?;
        file.lock()?;
        let linked = fs::hard_link(&draft, &path);
        fs::remove_file(&draft)?;
        match linked {
            Ok(()) => Ok(Some(Self { path, file, interrupted: None })),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Self::inherit(path),
            Err(error) => Err(error),
        }
    }

    /// Takes over the lock that a delivery left when it was killed.
    fn inherit(path: PathBuf) -> io::Result<Option<Self>> {
        if !path.symlink_metadata()?.is_file() {
            return Ok(None);
        }
        let mut file = OpenOptions::new().read(true).write(true).open(&path)?;
        let same = |file: &File| -> io::Result<bool> {
            Ok(file.metadata()?.ino() == path.symlink_metadata()?.ino())
        };
        if file.try_lock().is_err() || !same(&file)? {
            return Ok(None);
        }
        let mut text = Vec::new();
        io::Read::by_ref(&mut file).take(200).read_to_end(&mut text)?;
        let text = String::from_utf8_lossy(&text);
        let Some(noted) = text.strip_prefix(MARK) else { return Ok(None) };
        let mut words = noted.split_whitespace();
        let mut commit = || words.next().and_then(|word| word.parse::<Commit>().ok());
        let interrupted = commit().zip(commit());
        Ok(Some(Self { path, file, interrupted }))
    }

    /// Notes what is being delivered, before anything is changed.
    pub(crate) fn note(&mut self, from: &Commit, to: &Commit) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(format!("{MARK}{from} {to}\n").as_bytes())?;
        self.file.sync_all()
    }
}

impl Drop for IndexLock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
