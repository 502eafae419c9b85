//! Mounts within mounts: what is protected in a place that the jail shows.
//!
//! Such a mount is cloned from the jail's own tree, reached there name by name without following a link: a
//! program that still writes to the workspace while the jail is built cannot have anything else mounted.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags},
    io::Errno,
    mount::{MoveMountFlags, OpenTreeFlags},
};

use super::Tree;
use crate::{
    Access, Failure, Mount, Part,
    sys::{self, MOUNT_NO_DEV, MOUNT_NO_EXEC, MOUNT_NO_SUID, MOUNT_READ_ONLY},
};

/// Where what covers files and directories is made, in the jail's root; gone from there at once.
const EMPTY_FILE: &str = ".file";
const EMPTY_DIRECTORY: &str = ".directory";

/// Whether `mount` shows a place that one of those before it shows already at the same path.
pub(super) fn is_inside<'a>(before: impl Iterator<Item = &'a Mount>, mount: &Mount) -> bool {
    let nearest = before
        .filter(|outer| outer.target != mount.target && mount.target.starts_with(&outer.target))
        .max_by_key(|outer| outer.target.components().count());
    nearest.is_some_and(|outer| {
        let is_shown = !matches!(outer.access, Access::Private | Access::Link | Access::Cover);
        let rest = mount.target.strip_prefix(&outer.target).ok();
        is_shown && rest.is_some_and(|rest| outer.source.join(rest) == mount.source)
    })
}

/// The restrictions of a mount.
pub(super) fn attributes(access: Access) -> u64 {
    let always = MOUNT_NO_SUID | MOUNT_NO_DEV;
    always
        | match access {
            Access::Read => MOUNT_READ_ONLY,
            Access::ReadNoExec => MOUNT_READ_ONLY | MOUNT_NO_EXEC,
            Access::WriteNoExec => MOUNT_NO_EXEC,
            Access::Cover => MOUNT_READ_ONLY | MOUNT_NO_EXEC,
            Access::Write | Access::Private | Access::Link | Access::Hold => 0,
        }
}

/// An empty file and an empty directory that nobody can open.
pub(super) struct Empty {
    file: OwnedFd,
    directory: OwnedFd,
}

impl Tree {
    /// Puts a mount into what the jail shows already.
    pub(super) fn nest(&mut self, mount: &Mount) -> Result<(), Failure> {
        let target = &mount.target;
        let doing = || format!("protecting {} in the jail", target.display());
        // The place itself says what it is, and must be there.
        let place = self.existing(target)?;
        let stat = rustix::fs::fstat(&place).map_err(Part::Plan.failed(doing()))?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind == FileType::Symlink {
            return Err(Failure {
                part: Part::Plan,
                doing: format!("{}: it is a link", doing()),
                errno: None,
            });
        }
        let mut wanted = attributes(mount.access);
        let copy = match mount.access {
            Access::Cover => {
                let empty = self.empty()?;
                let from = if kind == FileType::Directory { &empty.directory } else { &empty.file };
                clone_of(from, OpenTreeFlags::empty())
            }
            _ => clone_of(&place, OpenTreeFlags::AT_RECURSIVE),
        };
        let copy = copy.map_err(Part::Files.failed(doing()))?;
        if mount.access != Access::Hold {
            if wanted & MOUNT_READ_ONLY == 0 {
                if stat.st_uid != rustix::process::geteuid().as_raw() {
                    let doing = format!(
                        "{} is to be written but belongs to another user than Regie's",
                        mount.source.display()
                    );
                    return Err(Failure { part: Part::Plan, doing, errno: None });
                }
                // What the mount around it restricts is not meant here; what the machine restricts stays.
                let loosened = MOUNT_READ_ONLY | if wanted & MOUNT_NO_EXEC == 0 { MOUNT_NO_EXEC } else { 0 };
                sys::mount_loosen_one(copy.as_fd(), loosened).map_err(Part::Files.failed(doing()))?;
            } else if wanted & MOUNT_NO_EXEC == 0 {
                sys::mount_loosen_one(copy.as_fd(), MOUNT_NO_EXEC).map_err(Part::Files.failed(doing()))?;
            }
        } else {
            wanted = MOUNT_NO_SUID | MOUNT_NO_DEV;
        }
        sys::mount_restrict(copy.as_fd(), wanted).map_err(Part::Files.failed(doing()))?;
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        rustix::mount::move_mount(&copy, "", &place, "", flags).map_err(Part::Files.failed(doing()))?;
        self.bound.push(target.clone());
        Ok(())
    }

    /// The place `target`, which has to be there, reached without following a link.
    fn existing(&self, target: &Path) -> Result<OwnedFd, Failure> {
        self.there(target, FileType::Unknown)
            .map_err(Part::Plan.failed(format!("finding the place {} in the jail", target.display())))
    }

    fn empty(&mut self) -> Result<&Empty, Failure> {
        if self.empty.is_none() {
            self.empty =
                Some(self.make_empty().map_err(Part::Files.failed("making what covers denied paths"))?);
        }
        match &self.empty {
            Some(empty) => Ok(empty),
            None => Err(Failure { part: Part::Files, doing: "covering denied paths".into(), errno: None }),
        }
    }

    /// Names that are removed again: what is mounted from them stays.
    fn make_empty(&self) -> Result<Empty, Errno> {
        let root = &self.root;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        rustix::fs::openat(root, EMPTY_FILE, flags, Mode::empty()).map(drop)?;
        rustix::fs::mkdirat(root, EMPTY_DIRECTORY, Mode::empty())?;
        let path = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = |name: &str| rustix::fs::openat(root, name, path, Mode::empty());
        Ok(Empty { file: open(EMPTY_FILE)?, directory: open(EMPTY_DIRECTORY)? })
    }

    /// Takes the names of what covers from the jail's root again.
    pub(super) fn clear(&mut self) -> Result<(), Failure> {
        if self.empty.take().is_some() {
            let fail = || Part::Files.failed("clearing the jail's root");
            rustix::fs::unlinkat(&self.root, EMPTY_FILE, AtFlags::empty()).map_err(|error| fail()(error))?;
            rustix::fs::unlinkat(&self.root, EMPTY_DIRECTORY, AtFlags::REMOVEDIR)
                .map_err(|error| fail()(error))?;
        }
        Ok(())
    }
}

/// A detached copy of what a path shows that leads through no link.
pub(super) fn clone_straight(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let place = rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
    clone_of(&place, OpenTreeFlags::AT_RECURSIVE)
}

pub(super) fn clone_of(place: &OwnedFd, more: OpenTreeFlags) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | more;
    rustix::mount::open_tree(place, "", flags)
}
