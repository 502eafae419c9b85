//! Jails whose runner died.
//!
//! A jail ends by itself when its runner does, but not in the same instant; and the kernel must not
//! roll a workspace back under a process that still writes there. So each jail's launcher carries a
//! mark of its spool among its arguments, from its very start, and whoever finds a dead runner waits
//! until no process with that mark is left. (The launcher ends after everything in its jail.)

use std::path::Path;

use domain::Digest;

/// What the launchers of a spool's jails carry: no path, as a jail can read it.
pub(crate) fn mark(dir: &Path) -> String {
    Digest::of_parts(&[b"regie/jails/1\0", dir.as_os_str().as_encoded_bytes()]).to_string()
}

/// Waits until the jails of a dead runner are gone; ends those that do not go by themselves.
#[cfg(target_os = "linux")]
pub(crate) fn reap(dir: &Path) {
    let mark = mark(dir);
    let mut known = std::collections::HashSet::new();
    // Again until nothing is found: what is seen to die may be what kept something else alive.
    loop {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let found: Vec<i32> =
            pids.filter(|pid| !known.contains(pid) && found(*pid, &mark).is_some()).collect();
        if found.is_empty() {
            return;
        }
        for pid in found {
            end(pid, &mark);
            known.insert(pid);
        }
    }
}

/// On a system without jails there are none.
#[cfg(not(target_os = "linux"))]
pub(crate) fn reap(_: &Path) {}

/// Why a process is waited for.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    /// It is one of the jails' launchers, or a jail's first process, which has the same arguments.
    Marked,
    /// It is dying, and so has no arguments any more: it may be one of them, which is only dead when
    /// all of its jail are. Others cost no more than the moment that they have left.
    Dying,
}

#[cfg(target_os = "linux")]
fn found(pid: i32, mark: &str) -> Option<Found> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut args = line.split(|byte| *byte == 0).skip(1);
    if args.next() == Some(sandbox::LAUNCH_ARG.as_bytes()) && args.next() == Some(mark.as_bytes()) {
        return Some(Found::Marked);
    }
    let is_dying = line.is_empty() && is_dying(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
    is_dying.then_some(Found::Dying)
}

/// Whether a process is on its way out and not yet dead, by its line of `/proc/<pid>/stat`.
#[cfg(target_os = "linux")]
fn is_dying(stat: &str) -> Option<bool> {
    /// The kernel's `PF_EXITING`.
    const EXITING: u64 = 4;
    // The name, in parentheses, may contain anything.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?;
    let flags: u64 = fields.nth(5)?.parse().ok()?;
    Some(flags & EXITING != 0 && !["Z", "X"].contains(&state))
}

#[cfg(target_os = "linux")]
fn end(pid: i32, mark: &str) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    let Some(process) = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else {
        return;
    };
    // Again, now that the process is held: the number may have passed to another one.
    let Some(why) = found(pid, mark) else { return };
    let is_gone = || {
        let patience = Timespec { tv_sec: 5, tv_nsec: 0 };
        poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&patience)).is_ok_and(|ready| ready > 0)
    };
    if is_gone() || why == Found::Dying {
        return;
    }
    let _ = pidfd_send_signal(&process, Signal::KILL);
    if !is_gone() {
        tracing::warn!(pid, "a jail of a dead runner does not end");
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_the_dying_from_the_living_and_the_dead() {
        assert_eq!(is_dying("7 (a) b) S 1 7 7 0 -1 4194308 0"), Some(true));
        assert_eq!(is_dying("7 (a) R 1 7 7 0 -1 4194304 0"), Some(false));
        assert_eq!(is_dying("7 (a) Z 1 7 7 0 -1 4194308 0"), Some(false));
        assert_eq!(is_dying("nonsense"), None);
    }

    #[test]
    fn marks_differ_by_spool() {
        assert_ne!(mark(Path::new("/a")), mark(Path::new("/b")));
    }
}
