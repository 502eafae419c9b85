//! Snapshots and roll-backs of which only the contents of recorded files changed: done in process, by what the
//! last snapshot saw. It is the common case between two calls of a tool, and costs a look at each file.
//!
//! The index is left as it is, so the next git is told of these files again (`Seen::unindexed`). Whatever is not
//! plain gives `None` before anything is kept, and the long way is taken.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

use crate::git::Git;
use crate::id::{TreeId, Treeish as _};
use crate::odb::{self, Batch, Kind, LARGEST, Name};
use crate::seen::{Moment, Seen, Stamp};
use crate::workspace::{Workspace, beside, remove_if_there};

/// Of more files git is the faster one: it waits for the disk once.
const MOST: usize = 64;
/// How many trees are kept between snapshots.
const MOST_TREES: usize = 512;
const DIRECTORY: &[u8] = b"40000";

/// One name in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    mode: Vec<u8>,
    name: OsString,
    object: Name,
}

/// What a tree says of a file.
type Leaf = (Vec<u8>, Name);

/// Trees as they were read, by their names.
pub(crate) type Trees = HashMap<String, Vec<u8>>;

impl Seen {
    /// Makes this what a snapshot that began at `begun` sees, and records what it needs.
    pub(crate) fn catch_up(&mut self, workspace: &Workspace, begun: Moment) -> Option<()> {
        let touched = self.touched(workspace).filter(|touched| touched.files.len() <= MOST)?;
        let git_dir = workspace.tree().git_dir();
        let mut batch = Batch::new(git_dir);
        let mut leaves = BTreeMap::new();
        for (path, stamp) in &touched.files {
            let (mode, content) = content(workspace, path, stamp)?;
            leaves.insert(path.clone(), (mode.to_vec(), batch.add(Kind::Blob, &content).ok()?));
        }
        if !leaves.is_empty() {
            let root = edit(git_dir, &mut self.trees, &mut batch, self.tree.hex(), Path::new(""), &leaves)?;
            batch.end().ok()?;
            self.tree = odb::hex(&root).parse().ok()?;
        }
        self.keep(touched, begun);
        Some(())
    }

    /// Makes the files those of `tree`, which has the same names as the last snapshot.
    pub(crate) fn go_back(&mut self, workspace: &Workspace, tree: &TreeId) -> Option<()> {
        let touched = self.touched(workspace).filter(|touched| touched.files.len() <= MOST)?;
        let git_dir = workspace.tree().git_dir();
        let mut wanted = BTreeMap::new();
        differences(git_dir, &mut self.trees, (self.tree.hex(), tree.hex()), Path::new(""), &mut wanted)?;
        for (path, _) in &touched.files {
            if !wanted.contains_key(path) {
                wanted.insert(path.clone(), find(git_dir, &mut self.trees, tree.hex(), path)?);
            }
        }
        let is_rule = |path: &PathBuf| path.file_name().is_some_and(|name| name == ".gitignore");
        if wanted.len() > MOST || wanted.keys().any(is_rule) {
            return None;
        }
        let mut written = Vec::new();
        for (path, (mode, object)) in wanted {
            let at = workspace.dir().join(&path);
            let stamp = Stamp::from(&at.symlink_metadata().ok()?);
            let is_there = content(workspace, &path, &stamp)
                .is_some_and(|(now, content)| now == mode && odb::name(Kind::Blob, &content) == Some(object));
            if !is_there {
                put(workspace, &path, &mode, &blob(git_dir, &object)?)?;
            }
            written.push(path);
        }
        self.tree = tree.clone();
        self.doubt(touched, written);
        Some(())
    }
}

/// The mode and the content of a file that is as `stamp` says, before and after. No link is followed on the way.
fn content(workspace: &Workspace, path: &Path, stamp: &Stamp) -> Option<(&'static [u8], Vec<u8>)> {
    let flags = if stamp.is_link() { OFlags::PATH } else { OFlags::RDONLY | OFlags::NONBLOCK };
    let mut file = open(workspace.dir(), path, flags | OFlags::NOFOLLOW)?;
    let is_same = |file: &File| file.metadata().is_ok_and(|meta| Stamp::from(&meta) == *stamp);
    if !is_same(&file) {
        return None;
    }
    let content = if stamp.is_link() {
        rustix::fs::readlinkat(&file, "", Vec::new()).ok()?.into_bytes()
    } else {
        let mut content = Vec::new();
        (&mut file).take(LARGEST as u64).read_to_end(&mut content).ok()?;
        content
    };
    (is_same(&file) && content.len() < LARGEST).then_some((stamp.mode()?, content))
}

/// Opens what lies in `dir`, not through any link.
fn open(dir: &Path, path: &Path, flags: OFlags) -> Option<File> {
    let top = File::open(dir).ok()?;
    let here = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let fd = rustix::fs::openat2(&top, here, flags | OFlags::CLOEXEC, Mode::empty(), within).ok()?;
    Some(File::from(fd))
}

/// Puts a file in the place of one that is there.
fn put(workspace: &Workspace, path: &Path, mode: &[u8], content: &[u8]) -> Option<()> {
    let draft = beside(workspace.dir(), ".index.draft");
    remove_if_there(&draft).ok()?;
    let bits = match mode {
        b"100644" => 0o666,
        b"100755" => 0o777,
        b"120000" => 0,
        _ => return None,
    };
    if mode == b"120000" {
        std::os::unix::fs::symlink(OsStr::from_bytes(content), &draft).ok()?;
    } else {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(bits).open(&draft).ok()?;
        file.write_all(content).ok()?;
    }
    let folder = open(workspace.dir(), path.parent()?, OFlags::PATH | OFlags::DIRECTORY)?;
    let moved = rustix::fs::renameat(CWD, &draft, &folder, path.file_name()?);
    if moved.is_err() {
        let _ = fs::remove_file(&draft);
    }
    moved.ok()
}

fn blob(git_dir: &Path, object: &Name) -> Option<Vec<u8>> {
    let hex = odb::hex(object);
    odb::read(git_dir, Kind::Blob, &hex)
        .or_else(|| Git::at(git_dir, "cat-file").args(["blob", &hex]).limit(LARGEST).run().ok())
}

/// The entries of a tree.
fn entries(git_dir: &Path, trees: &mut Trees, hex: &str) -> Option<Vec<Entry>> {
    if !trees.contains_key(hex) {
        let raw = odb::read(git_dir, Kind::Tree, hex)
            .or_else(|| Git::at(git_dir, "cat-file").args(["tree", hex]).limit(LARGEST).run().ok())?;
        if trees.len() >= MOST_TREES {
            trees.clear();
        }
        trees.insert(hex.to_owned(), raw);
    }
    let (mut rest, mut found) = (trees.get(hex)?.as_slice(), Vec::new());
    while !rest.is_empty() {
        let space = rest.iter().position(|byte| *byte == b' ')?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        found.push(Entry {
            mode: rest.get(..space)?.to_vec(),
            name: OsStr::from_bytes(rest.get(space + 1..end)?).to_owned(),
            object: rest.get(end + 1..end + 21)?.try_into().ok()?,
        });
        rest = rest.get(end + 21..)?;
    }
    Some(found)
}

/// Writes the tree `hex`, which stands at `dir`, with other leaves. Each has to be there already.
fn edit(
    git_dir: &Path,
    trees: &mut Trees,
    batch: &mut Batch<'_>,
    hex: &str,
    dir: &Path,
    leaves: &BTreeMap<PathBuf, Leaf>,
) -> Option<Name> {
    let mut entries = entries(git_dir, trees, hex)?;
    let mut done = 0;
    for entry in &mut entries {
        let path = dir.join(&entry.name);
        if entry.mode == DIRECTORY {
            let below: BTreeMap<PathBuf, Leaf> = leaves
                .range(path.clone()..)
                .take_while(|(leaf, _)| leaf.starts_with(&path))
                .map(|(leaf, what)| (leaf.clone(), what.clone()))
                .collect();
            if !below.is_empty() {
                entry.object = edit(git_dir, trees, batch, &odb::hex(&entry.object), &path, &below)?;
                done += below.len();
            }
        } else if let Some((mode, object)) = leaves.get(&path) {
            (entry.mode, entry.object) = (mode.clone(), *object);
            done += 1;
        }
    }
    if done != leaves.len() {
        return None;
    }
    let mut raw = Vec::new();
    for entry in &entries {
        raw.extend_from_slice(&entry.mode);
        raw.push(b' ');
        raw.extend_from_slice(entry.name.as_bytes());
        raw.push(0);
        raw.extend_from_slice(&entry.object);
    }
    let name = odb::name(Kind::Tree, &raw)?;
    if odb::hex(&name) != hex {
        batch.add(Kind::Tree, &raw).ok()?;
        trees.insert(odb::hex(&name), raw);
    }
    Some(name)
}

/// What files are in the second tree where they differ from the first. `None`: the names are others.
fn differences(
    git_dir: &Path,
    trees: &mut Trees,
    (from, to): (&str, &str),
    dir: &Path,
    found: &mut BTreeMap<PathBuf, Leaf>,
) -> Option<()> {
    if from == to {
        return Some(());
    }
    let (from, to) = (entries(git_dir, trees, from)?, entries(git_dir, trees, to)?);
    if from.len() != to.len() {
        return None;
    }
    for (before, after) in from.into_iter().zip(to) {
        if before == after {
            continue;
        }
        let is_folder = before.mode == DIRECTORY;
        if before.name != after.name || is_folder != (after.mode == DIRECTORY) || before.mode == b"160000" {
            return None;
        }
        let path = dir.join(&before.name);
        if is_folder {
            let both = (odb::hex(&before.object), odb::hex(&after.object));
            differences(git_dir, trees, (&both.0, &both.1), &path, found)?;
        } else {
            found.insert(path, (after.mode, after.object));
        }
        if found.len() > MOST {
            return None;
        }
    }
    Some(())
}

/// The file at `path` in a tree.
fn find(git_dir: &Path, trees: &mut Trees, tree: &str, path: &Path) -> Option<Leaf> {
    let (mut tree, mut parts) = (tree.to_owned(), path.iter().peekable());
    while let Some(part) = parts.next() {
        let entry = entries(git_dir, trees, &tree)?.into_iter().find(|entry| entry.name == part)?;
        if parts.peek().is_none() {
            return (entry.mode != DIRECTORY).then_some((entry.mode, entry.object));
        }
        tree = odb::hex(&entry.object);
    }
    None
}
