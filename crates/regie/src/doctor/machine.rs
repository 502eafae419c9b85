//! What the machine under the home is like: its file system, its clock, its locale.

use std::path::Path;
use std::time::UNIX_EPOCH;

use models::catalogue;

use super::{Check, Status};
use crate::disk;
use crate::home::Home;
use crate::screen::clock;

/// How far ahead of the clock a file may be, in milliseconds.
const LEEWAY: u64 = 2 * 60 * 1000;

pub(super) fn all(home: &Home) -> Vec<Check> {
    let set = |name: &str| std::env::var(name).ok();
    let mut all = vec![time(clock::now(), written_at(&home.db())), locale(&set)];
    all.extend(filesystem(home.root()));
    all
}

/// The clock against what is known to be past: the day this version was made, the last write.
fn time(now: u64, last_write: Option<u64>) -> Check {
    let id = "clock";
    let mend = "set the clock, where systemd keeps it: sudo timedatectl set-ntp true";
    let said = clock::moment(now);
    if said.as_str() < catalogue::AS_OF {
        let found = format!("it says {said}, which is before this version of Regie was made");
        return Check::new(id, Status::Fail, found).mend(mend);
    }
    match last_write {
        Some(at) if at > now.saturating_add(LEEWAY) => {
            let found = format!(
                "it says {said}, and the journal was written at {}: it was set back",
                clock::moment(at)
            );
            Check::new(id, Status::Warn, found).mend(mend)
        }
        _ => Check::new(id, Status::Ok, format!("{said} UTC")),
    }
}

fn written_at(path: &Path) -> Option<u64> {
    let at = std::fs::metadata(path).ok()?.modified().ok()?;
    u64::try_from(at.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}

/// Regie writes UTF-8; whether the terminal reads it is what the locale says.
fn locale(set: &dyn Fn(&str) -> Option<String>) -> Check {
    let id = "locale";
    let names = ["LC_ALL", "LC_CTYPE", "LANG"];
    let found = names.into_iter().find_map(|name| {
        let value = set(name).filter(|value| !value.is_empty())?;
        Some((name, value))
    });
    let mend = "export LC_ALL=C.UTF-8";
    let Some((name, value)) = found else {
        return Check::new(id, Status::Info, "none is set: output is UTF-8 all the same");
    };
    let upper = value.to_uppercase();
    let said = format!("{name}={value}");
    if upper.contains("UTF-8") || upper.contains("UTF8") {
        Check::new(id, Status::Ok, said)
    } else {
        Check::new(id, Status::Warn, format!("{said} is not UTF-8: marks and names may look broken"))
            .mend(mend)
    }
}

fn filesystem(root: &Path) -> Option<Check> {
    disk::under(root).map(|kind| judge(kind, &root.display().to_string()))
}

/// What a disk means for the journal.
fn judge(kind: disk::Kind, root: &str) -> Check {
    let id = "home.filesystem";
    let mend = "set REGIE_HOME to a directory on a local disk";
    let (status, found) = match kind {
        disk::Kind::Network(name) => {
            (Status::Fail, format!("{root} is on {name}: the journal needs locks and syncs that hold"))
        }
        disk::Kind::Unsure(name) => {
            (Status::Warn, format!("{root} is on {name}: whether its locks and syncs hold is not known"))
        }
        disk::Kind::Memory => {
            (Status::Warn, format!("{root} is in memory: it is gone when the machine restarts"))
        }
        disk::Kind::Local(name) => return Check::new(id, Status::Ok, name),
    };
    Check::new(id, status, found).mend(mend)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-12-01 12:00 UTC.
    const NOON: u64 = 1_796_126_400_000;

    #[test]
    fn a_clock_that_cannot_be_right_is_named() {
        assert_eq!(time(NOON, None).status, Status::Ok);
        assert_eq!(time(NOON, Some(NOON + LEEWAY)).status, Status::Ok);
        let back = time(NOON, Some(NOON + 86_400_000));
        assert_eq!(back.status, Status::Warn);
        assert!(back.evidence.contains("set back") && back.mend.is_some(), "{back:?}");
        let epoch = time(0, None);
        assert_eq!((epoch.status, epoch.mend.is_some()), (Status::Fail, true));
    }

    #[test]
    fn the_first_variable_that_is_set_decides() {
        let check = |set: &[(&str, &str)]| {
            let owned: Vec<(String, String)> =
                set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            locale(&move |name| owned.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()))
        };
        assert_eq!(check(&[("LANG", "de_DE.utf8")]).status, Status::Ok);
        let plain = check(&[("LANG", "C.UTF-8"), ("LC_ALL", "C")]);
        assert_eq!((plain.status, plain.mend.as_deref()), (Status::Warn, Some("export LC_ALL=C.UTF-8")));
        assert_eq!(check(&[("LC_ALL", ""), ("LANG", "C.UTF-8")]).status, Status::Ok);
        assert_eq!(check(&[]).status, Status::Info);
    }

    #[test]
    fn a_home_over_the_network_is_refused() {
        let nfs = judge(disk::Kind::Network("NFS"), "/home/me/regie");
        assert_eq!(nfs.status, Status::Fail);
        assert_eq!(nfs.evidence, "/home/me/regie is on NFS: the journal needs locks and syncs that hold");
        assert!(nfs.mend.is_some());
        assert_eq!(judge(disk::Kind::Local("ext4".into()), "/").status, Status::Ok);
        assert_eq!(judge(disk::Kind::Unsure("FUSE"), "/").status, Status::Warn);
        assert_eq!(filesystem(Path::new("/nowhere/at/all")).is_some(), cfg!(target_os = "linux"));
    }
}
