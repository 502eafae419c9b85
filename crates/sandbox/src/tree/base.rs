//! What every jail's tree begins with, whatever its plan: made on the spot, or before the plan is known.
//!
//! All of it is detached file systems, so that it can be made in one mount namespace and put into another: a
//! process that waits for its plan must not enter its mount namespace yet, as that would keep the mounts that
//! the machine has now, and may not make file systems without one. So another process makes them.

use std::{
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::Path,
    sync::{Mutex, PoisonError},
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    mount::{FsMountFlags, FsOpenFlags, MountAttrFlags},
    process::WaitOptions,
};

use super::{ALONE, DEVICES, FILES, LINKS};
use crate::{
    Exec, Failure, HOME, Part, Plan,
    lacks::Lack,
    sys::{self, Fork},
    wire,
};

/// The temporary file systems of a jail, and who may write to them.
pub(super) const SCRATCH: [(&str, &str); 3] = [("/tmp", "1777"), ("/dev/shm", "1777"), (HOME, "0700")];

/// Detached file systems, named in none yet.
pub(super) struct Base {
    /// The root with its own files, and with the places of what is mounted in every jail.
    pub(super) root: OwnedFd,
    /// A `/proc` of this process namespace, still to be bounded.
    pub(super) proc: OwnedFd,
    /// As [`SCRATCH`] says.
    pub(super) scratch: [OwnedFd; 3],
    scratch_bytes: u64,
}

/// What was made ahead in this process.
static READY: Mutex<Option<Base>> = Mutex::new(None);

/// Makes ahead what a plan begins with. What cannot be had is made, or missed, later.
pub(crate) fn prepare(scratch_bytes: u64) {
    let base = by_another(scratch_bytes);
    *READY.lock().unwrap_or_else(PoisonError::into_inner) = base;
}

/// Has a child make it in a mount namespace of its own.
fn by_another(bytes: u64) -> Option<Base> {
    let (here, there) = UnixStream::pair().ok()?;
    match sys::fork().ok()? {
        Fork::Child => {
            drop(here);
            let made = sys::enter_mounts().ok().and_then(|()| Base::make(bytes, Exec::Any).ok());
            let sent = made.is_some_and(|Base { root, proc, scratch: [tmp, shm, home], .. }| {
                let fds = [&root, &proc, &tmp, &shm, &home].map(AsFd::as_fd);
                wire::send(&there, &(), &fds).is_ok()
            });
            sys::exit_now(i32::from(!sent))
        }
        Fork::Parent(maker) => {
            drop(there);
            let received = wire::receive::<()>(&here);
            let _ = rustix::process::waitpid(Some(maker), WaitOptions::empty());
            let (_, fds) = received.ok()?;
            let [root, proc, tmp, shm, home] = <[OwnedFd; 5]>::try_from(fds).ok()?;
            Some(Base { root, proc, scratch: [tmp, shm, home], scratch_bytes: bytes })
        }
    }
}

impl Base {
    /// The one that was made ahead, when it is as `plan` wants it, else a fresh one. To be called in the
    /// jail's mount namespace.
    pub(super) fn ready_or_made(plan: &Plan) -> Result<Self, Failure> {
        let ready = READY.lock().unwrap_or_else(PoisonError::into_inner).take();
        let bytes = plan.limits.scratch_bytes;
        let suits = |base: &Self| base.scratch_bytes == bytes && plan.exec == Exec::Any;
        ready.filter(suits).map_or_else(|| Self::make(bytes, plan.exec), Ok)
    }

    fn make(scratch_bytes: u64, exec: Exec) -> Result<Self, Failure> {
        let root = tmpfs("0755", 16 << 20, exec)?;
        let made = |path: &str| Part::Files.failed::<Errno>(format!("making /{path} of the jail"));
        for path in ["dev", "dev/shm", "etc", "home", HOME.trim_start_matches('/'), "proc", "tmp", "var"] {
            rustix::fs::mkdirat(&root, path, Mode::from_raw_mode(0o755)).map_err(made(path))?;
        }
        let write = |path: &str, content: &str| write(&root, path, content.as_bytes(), OFlags::EXCL);
        for (path, content) in FILES.iter().chain(&ALONE) {
            write(path, content)?;
        }
        for name in DEVICES {
            write(&format!("dev/{name}"), "")?;
        }
        for (content, path) in LINKS {
            rustix::fs::symlinkat(*content, &root, *path).map_err(made(path))?;
        }
        let [tmp, shm, home] = SCRATCH.map(|(_, mode)| tmpfs(mode, scratch_bytes, exec));
        Ok(Self { root, proc: proc()?, scratch: [tmp?, shm?, home?], scratch_bytes })
    }

    /// Writes `content` into a file of the root that is there already.
    pub(super) fn rewrite(&self, path: &str, content: &[u8]) -> Result<(), Failure> {
        write(&self.root, path, content, OFlags::TRUNC)
    }
}

fn write(root: &OwnedFd, path: &str, content: &[u8], how: OFlags) -> Result<(), Failure> {
    let failed = || Part::Files.failed(format!("writing /{path} of the jail"));
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | how;
    let file = rustix::fs::openat(root, Path::new(path), flags, Mode::from_raw_mode(0o644));
    let file = file.map_err(|error| failed()(error.into()))?;
    std::io::Write::write_all(&mut std::fs::File::from(file), content).map_err(failed())
}

/// An empty temporary file system, with a bound also on its number of files, whose kernel
/// memory its size does not count.
pub(super) fn tmpfs(mode: &str, bytes: u64, exec: Exec) -> Result<OwnedFd, Failure> {
    let make = || {
        let fs = rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        rustix::mount::fsconfig_set_string(&fs, "mode", mode)?;
        rustix::mount::fsconfig_set_string(&fs, "size", bytes.to_string())?;
        rustix::mount::fsconfig_set_string(&fs, "nr_inodes", "262144")?;
        rustix::mount::fsconfig_create(&fs)?;
        let mut attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        attributes.set(MountAttrFlags::MOUNT_ATTR_NOEXEC, exec != Exec::Any);
        rustix::mount::fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
    };
    make().map_err(Part::Files.failed("making a temporary file system"))
}

fn proc() -> Result<OwnedFd, Failure> {
    let make = || {
        Lack::Proc.refuse()?;
        let fs = rustix::mount::fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
        rustix::mount::fsconfig_create(&fs)?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        rustix::mount::fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
    };
    make().map_err(Part::Files.failed("mounting a /proc of the jail's own"))
}
