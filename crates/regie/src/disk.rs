//! The disk under the home: whether the journal's locks and syncs hold there, and whether there is room.

use std::path::Path;

/// Below this much free space nothing is begun, in bytes: a journal needs it to say that it is full.
pub(crate) const LEAST_ROOM: u64 = 512 << 10;

/// The kind of disk that a home lies on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Another machine's, under this name.
    Network(&'static str),
    /// One of which nobody can say whether locks and syncs hold.
    Unsure(&'static str),
    /// Memory.
    Memory,
    /// This machine's, under this name.
    Local(String),
}

/// What a file system is, by its magic number and the type that the mount table gives it.
pub(crate) fn kind(magic: u32, named: Option<&str>) -> Kind {
    match magic {
        0x6969 => Kind::Network("NFS"),
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => Kind::Network("SMB"),
        0x5346_414f | 0x6b41_4653 => Kind::Network("AFS"),
        0x00c3_6400 => Kind::Network("Ceph"),
        0x7375_7245 => Kind::Network("Coda"),
        0x6573_5546 => match named {
            Some("fuse.sshfs") => Kind::Network("sshfs"),
            Some("fuse.glusterfs" | "fuse.ceph" | "fuse.ceph-fuse") => Kind::Network("a network FUSE"),
            Some("fuse.rclone" | "fuse.s3fs" | "fuse.gcsfuse" | "fuse.davfs") => {
                Kind::Network("a cloud FUSE")
            }
            // How Linux mounts the disks of other systems.
            Some("fuseblk") => Kind::Local("a FUSE disk".into()),
            _ => Kind::Unsure("FUSE"),
        },
        0x0102_1997 => Kind::Unsure("9p"),
        0x0102_1994 => Kind::Memory,
        0xef53 => Kind::Local("ext4".into()),
        0x9123_683e => Kind::Local("btrfs".into()),
        0x5846_5342 => Kind::Local("XFS".into()),
        0x2fc1_2fc1 => Kind::Local("ZFS".into()),
        0x794c_7630 => Kind::Local("overlay".into()),
        other => Kind::Local(format!("local, of type {other:#x}")),
    }
}

/// The type of the mount that a path lies on, from the text of `/proc/self/mountinfo`. The last of the
/// longest mount points counts: it lies on top.
pub(crate) fn mounted_as<'a>(mounts: &'a str, path: &Path) -> Option<&'a str> {
    let mut found: Option<(usize, &str)> = None;
    for line in mounts.lines() {
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let (Some(point), Some(named)) = (left.split(' ').nth(4), right.split(' ').next()) else { continue };
        let point = point.replace("\\040", " ");
        if path.starts_with(&point) && found.is_none_or(|(length, _)| point.len() >= length) {
            found = Some((point.len(), named));
        }
    }
    found.map(|(_, named)| named)
}

/// The nearest directory that is there.
pub(crate) fn existing(path: &Path) -> Option<&Path> {
    path.ancestors().find(|path| path.exists())
}

/// The kind of disk that a path lies on, or would lie on; `None` where the system does not say.
#[cfg(target_os = "linux")]
pub(crate) fn under(path: &Path) -> Option<Kind> {
    let place = existing(path)?;
    let found = rustix::fs::statfs(place).ok()?;
    // Magic numbers have 32 bits; some platforms carry them in a signed word.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a bit pattern, not a number"
    )]
    let magic = crate::pretend::filesystem().unwrap_or(found.f_type as u32);
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    Some(kind(magic, mounted_as(&mounts, place)))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn under(_: &Path) -> Option<Kind> {
    None
}

/// The bytes that this user may still write where a path lies or would lie.
pub(crate) fn room(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(existing(path)?).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_of_other_machines_are_told_by_their_magic_numbers() {
        for magic in [0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x5346_414f, 0x6b41_4653, 0x00c3_6400] {
            assert!(matches!(kind(magic, None), Kind::Network(_)), "{magic:#x}");
        }
        assert_eq!(kind(0x6573_5546, Some("fuse.sshfs")), Kind::Network("sshfs"));
        assert_eq!(kind(0x6573_5546, Some("fuse.portal")), Kind::Unsure("FUSE"));
        assert_eq!(kind(0x6573_5546, None), Kind::Unsure("FUSE"));
        assert_eq!(kind(0x0102_1997, None), Kind::Unsure("9p"));
        for magic in [0xef53, 0x9123_683e, 0x5846_5342, 0x2fc1_2fc1, 0x794c_7630, 0xdead_beef] {
            assert!(matches!(kind(magic, None), Kind::Local(_)), "{magic:#x}");
        }
    }

    #[test]
    fn the_mount_on_top_counts() {
        let mounts = "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
                      23 22 0:40 / /home rw - nfs4 host:/home rw\n\
                      24 23 0:41 / /home/me/far\\040away rw - fuse.sshfs me@host: rw\n\
                      25 23 0:42 / /home rw - btrfs /dev/sdb rw\n";
        assert_eq!(mounted_as(mounts, Path::new("/srv/x")), Some("ext4"));
        assert_eq!(mounted_as(mounts, Path::new("/home/me")), Some("btrfs"));
        assert_eq!(mounted_as(mounts, Path::new("/homely")), Some("ext4"));
        assert_eq!(mounted_as(mounts, Path::new("/home/me/far away/regie")), Some("fuse.sshfs"));
        assert_eq!(mounted_as("nonsense\n", Path::new("/")), None);
    }
}
