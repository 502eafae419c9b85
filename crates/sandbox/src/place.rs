//! What the caller puts where a plan covers something that is not there: a mount needs a place.
//!
//! Such a file is empty, readable by its owner alone, and sticky, which says nothing about a file and is set on
//! none by chance: so one that a killed caller left behind is known by the next, and removed. Jails that cover
//! the same path share it, held by a lock: the last takes it away, as removing it would open the others' cover.

use std::{
    ffi::OsString,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    path::Path,
};

use rustix::{
    fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, ResolveFlags},
    io::Errno,
};

use crate::{Access, Error, Plan};

/// Readable by its owner, and sticky.
const MARK: u32 = 0o1400;

/// The files that one jail's covers stand on.
#[derive(Debug, Default)]
pub(crate) struct Places(Vec<Place>);

#[derive(Debug)]
struct Place {
    directory: OwnedFd,
    name: OsString,
    /// Holds the lock that says that a jail uses it.
    file: OwnedFd,
}

impl Places {
    /// Makes what the covers of `plan` need, and shares what is there already.
    pub(crate) fn make(plan: &Plan) -> Result<Self, Error> {
        let mut places = Self::default();
        for mount in plan.mounts.iter().filter(|mount| mount.access == Access::Cover) {
            let made = Place::make(&mount.source).map_err(|error| Error::Plan {
                reason: format!(
                    "{:?} is to be kept from being made, and nothing can be put in its place: {}",
                    mount.source,
                    io::Error::from(error)
                ),
            })?;
            places.0.extend(made);
        }
        Ok(places)
    }

    /// Takes away what no other jail uses. Nothing that holds a byte is touched.
    pub(crate) fn clear(&mut self) {
        for place in self.0.drain(..) {
            // Whoever shares it takes it away.
            if rustix::fs::flock(&place.file, FlockOperation::NonBlockingLockExclusive).is_ok()
                && place.is_in_place()
            {
                let _ = rustix::fs::unlinkat(&place.directory, &place.name, AtFlags::empty());
            }
        }
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Place {
    /// `None` where something stands already that is not ours.
    fn make(path: &Path) -> Result<Option<Self>, Errno> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat2(CWD, parent, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
        // Somebody else may take it away between our look and our lock.
        for _ in 0..64 {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = match rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) if !is_marked(&stat) => return Ok(None),
                Ok(_) => rustix::fs::openat(&directory, name, flags, Mode::empty()),
                Err(Errno::NOENT) => {
                    let made = flags | OFlags::CREATE | OFlags::EXCL;
                    rustix::fs::openat(&directory, name, made, Mode::from_raw_mode(MARK))
                }
                Err(error) => return Err(error),
            };
            let file = match file {
                Ok(file) => file,
                Err(Errno::NOENT | Errno::EXIST) => continue,
                Err(error) => return Err(error),
            };
            rustix::fs::flock(&file, FlockOperation::LockShared)?;
            let place = Self {
                directory: directory.as_fd().try_clone_to_owned().map_err(errno)?,
                name: name.to_owned(),
                file,
            };
            if place.is_in_place() {
                return Ok(Some(place));
            }
        }
        Err(Errno::AGAIN)
    }

    /// Whether its name still means our file, and the file is as it was made.
    fn is_in_place(&self) -> bool {
        let here = rustix::fs::fstat(&self.file);
        let there = rustix::fs::statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        matches!((here, there), (Ok(here), Ok(there))
            if (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino) && is_marked(&there))
    }
}

/// Whether a file is one that only holds a place: to rules it is not there.
pub(crate) fn holds_a_place(found: &std::fs::Metadata) -> bool {
    found.is_file()
        && found.mode() & 0o7777 == MARK
        && found.len() == 0
        && found.uid() == rustix::process::geteuid().as_raw()
}

fn is_marked(stat: &rustix::fs::Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && stat.st_mode & 0o7777 == MARK
        && stat.st_size == 0
        && stat.st_uid == rustix::process::geteuid().as_raw()
}

fn errno(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}
