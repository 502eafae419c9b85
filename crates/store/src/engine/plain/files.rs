//! Lists of files, and the directories that they are read from and written to.
//!
//! What an agent left in a directory is untrusted: everything is opened below the top without following a
//! link, so that no name leads out of it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode as Bits, OFlags, ResolveFlags};

use super::disk::{Disk, Drafts, escaped, hash, name_of, unescape};
use crate::checkout::make_parents;
use crate::engine::{Change, Mode};
use crate::error::{DoingAt as _, Error};
use crate::id::{TreeId, Treeish as _};
use crate::snapshot::{is_git_name, make_writable};

/// The first line of a list.
const HEAD: &str = "regie files 1\n";

/// One file of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) mode: Mode,
    /// The object with its bytes, or with the target of a link.
    pub(super) object: String,
    pub(super) bytes: u64,
}

/// A list of files, by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Files(pub(super) BTreeMap<PathBuf, Entry>);

impl Files {
    /// The list as it is stored: one form for one content.
    pub(super) fn text(&self) -> String {
        let mut text = HEAD.to_owned();
        for (path, Entry { mode, object, bytes }) in &self.0 {
            text.push_str(&format!("{} {object} {bytes} {}\n", octal(*mode), escaped(path)));
        }
        text
    }

    pub(super) fn read(disk: &Disk, id: &TreeId) -> Result<Self, Error> {
        let bytes = disk.read(id.hex())?;
        let damaged = || Error::Corrupt { path: disk.object(id.hex()), why: "it is no list of files".into() };
        let text = String::from_utf8(bytes).map_err(|_| damaged())?;
        let entries = text.strip_prefix(HEAD).ok_or_else(damaged)?;
        let files: Option<BTreeMap<_, _>> = entries.lines().map(entry).collect();
        files.map(Self).filter(|files| files.text() == text).ok_or_else(damaged)
    }

    pub(super) fn diff(&self, to: &Self) -> Vec<Change> {
        let paths = self.0.keys().chain(to.0.keys().filter(|path| !self.0.contains_key(*path)));
        let differing = paths.filter(|path| self.0.get(*path) != to.0.get(*path));
        let mode = |files: &Self, path: &PathBuf| files.0.get(path).map(|entry| entry.mode);
        let mut changes: Vec<Change> = differing
            .map(|path| Change { path: path.clone(), before: mode(self, path), after: mode(to, path) })
            .collect();
        changes.sort();
        changes
    }

    /// Three-way, file by file; the paths where both sides differ from the base and from each other.
    pub(super) fn merge(base: &Self, ours: &Self, theirs: &Self) -> Result<Self, Vec<PathBuf>> {
        let (mut merged, mut conflicts) = (Self::default(), Vec::new());
        let mut paths: Vec<&PathBuf> = base.0.keys().chain(ours.0.keys()).chain(theirs.0.keys()).collect();
        paths.sort();
        paths.dedup();
        for path in paths {
            let (b, o, t) = (base.0.get(path), ours.0.get(path), theirs.0.get(path));
            let taken = match () {
                () if o == t || t == b => o,
                () if o == b => t,
                () => {
                    conflicts.push(path.clone());
                    continue;
                }
            };
            if let Some(entry) = taken {
                merged.0.insert(path.clone(), entry.clone());
            }
        }
        // A file of one side may stand where the other has a directory.
        let under_file = |path: &&PathBuf| path.ancestors().skip(1).any(|above| merged.0.contains_key(above));
        conflicts.extend(merged.0.keys().filter(under_file).cloned());
        conflicts.sort();
        if conflicts.is_empty() { Ok(merged) } else { Err(conflicts) }
    }
}

/// What is in a directory: files and links with their modes and sizes, and what has no content, apart.
type Found = (BTreeMap<PathBuf, (Mode, u64)>, Vec<PathBuf>);

/// A directory as it is, opened once.
pub(super) struct Top<'a> {
    dir: &'a Path,
    fd: OwnedFd,
}

impl<'a> Top<'a> {
    pub(super) fn open(dir: &'a Path) -> Result<Self, Error> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let fd = rustix::fs::open(dir, flags, Bits::empty());
        Ok(Self { dir, fd: fd.map_err(io::Error::from).doing_at("open the workspace", dir)? })
    }

    fn below(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::RDONLY;
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        Ok(rustix::fs::openat2(&self.fd, path, flags, Bits::empty(), within)?)
    }

    /// What is there; links are not followed.
    fn look(&self) -> Result<Found, Error> {
        const DOING: &str = "look through the workspace";
        let (mut found, mut special) = (BTreeMap::new(), Vec::new());
        let mut next = vec![PathBuf::new()];
        while let Some(dir) = next.pop() {
            let at = self.dir.join(&dir);
            let fd = match self.below(&dir, OFlags::DIRECTORY) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other.doing_at(DOING, &at)?,
            };
            let mut entries = Dir::read_from(&fd).map_err(io::Error::from).doing_at(DOING, &at)?;
            while let Some(entry) = entries.read() {
                let entry = entry.map_err(io::Error::from).doing_at(DOING, &at)?;
                let name = entry.file_name();
                if matches!(name.to_bytes(), b"." | b"..") || is_git_name(name.to_bytes()) {
                    continue;
                }
                let path = dir.join(OsStr::from_bytes(name.to_bytes()));
                // What vanishes meanwhile is not there.
                let Ok(meta) = rustix::fs::statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
                let size = u64::try_from(meta.st_size).unwrap_or(0);
                match FileType::from_raw_mode(meta.st_mode) {
                    FileType::Directory => next.push(path),
                    FileType::Symlink => drop(found.insert(path, (Mode::Link, size))),
                    FileType::RegularFile if meta.st_mode & 0o100 != 0 => {
                        found.insert(path, (Mode::Program, size));
                    }
                    FileType::RegularFile => drop(found.insert(path, (Mode::File, size))),
                    _ => special.push(path),
                }
            }
        }
        Ok((found, special))
    }

    fn open_file(&self, path: &Path) -> Result<File, Error> {
        let at = self.dir.join(path);
        match self.below(path, OFlags::empty()) {
            Ok(fd) => Ok(File::from(fd)),
            // Something else stands there than a moment ago.
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => {
                Err(Error::Unstable { path: at })
            }
            Err(error) => Err(error).doing_at("record the files", &at),
        }
    }

    fn target(&self, path: &Path) -> Result<Vec<u8>, Error> {
        let at = self.dir.join(path);
        let unstable = |_| Error::Unstable { path: at.clone() };
        let parent = self.below(path.parent().unwrap_or(Path::new("")), OFlags::DIRECTORY);
        let parent = parent.map_err(unstable)?;
        let name = path.file_name().unwrap_or_default();
        let target = rustix::fs::readlinkat(&parent, name, Vec::new()).map_err(io::Error::from);
        Ok(target.map_err(unstable)?.into_bytes())
    }

    /// Records everything: first it is read and measured, then what is new is copied.
    pub(super) fn record(&self, drafts: &mut Drafts<'_>) -> Result<Files, Error> {
        let mut files = Files::default();
        let mut new: BTreeMap<String, (PathBuf, u64)> = BTreeMap::new();
        for (path, (mode, _)) in self.look()?.0 {
            let (object, bytes) = match mode {
                Mode::Link => {
                    let target = self.target(&path)?;
                    (name_of(&target), target.len() as u64)
                }
                _ => hash(&mut self.open_file(&path)?, &mut io::sink())
                    .doing_at("record the files", &self.dir.join(&path))?,
            };
            if !drafts.has(&object) {
                new.insert(object.clone(), (path.clone(), bytes));
            }
            files.0.insert(path, Entry { mode, object, bytes });
        }
        let text = files.text();
        let bytes = new.values().fold(text.len() as u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
        drafts.make_room(bytes, new.len() as u64 + 1)?;
        for (object, (path, bytes)) in new {
            let is_link = files.0.get(&path).is_some_and(|entry| entry.mode == Mode::Link);
            let is_same = match is_link {
                true => drafts.put(&object, &mut &*self.target(&path)?, bytes)?,
                false => drafts.put(&object, &mut self.open_file(&path)?, bytes)?,
            };
            if !is_same {
                return Err(Error::Unstable { path: self.dir.join(path) });
            }
        }
        drafts.put_bytes(text.as_bytes())?;
        Ok(files)
    }

    /// Makes the directory equal to the list.
    pub(super) fn write(&self, disk: &Disk, files: &Files) -> Result<(), Error> {
        const DOING: &str = "restore the workspace";
        make_writable(self.dir);
        let (found, special) = self.look()?;
        let mut there = BTreeMap::new();
        for (path, (mode, size)) in found {
            let wanted = files.0.get(&path).filter(|entry| entry.mode == mode && entry.bytes == size);
            let is_same = match (wanted, mode) {
                (None, _) => false,
                (Some(entry), Mode::Link) => name_of(&self.target(&path)?) == entry.object,
                // One that cannot be read is written anew.
                (Some(entry), _) => self.open_file(&path).is_ok_and(|mut file| {
                    hash(&mut file, &mut io::sink()).is_ok_and(|(name, _)| name == entry.object)
                }),
            };
            match is_same {
                true => drop(there.insert(path, ())),
                false => self.remove(&path)?,
            }
        }
        special.iter().try_for_each(|path| self.remove(path))?;
        for (path, entry) in files.0.iter().filter(|(path, _)| !there.contains_key(*path)) {
            let at = self.dir.join(path);
            make_parents(self.dir, path).doing_at(DOING, &at)?;
            self.put(disk, &at, entry)?;
        }
        Ok(())
    }

    fn put(&self, disk: &Disk, at: &Path, entry: &Entry) -> Result<(), Error> {
        const DOING: &str = "write the files of the workspace";
        // An empty directory is no part of a list.
        if at.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
            remove_empty(at).doing_at(DOING, at)?;
        }
        disk.point()?;
        if entry.mode == Mode::Link {
            let target = disk.read(&entry.object)?;
            return symlink(OsStr::from_bytes(&target), at).doing_at(DOING, at);
        }
        let from = disk.object(&entry.object);
        let mut object = File::open(&from)
            .map_err(|_| Error::Corrupt { path: from.clone(), why: "since it is not there".into() })?;
        let mut file = File::create_new(at).doing_at(DOING, at)?;
        let (name, _) = hash(&mut object, &mut file).doing_at(DOING, at)?;
        file.flush().doing_at(DOING, at)?;
        if name != entry.object {
            return Err(Error::Corrupt { path: from, why: "its bytes have another name".into() });
        }
        let bits = if entry.mode == Mode::Program { 0o755 } else { 0o644 };
        file.set_permissions(fs::Permissions::from_mode(bits)).doing_at(DOING, at)
    }

    /// Removes a file and the directories left empty above it.
    fn remove(&self, path: &Path) -> Result<(), Error> {
        let at = self.dir.join(path);
        fs::remove_file(&at).doing_at("remove a new file", &at)?;
        for above in path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
            if fs::remove_dir(self.dir.join(above)).is_err() {
                break;
            }
        }
        Ok(())
    }
}

/// Removes a directory in which there are only directories.
fn remove_empty(dir: &Path) -> io::Result<()> {
    let (mut next, mut all) = (vec![dir.to_owned()], Vec::new());
    while let Some(dir) = next.pop() {
        let entries = fs::read_dir(&dir)?;
        let dirs = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        next.extend(dirs.map(|entry| entry.path()));
        all.push(dir);
    }
    all.iter().rev().try_for_each(fs::remove_dir)
}

fn octal(mode: Mode) -> &'static str {
    match mode {
        Mode::File => "100644",
        Mode::Program => "100755",
        Mode::Link => "120000",
        Mode::Submodule => "160000",
    }
}

/// Reads a line of a list. No path that leads out of a directory is one.
fn entry(line: &str) -> Option<(PathBuf, Entry)> {
    let mut fields = line.splitn(4, ' ');
    let mode = match fields.next()? {
        "100644" => Mode::File,
        "100755" => Mode::Program,
        "120000" => Mode::Link,
        _ => return None,
    };
    let object: TreeId = fields.next().filter(|name| name.len() == 64)?.parse().ok()?;
    let bytes = fields.next()?.parse().ok()?;
    let path = PathBuf::from(OsStr::from_bytes(&unescape(fields.next()?)?));
    let inside = path.components().all(|part| matches!(part, Component::Normal(_)));
    let inside = inside && !path.as_os_str().is_empty() && !path.as_os_str().as_bytes().contains(&0);
    let entry = Entry { mode, object: object.to_string(), bytes };
    inside.then_some((path, entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(all: &[(&str, &str)]) -> Files {
        let entry = |text: &str| Entry { mode: Mode::File, object: name_of(text.as_bytes()), bytes: 1 };
        Files(all.iter().map(|(path, text)| (PathBuf::from(path), entry(text))).collect())
    }

    #[test]
    fn a_line_that_leads_out_is_none() {
        let object = name_of(b"");
        for path in ["../x", "/etc/passwd", "a/../../x", "", "a/./..", "%00"] {
            assert_eq!(entry(&format!("100644 {object} 0 {path}")), None, "{path}");
        }
        assert!(entry(&format!("100644 {object} 0 a/b")).is_some());
        for bad in ["100666", "160000"] {
            assert_eq!(entry(&format!("{bad} {object} 0 a")), None);
        }
        assert_eq!(entry(&format!("100644 {} 0 a", &object[..40])), None);
    }

    #[test]
    fn what_one_side_changed_is_taken_and_what_both_did_is_named() {
        let base = files(&[("a", "1"), ("b", "1"), ("c", "1"), ("gone", "1")]);
        let ours = files(&[("a", "2"), ("b", "1"), ("c", "2"), ("gone", "1"), ("new", "x")]);
        let theirs = files(&[("a", "1"), ("b", "2"), ("c", "2")]);
        let merged = Files::merge(&base, &ours, &theirs).unwrap();
        assert_eq!(merged, files(&[("a", "2"), ("b", "2"), ("c", "2"), ("new", "x")]));
        let theirs = files(&[("a", "3"), ("b", "1"), ("c", "1"), ("gone", "1"), ("new/file", "y")]);
        let paths = Files::merge(&base, &ours, &theirs).unwrap_err();
        assert_eq!(paths, [PathBuf::from("a"), PathBuf::from("new/file")]);
    }
}
