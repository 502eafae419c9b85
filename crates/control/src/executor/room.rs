//! Why a step of the host cannot be done at this moment, when that is the disk: nothing is lost by
//! waiting, so the run rests instead of ending.

use std::path::Path;

use kernel::port::Refused;
use rustix::fs::{StatVfsMountFlags, statvfs};

/// Below this much free space a failure is laid to the disk, in bytes.
const LEAST: u64 = 256 << 10;
/// What the operating system and git, in the language of programs, say of a disk that takes nothing.
const FULL: [&str; 2] = ["No space left on device", "Disk quota exceeded"];
const READ_ONLY: &str = "Read-only file system";

/// What is wrong with the disks, if anything is: that of the home, and that of the owner's repository
/// where a step writes there. `said` is how the step failed.
pub(super) fn lacking(home: &Path, repository: Option<&Path>, said: &str) -> Option<Refused> {
    for place in [Some(home), repository].into_iter().flatten() {
        let Some(found) = place.ancestors().find(|path| path.exists()) else { continue };
        let Ok(found) = statvfs(found) else { continue };
        let is_full = found.f_bavail.saturating_mul(found.f_frsize) < LEAST
            || (found.f_files > 0 && found.f_favail == 0);
        // A repository that cannot be written is left alone; without its home nothing goes on.
        if place == home && found.f_flag.contains(StatVfsMountFlags::RDONLY) {
            return Some(read_only(&place.display().to_string()));
        }
        if is_full {
            return Some(no_room(&place.display().to_string()));
        }
    }
    match repository {
        _ if FULL.iter().any(|words| said.contains(words)) => Some(no_room("the home or the repository")),
        None if said.contains(READ_ONLY) => Some(read_only("the home")),
        _ => None,
    }
}

fn no_room(place: &str) -> Refused {
    Refused {
        code: "disk.full".into(),
        hint: format!(
            "the disk under {place} is full; nothing is lost: free some space, then `regie resume`"
        ),
    }
}

fn read_only(place: &str) -> Refused {
    Refused {
        code: "disk.read_only".into(),
        hint: format!(
            "the disk under {place} is read-only; nothing is lost: make it writable, then `regie resume`"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_laid_to_the_disk_only_where_it_is_the_disk() {
        let here = std::env::temp_dir();
        assert_eq!(lacking(&here, None, "cannot merge cleanly"), None);
        let full = lacking(&here, None, "git could not write a commit: No space left on device").unwrap();
        assert_eq!(full.code, "disk.full");
        assert!(full.hint.contains("regie resume"), "{full:?}");
        assert_eq!(lacking(&here, None, "error: Read-only file system").unwrap().code, "disk.read_only");
        assert_eq!(lacking(&here, Some(&here), "error: Read-only file system"), None);
    }
}
