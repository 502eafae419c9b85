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

/// The bytes of the files on `device` that descriptors of the jail hold; nothing when there are too many
/// descriptors to be looked through.
pub(super) fn bytes_on(device: u64) -> Option<u64> {
    bytes(|on, _| on == device)
}

/// The same of files that have no name any more, on all but these devices.
pub(super) fn removed(except: &[u64]) -> Option<u64> {
    bytes(|on, links| links == 0 && !except.contains(&on))
}

/// The bytes of files that are wanted, by device and number of names, each once.
fn bytes(is_wanted: impl Fn(u64, u32) -> bool) -> Option<u64> {
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
            let device = rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor);
            if is_wanted(device, found.stx_nlink) && seen.insert((device, found.stx_ino)) {
                bytes = bytes.saturating_add(found.stx_blocks.saturating_mul(512));
            }
        }
    }
    Some(bytes)
}
