//! Trees that are built before anybody knows for what: what every jail begins with, and the machine's programs.
//!
//! There are two, with these and without. A plan that shows other things than were made ready, or a machine that
//! has changed since, gets the one without, and all that it shows is mounted then: so what is there is always what
//! the plan means at the time of its start, and never what was meant before.

use std::{
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{CWD, FileType, Mode, OFlags, Stat},
    io::Errno,
    mount::{MoveMountFlags, OpenTreeFlags},
};
use serde::{Deserialize, Serialize};

use super::{
    DEVICES, PidBound, STAGE, Tree,
    base::{self, Base, SCRATCH},
    bound_proc, device, keep_private, nest, outer_first, source, sources, swap_root,
};
use crate::{
    Access, Exec, Failure, Limits, Mount, Part, Plan, default_system_mounts,
    sys::{self, MOUNT_NO_EXEC},
};

/// Two trees that wait for a plan.
pub(crate) struct Trees {
    /// With the machine's programs; the root of its mount namespace.
    pub(crate) full: OwnedFd,
    /// Without; mounted nowhere.
    pub(crate) bare: OwnedFd,
}

/// Something of the machine's that the full tree shows.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Shown {
    mount: Mount,
    /// What was found at its source; nothing for a link, which is not looked at.
    found: Option<Found>,
}

/// A file or directory: device and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Found(u64, u64);

impl From<Stat> for Found {
    fn from(stat: Stat) -> Self {
        Self(stat.st_dev, stat.st_ino)
    }
}

/// Builds both in this mount namespace, and makes the full one its root.
pub(crate) fn build(limits: &Limits, pids: PidBound) -> Result<(Trees, Vec<Shown>), Failure> {
    keep_private()?;
    let system = default_system_mounts();
    let mounts = outer_first(&system);
    let sources = sources(&mounts, |mount| source(None, mount))?;
    let devices = DEVICES.iter().map(|name| device(name)).collect::<Result<Vec<_>, _>>()?;
    let Base { root, proc, scratch } = Base::make(limits.scratch_bytes, Exec::Any)?;
    bound_proc(&proc, limits.processes, pids)?;
    let bare = mounted(root)?;
    bare.furnish(&proc, &devices, &scratch)?;

    // The other one shows the same memory and the same processes; only one of them will be there.
    let copy = |mounted: &OwnedFd, more| {
        nest::clone_of(mounted, more).map_err(Part::Files.failed("copying what a jail has"))
    };
    let all = |mounted: &[OwnedFd]| {
        mounted.iter().map(|mounted| copy(mounted, OpenTreeFlags::empty())).collect::<Result<Vec<_>, _>>()
    };
    let (proc, devices, scratch) = (copy(&proc, OpenTreeFlags::empty())?, all(&devices)?, all(&scratch)?);
    let bare = copy(&bare.root, OpenTreeFlags::AT_RECURSIVE)?;
    let mut full = mounted(base::root(Exec::Any)?)?;
    full.furnish(&proc, &devices, &scratch)?;
    let mut shown = Vec::new();
    for (mount, source) in mounts.into_iter().zip(sources) {
        let found = match &source {
            Some(source) => {
                let doing = || format!("looking at {} for the jail", mount.source.display());
                Some(rustix::fs::fstat(source).map_err(Part::Files.failed(doing()))?.into())
            }
            None => None,
        };
        full.add(mount, source, limits)?;
        shown.push(Shown { mount: mount.clone(), found });
    }
    swap_root(&full.root)?;
    Ok((Trees { full: full.root, bare }, shown))
}

/// A tree with this root, which is mounted where trees are put together.
fn mounted(root: OwnedFd) -> Result<Tree, Failure> {
    let onto = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(&root, "", CWD, STAGE, onto)
        .map_err(Part::Files.failed::<Errno>("mounting the jail's root on /tmp"))?;
    Ok(tree(root))
}

fn tree(root: OwnedFd) -> Tree {
    Tree { root, bound: Vec::new(), empty: None, exec: Exec::Any }
}

/// What a launcher has that waits for a plan.
pub(crate) struct Ready {
    /// The mount namespace in which the trees are.
    pub(crate) mounts: OwnedFd,
    /// The trees.
    pub(crate) trees: Trees,
    /// What the full one shows.
    pub(crate) shown: Vec<Shown>,
    /// Tells whether the machine has mounted anything since before they were built.
    pub(crate) changes: Option<Changes>,
}

/// What is to be let go of, which the kernel takes its time for: once the program runs.
#[must_use]
pub(crate) struct Rest(Vec<OwnedFd>);

impl Ready {
    /// Completes one of the trees by what `plan` wants, in this process, which joins the trees' mount namespace
    /// and has just entered a copy of the machine's.
    pub(crate) fn enter(self, plan: &Plan) -> Result<Rest, Failure> {
        keep_private()?;
        let mounts = outer_first(&plan.mounts);
        let is_full = !self.changes.is_none_or(|changes| changes.are_there()) && suit(&self.shown, &mounts);
        let is_wanted = |mount: &Mount| !is_full || !self.shown.iter().any(|shown| shown.mount == *mount);
        let of = |mount: &Mount| if is_wanted(mount) { source(Some(plan), mount) } else { Ok(None) };
        let sources = sources(&mounts, of)?;
        let mut rest = vec![own_mounts()?];
        sys::join_mounts(self.mounts.as_fd())
            .map_err(Part::Namespaces.failed("joining the mounts that were made ready"))?;
        let Trees { full, bare } = self.trees;
        let mut tree = tree(full);
        if is_full {
            rest.push(bare);
        } else {
            tree.attach(&bare, Path::new(STAGE), FileType::Directory)?;
            swap_root(&bare)?;
            tree.root = bare;
        }
        tree.exec = plan.exec;
        for (mount, source) in mounts.into_iter().zip(sources) {
            if is_wanted(mount) {
                tree.add(mount, source, &plan.limits)?;
            } else if mount.access != Access::Link {
                tree.bound.push(mount.target.clone());
            }
        }
        if plan.exec != Exec::Any {
            tree.execute_nothing()?;
        }
        tree.finish()?;
        Ok(Rest(rest))
    }
}

impl Rest {
    /// Lets go of it.
    pub(crate) fn let_go(self) {
        drop(self.0);
    }
}

/// The mount namespace of this process.
pub(crate) fn own_mounts() -> Result<OwnedFd, Failure> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::open("/proc/self/ns/mnt", flags, Mode::empty())
        .map_err(Part::Namespaces.failed::<Errno>("opening the mount namespace"))
}

impl Tree {
    /// Has nothing executed that is written into the jail's own file systems.
    fn execute_nothing(&self) -> Result<(), Failure> {
        let own = SCRATCH.iter().map(|(target, _)| Path::new(target));
        for target in [Path::new("/")].into_iter().chain(own) {
            let doing = || format!("having nothing executed in {} of the jail", target.display());
            let place = self.there(target, FileType::Directory).map_err(Part::Files.failed(doing()))?;
            sys::mount_restrict_one(place.as_fd(), MOUNT_NO_EXEC).map_err(Part::Files.failed(doing()))?;
        }
        Ok(())
    }
}

/// Whether all that the full tree shows is what these show, and lies below nothing else of them.
fn suit(shown: &[Shown], mounts: &[&Mount]) -> bool {
    let is_there = |shown: &Shown| {
        let mut around = mounts.iter().filter(|mount| shown.mount.target.starts_with(&mount.target));
        around.next().is_some_and(|mount| **mount == shown.mount) && around.next().is_none()
    };
    let is_same = |shown: &Shown| {
        let Some(found) = shown.found else { return shown.mount.access == Access::Link };
        rustix::fs::stat(&shown.mount.source).is_ok_and(|stat| Found::from(stat) == found)
    };
    shown.iter().all(|shown| is_there(shown) && is_same(shown))
}

/// Tells of changes to the machine's mounts.
pub(crate) struct Changes(OwnedFd);

impl Changes {
    /// Those from now on to the mounts that this process sees; `None` where the kernel does not tell.
    pub(crate) fn begin() -> Option<Self> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let changes = Self(rustix::fs::open("/proc/thread-self/mountinfo", flags, Mode::empty()).ok()?);
        // The first look says that there are some, whatever there was.
        changes.are_there();
        Some(changes)
    }

    /// Whether there was any since the last look.
    fn are_there(&self) -> bool {
        let mut fds = [PollFd::new(&self.0, PollFlags::PRI)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)) != Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn mount(source: impl Into<PathBuf>, target: &str) -> Mount {
        Mount { source: source.into(), target: target.into(), access: Access::Read }
    }

    #[test]
    fn only_what_is_still_the_same_and_uncovered_suits() {
        let dir = tempfile::tempdir().unwrap();
        let [programs, settings] = ["programs", "settings"].map(|name| dir.path().join(name));
        std::fs::create_dir(&programs).unwrap();
        std::fs::write(&settings, "old").unwrap();
        let link = Mount { access: Access::Link, ..mount("usr/bin", "/bin") };
        let system = [mount(&programs, "/usr"), mount(&settings, "/etc/settings"), link];
        let shown: Vec<Shown> = system
            .iter()
            .map(|mount| Shown {
                mount: mount.clone(),
                found: rustix::fs::stat(&mount.source).ok().map(Into::into),
            })
            .collect();
        let suits = |mounts: &[Mount]| suit(&shown, &outer_first(mounts));
        let with = |more: Mount| [&system[..], &[more]].concat();
        assert!(suits(&system));
        assert!(suits(&with(mount("/w", "/workspace"))));
        assert!(suits(&with(mount("/w", "/usr/share"))), "within it");
        assert!(!suits(&with(mount("/w", "/etc"))), "around it");
        assert!(!suits(&with(mount("/w", "/usr"))), "in its place");
        assert!(!suits(&with(mount(&programs, "/usr"))), "twice");
        assert!(!suits(&system[1..]), "less");
        assert!(!suits(&[system[0].clone(), system[2].clone(), mount("/w", "/etc/settings")]), "another");
        let written = Mount { access: Access::Write, ..system[1].clone() };
        assert!(!suits(&[system[0].clone(), system[2].clone(), written]), "otherwise");
        // As packages are updated. The old one is kept, as the mount keeps it, so that its number is not given anew.
        std::fs::rename(&settings, dir.path().join("kept")).unwrap();
        assert!(!suits(&system), "gone");
        std::fs::write(&settings, "new").unwrap();
        assert!(!suits(&system), "replaced");
    }

    #[test]
    fn changes_of_mounts_are_told() {
        let dir = tempfile::tempdir().unwrap();
        // Where nobody else mounts anything, and only this thread is.
        if sys::enter_mounts().is_err() || keep_private().is_err() {
            // Only root can: the tests run as root too.
            return;
        }
        let changes = Changes::begin().unwrap();
        assert!(!changes.are_there());
        let made = base::tmpfs("0755", 1 << 20, Exec::Any).unwrap();
        assert!(!changes.are_there(), "it is mounted nowhere");
        let onto = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        rustix::mount::move_mount(&made, "", CWD, dir.path(), onto).unwrap();
        assert!(changes.are_there());
        assert!(!changes.are_there(), "since the last look");
        rustix::mount::unmount(dir.path(), rustix::mount::UnmountFlags::DETACH).unwrap();
        assert!(changes.are_there());
    }
}
