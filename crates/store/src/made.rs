//! What a setup makes in a workspace: dependencies that no commit holds. It is noted, so that no
//! snapshot and no commit takes it in whatever an agent does to the rules; kept outside of the
//! workspace; and brought into a later one.
//!
//! A setup is a program of strangers: links are copied as links and never followed, special files are
//! left out, and nothing is written where the commit has something.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File, FileTimes, OpenOptions, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::error::{Doing as _, DoingAt as _, Error};
use crate::git::{split_nul, to_path};
use crate::id::TreeId;
use crate::include::no_follow;
use crate::snapshot::make_writable;
use crate::workspace::{Workspace, remove_if_there};

/// Where the files of a kept environment are in its directory.
const FILES: &str = "files";
/// Where the note of what was made is.
const NOTE: &str = "made";

/// What a setup made, as paths.
#[derive(Debug, Default)]
pub(crate) struct Made {
    files: HashSet<PathBuf>,
    dirs: HashSet<PathBuf>,
}

impl Made {
    fn parse(note: &[u8]) -> Self {
        let mut made = Self::default();
        for entry in split_nul(note) {
            match entry.strip_suffix(b"/") {
                Some(dir) => made.dirs.insert(to_path(dir)),
                None => made.files.insert(to_path(entry)),
            };
        }
        made
    }

    /// Whether a path is among it.
    pub(crate) fn holds(&self, path: &Path) -> bool {
        self.files.contains(path)
            || (!self.dirs.is_empty() && path.ancestors().any(|above| self.dirs.contains(above)))
    }
}

impl Workspace {
    /// Whether what a setup made is noted here, be it nothing.
    pub fn is_set_up(&self) -> bool {
        self.made_path().exists()
    }

    /// Removes all that no commit holds, but for the files that the owner brought in: what a setup
    /// leaves behind that was cut short.
    ///
    /// # Errors
    /// When something cannot be removed; repeating it is safe.
    pub fn clean(&self) -> Result<(), Error> {
        let included = self.included();
        make_writable(self.dir());
        for path in self.beside_the_commit()? {
            let at = self.dir().join(&path);
            remove(self.dir(), &path, &included).doing_at("clean the workspace", &at)?;
        }
        remove_if_there(&self.made_path())
    }

    /// Notes what a setup has made, and puts `files`, which it began with, back as they were: only what the
    /// agent changes is the agent's work. Repeating it is safe.
    ///
    /// # Errors
    /// When the note cannot be written or the files cannot be put back.
    pub fn settle(&self, files: &TreeId) -> Result<(), Error> {
        let mut note = Vec::new();
        for path in self.strangers()? {
            note.extend_from_slice(path.as_os_str().as_bytes());
            note.push(0);
        }
        // A whole directory that is ignored now stays out when an agent changes the rules.
        let ignored = self
            .git("ls-files")
            .args(["-o", "-i", "-z", "--directory", "--exclude-per-directory=.gitignore"])
            .run()
            .doing("list what a setup made")?;
        note.extend_from_slice(&ignored);
        self.note(&note)?;
        self.restore(files)
    }

    /// Copies what was made to the directory `to`, which appears whole or not at all. One that is there
    /// already is left alone.
    ///
    /// # Errors
    /// When something cannot be copied; nothing is kept then.
    pub fn keep(&self, to: &Path) -> Result<(), Error> {
        const DOING: &str = "keep what a setup made";
        if to.exists() {
            return Ok(());
        }
        let mut draft = to.as_os_str().to_owned();
        draft.push(".new");
        let draft = PathBuf::from(draft);
        remove_all(&draft).doing_at(DOING, &draft)?;
        let kept = || -> io::Result<()> {
            fs::create_dir_all(draft.join(FILES))?;
            let mut copy = Copy { skip: self.included(), dirs: Vec::new() };
            let tops = self.beside_the_commit().map_err(io::Error::other)?;
            for path in tops {
                copy.parents(self.dir(), &draft.join(FILES), &path)?;
                copy.all(self.dir(), &draft.join(FILES), path)?;
            }
            copy.finish()?;
            fs::copy(self.made_path(), draft.join(NOTE))?;
            // A name that survives a power cut must not stand for files that do not.
            rustix::fs::syncfs(File::open(&draft)?)?;
            fs::rename(&draft, to)
        };
        kept().inspect_err(|_| drop(remove_all(&draft))).doing_at(DOING, to)
    }

    /// Copies what [`keep`](Self::keep) kept in `from` into this fresh workspace. Where the commit has
    /// something it stays.
    ///
    /// # Errors
    /// When something cannot be copied; [`clean`](Self::clean) takes the rest away.
    pub fn bring(&self, from: &Path) -> Result<(), Error> {
        let brought = || -> io::Result<()> {
            let note = fs::read(from.join(NOTE))?;
            let mut copy = Copy { skip: BTreeSet::new(), dirs: Vec::new() };
            let files = from.join(FILES);
            for entry in fs::read_dir(&files)? {
                copy.all(&files, self.dir(), PathBuf::from(entry?.file_name()))?;
            }
            copy.finish()?;
            fs::write(self.made_path(), note)
        };
        brought().doing_at("bring in what a setup made", from)
    }

    /// What a setup made here.
    pub(crate) fn made(&self) -> Made {
        Made::parse(&fs::read(self.made_path()).unwrap_or_default())
    }

    /// What no commit holds, ignored or not, whole directories as one.
    fn beside_the_commit(&self) -> Result<Vec<PathBuf>, Error> {
        let found = self.git("ls-files").args(["-o", "-z", "--directory"]).run();
        let found = found.doing("list what is beside the commit")?;
        Ok(split_nul(&found).map(|name| to_path(name.strip_suffix(b"/").unwrap_or(name))).collect())
    }

    /// Writes the note so that it is there whole or not at all.
    fn note(&self, note: &[u8]) -> Result<(), Error> {
        let (path, draft) = (self.made_path(), self.index_path().with_extension("made.new"));
        let written = fs::write(&draft, note).and_then(|()| fs::rename(&draft, &path));
        written.doing_at("note what a setup made", &path)
    }

    fn made_path(&self) -> PathBuf {
        self.index_path().with_extension("made")
    }
}

/// A copy under way. Rights of directories are given last, as one may not be writable.
struct Copy {
    skip: BTreeSet<PathBuf>,
    dirs: Vec<(PathBuf, u32)>,
}

impl Copy {
    /// Makes the directories above `path`, as they are below `from`.
    fn parents(&mut self, from: &Path, to: &Path, path: &Path) -> io::Result<()> {
        let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
        above.reverse();
        for dir in above.into_iter().filter(|dir| !dir.as_os_str().is_empty()) {
            self.dir(&from.join(dir), &to.join(dir))?;
        }
        Ok(())
    }

    /// Copies what is at `path`, and all below it.
    fn all(&mut self, from: &Path, to: &Path, path: PathBuf) -> io::Result<()> {
        let mut left = vec![path];
        while let Some(path) = left.pop() {
            if self.skip.contains(&path) {
                continue;
            }
            let (source, target) = (from.join(&path), to.join(&path));
            let kind = source.symlink_metadata()?.file_type();
            if kind.is_dir() {
                if self.dir(&source, &target)? {
                    for entry in fs::read_dir(&source)? {
                        left.push(path.join(entry?.file_name()));
                    }
                }
            } else if target.symlink_metadata().is_ok() {
                // The commit has something there.
            } else if kind.is_symlink() {
                std::os::unix::fs::symlink(fs::read_link(&source)?, &target)?;
            } else if kind.is_file() {
                copy_file(&source, &target)?;
            }
        }
        Ok(())
    }

    /// Makes a directory; says whether there is a real one now.
    fn dir(&mut self, source: &Path, target: &Path) -> io::Result<bool> {
        match target.symlink_metadata() {
            Ok(meta) => Ok(meta.is_dir()),
            Err(_) => {
                let mode = source.symlink_metadata()?.permissions().mode() & 0o777;
                fs::DirBuilder::new().mode(0o700).create(target)?;
                self.dirs.push((target.to_owned(), mode));
                Ok(true)
            }
        }
    }

    fn finish(self) -> io::Result<()> {
        self.dirs
            .into_iter()
            .rev()
            .try_for_each(|(dir, mode)| fs::set_permissions(dir, Permissions::from_mode(mode)))
    }
}

/// Copies a file with its rights and its time: caches go by it. The system shares the blocks where the
/// file system can; a hard link would let one run write to the files of all.
fn copy_file(source: &Path, target: &Path) -> io::Result<()> {
    let mut from = OpenOptions::new().read(true).custom_flags(no_follow()).open(source)?;
    let meta = from.metadata()?;
    let mut to = OpenOptions::new().write(true).create_new(true).mode(0o600).open(target)?;
    io::copy(&mut from, &mut to)?;
    to.set_permissions(Permissions::from_mode(meta.permissions().mode() & 0o777))?;
    to.set_times(FileTimes::new().set_modified(meta.modified()?))
}

/// Removes what is at `path` below `top` but for `kept` files and the directories that they are in.
fn remove(top: &Path, path: &Path, kept: &BTreeSet<PathBuf>) -> io::Result<()> {
    if kept.contains(path) {
        return Ok(());
    }
    let at = top.join(path);
    match at.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(meta) if !meta.is_dir() => fs::remove_file(&at),
        Ok(_) if !kept.iter().any(|kept| kept.starts_with(path)) => fs::remove_dir_all(&at),
        Ok(_) => {
            for entry in fs::read_dir(&at)? {
                remove(top, &path.join(entry?.file_name()), kept)?;
            }
            Ok(())
        }
    }
}

/// Removes a directory with all that is in it, also where rights to write are missing. Links are not
/// followed; one that is not there is no error.
///
/// # Errors
/// When something in it cannot be removed.
pub fn remove_all(dir: &Path) -> io::Result<()> {
    if dir.symlink_metadata().is_err() {
        return Ok(());
    }
    make_writable(dir);
    fs::remove_dir_all(dir)
}
