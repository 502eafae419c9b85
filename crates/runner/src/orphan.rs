//! Jails whose runner died.
//!
//! A jail ends by itself when its runner does, but not in the same instant; and the kernel must not
//! roll a workspace back under a process that still writes there. So each jail's launcher is on
//! record while its step runs, and whoever finds a dead runner waits until they are gone. (The
//! launcher ends after everything in its jail.)

use std::fs;
use std::path::{Path, PathBuf};

use domain::StepNo;

/// A jail on record, forgotten when this is dropped.
#[derive(Debug)]
pub(crate) struct Record(PathBuf);

impl Record {
    /// Puts the launcher of a step on record. Best effort: without the record nobody waits.
    pub(crate) fn of(dir: &Path, step: StepNo, pid: u32) -> Self {
        let path = dir.join(format!("{step}.pid"));
        if let Some(born) = birth(pid)
            && let Err(error) = fs::write(&path, format!("{pid} {born}"))
        {
            tracing::warn!(%error, "the jail of step {step} is not on record");
        }
        Self(path)
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Waits until the jails of a dead runner are gone; ends those that do not go by themselves.
pub(crate) fn reap(dir: &Path) {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let records =
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "pid"));
    for record in records {
        let text = fs::read_to_string(&record).unwrap_or_default();
        if let Some((pid, born)) = text.split_once(' ')
            && let Ok(pid) = pid.parse()
        {
            end(pid, born);
        }
        let _ = fs::remove_file(&record);
    }
}

/// When a process was born, in the kernel's own count: with the id it names one process for ever.
#[cfg(target_os = "linux")]
fn birth(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may contain anything; the birth is field 22.
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(19).map(str::to_owned)
}

#[cfg(target_os = "linux")]
fn end(pid: u32, born: &str) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    let Some(id) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    let Ok(process) = pidfd_open(id, PidfdFlags::empty()) else { return };
    if birth(pid).as_deref() != Some(born) {
        return;
    }
    for _ in 0..2 {
        let patience = Timespec { tv_sec: 5, tv_nsec: 0 };
        if poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&patience)).is_ok_and(|ready| ready > 0) {
            return;
        }
        let _ = pidfd_send_signal(&process, Signal::KILL);
    }
    tracing::warn!(pid, "a jail of a dead runner does not end");
}

#[cfg(not(target_os = "linux"))]
fn birth(_: u32) -> Option<String> {
    None
}

#[cfg(not(target_os = "linux"))]
fn end(_: u32, _: &str) {}
