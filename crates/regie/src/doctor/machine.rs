//! What the machine under the home is like: its file system, its clock, its locale.

use std::path::Path;
use std::time::UNIX_EPOCH;

use models::catalogue;

use super::{Check, Status};
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

#[cfg(target_os = "linux")]
fn filesystem(root: &Path) -> Option<Check> {
    let place = root.ancestors().find(|path| path.exists())?;
    let found = rustix::fs::statfs(place).ok()?;
    // Magic numbers have 32 bits; some platforms carry them in a signed word.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a bit pattern, not a number"
    )]
    let kind = found.f_type as u32;
    Some(judge(kind, &root.display().to_string()))
}

#[cfg(not(target_os = "linux"))]
fn filesystem(_: &Path) -> Option<Check> {
    None
}

/// What a file system means for the journal, by its magic number.
#[cfg(target_os = "linux")]
fn judge(kind: u32, root: &str) -> Check {
    let id = "home.filesystem";
    let mend = "set REGIE_HOME to a directory on a local disk";
    let network = match kind {
        0x6969 => "NFS",
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => "SMB",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x00c3_6400 => "Ceph",
        0x7375_7245 => "Coda",
        _ => "",
    };
    if !network.is_empty() {
        let found = format!("{root} is on {network}: the journal needs locks and syncs that hold");
        return Check::new(id, Status::Fail, found).mend(mend);
    }
    match kind {
        0x6573_5546 | 0x0102_1997 => {
            let what = if kind == 0x0102_1997 { "9p" } else { "FUSE" };
            let found = format!("{root} is on {what}: whether its locks and syncs hold is not known");
            Check::new(id, Status::Warn, found).mend(mend)
        }
        0x0102_1994 => {
            let found = format!("{root} is in memory: it is gone when the machine restarts");
            Check::new(id, Status::Warn, found).mend(mend)
        }
        0xef53 => Check::new(id, Status::Ok, "ext4"),
        0x9123_683e => Check::new(id, Status::Ok, "btrfs"),
        0x5846_5342 => Check::new(id, Status::Ok, "XFS"),
        0x2fc1_2fc1 => Check::new(id, Status::Ok, "ZFS"),
        0x794c_7630 => Check::new(id, Status::Ok, "overlay"),
        other => Check::new(id, Status::Ok, format!("local, of type {other:#x}")),
    }
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

    #[cfg(target_os = "linux")]
    #[test]
    fn a_home_over_the_network_is_refused() {
        let nfs = judge(0x6969, "/home/me/regie");
        assert_eq!(nfs.status, Status::Fail);
        assert_eq!(nfs.evidence, "/home/me/regie is on NFS: the journal needs locks and syncs that hold");
        assert!(nfs.mend.is_some());
        assert_eq!(judge(0xef53, "/").status, Status::Ok);
        assert_eq!(judge(0x6573_5546, "/").status, Status::Warn);
        assert!(filesystem(Path::new("/nowhere/at/all")).is_some());
    }
}
