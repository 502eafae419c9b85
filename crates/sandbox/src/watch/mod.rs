//! Watches the jail as a whole from outside: the launcher looks at all its processes and at the disks that it
//! writes to, as the kernel's own limits hold for single processes and single files.
//!
//! It looks at most every 20 and at least every 500 milliseconds, the sooner the less is left of a bound.
//! A first, cheap look (counters of each process and of each file system) says at most too much. Only when
//! that would be too much, it counts exactly. What cannot be counted exactly (a process that takes too long
//! to look at, a directory that cannot be read) counts as the cheap look has it.

mod disk;
mod held;
mod memory;

use std::{
    os::fd::OwnedFd,
    path::Path,
    time::{Duration, Instant},
};

use rustix::{
    fs::{CWD, MemfdFlags, Mode, OFlags},
    io::Errno,
};

use crate::{
    Failure, Part, Plan,
    bound::{self, Bound, Growth, Memory},
};

/// Exact counts are made this often also when nothing looks like it, as shared memory without a name shows in
/// the machine's counters only.
const EXACT_EVERY: Duration = Duration::from_secs(2);

/// The state of things before the program runs.
pub(crate) struct Before {
    /// The device of memory that has no name in the file system.
    nameless: u64,
    /// When it was, as files have it: seconds and nanoseconds.
    began: (i64, i64),
    /// The machine's shared memory, in bytes.
    shared: u64,
}

impl Before {
    /// Takes note of it.
    pub(crate) fn note() -> Result<Self, Failure> {
        let fail = |doing: &'static str| Part::Limits.failed::<Errno>(doing);
        let file = rustix::fs::memfd_create("regie", MemfdFlags::CLOEXEC)
            .map_err(fail("making memory to know shared memory by"))?;
        let stat = rustix::fs::fstat(&file).map_err(fail("looking at shared memory"))?;
        let began = (stat.st_ctime, i64::try_from(stat.st_ctime_nsec).unwrap_or_default());
        Ok(Self { nameless: stat.st_dev, began, shared: memory::machine_shared() })
    }
}

/// A jail that is looked at.
pub(crate) struct Watch {
    before: Before,
    most: u64,
    scratch: Vec<OwnedFd>,
    /// The devices of that and of memory without a name.
    in_memory: Vec<u64>,
    disks: disk::Disks,
    processors: u64,
    exact_at: Instant,
    pause: Duration,
}

impl Watch {
    /// Begins, in a launcher whose root is the jail's by now.
    pub(crate) fn begin(plan: &Plan, before: Before) -> Result<Self, Failure> {
        let is_proc =
            rustix::fs::statfs("/proc").is_ok_and(|stat| stat.f_type == rustix::fs::PROC_SUPER_MAGIC);
        // This process is in no /proc of the jail's.
        if !is_proc || std::fs::read_link("/proc/self").is_ok() {
            let doing = "watching the jail, whose /proc is not to be seen".into();
            return Err(Failure { part: Part::Limits, doing, errno: None });
        }
        let open = |target: &Path| {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::openat(CWD, target, flags, Mode::empty())
                .map_err(Part::Limits.failed::<Errno>(format!("watching {} in the jail", target.display())))
        };
        let scratch = disk::scratch(plan).map(open).collect::<Result<Vec<_>, _>>()?;
        let limits = Growth { bytes: plan.limits.disk_bytes, files: plan.limits.disk_files };
        let disks = disk::Disks::begin(plan, limits, before.began)?;
        let devices = scratch.iter().flat_map(rustix::fs::fstat).map(|stat| stat.st_dev);
        let in_memory = devices.chain([before.nameless]).collect();
        let processors = rustix::thread::sched_getaffinity(None).map_or(1, |set| u64::from(set.count()));
        let most = plan.limits.memory_bytes;
        let pause = bound::pause(most, disks.left(), processors, Duration::ZERO);
        let exact_at = Instant::now() + EXACT_EVERY;
        Ok(Self { before, most, scratch, in_memory, disks, processors, exact_at, pause })
    }

    /// How long until the next look.
    pub(crate) fn pause(&self) -> Duration {
        self.pause
    }

    /// Looks at the jail; says which bound it has reached.
    pub(crate) fn look(&mut self) -> Option<Bound> {
        let begin = Instant::now();
        let (total, reached) = self.look_at_memory(begin);
        let reached = reached.or_else(|| self.disks.look(&self.in_memory));
        self.pause = if self.disks.is_counting() {
            Duration::ZERO
        } else {
            let left = self.most.saturating_sub(total);
            bound::pause(left, self.disks.left(), self.processors, begin.elapsed())
        };
        reached
    }

    /// The memory of the jail as far as it had to be counted, and whether that is too much.
    fn look_at_memory(&mut self, now: Instant) -> (u64, Option<Bound>) {
        let processes = memory::processes();
        let named = disk::held_by(&self.scratch).saturating_add(memory::system_v());
        let grown = memory::machine_shared().saturating_sub(self.before.shared);
        let rough = Memory { held: named.max(grown), ..processes.rough() };
        if bound::memory(rough, self.most).is_none() && now < self.exact_at {
            return (rough.total(), None);
        }
        self.exact_at = now + EXACT_EVERY;
        let nameless = held::bytes_on(self.before.nameless);
        let held = nameless.map_or(named.max(grown), |nameless| named.saturating_add(nameless));
        let rough = Memory { held, ..rough };
        if bound::memory(rough, self.most).is_none() {
            return (rough.total(), None);
        }
        // Twice, as processes that share pages come and go while they are counted.
        let first = Memory { held, ..processes.exact() };
        if bound::memory(first, self.most).is_none() {
            return (first.total(), None);
        }
        let second = Memory { held, ..memory::processes().exact() };
        (second.total(), bound::memory(second, self.most))
    }
}
