//! What the jail writes to disk: counters of the file systems first, and a walk through what it may write to
//! when these say that it could be too much.

use std::{
    collections::HashSet,
    ffi::CStr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    time::{Duration, Instant},
};

use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags},
    io::Errno,
};

use super::held;
use crate::{
    Access, Failure, HOME, Part, Plan,
    bound::{Bound, Growth, room},
};

/// A walk goes on for this long at a time; memory is looked at in between.
const STRIDE: Duration = Duration::from_millis(20);
/// Where a file system does not count its files, one is taken to be there for each so many bytes.
const LEAST_FILE: u64 = 256;

/// The jail's own scratch, which is memory.
pub(super) fn scratch(plan: &Plan) -> impl Iterator<Item = &Path> {
    let own = ["/tmp", "/dev/shm", HOME].map(Path::new);
    let asked = plan.mounts.iter().filter(|mount| mount.access == Access::Private);
    own.into_iter().chain(asked.map(|mount| mount.target.as_path()))
}

/// What these hold together, in bytes; two that are one count once.
pub(super) fn held_by(scratch: &[OwnedFd]) -> u64 {
    let mut seen = HashSet::new();
    let mut bytes = 0_u64;
    for one in scratch {
        let device = rustix::fs::fstat(one).map(|stat| stat.st_dev);
        if let (Ok(device), Ok(stat)) = (device, rustix::fs::fstatvfs(one))
            && seen.insert(device)
        {
            let taken = stat.f_blocks.saturating_sub(stat.f_bfree).saturating_mul(stat.f_frsize);
            bytes = bytes.saturating_add(taken);
        }
    }
    bytes
}

/// All that the jail may write to.
pub(super) struct Disks {
    limits: Growth,
    disks: Vec<Disk>,
    walk: Option<Walk>,
    began: (i64, i64),
    /// No walk begins before this.
    rest_until: Instant,
}

/// One file system, and the places on it.
struct Disk {
    device: u64,
    roots: Vec<OwnedFd>,
    /// What the step may add to it.
    most: Growth,
    /// What the step has added, by the last walk.
    known: Growth,
    /// The least that was taken of it since that walk began: what was more since then may be the step's.
    low: Growth,
}

impl Disks {
    /// Looks at each place that `plan` has writable.
    pub(super) fn begin(plan: &Plan, limits: Growth, began: (i64, i64)) -> Result<Self, Failure> {
        let is_written = |access| matches!(access, Access::Write | Access::WriteNoExec);
        let targets =
            || plan.mounts.iter().filter(|mount| is_written(mount.access)).map(|mount| &mount.target);
        let mut disks: Vec<Disk> = Vec::new();
        for target in targets() {
            let failed = |error: Errno| {
                Part::Limits.failed(format!("watching {} in the jail", target.display()))(error)
            };
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let root = rustix::fs::openat2(CWD, target, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
                .map_err(failed)?;
            let device = rustix::fs::fstat(&root).map_err(failed)?.st_dev;
            let (taken, free) = counters(&root).map_err(failed)?;
            let disk = match disks.iter().position(|disk| disk.device == device) {
                Some(at) => disks.get_mut(at),
                None => {
                    let most = room(limits, free);
                    disks.push(Disk {
                        device,
                        roots: Vec::new(),
                        most,
                        known: Growth::default(),
                        low: taken,
                    });
                    disks.last_mut()
                }
            };
            if let Some(disk) = disk {
                disk.roots.push(root);
            }
        }
        Ok(Self { limits, disks, walk: None, began, rest_until: Instant::now() })
    }

    /// Whether a walk is under way, which is to go on at once.
    pub(super) fn is_counting(&self) -> bool {
        self.walk.is_some()
    }

    /// What is left of the bounds, at least.
    pub(super) fn left(&self) -> Growth {
        let all = Growth { bytes: u64::MAX, files: u64::MAX };
        let rough = self.rough();
        let each = self.disks.iter().zip(&rough).map(|(disk, grown)| grown.left(disk.most));
        let whole = rough.iter().copied().fold(Growth::default(), Growth::plus).left(self.limits);
        each.fold(all, Growth::least).least(if self.disks.is_empty() { all } else { whole })
    }

    /// Looks at the counters, and goes on counting where they say that it may be too much.
    pub(super) fn look(&mut self, in_memory: &[u64]) -> Option<Bound> {
        for disk in &mut self.disks {
            if let Some(taken) = disk.taken() {
                disk.low = disk.low.least(taken);
            }
        }
        if self.walk.is_none() {
            self.beyond(&self.rough())?;
            if Instant::now() < self.rest_until {
                return None;
            }
            let lows = self.disks.iter().map(|disk| disk.taken().unwrap_or(disk.low)).collect();
            self.walk = Some(Walk::begin(&self.disks, self.began, lows));
        }
        let mut walk = self.walk.take()?;
        let is_done = walk.go_on(&self.disks);
        // Too much already is too much, whatever is not counted yet.
        if let Some(bound) = self.beyond(&self.counted(&walk.tally.found)) {
            return Some(bound);
        }
        if !is_done {
            self.walk = Some(walk);
            return None;
        }
        self.finish(walk, in_memory)
    }

    /// Takes what a walk has found, and what has no name any more on any but the devices that are memory.
    fn finish(&mut self, walk: Walk, in_memory: &[u64]) -> Option<Bound> {
        let mut found = walk.tally.found;
        let rough = self.rough();
        let removed = held::removed(in_memory);
        // Of several disks it is not told which they are on: they count for each.
        for (found, rough) in found.iter_mut().zip(&rough) {
            match removed {
                Some(bytes) if !walk.is_blind => found.bytes = found.bytes.saturating_add(bytes),
                // What cannot be counted is the step's.
                _ => *found = *rough,
            }
        }
        let counted = self.counted(&found);
        if let Some(bound) = self.beyond(&counted) {
            return Some(bound);
        }
        for ((disk, known), low) in self.disks.iter_mut().zip(counted).zip(walk.lows) {
            (disk.known, disk.low) = (known, low.least(disk.taken().unwrap_or(low)));
        }
        self.rest_until = Instant::now() + walk.begun.elapsed();
        None
    }

    /// What the step may have added to each disk, at most.
    fn rough(&self) -> Vec<Growth> {
        self.disks.iter().map(Disk::rough).collect()
    }

    /// What was found of it, as far as the disk has it.
    fn counted(&self, found: &[Growth]) -> Vec<Growth> {
        self.disks.iter().zip(found).map(|(disk, found)| found.least(disk.rough())).collect()
    }

    fn beyond(&self, grown: &[Growth]) -> Option<Bound> {
        let each = self.disks.iter().zip(grown).find_map(|(disk, grown)| grown.beyond(disk.most));
        each.or_else(|| grown.iter().copied().fold(Growth::default(), Growth::plus).beyond(self.limits))
    }
}

impl Disk {
    fn taken(&self) -> Option<Growth> {
        counters(self.roots.first()?).ok().map(|(taken, _)| taken)
    }

    fn rough(&self) -> Growth {
        let Some(taken) = self.taken() else { return self.known };
        self.known.plus(taken.more_than(self.low))
    }
}

impl Growth {
    /// How much more this is than it was.
    fn more_than(self, before: Self) -> Self {
        before.left(self)
    }
}

/// What is taken of a file system, and what is free to be taken.
fn counters(root: &OwnedFd) -> Result<(Growth, Growth), Errno> {
    let stat = rustix::fs::fstatvfs(root)?;
    let bytes = stat.f_blocks.saturating_sub(stat.f_bfree).saturating_mul(stat.f_frsize);
    let files =
        if stat.f_files == 0 { bytes / LEAST_FILE } else { stat.f_files.saturating_sub(stat.f_ffree) };
    let free = Growth { bytes: stat.f_bavail.saturating_mul(stat.f_frsize), files: stat.f_favail };
    Ok((Growth { bytes, files }, free))
}

/// A walk through all that was made or changed since the step began. It follows no link, enters no other file
/// system, and opens nothing but directories.
struct Walk {
    begun: Instant,
    /// What was taken of each disk when it began.
    lows: Vec<Growth>,
    tally: Tally,
    /// Roots that are still to be entered: the disk, and which of its roots.
    roots: Vec<(usize, usize)>,
    /// The directories that it is in, all on one disk.
    within: Vec<(Dir, Place)>,
    /// Whether there was something that it could not look into.
    is_blind: bool,
}

/// What a walk has counted.
struct Tally {
    began: (i64, i64),
    found: Vec<Growth>,
    /// The disk that it is on.
    at: usize,
    /// What has several names, and directories, so that each counts once: device and number.
    met: HashSet<(u64, u64)>,
}

/// Where a directory is.
#[derive(Clone, Copy, Debug)]
struct Place {
    device: u64,
    mount: u64,
}

/// A directory that was opened, or why it was not.
type Entered = Result<(Dir, Place), Errno>;

impl Walk {
    fn begin(disks: &[Disk], began: (i64, i64), lows: Vec<Growth>) -> Self {
        let of = |(at, disk): (usize, &Disk)| (0..disk.roots.len()).map(move |root| (at, root));
        let found = vec![Growth::default(); disks.len()];
        Self {
            begun: Instant::now(),
            lows,
            tally: Tally { began, found, at: 0, met: HashSet::new() },
            roots: disks.iter().enumerate().flat_map(of).collect(),
            within: Vec::new(),
            is_blind: false,
        }
    }

    /// Goes on for a while; says whether it is through.
    fn go_on(&mut self, disks: &[Disk]) -> bool {
        let begin = Instant::now();
        while begin.elapsed() < STRIDE {
            // A few at once, as asking for the time costs as much as one of them.
            for _ in 0..32 {
                if self.within.is_empty() {
                    let Some((at, root)) = self.roots.pop() else { return true };
                    let Some(disk) = disks.get(at) else { continue };
                    self.tally.at = at;
                    let entered = disk.roots.get(root).and_then(|root| self.tally.enter_root(root));
                    self.take(entered);
                } else {
                    self.next();
                }
            }
        }
        false
    }

    /// Meets the next entry of the directory that it is in, or leaves that.
    fn next(&mut self) {
        let Some((dir, place)) = self.within.last_mut() else { return };
        let Some(Ok(entry)) = dir.read() else {
            drop(self.within.pop());
            return;
        };
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            return;
        }
        let entered = dir.fd().ok().and_then(|dir| self.tally.meet(dir, *place, name));
        self.take(entered);
    }

    fn take(&mut self, entered: Option<Entered>) {
        match entered {
            Some(Ok(dir)) => self.within.push(dir),
            // It has gone, or is something else by now.
            None | Some(Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP)) => {}
            // Too deep, or shut.
            Some(Err(_)) => self.is_blind = true,
        }
    }
}

impl Tally {
    /// Counts a root, and opens it when it is a directory.
    fn enter_root(&mut self, root: &OwnedFd) -> Option<Entered> {
        let found = statx(root.as_fd(), c"").ok()?;
        (self.count(&found) && is_directory(&found)).then(|| enter(root.as_fd(), c".", &found))
    }

    /// Counts an entry of `dir`, and opens it when it is a directory of the same disk.
    fn meet(&mut self, dir: BorrowedFd<'_>, within: Place, name: &CStr) -> Option<Entered> {
        let found = statx(dir, name).ok()?;
        let place = place(&found);
        // Parts of one file system may be devices of their own, and what is held in place is a mount of its
        // own: what is both is another file system.
        if is_directory(&found) && place.device != within.device && place.mount != within.mount {
            return None;
        }
        (self.count(&found) && is_directory(&found)).then(|| enter(dir, name, &found))
    }

    /// Counts one; says whether it was met for the first time.
    fn count(&mut self, found: &Statx) -> bool {
        let is_several = found.stx_nlink > 1 || is_directory(found);
        if is_several && !self.met.insert((place(found).device, found.stx_ino)) {
            return false;
        }
        let since = |time: rustix::fs::StatxTimestamp| (time.tv_sec, i64::from(time.tv_nsec)) >= self.began;
        let has_birth = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
        let is_changed = since(found.stx_ctime);
        let is_new = is_changed && (!has_birth || since(found.stx_btime));
        if let Some(sum) = self.found.get_mut(self.at)
            && is_changed
        {
            let bytes = found.stx_blocks.saturating_mul(512);
            *sum = sum.plus(Growth { bytes, files: u64::from(is_new) });
        }
        true
    }
}

fn place(found: &Statx) -> Place {
    let device = rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor);
    Place { device, mount: found.stx_mnt_id }
}

fn enter(dir: BorrowedFd<'_>, name: &CStr, found: &Statx) -> Entered {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(dir, name, flags, Mode::empty()).and_then(Dir::new);
    opened.map(|dir| (dir, place(found)))
}

fn statx(dir: BorrowedFd<'_>, name: &CStr) -> Result<Statx, Errno> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT;
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::MNT_ID;
    rustix::fs::statx(dir, name, flags, wanted)
}

fn is_directory(found: &Statx) -> bool {
    FileType::from_raw_mode(found.stx_mode.into()) == FileType::Directory
}
