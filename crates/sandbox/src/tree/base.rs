//! What every jail's tree begins with, whatever its plan, as detached file systems that have no name yet.

use std::{os::fd::OwnedFd, path::Path};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    mount::{FsMountFlags, FsOpenFlags, MountAttrFlags},
};

use super::{ALONE, DEVICES, FILES, LINKS};
use crate::{Exec, Failure, HOME, Part, lacks::Lack};

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
}

impl Base {
    /// Makes them, in a mount namespace of this user namespace's.
    pub(super) fn make(scratch_bytes: u64, exec: Exec) -> Result<Self, Failure> {
        let [tmp, shm, home] = SCRATCH.map(|(_, mode)| tmpfs(mode, scratch_bytes, exec));
        Ok(Self { root: root(exec)?, proc: proc()?, scratch: [tmp?, shm?, home?] })
    }

    /// Writes `content` into a file of the root that is there already.
    pub(super) fn rewrite(&self, path: &str, content: &[u8]) -> Result<(), Failure> {
        write(&self.root, path, content, OFlags::TRUNC)
    }
}

/// A root with its own files.
pub(super) fn root(exec: Exec) -> Result<OwnedFd, Failure> {
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
    Ok(root)
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
