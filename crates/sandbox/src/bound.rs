//! The bounds of a step as a whole: what all its processes hold and write together. Pure: it is decided here
//! from what was seen, and seen elsewhere.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

/// How fast one processor can take memory, in bytes a second: generous, as looks are planned by it.
const MEMORY_PER_SECOND: u64 = 2 << 30;
/// How fast a machine can write to its disk, in bytes a second.
const DISK_PER_SECOND: u64 = 2 << 30;
/// How fast one processor can make files, a second.
const FILES_PER_SECOND: u64 = 200_000;
/// Between two looks, at least and at most.
const SHORTEST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_millis(500);
/// A look may take this share of the time: one part of it in so many.
const SHARE: u32 = 4;

/// A bound that a step as a whole has reached, with its amount: the step and all that it started were ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "bound", content = "most")]
#[non_exhaustive]
pub enum Bound {
    /// Memory of all its processes, of its scratch and of what they share, in bytes.
    Memory(u64),
    /// What it wrote to disk in all, in bytes.
    Disk(u64),
    /// Files that it made in all.
    Files(u64),
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(most) => write!(f, "memory limit of {} reached by the step as a whole", Size(*most)),
            Self::Disk(most) => {
                write!(f, "disk limit of {} of new data reached by the step as a whole", Size(*most))
            }
            Self::Files(most) => write!(f, "limit of {most} new files reached by the step as a whole"),
        }
    }
}

impl Bound {
    /// What whoever wrote the step can do about it.
    #[must_use]
    pub const fn mend(&self) -> &'static str {
        match self {
            Self::Memory(_) => "do it in smaller parts or with fewer processes at once",
            Self::Disk(_) => {
                "what it wrote is still there: remove what is not needed, and write less at once"
            }
            Self::Files(_) => {
                "what it made is still there: remove what is not needed, and make fewer at once"
            }
        }
    }
}

/// An amount of bytes in the largest unit that it has one of.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            bytes if bytes >= 1 << 30 => (1_u64 << 30, "GiB"),
            bytes if bytes >= 1 << 20 => (1 << 20, "MiB"),
            _ => (1 << 10, "KiB"),
        };
        match (self.0 / unit, self.0 % unit * 10 / unit) {
            (whole, 0) => write!(f, "{whole} {name}"),
            (whole, tenth) => write!(f, "{whole}.{tenth} {name}"),
        }
    }
}

/// The memory of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// What is one process's own, page tables and what was swapped out included, in bytes.
    pub(crate) own: u64,
    /// What processes have mapped of shared memory.
    pub(crate) mapped: u64,
    /// What shared memory is held by name or descriptor: scratch, System V segments, files without a name.
    pub(crate) held: u64,
}

impl Memory {
    /// All of it. What is mapped is as a rule of what is held, and counts once.
    pub(crate) fn total(&self) -> u64 {
        self.own.saturating_add(self.mapped.max(self.held))
    }
}

/// What a step has added to one disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Growth {
    /// In bytes.
    pub(crate) bytes: u64,
    /// In files.
    pub(crate) files: u64,
}

impl Growth {
    /// Both together.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self { bytes: self.bytes.saturating_add(other.bytes), files: self.files.saturating_add(other.files) }
    }

    /// What is in both: the step cannot have added more than its disk has.
    pub(crate) fn least(self, other: Self) -> Self {
        Self { bytes: self.bytes.min(other.bytes), files: self.files.min(other.files) }
    }

    /// Whether one of them is beyond.
    pub(crate) fn beyond(self, most: Self) -> Option<Bound> {
        if self.bytes > most.bytes {
            Some(Bound::Disk(most.bytes))
        } else if self.files > most.files {
            Some(Bound::Files(most.files))
        } else {
            None
        }
    }

    /// What is left of a bound.
    pub(crate) fn left(self, most: Self) -> Self {
        Self { bytes: most.bytes.saturating_sub(self.bytes), files: most.files.saturating_sub(self.files) }
    }
}

/// What a step may add to a disk that has this free: never all of it, whatever the limits say. A file system
/// that does not count its files says none.
pub(crate) fn room(limits: Growth, free: Growth) -> Growth {
    let files = if free.files == 0 { u64::MAX } else { free.files / 10 * 9 };
    limits.least(Growth { bytes: free.bytes / 10 * 9, files })
}

/// Whether the memory of a step is beyond its bound.
pub(crate) fn memory(seen: Memory, most: u64) -> Option<Bound> {
    (seen.total() > most).then_some(Bound::Memory(most))
}

/// How long until the next look: not longer than it takes to use up what is left, and long enough that looking
/// costs little.
pub(crate) fn pause(memory_left: u64, disk_left: Growth, processors: u64, took: Duration) -> Duration {
    let processors = processors.max(1);
    let millis = |left: u64, rate: u64| left.saturating_mul(1000) / rate.max(1);
    let soonest = millis(memory_left, MEMORY_PER_SECOND.saturating_mul(processors))
        .min(millis(disk_left.bytes, DISK_PER_SECOND))
        .min(millis(disk_left.files, FILES_PER_SECOND.saturating_mul(processors)));
    Duration::from_millis(soonest).max(SHORTEST).max(took.saturating_mul(SHARE)).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_memory_counts_once() {
        let seen = Memory { own: 10, mapped: 30, held: 40 };
        assert_eq!(seen.total(), 50);
        assert_eq!(memory(seen, 50), None);
        assert_eq!(memory(seen, 49), Some(Bound::Memory(49)));
        let unnamed = Memory { mapped: 45, ..seen };
        assert_eq!(memory(unnamed, 50), Some(Bound::Memory(50)), "shared without a name");
        let huge = Memory { own: u64::MAX, mapped: 1, held: 1 };
        assert_eq!(memory(huge, 7), Some(Bound::Memory(7)));
    }

    #[test]
    fn a_disk_is_never_filled_whatever_the_limits_say() {
        let limits = Growth { bytes: 1000, files: 100 };
        assert_eq!(room(limits, Growth { bytes: 5000, files: 5000 }), limits);
        assert_eq!(room(limits, Growth { bytes: 500, files: 50 }), Growth { bytes: 450, files: 45 });
        assert_eq!(room(limits, Growth { bytes: 5000, files: 0 }), limits, "its files are not counted");
        assert_eq!(room(limits, Growth { bytes: 0, files: 9 }), Growth { bytes: 0, files: 0 });
    }

    #[test]
    fn either_bound_of_a_disk_is_one() {
        let most = Growth { bytes: 10, files: 10 };
        assert_eq!(Growth { bytes: 10, files: 10 }.beyond(most), None);
        assert_eq!(Growth { bytes: 11, files: 11 }.beyond(most), Some(Bound::Disk(10)));
        assert_eq!(Growth { bytes: 0, files: 11 }.beyond(most), Some(Bound::Files(10)));
        assert_eq!(Growth { bytes: 4, files: 12 }.left(most), Growth { bytes: 6, files: 0 });
    }

    #[test]
    fn looks_come_closer_as_the_bound_does() {
        let much = Growth { bytes: u64::MAX, files: u64::MAX };
        let after = |left, processors| pause(left, much, processors, Duration::ZERO);
        assert_eq!(after(u64::MAX, 2), LONGEST);
        assert_eq!(after(4 << 30, 64), Duration::from_millis(31));
        assert_eq!(after(1 << 30, 2), Duration::from_millis(250));
        assert_eq!(after(0, 0), SHORTEST);
        let few = Growth { files: 40_000, ..much };
        assert_eq!(pause(u64::MAX, few, 2, Duration::ZERO), Duration::from_millis(100));
        let little = Growth { bytes: 1 << 30, ..much };
        assert_eq!(pause(u64::MAX, little, 2, Duration::ZERO), LONGEST);
        // A look that takes long is not made all the time, and is made.
        assert_eq!(pause(0, much, 1, Duration::from_millis(50)), Duration::from_millis(200));
        assert_eq!(pause(0, much, 1, Duration::from_secs(9)), LONGEST);
    }

    #[test]
    fn a_bound_says_its_amount() {
        let said = |bound: Bound| bound.to_string();
        assert_eq!(said(Bound::Memory(4 << 30)), "memory limit of 4 GiB reached by the step as a whole");
        assert!(said(Bound::Disk((3 << 20) + (1 << 19))).contains("3.5 MiB"));
        assert!(said(Bound::Disk(2048)).contains("2 KiB"));
        assert!(said(Bound::Files(2000)).contains("2000 new files"));
    }
}
