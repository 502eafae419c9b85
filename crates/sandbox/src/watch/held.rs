//! What the jail's processes hold by descriptors alone: memory without a name, and files that were removed
//! while they are open.

use std::{
    collections::HashSet,
    fs,
    time::{Duration, Instant},
};

use rustix::fs::{AtFlags, CWD, StatxFlags};

use super::memory;

/// Looking through descriptors takes this long at most.
const PATIENCE: Duration = Duration::from_millis(200);

/// Which files count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// All on the device.
    All,
    /// Those without a name any more.
    Removed,
}

/// The bytes of the files on `device` that descriptors of the jail hold, each once; nothing when there are too
/// many descriptors to be looked through.
pub(super) fn bytes_on(device: u64, of: Of) -> Option<u64> {
    let begin = Instant::now();
    let mut seen = HashSet::new();
    let mut bytes = 0_u64;
    for id in memory::ids() {
        // What cannot be looked into is a program that nobody may read, which the jail cannot have made.
        let Ok(entries) = fs::read_dir(format!("/proc/{id}/fd")) else { continue };
        for entry in entries.flatten() {
            if begin.elapsed() > PATIENCE {
                return None;
            }
            let found = rustix::fs::statx(CWD, entry.path(), AtFlags::empty(), StatxFlags::BASIC_STATS);
            let Ok(found) = found else { continue };
            if rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor) != device
                || (of == Of::Removed && found.stx_nlink != 0)
            {
                continue;
            }
            if seen.insert(found.stx_ino) {
                bytes = bytes.saturating_add(found.stx_blocks.saturating_mul(512));
            }
        }
    }
    Some(bytes)
}
