//! A control group for one jail, where this user may make one (cgroup v2, delegated by systemd, or root): the
//! kernel itself then holds the step as a whole to its memory, its own for the step included, and to its
//! processes. Where there is none, the launcher's watch is what holds.
//!
//! The launcher makes it, enters it, starts the jail in it, leaves it, and removes it when the jail has ended.
//! One that was killed leaves an empty directory, which the doctor and the next daemon take away.

use std::{
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, CWD, FsWord, Mode, OFlags},
    io::Errno,
    process::Pid,
};

use crate::Limits;

/// Where systems have the hierarchy.
const ROOT: &str = "/sys/fs/cgroup";
/// `CGROUP2_SUPER_MAGIC`.
const CGROUP2: FsWord = 0x6367_7270;
/// What all their names begin with.
const NAME: &str = "regie-step-";
/// What has to be handed on to the groups below a place.
const NEEDED: [&str; 2] = ["memory", "pids"];

/// A control group that holds a jail. Dropping it removes it, and this process from it.
#[derive(Debug)]
pub(crate) struct Group {
    /// The process that made it; a copy of that has no say.
    maker: Pid,
    base: OwnedFd,
    name: String,
    dir: OwnedFd,
    /// Of the group that this process was in before.
    back: OwnedFd,
}

/// What is written into a new group: the file, the value, and whether it may be missing.
type Setting = (&'static str, String, bool);

fn settings(limits: &Limits) -> Vec<Setting> {
    // The jail's first process counts too.
    let processes = limits.processes.saturating_add(1).to_string();
    vec![
        ("memory.max", limits.memory_bytes.to_string(), false),
        ("memory.swap.max", "0".into(), true),
        ("memory.oom.group", "1".into(), true),
        ("pids.max", processes, false),
    ]
}

impl Group {
    /// Makes one for a step with these limits and enters it.
    ///
    /// # Errors
    /// In words, why there is none.
    pub(crate) fn enter(limits: &Limits) -> Result<Self, String> {
        let group = Self::make(limits)?;
        group.take_this().map_err(|error| format!("a group can be made and not entered: {error}"))?;
        Ok(group)
    }

    /// Makes one for a step with these limits.
    ///
    /// # Errors
    /// In words, why there is none.
    pub(crate) fn make(limits: &Limits) -> Result<Self, String> {
        let is_there = rustix::fs::statfs(ROOT).is_ok_and(|stat| stat.f_type == CGROUP2);
        if !is_there {
            return Err(format!("{ROOT} is no cgroup v2"));
        }
        let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self::make_below(Path::new(ROOT), &own, &NEEDED, &settings(limits))
    }

    fn make_below(root: &Path, own: &str, needed: &[&str], settings: &[Setting]) -> Result<Self, String> {
        let Some(own) = own_place(root, own) else {
            return Err("this process is in no group of cgroup v2 that it can see".into());
        };
        let mut why = String::new();
        for base in [Some(own.as_path()), own.parent().filter(|base| base.starts_with(root))] {
            let Some(base) = base else { continue };
            match Self::make_in(base, &own, needed, settings) {
                Ok(group) => return Ok(group),
                Err(because) => why = because,
            }
        }
        Err(why)
    }

    fn make_in(base: &Path, own: &Path, needed: &[&str], settings: &[Setting]) -> Result<Self, String> {
        let handed_on = std::fs::read_to_string(base.join("cgroup.subtree_control")).unwrap_or_default();
        if let Some(missing) = needed.iter().find(|name| !handed_on.split_whitespace().any(|on| on == **name))
        {
            return Err(format!("{} hands on no {missing}", base.display()));
        }
        // Who moves processes below a place may write to what holds those of the place itself.
        let failed = |doing: &str, error: Errno| format!("{doing} in {}: {error}", base.display());
        let back = open_to_write(CWD, &own.join("cgroup.procs"))
            .map_err(|error| failed("finding the way back", error))?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let base_dir = rustix::fs::openat(CWD, base, flags, Mode::empty())
            .map_err(|error| failed("opening it", error))?;
        open_to_write(&base_dir, Path::new("cgroup.procs"))
            .map_err(|error| failed("moving processes", error))?;
        let name = format!("{NAME}{}", std::process::id());
        // What an earlier process of the same number has left is empty.
        let _ = rustix::fs::unlinkat(&base_dir, &name, AtFlags::REMOVEDIR);
        rustix::fs::mkdirat(&base_dir, &name, Mode::from_raw_mode(0o755))
            .map_err(|error| failed("making a group", error))?;
        let ready = || -> Result<OwnedFd, Errno> {
            let dir = rustix::fs::openat(&base_dir, &name, flags, Mode::empty())?;
            for (file, value, may_be_missing) in settings {
                match put(&dir, file, value) {
                    Err(Errno::NOENT) if *may_be_missing => {}
                    other => other?,
                }
            }
            Ok(dir)
        };
        match ready() {
            Ok(dir) => Ok(Self { maker: rustix::process::getpid(), base: base_dir, name, dir, back }),
            Err(error) => {
                let _ = rustix::fs::unlinkat(&base_dir, &name, AtFlags::REMOVEDIR);
                Err(failed("setting a group up", error))
            }
        }
    }

    /// Takes this process into it.
    fn take_this(&self) -> Result<(), Errno> {
        put(&self.dir, "cgroup.procs", "0")
    }

    /// Takes this process out of it, and leaves in what it has started.
    pub(crate) fn leave(&self) {
        // One that stays in is ended with the jail when memory runs out, and says nothing more.
        let _ = rustix::io::write(&self.back, b"0");
    }

    /// Whether the kernel has ended something in it because its memory was used up.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let Ok(file) = rustix::fs::openat(&self.dir, "memory.events", flags, Mode::empty()) else {
            return false;
        };
        std::io::read_to_string(std::fs::File::from(file)).is_ok_and(|text| counts_kills(&text))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if rustix::process::getpid() == self.maker {
            self.leave();
            let _ = rustix::fs::unlinkat(&self.base, &self.name, AtFlags::REMOVEDIR);
        }
    }
}

/// Takes away what killed launchers have left: groups with nothing in them.
pub(crate) fn sweep() {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let Some(own) = own_place(Path::new(ROOT), &own) else { return };
    for base in own.ancestors().take(2) {
        for entry in std::fs::read_dir(base).into_iter().flatten().flatten() {
            if entry.file_name().to_str().is_some_and(|name| name.starts_with(NAME)) {
                // One that holds something stays: the kernel refuses.
                let _ = std::fs::remove_dir(entry.path());
            }
        }
    }
}

/// The directory of the group that a process is in, by what its `cgroup` file says.
fn own_place(root: &Path, own: &str) -> Option<PathBuf> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let is_seen = Path::new(path).components().all(|part| matches!(part, std::path::Component::Normal(_)));
    is_seen.then(|| root.join(path))
}

/// Whether `memory.events` tells of a process that was ended.
fn counts_kills(text: &str) -> bool {
    let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.is_some_and(|count| count.trim() != "0")
}

fn open_to_write(dir: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(dir, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
}

fn put(dir: &OwnedFd, file: &str, value: &str) -> Result<(), Errno> {
    rustix::io::write(open_to_write(dir, Path::new(file))?, value.as_bytes()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_is_found_where_it_is_seen() {
        let root = Path::new("/r");
        let found = |text| own_place(root, text);
        assert_eq!(found("9:pids:/\n0::/user.slice/a.scope\n"), Some("/r/user.slice/a.scope".into()));
        assert_eq!(found("0::/\n"), Some("/r/".into()));
        assert_eq!(found("0::/../other\n"), None, "outside of what this process sees");
        assert_eq!(found("4:memory:/x\n"), None);
    }

    #[test]
    fn kills_for_lack_of_memory_are_told_from_others() {
        assert!(counts_kills("low 0\nmax 12\noom 1\noom_kill 1\noom_group_kill 1\n"));
        assert!(!counts_kills("max 12\noom 1\noom_kill 0\noom_group_kill 0\n"));
        assert!(!counts_kills(""));
    }

    #[test]
    fn a_place_that_hands_nothing_on_or_takes_nothing_is_left_as_it_was() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("cgroup.procs"), "").unwrap();
        let own = root.path().join("a");
        std::fs::create_dir(&own).unwrap();
        std::fs::write(own.join("cgroup.procs"), "").unwrap();
        let enter =
            || Group::make_below(root.path(), "0::/a", &NEEDED, &settings(&Limits::default())).unwrap_err();
        assert!(enter().contains("hands on no memory"), "{}", enter());
        std::fs::write(root.path().join("cgroup.subtree_control"), "cpu pids").unwrap();
        assert!(enter().contains("hands on no memory"), "{}", enter());
        std::fs::write(root.path().join("cgroup.subtree_control"), "memory pids").unwrap();
        // No kernel fills this directory.
        assert!(enter().contains("setting a group up"), "{}", enter());
        let left = std::fs::read_dir(root.path()).unwrap().flatten();
        assert!(left.into_iter().all(|entry| !entry.file_name().to_str().unwrap().starts_with(NAME)));
    }

    #[test]
    fn a_group_is_entered_left_and_gone_where_the_kernel_has_them() {
        let is_group = |path: &&str| rustix::fs::statfs(*path).is_ok_and(|stat| stat.f_type == CGROUP2);
        let own = || std::fs::read_to_string("/proc/self/cgroup").unwrap();
        let before = own();
        let root = [ROOT, "/sys/fs/cgroup/unified"].into_iter().find(is_group);
        // Controllers are another matter: this shows the way in and out.
        let group = root.map(|root| Group::make_below(Path::new(root), &before, &[], &[]));
        let Some(Ok(group)) = group else {
            eprintln!("skipped: no group can be made here: {group:?}");
            return;
        };
        assert_eq!(own(), before, "it is made and not entered");
        group.take_this().unwrap();
        assert!(own().contains(&group.name), "{}", own());
        assert!(!group.is_out_of_memory());
        let name = group.name.clone();
        drop(group);
        assert_eq!(own(), before);
        let all = root.map(|root| own_place(Path::new(root), &before).unwrap().join(&name));
        assert!(all.is_some_and(|dir| !dir.exists()), "{name}");
    }
}
