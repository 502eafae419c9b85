//! Where a plain tree lies: objects named by the SHA-256 of their bytes, and small files of one line that say
//! where branches stand.
//!
//! ```text
//! format          the version, written last when a tree is made
//! lock            held by whoever changes anything
//! objects/ab/…    contents, lists of files and commits, read-only
//! heads/<name>    a branch or a line: its commit, and until when it lives
//! bin/<name>      a branch in the bin: its commit, and since when
//! snapshots/<id>  a list of files that no commit holds, and until when it lives
//! drafts/         what is being written; cleaned away by the next who holds the lock
//! ```
//!
//! Nothing is named before it is on disk whole: objects are written as drafts, brought to the disk, and
//! renamed; a branch moves by the rename of its file, last of all.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
#[cfg(test)]
use std::sync::atomic::{AtomicUsize, Ordering};

use sha2::{Digest as _, Sha256};

use super::Quota;
use crate::error::{DoingAt as _, Error};
use crate::hold::Hold;

/// The version of what is written here.
const FORMAT: &str = "regie plain 1\n";
/// The longest list of files or commit that is read, in bytes.
const LONGEST: u64 = 256 << 20;
/// More drafts than these are brought to the disk all at once.
const ONE_BY_ONE: usize = 16;

/// The directory of a plain tree.
#[derive(Debug)]
pub(super) struct Disk {
    root: PathBuf,
    quota: Quota,
    /// How many points are passed before the process counts as killed.
    #[cfg(test)]
    pub(super) fuse: AtomicUsize,
}

/// Objects that are being written: on the disk, and not yet named.
pub(super) struct Drafts<'a> {
    disk: &'a Disk,
    /// Object names, and how many bytes each has.
    new: BTreeMap<String, u64>,
    /// What the tree may still take.
    bytes: u64,
    files: u64,
}

impl Disk {
    pub(super) fn open_or_create(root: &Path, quota: Quota) -> Result<Self, Error> {
        let root = std::path::absolute(root).doing_at("find the store", root)?;
        for name in ["", "objects", "heads", "bin", "snapshots", "drafts"] {
            let dir = root.join(name);
            fs::create_dir_all(&dir).doing_at("create the store", &dir)?;
        }
        let disk = Self {
            root,
            quota,
            #[cfg(test)]
            fuse: AtomicUsize::new(usize::MAX),
        };
        let _hold = disk.lock()?;
        let path = disk.root.join("format");
        match fs::read_to_string(&path) {
            Ok(text) if text == FORMAT => {}
            Ok(_) => return Err(Error::Corrupt { path, why: "it names no form that is known here".into() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => disk.word_write("format", FORMAT)?,
            Err(error) => return Err(error).doing_at("open the store", &path),
        }
        Ok(disk)
    }

    /// A point at which a process may be killed.
    #[cfg_attr(not(test), expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "tests cut here"))]
    pub(super) fn point(&self) -> Result<(), Error> {
        #[cfg(test)]
        {
            let left = self.fuse.load(Ordering::Relaxed);
            if left == 0 {
                return Err(io::Error::other("killed here")).doing_at("go on", &self.root);
            }
            self.fuse.store(left - 1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Waits until nobody else changes anything, and cleans away what a process that was killed left.
    pub(super) fn lock(&self) -> Result<Hold, Error> {
        let path = self.root.join("lock");
        let hold = Hold::take(&path).doing_at("lock the store", &path)?;
        let drafts = self.root.join("drafts");
        for draft in fs::read_dir(&drafts).doing_at("clean up", &drafts)?.flatten() {
            fs::remove_file(draft.path()).doing_at("clean up", &draft.path())?;
        }
        Ok(hold)
    }

    /// Where an object lies. Names are checked where they are parsed.
    pub(super) fn object(&self, name: &str) -> PathBuf {
        let (dir, rest) = name.split_at_checked(2).unwrap_or((name, ""));
        self.root.join("objects").join(dir).join(rest)
    }

    /// The bytes of a list of files or a commit, held against its name.
    pub(super) fn read(&self, name: &str) -> Result<Vec<u8>, Error> {
        let path = self.object(name);
        let mut bytes = Vec::new();
        let file = File::open(&path).map_err(|error| missing(error, &path))?;
        file.take(LONGEST).read_to_end(&mut bytes).doing_at("read the store", &path)?;
        if name_of(&bytes) == name {
            return Ok(bytes);
        }
        Err(Error::Corrupt { path, why: "its bytes have another name".into() })
    }

    /// Holds the bytes of an object against its name.
    pub(super) fn check(&self, name: &str) -> Result<(), Error> {
        let path = self.object(name);
        let mut file = File::open(&path).map_err(|error| missing(error, &path))?;
        let (found, _) = hash(&mut file, &mut io::sink()).doing_at("read the store", &path)?;
        if found == name {
            return Ok(());
        }
        Err(Error::Corrupt { path, why: "its bytes have another name".into() })
    }

    /// What there is: bytes and files of all objects.
    pub(super) fn usage(&self) -> Result<(u64, u64), Error> {
        let (mut bytes, mut files) = (0u64, 0u64);
        for name in self.objects()? {
            // What vanishes meanwhile takes no room.
            bytes = bytes.saturating_add(fs::metadata(self.object(&name)).map_or(0, |meta| meta.len()));
            files = files.saturating_add(1);
        }
        Ok((bytes, files))
    }

    /// The names of all objects.
    pub(super) fn objects(&self) -> Result<BTreeSet<String>, Error> {
        const DOING: &str = "look through the store";
        let top = self.root.join("objects");
        let mut names = BTreeSet::new();
        for dir in fs::read_dir(&top).doing_at(DOING, &top)? {
            let dir = dir.doing_at(DOING, &top)?;
            let beginning = dir.file_name().to_string_lossy().into_owned();
            for object in fs::read_dir(dir.path()).doing_at(DOING, &dir.path())? {
                let object = object.doing_at(DOING, &dir.path())?;
                names.insert(format!("{beginning}{}", object.file_name().to_string_lossy()));
            }
        }
        Ok(names)
    }

    pub(super) fn drafts(&self) -> Result<Drafts<'_>, Error> {
        let (bytes, files) = self.usage()?;
        Ok(Drafts {
            disk: self,
            new: BTreeMap::new(),
            bytes: self.quota.bytes.saturating_sub(bytes),
            files: self.quota.files.saturating_sub(files),
        })
    }

    pub(super) fn object_remove(&self, name: &str) -> Result<(), Error> {
        let path = self.object(name);
        fs::remove_file(&path).doing_at("clean up", &path)
    }

    /// The small files of a kind: `heads`, `bin` or `snapshots`, each with its one line.
    pub(super) fn words(&self, kind: &str) -> Result<BTreeMap<String, String>, Error> {
        const DOING: &str = "list the branches";
        let mut found = BTreeMap::new();
        let mut next = vec![(self.root.join(kind), String::new())];
        while let Some((dir, before)) = next.pop() {
            for entry in fs::read_dir(&dir).doing_at(DOING, &dir)? {
                let entry = entry.doing_at(DOING, &dir)?;
                let name = format!("{before}{}", entry.file_name().to_string_lossy());
                if entry.file_type().doing_at(DOING, &entry.path())?.is_dir() {
                    next.push((entry.path(), format!("{name}/")));
                } else if let Some(word) = self.word(&format!("{kind}/{name}"))? {
                    found.insert(name, word);
                }
            }
        }
        Ok(found)
    }

    /// The one line of a small file.
    pub(super) fn word(&self, path: &str) -> Result<Option<String>, Error> {
        let path = self.root.join(path);
        match fs::read_to_string(&path) {
            Ok(text) => match text.strip_suffix('\n') {
                Some(line) => Ok(Some(line.to_owned())),
                None => Err(Error::Corrupt { path, why: "it does not end as it should".into() }),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(Error::Corrupt { path, why: "it is no text".into() })
            }
            Err(error) => Err(error).doing_at("read the store", &path),
        }
    }

    /// Replaces a small file, durably.
    pub(super) fn word_write(&self, path: &str, text: &str) -> Result<(), Error> {
        const DOING: &str = "write the store";
        let (draft, path) = (self.root.join("drafts/word"), self.root.join(path));
        let dir = path.parent().unwrap_or(&self.root);
        fs::create_dir_all(dir).doing_at(DOING, dir)?;
        let written = File::create(&draft).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        written.doing_at(DOING, &draft)?;
        self.point()?;
        fs::rename(&draft, &path).doing_at(DOING, &path)?;
        self.point()?;
        sync_dir(dir)?;
        // The directory of a role may be new as well.
        dir.parent().map_or(Ok(()), sync_dir)
    }

    pub(super) fn word_remove(&self, path: &str) -> Result<(), Error> {
        let path = self.root.join(path);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).doing_at("write the store", &path);
            }
            _ => {}
        }
        self.point()?;
        path.parent().map_or(Ok(()), sync_dir)
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }
}

impl Drafts<'_> {
    /// Refuses what the quota has no room for, before anything of it is written: that many bytes in so many
    /// objects that are not there yet.
    pub(super) fn make_room(&self, bytes: u64, files: u64) -> Result<(), Error> {
        let Quota { bytes: most, files: most_files } = self.disk.quota;
        if bytes > self.bytes {
            let wanted = most.saturating_sub(self.bytes).saturating_add(bytes);
            return Err(Error::Quota { what: "bytes", wanted, limit: most });
        }
        if files > self.files {
            let wanted = most_files.saturating_sub(self.files).saturating_add(files);
            return Err(Error::Quota { what: "files", wanted, limit: most_files });
        }
        Ok(())
    }

    /// Whether an object need not be written.
    pub(super) fn has(&self, name: &str) -> bool {
        self.new.contains_key(name) || self.disk.object(name).exists()
    }

    /// Writes an object, which must be `name` and no longer than `most`; `false` when it is not.
    pub(super) fn put(&mut self, name: &str, from: &mut dyn Read, most: u64) -> Result<bool, Error> {
        const DOING: &str = "write the store";
        if self.has(name) {
            return Ok(true);
        }
        self.make_room(most, 1)?;
        let draft = self.disk.root.join("drafts").join(name);
        self.disk.point()?;
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&draft)
            .doing_at(DOING, &draft)?;
        // One byte more tells a file that grew from one that did not.
        let mut bounded = from.take(most.saturating_add(1));
        let (found, bytes) = hash(&mut bounded, &mut file).doing_at(DOING, &draft)?;
        if found != name || bytes > most {
            fs::remove_file(&draft).doing_at(DOING, &draft)?;
            return Ok(false);
        }
        file.set_permissions(fs::Permissions::from_mode(0o444)).doing_at(DOING, &draft)?;
        self.bytes = self.bytes.saturating_sub(bytes);
        self.files = self.files.saturating_sub(1);
        self.new.insert(name.to_owned(), bytes);
        Ok(true)
    }

    /// Writes a list of files or a commit, and gives its name.
    pub(super) fn put_bytes(&mut self, bytes: &[u8]) -> Result<String, Error> {
        let name = name_of(bytes);
        self.put(&name, &mut &*bytes, bytes.len() as u64)?;
        Ok(name)
    }

    /// Brings everything to the disk and gives it its names.
    pub(super) fn publish(self) -> Result<(), Error> {
        const DOING: &str = "write the store";
        let drafts = self.disk.root.join("drafts");
        if self.new.len() > ONE_BY_ONE {
            let dir = File::open(&drafts).doing_at(DOING, &drafts)?;
            rustix::fs::syncfs(&dir).map_err(io::Error::from).doing_at(DOING, &drafts)?;
        } else {
            for name in self.new.keys() {
                let draft = drafts.join(name);
                File::open(&draft).and_then(|file| file.sync_all()).doing_at(DOING, &draft)?;
            }
        }
        let mut dirs = BTreeSet::new();
        for name in self.new.keys() {
            let to = self.disk.object(name);
            let dir = to.parent().unwrap_or(&drafts).to_owned();
            if dirs.insert(dir.clone()) {
                fs::create_dir_all(&dir).doing_at(DOING, &dir)?;
            }
            self.disk.point()?;
            fs::rename(drafts.join(name), &to).doing_at(DOING, &to)?;
        }
        if !dirs.is_empty() {
            dirs.iter().try_for_each(|dir| sync_dir(dir))?;
            sync_dir(&self.disk.root.join("objects"))?;
        }
        self.disk.point()
    }
}

/// Copies while it hashes: the name of the bytes, and how many there are.
pub(crate) fn hash(from: &mut dyn Read, to: &mut dyn io::Write) -> io::Result<(String, u64)> {
    let (mut hasher, mut total) = (Sha256::new(), 0u64);
    let mut buffer = vec![0u8; 64 << 10];
    loop {
        let length = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let piece = buffer.get(..length).unwrap_or_default();
        hasher.update(piece);
        to.write_all(piece)?;
        total = total.saturating_add(length as u64);
    }
    Ok((hex(&hasher.finalize()), total))
}

/// The name of an object with these bytes.
pub(super) fn name_of(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Text of bytes in which nothing but printable ASCII stands as it is; `%` and spaces do not.
pub(super) fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'!'..=b'~' if *byte != b'%' => text.push(char::from(*byte)),
            other => text.push_str(&format!("%{other:02x}")),
        }
    }
    text
}

/// The bytes of what [`escape`] wrote; `None` for anything else.
pub(super) fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(after.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after.get(2..)?;
    }
    (escape(&bytes) == text).then_some(bytes)
}

/// A path as the store writes it.
pub(super) fn escaped(path: &Path) -> String {
    escape(path.as_os_str().as_bytes())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn missing(error: io::Error, path: &Path) -> Error {
    if error.kind() == io::ErrorKind::NotFound {
        return Error::Corrupt { path: path.to_owned(), why: "since it is not there".into() };
    }
    Error::Io { doing: "read the store", path: path.to_owned(), source: error }
}

fn sync_dir(dir: &Path) -> Result<(), Error> {
    File::open(dir).and_then(|dir| dir.sync_all()).doing_at("write the store", dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_survives_being_written_down() {
        let all: Vec<u8> = (0..=u8::MAX).collect();
        let text = escape(&all);
        assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text}");
        assert_eq!(unescape(&text).unwrap(), all);
        // One form each: two texts never mean one name.
        for other in ["%4", "%zz", "%41", "a b", "%E9", "\u{e9}"] {
            assert_eq!(unescape(other), None, "{other}");
        }
    }
}
