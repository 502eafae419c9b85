//! The layers of a directory as one mount: an overlay of the jail's own, named nowhere outside of it.

use std::{
    os::fd::{AsRawFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags},
    io::Errno,
    mount::{FsMountFlags, FsOpenFlags, MountAttrFlags},
};

use crate::{Failure, Layers, Part, lacks::Lack};

/// Whether what an overlay shows can be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// It goes to the upper layer.
    Write,
    /// It cannot, so that several jails can show the same layers at once.
    Read,
}

/// A detached mount of `layers`. To be called in the jail's mount namespace.
pub(super) fn mount(layers: &Layers, how: Use) -> Result<OwnedFd, Failure> {
    let open = |path: &Path| {
        let doing = || format!("opening the layer {} for the jail", path.display());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let layer = rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
            .map_err(Part::Plan.failed(doing()))?;
        let stat = rustix::fs::fstat(&layer).map_err(Part::Plan.failed(doing()))?;
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            // A file of an owner that is none in the jail's user namespace cannot be copied to the upper layer.
            let doing = format!("the layer {} belongs to another user than Regie's", path.display());
            return Err(Failure { part: Part::Plan, doing, errno: None });
        }
        Ok(layer)
    };
    let [base, upper] = [open(&layers.base)?, open(&layers.upper)?];
    let work = if how == Use::Write { Some(open(&layers.work)?) } else { None };
    overlay(&base, &upper, work.as_ref())
        .map_err(Part::Layers.failed(format!("laying {} over each other", layers.base.display())))
}

/// With `work` what is changed goes to `upper`; without it nothing can be changed.
fn overlay(base: &OwnedFd, upper: &OwnedFd, work: Option<&OwnedFd>) -> Result<OwnedFd, Errno> {
    // What has been opened, whatever its path has become, and whatever signs its name holds.
    let name = |layer: &OwnedFd| format!("/proc/self/fd/{}", layer.as_raw_fd());
    Lack::Overlay.refuse()?;
    let fs = rustix::mount::fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    match work {
        Some(work) => {
            rustix::mount::fsconfig_set_string(&fs, "lowerdir", name(base))?;
            rustix::mount::fsconfig_set_string(&fs, "upperdir", name(upper))?;
            rustix::mount::fsconfig_set_string(&fs, "workdir", name(work))?;
        }
        None => {
            let both = format!("{}:{}", name(upper), name(base));
            rustix::mount::fsconfig_set_string(&fs, "lowerdir", both)?;
        }
    }
    // No name leads from one layer to another place of the other: with this attribute alone no directory is
    // redirected and no file is without its content.
    rustix::mount::fsconfig_set_flag(&fs, "userxattr")?;
    rustix::mount::fsconfig_set_string(&fs, "index", "off")?;
    rustix::mount::fsconfig_set_string(&fs, "xino", "off")?;
    rustix::mount::fsconfig_create(&fs)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    rustix::mount::fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}
