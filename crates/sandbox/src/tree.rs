//! The jail's own file tree: built beside the old one from detached mounts, then swapped in.
//!
//! Every source is opened before anything is covered, and every target is walked component
//! by component without following links, so that nothing inside a workspace can steer a mount.

pub(crate) mod ahead;
mod base;
mod layered;
mod nest;

use std::{
    ffi::OsStr,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{CWD, FileType, Mode, OFlags, ResolveFlags},
    io::Errno,
    mount::{MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags},
};

use base::{Base, SCRATCH, tmpfs};

use crate::{
    Access, Exec, Failure, Limits, Mount, Network, Part, Plan,
    lacks::Lack,
    sys::{self, MOUNT_NO_DEV, MOUNT_NO_EXEC, MOUNT_NO_SUID, MOUNT_READ_ONLY},
};

/// Where the new tree is put together; everything the plan wants from below it is open by then.
const STAGE: &str = "/tmp";

/// The kernel keeps this many process ids for itself once ids wrap around.
const RESERVED_PIDS: u64 = 300;
const MOST_PIDS: u64 = 4_194_304;

const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom"];

const FILES: &[(&str, &str)] = &[
    (
        "etc/passwd",
        "root:x:0:0:root:/:/usr/sbin/nologin\n\
         regie:x:1000:1000:regie:/home/regie:/bin/sh\n\
         nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
    ),
    ("etc/group", "root:x:0:\nregie:x:1000:\nnogroup:x:65534:\n"),
    ("etc/hostname", "regie\n"),
];

/// How names of machines are resolved where there is none but this one.
const ALONE: [(&str, &str); 3] = [
    ("etc/hosts", "127.0.0.1 localhost regie\n::1 localhost\n"),
    ("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
    ("etc/resolv.conf", ""),
];

/// The most bytes of a setting that is taken over from the machine.
const LONGEST_SETTING: u64 = 64 << 10;

const LINKS: &[(&str, &str)] = &[
    ("/proc/self/fd", "dev/fd"),
    ("/proc/self/fd/0", "dev/stdin"),
    ("/proc/self/fd/1", "dev/stdout"),
    ("/proc/self/fd/2", "dev/stderr"),
    ("../tmp", "var/tmp"),
];

/// Whether a bound on process ids is needed: for root the kernel holds no process limit, and a control group
/// is not always there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PidBound {
    /// The launch fails without it.
    Needed,
    /// A second bound, where the kernel has it.
    Extra,
}

/// [`nest::is_inside`], for those who fuzz it.
#[cfg(feature = "parsers")]
pub(crate) fn is_inside(before: &[Mount], mount: &Mount) -> bool {
    nest::is_inside(before.iter(), mount)
}

/// Builds the tree of `plan` and makes it the root of this mount namespace.
pub(crate) fn enter(plan: &Plan, pids: PidBound) -> Result<(), Failure> {
    let fail = |doing: &'static str| Part::Files.failed::<Errno>(doing);
    keep_private()?;
    let mounts = outer_first(&plan.mounts);
    let sources = sources(&mounts, |mount| source(Some(plan), mount))?;
    let devices = DEVICES.iter().map(|name| device(name)).collect::<Result<Vec<_>, _>>()?;
    let base = Base::make(plan.limits.scratch_bytes, plan.exec)?;
    for (path, content) in names(plan.network)? {
        base.rewrite(path, &content)?;
    }
    bound_proc(&base.proc, plan.limits.processes, pids)?;
    let Base { root, proc, scratch } = base;
    let onto = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(&root, "", CWD, STAGE, onto)
        .map_err(fail("mounting the jail's root on /tmp"))?;
    let mut tree = Tree { root, bound: Vec::new(), empty: None, exec: plan.exec };
    tree.furnish(&proc, &devices, &scratch)?;
    for (mount, source) in mounts.into_iter().zip(sources) {
        tree.add(mount, source, &plan.limits)?;
    }
    swap_root(&tree.root)?;
    tree.finish()
}

/// Nothing that the machine mounts from now on shows here, or the other way round.
fn keep_private() -> Result<(), Failure> {
    let private = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
    let changed = Lack::Mounts.refuse().and_then(|()| rustix::mount::mount_change("/", private));
    changed.map_err(Part::Files.failed::<Errno>("making the mounts private"))
}

/// The mounts in the order in which they can be made.
fn outer_first(mounts: &[Mount]) -> Vec<&Mount> {
    let mut mounts: Vec<&Mount> = mounts.iter().collect();
    mounts.sort_by_key(|mount| mount.target.components().count());
    mounts
}

/// Opens what these show, as far as it is wanted and is not within what another one shows.
fn sources(
    mounts: &[&Mount],
    source: impl Fn(&Mount) -> Result<Option<OwnedFd>, Failure>,
) -> Result<Vec<Option<OwnedFd>>, Failure> {
    mounts
        .iter()
        .enumerate()
        .map(|(at, mount)| {
            let before = mounts.iter().take(at).copied();
            if nest::is_inside(before, mount) { Ok(None) } else { source(mount) }
        })
        .collect()
}

/// Makes a mounted directory the root of all that is in this mount namespace, and lets go of what was.
fn swap_root(root: &OwnedFd) -> Result<(), Failure> {
    let fail = |doing: &'static str| Part::Files.failed::<Errno>(doing);
    rustix::process::fchdir(root).map_err(fail("entering the jail's root"))?;
    rustix::process::pivot_root(".", ".").map_err(fail("swapping the root"))?;
    rustix::mount::unmount(".", UnmountFlags::DETACH).map_err(fail("letting go of the old root"))?;
    rustix::process::chdir("/").map_err(fail("entering the jail's root"))
}

struct Tree {
    root: OwnedFd,
    /// Targets that show something from outside: nothing is created below them.
    bound: Vec<PathBuf>,
    /// What covers files and directories, once something is to be covered.
    empty: Option<nest::Empty>,
    /// Whether what is written into temporary directories could be executed.
    exec: Exec,
}

impl Tree {
    /// Has nothing more made in a tree that is complete.
    fn finish(mut self) -> Result<(), Failure> {
        self.clear()?;
        sys::mount_restrict_one(self.root.as_fd(), MOUNT_READ_ONLY | MOUNT_NO_SUID | MOUNT_NO_DEV)
            .map_err(Part::Files.failed("making the jail's root read-only"))
    }

    /// What every jail has.
    fn furnish(&self, proc: &OwnedFd, devices: &[OwnedFd], scratch: &[OwnedFd]) -> Result<(), Failure> {
        self.attach(proc, Path::new("/proc"), FileType::Directory)?;
        for (name, device) in DEVICES.iter().zip(devices) {
            self.attach(device, &Path::new("/dev").join(name), FileType::RegularFile)?;
        }
        for ((target, _), scratch) in SCRATCH.iter().zip(scratch) {
            self.attach(scratch, Path::new(target), FileType::Directory)?;
        }
        Ok(())
    }

    fn add(&mut self, mount: &Mount, source: Option<OwnedFd>, limits: &Limits) -> Result<(), Failure> {
        let target = &mount.target;
        match (mount.access, source) {
            (Access::Link, _) => self.link(&mount.source, target),
            (Access::Private, _) => {
                let scratch = tmpfs("0700", limits.scratch_bytes, self.exec)?;
                self.attach(&scratch, target, FileType::Directory)
            }
            (_, None) => self.nest(mount),
            (access, Some(source)) => {
                let doing = || format!("showing {} in the jail", mount.source.display());
                let attributes = nest::attributes(access);
                sys::mount_restrict(source.as_fd(), attributes).map_err(Part::Files.failed(doing()))?;
                let stat = rustix::fs::fstat(&source).map_err(Part::Files.failed(doing()))?;
                if attributes & MOUNT_READ_ONLY == 0 && stat.st_uid != rustix::process::geteuid().as_raw() {
                    // Said here, where it can be mended, rather than by every write in there.
                    let doing = format!(
                        "{} is to be written but belongs to another user than Regie's",
                        mount.source.display()
                    );
                    return Err(Failure { part: Part::Plan, doing, errno: None });
                }
                self.attach(&source, target, FileType::from_raw_mode(stat.st_mode))?;
                self.bound.push(target.clone());
                Ok(())
            }
        }
    }

    /// Mounts at `target`, on a place that is there or is made for it.
    fn attach(&self, mount: &OwnedFd, target: &Path, kind: FileType) -> Result<(), Failure> {
        let failed =
            |error: Errno| Part::Files.failed(format!("mounting {} in the jail", target.display()))(error);
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        if let Some((parent, name)) = self.made(target, kind)? {
            // Not followed, should it be a link by now.
            return rustix::mount::move_mount(mount, "", &parent, name, flags).map_err(failed);
        }
        let point = self.point(target, kind)?;
        let flags = flags | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        rustix::mount::move_mount(mount, "", &point, "", flags).map_err(failed)
    }

    /// Makes the place `target` where nothing is and the directory that it is to be in is ours: that
    /// directory, and its name in there.
    fn made<'a>(&self, target: &'a Path, kind: FileType) -> Result<Option<(OwnedFd, &'a OsStr)>, Failure> {
        let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else { return Ok(None) };
        if !self.is_ours(parent) {
            return Ok(None);
        }
        let at = self.point(parent, FileType::Directory)?;
        let done = match kind {
            FileType::Directory => rustix::fs::mkdirat(&at, name, Mode::from_raw_mode(0o755)),
            _ => rustix::fs::mknodat(&at, name, FileType::RegularFile, Mode::from_raw_mode(0o644), 0),
        };
        match done {
            Ok(()) => Ok(Some((at, name))),
            Err(Errno::EXIST) => Ok(None),
            Err(error) => {
                Err(Part::Plan.failed(format!("making the place {} in the jail", target.display()))(error))
            }
        }
    }

    fn link(&self, content: &Path, target: &Path) -> Result<(), Failure> {
        let doing = || format!("linking {} in the jail", target.display());
        let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
            return Err(Failure { part: Part::Plan, doing: doing(), errno: None });
        };
        let parent = self.point(parent, FileType::Directory)?;
        rustix::fs::symlinkat(content, &parent, name).map_err(Part::Plan.failed(doing()))
    }

    /// The place `target` in the new tree, made when it is missing and ours to make.
    fn point(&self, target: &Path, kind: FileType) -> Result<OwnedFd, Failure> {
        let failed = |error: Errno| {
            Part::Plan.failed(format!("finding the place {} in the jail", target.display()))(error)
        };
        match self.there(target, kind) {
            Err(Errno::NOENT) if self.made(target, kind)?.is_some() => self.there(target, kind),
            found => found,
        }
        .map_err(failed)
    }

    /// Opens the place `target`, following no link: the kernel looks at every name on the way.
    fn there(&self, target: &Path, kind: FileType) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let flags = if kind == FileType::Directory { flags | OFlags::DIRECTORY } else { flags };
        let below = target.strip_prefix("/").unwrap_or(target);
        let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
        let straight = ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
        rustix::fs::openat2(&self.root, below, flags, Mode::empty(), straight)
    }

    /// Whether what is missing in the directory `at` may be made there.
    fn is_ours(&self, at: &Path) -> bool {
        !self.bound.iter().any(|bound| at.starts_with(bound))
    }
}

/// How the jail resolves the names of machines, where it can reach any. The machine's own settings are copied, not shown: the
/// files are often links to places that no jail has.
fn names(network: Network) -> Result<Vec<(&'static str, Vec<u8>)>, Failure> {
    if network == Network::None {
        return Ok(Vec::new());
    }
    let copied = |path: &'static str| {
        let mut content = Vec::new();
        match std::fs::File::open(Path::new("/").join(path)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Part::Network.failed(format!("reading /{path} for the jail"))(error)),
            Ok(file) => {
                let read = std::io::Read::take(file, LONGEST_SETTING);
                std::io::Read::read_to_end(&mut { read }, &mut content)
                    .map_err(Part::Network.failed(format!("reading /{path} for the jail")))?;
            }
        }
        Ok((path, content))
    };
    let switch = b"passwd: files\ngroup: files\nhosts: files dns\n".to_vec();
    Ok(vec![copied("etc/hosts")?, copied("etc/resolv.conf")?, ("etc/nsswitch.conf", switch)])
}

/// A detached copy of what the mount shows, with everything mounted below it.
fn source(plan: Option<&Plan>, mount: &Mount) -> Result<Option<OwnedFd>, Failure> {
    let layers = plan.and_then(|plan| plan.layers.as_ref().map(|layers| (layers, plan)));
    let layers = layers.filter(|(layers, _)| mount.source.starts_with(&layers.base));
    match mount.access {
        Access::Private | Access::Link | Access::Cover | Access::Hold => Ok(None),
        _ if layers.is_some_and(|(layers, _)| mount.source != layers.base) => {
            let doing = format!("{} is a part of layers, shown by itself", mount.source.display());
            Err(Failure { part: Part::Plan, doing, errno: None })
        }
        Access::Read | Access::ReadNoExec | Access::Write | Access::WriteNoExec => {
            if let Some((layers, plan)) = layers {
                let how = if layers.are_written(plan) { layered::Use::Write } else { layered::Use::Read };
                return layered::mount(layers, how).map(Some);
            }
            let is_written = matches!(mount.access, Access::Write | Access::WriteNoExec);
            // What is written is reached by no link: one that is made meanwhile would lead elsewhere.
            let cloned = if is_written { nest::clone_straight(&mount.source) } else { clone(&mount.source) };
            cloned.map(Some).map_err(|error| {
                let part = if error == Errno::PERM { Part::Files } else { Part::Plan };
                part.failed(format!("opening {} for the jail", mount.source.display()))(error)
            })
        }
    }
}

fn device(name: &str) -> Result<OwnedFd, Failure> {
    let doing = || format!("showing /dev/{name} in the jail");
    let fd = clone(&Path::new("/dev").join(name)).map_err(Part::Files.failed(doing()))?;
    sys::mount_restrict(fd.as_fd(), MOUNT_NO_SUID | MOUNT_NO_EXEC).map_err(Part::Files.failed(doing()))?;
    Ok(fd)
}

fn clone(path: &Path) -> Result<OwnedFd, Errno> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    rustix::mount::open_tree(CWD, path, flags)
}

/// Bounds a fresh `/proc` of this process namespace. Read-only: a jailed process of a caller that is
/// root owns, to the kernel, the machine's own switches in there.
fn bound_proc(proc: &OwnedFd, processes: u64, pids: PidBound) -> Result<(), Failure> {
    let bounded = bound_pids(proc, processes);
    if pids == PidBound::Needed {
        bounded.map_err(Part::Limits.failed("bounding the processes of a jail started by root"))?;
    }
    sys::mount_restrict(proc.as_fd(), MOUNT_READ_ONLY)
        .map_err(Part::Files.failed("making the jail's /proc read-only"))
}

fn bound_pids(proc: &OwnedFd, processes: u64) -> Result<(), Errno> {
    if !pid_max_is_ours() {
        return Err(Errno::OPNOTSUPP);
    }
    let most = processes.saturating_add(RESERVED_PIDS).min(MOST_PIDS);
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(proc, "sys/kernel/pid_max", flags, Mode::empty())?;
    rustix::io::write(&file, most.to_string().as_bytes()).map(drop)
}

/// From Linux 6.14 on the largest process id belongs to the process namespace. Before, it is
/// the whole machine's, and root may write it even from in here: so it must not be tried.
fn pid_max_is_ours() -> bool {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy();
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    version >= (6, 14)
}
