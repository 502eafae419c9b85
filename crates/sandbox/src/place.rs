//! What the caller puts where a plan covers something that is not there: a mount needs a place.
//!
//! Such a file is empty, readable by its owner alone, and sticky, which says nothing about a file and is set on
//! none by chance: so one that a killed caller left behind is known by the next, and removed. Jails that cover
//! the same path share it, held by a lock: the last takes it away, as removing it would open the others' cover.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    path::Path,
};

use rustix::{
    fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, ResolveFlags},
    io::Errno,
};

use crate::{Access, Error, Layers, Plan};

/// Readable by its owner, and sticky.
const MARK: u32 = 0o1400;

/// The files that one jail's covers stand on.
#[derive(Debug, Default)]
pub(crate) struct Places {
    all: Vec<Place>,
    layers: Option<Upper>,
}

#[derive(Debug)]
struct Place {
    directory: OwnedFd,
    name: OsString,
    /// Holds the lock that says that a jail uses it.
    file: OwnedFd,
    /// Whether a lower layer has something at its path, which is not to come back.
    is_hiding: bool,
}

impl Places {
    /// Makes what the covers of `plan` need, and shares what is there already.
    pub(crate) fn make(plan: &Plan) -> Result<Self, Error> {
        let layers = plan.layers.as_ref().map(|layers| Upper::hold(layers, plan)).transpose()?;
        let mut places = Self { all: Vec::new(), layers };
        for mount in plan.mounts.iter().filter(|mount| mount.access == Access::Cover) {
            let within =
                plan.layers.as_ref().zip(places.layers.as_ref()).filter(|(layers, _)| {
                    mount.source.starts_with(&layers.base) && mount.source != layers.base
                });
            let made = match within {
                Some((layers, upper)) => Place::make_over(layers, upper, &mount.source),
                None => Place::make(&mount.source),
            };
            let made = made.map_err(|error| Error::Plan {
                reason: format!(
                    "{:?} is to be kept from being made, and nothing can be put in its place: {}",
                    mount.source,
                    io::Error::from(error)
                ),
            })?;
            places.all.extend(made);
        }
        Ok(places)
    }

    /// Takes away what no other jail uses. Nothing that holds a byte is touched.
    pub(crate) fn clear(&mut self) {
        for place in self.all.drain(..) {
            // Whoever shares it takes it away.
            if rustix::fs::flock(&place.file, FlockOperation::NonBlockingLockExclusive).is_ok()
                && place.is_in_place()
            {
                match self.layers.as_ref().filter(|_| place.is_hiding) {
                    Some(upper) => drop(upper.hide(&place.directory, &place.name)),
                    None => drop(rustix::fs::unlinkat(&place.directory, &place.name, AtFlags::empty())),
                }
            }
        }
        self.layers = None;
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
        Self::make_in(directory, name, false)
    }

    /// Where layers show nothing, in the upper one. A directory that only the base has is made there, which
    /// changes nothing of what they show.
    fn make_over(layers: &Layers, upper: &Upper, path: &Path) -> Result<Option<Self>, Errno> {
        let below = path.strip_prefix(&layers.base).map_err(|_| Errno::INVAL)?;
        let (Some(parent), Some(name)) = (below.parent(), below.file_name()) else { return Ok(None) };
        let (directory, base) = upper.directory(layers, parent)?;
        let there = base.as_ref().map(|base| rustix::fs::statat(base, name, AtFlags::SYMLINK_NOFOLLOW));
        let is_hiding = matches!(there, Some(Ok(_)));
        match rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if is_whiteout(&stat) => {
                rustix::fs::unlinkat(&directory, name, AtFlags::empty())?;
            }
            // The base shows it.
            Err(Errno::NOENT) if is_hiding => return Ok(None),
            _ => {}
        }
        Self::make_in(directory, name, is_hiding)
    }

    fn make_in(directory: OwnedFd, name: &OsStr, is_hiding: bool) -> Result<Option<Self>, Errno> {
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
                is_hiding,
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

/// The upper layer of a jail, held so that no two write to one.
#[derive(Debug)]
struct Upper {
    /// Where the kernel prepares what goes to it, which is of the same file system; carries the lock.
    work: OwnedFd,
}

impl Upper {
    /// Many jails may show the same layers, or one may write to them: what several overlays of one upper layer
    /// show is not defined while one writes.
    fn hold(layers: &Layers, plan: &Plan) -> Result<Self, Error> {
        let reason = |error: Errno| match error {
            Errno::WOULDBLOCK => {
                format!("its layer {:?} is used by a jail that runs; wait for its end", layers.upper)
            }
            error => format!("its layer {:?} cannot be used: {}", layers.work, io::Error::from(error)),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let how = if layers.are_written(plan) {
            FlockOperation::NonBlockingLockExclusive
        } else {
            FlockOperation::NonBlockingLockShared
        };
        let held = rustix::fs::openat2(CWD, &layers.work, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
            .and_then(|work| rustix::fs::flock(&work, how).map(|()| work));
        held.map(|work| Self { work }).map_err(|error| Error::Plan { reason: reason(error) })
    }

    /// The directory `below` in the upper layer, made where only the base has it, and what of the base is below
    /// it. No link is followed, as it was a jail that made what is there.
    fn directory(&self, layers: &Layers, below: &Path) -> Result<(OwnedFd, Option<OwnedFd>), Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root =
            |path: &Path| rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
        let (mut upper, mut base) = (root(&layers.upper)?, Some(root(&layers.base)?));
        for name in below.iter() {
            base = base.and_then(|base| rustix::fs::openat(base, name, flags, Mode::empty()).ok());
            let found = match (rustix::fs::openat(&upper, name, flags, Mode::empty()), &base) {
                (Err(Errno::NOENT), Some(base)) => {
                    let mode = Mode::from_raw_mode(rustix::fs::fstat(base)?.st_mode & 0o7777);
                    rustix::fs::mkdirat(&upper, name, mode)?;
                    rustix::fs::chmodat(&upper, name, mode, AtFlags::empty())?;
                    rustix::fs::openat(&upper, name, flags, Mode::empty())?
                }
                (found, _) => found?,
            };
            // Through its name in there, as an attribute cannot be read by such a descriptor.
            let path = format!("/proc/self/fd/{}", found.as_raw_fd());
            let mut value = [0; 8];
            let read = rustix::fs::getxattr(path, "user.overlay.opaque", &mut value[..]);
            if matches!(read, Ok(1)) && value.first() == Some(&b'y') {
                base = None;
            }
            upper = found;
        }
        Ok((upper, base))
    }

    /// Puts in place of a file what says that there is none, at once.
    fn hide(&self, directory: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
        const GONE: &str = "gone";
        let _ = rustix::fs::unlinkat(&self.work, GONE, AtFlags::empty());
        rustix::fs::mknodat(&self.work, GONE, FileType::CharacterDevice, Mode::empty(), 0)?;
        rustix::fs::renameat(&self.work, GONE, directory, name)
    }
}

impl Drop for Upper {
    fn drop(&mut self) {
        // What the kernel makes in there is open to nobody, so that only root could remove it.
        let _ = rustix::fs::chmodat(&self.work, "work", Mode::RWXU, AtFlags::empty());
        // Said, as a process that is just being started may have inherited the descriptor.
        let _ = rustix::fs::flock(&self.work, FlockOperation::Unlock);
    }
}

fn is_whiteout(stat: &rustix::fs::Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
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
