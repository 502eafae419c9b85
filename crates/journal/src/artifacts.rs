//! Artifacts as files named by their digest, so that the same bytes are kept once and every read can
//! be verified.
//!
//! A file is written under `tmp/`, synced, renamed to its place and its folder synced: a power cut
//! leaves either the whole artifact or none.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use domain::{Digest, Timestamp};
use kernel::port::{ArtifactError, Artifacts, Stored};

/// Artifacts under one folder, as `ab/cdef…`.
#[derive(Debug)]
pub struct FileArtifacts {
    root: PathBuf,
    /// Makes names of unfinished files unique in this process.
    unfinished: AtomicU64,
    /// Held while an artifact is put or taken away: one that is put again is not taken away.
    moving: Mutex<()>,
}

impl FileArtifacts {
    /// Opens the folder, makes it when there is none, and clears away what a crash left unfinished.
    /// Only the holder of the home's lock opens it.
    ///
    /// # Errors
    /// When the folder cannot be made or read.
    pub fn open(root: impl Into<PathBuf>) -> io::Result<Self> {
        let root = root.into();
        let unfinished = root.join("tmp");
        fs::create_dir_all(&unfinished)?;
        for entry in fs::read_dir(&unfinished)? {
            fs::remove_file(entry?.path())?;
        }
        if let Some(parent) = root.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            sync_folder(parent)?;
        }
        Ok(Self { root, unfinished: AtomicU64::new(0), moving: Mutex::default() })
    }

    /// The folder and the file of an artifact.
    fn place(&self, digest: Digest) -> (PathBuf, PathBuf) {
        let text = digest.to_string();
        let (folder, file) = text.split_at(2);
        let folder = self.root.join(folder);
        let file = folder.join(file);
        (folder, file)
    }

    fn write(&self, digest: Digest, bytes: &[u8]) -> io::Result<()> {
        let (folder, place) = self.place(digest);
        // A file of that name with other bytes is damaged: it is written anew.
        let kept = matches!(fs::read(&place), Ok(found) if Digest::of(&found) == digest);
        let _moving = self.moving.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = kept && freshen(&place).is_ok();
        if !kept {
            let number = self.unfinished.fetch_add(1, Ordering::Relaxed);
            let unfinished = self.root.join("tmp").join(format!("{}-{number}", std::process::id()));
            fs::create_dir_all(&folder)?;
            write_synced(&unfinished, bytes).and_then(|()| fs::rename(&unfinished, &place)).inspect_err(
                |_| {
                    // What remains is cleared at the next opening.
                    let _ = fs::remove_file(&unfinished);
                },
            )?;
        }
        // Also for a file that was there: whoever renamed it may have died before this point.
        sync_folder(&folder)?;
        sync_folder(&self.root)
    }
}

impl Artifacts for FileArtifacts {
    fn put(&self, bytes: &[u8]) -> Result<Digest, ArtifactError> {
        let digest = Digest::of(bytes);
        self.write(digest, bytes).map_err(|source| ArtifactError::Io { digest, source })?;
        Ok(digest)
    }

    fn get(&self, digest: Digest) -> Result<Vec<u8>, ArtifactError> {
        let (_, place) = self.place(digest);
        let bytes = fs::read(place).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => ArtifactError::Missing(digest),
            _ => ArtifactError::Io { digest, source },
        })?;
        if Digest::of(&bytes) == digest { Ok(bytes) } else { Err(ArtifactError::Damaged(digest)) }
    }

    fn find(&self, beginning: &str) -> Result<Vec<Digest>, ArtifactError> {
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        // Nothing but digits of a digest may become a part of a path.
        if beginning.len() < 2 || !beginning.bytes().all(is_hex) {
            return Ok(Vec::new());
        }
        let (folder, rest) = beginning.split_at(2);
        let failed = |source| ArtifactError::Io { digest: Digest::ZERO, source };
        let entries = match fs::read_dir(self.root.join(folder)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut found = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            let Some(name) = name.to_str().filter(|name| name.starts_with(rest)) else { continue };
            found.extend(format!("{folder}{name}").parse::<Digest>());
        }
        found.sort_unstable();
        Ok(found)
    }

    fn stored(&self, digest: Digest) -> Result<Option<Stored>, ArtifactError> {
        let (_, place) = self.place(digest);
        match fs::metadata(place) {
            Ok(meta) => Ok(Some(Stored { bytes: meta.len(), at: modified(&meta) })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(ArtifactError::Io { digest, source }),
        }
    }

    fn discard(&self, digest: Digest, put_before: Timestamp) -> Result<bool, ArtifactError> {
        let _moving = self.moving.lock().unwrap_or_else(PoisonError::into_inner);
        match self.stored(digest)? {
            Some(stored) if stored.at < put_before => {}
            _ => return Ok(false),
        }
        let (_, place) = self.place(digest);
        fs::remove_file(place).map(|()| true).map_err(|source| ArtifactError::Io { digest, source })
    }
}

fn modified(meta: &fs::Metadata) -> Timestamp {
    let since = meta.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Gives a file the time of now, so that it counts as just put.
fn freshen(path: &Path) -> io::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "the time of a file, as the system would set it")]
    let now = SystemTime::now();
    File::options().append(true).open(path)?.set_modified(now)
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// A name is durable once its folder is.
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
