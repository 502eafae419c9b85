//! The owner's objects, brought into Regie's git dir by hard links as `git clone --local` does: the first
//! start of a project then copies no history.
//!
//! Only what is certain is taken: packs, their indexes and loose objects, under the names that git gives
//! them, and only when nobody but the user of this process can write to them. Whatever is not plain is
//! left to the fetch that follows, which goes by what is there and brings the rest. Nothing else of the
//! owner's store is taken: no alternates, no bitmaps, no graphs.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::hold::Hold;
use crate::owner::Place;

/// Of more loose objects than these a pack is made, by the fetch. git itself packs them from 6,700 on.
const LOOSE_LIMIT: usize = 8_000;
/// What is copied at most where links cannot be had, in bytes: the fetch brings only what HEAD needs.
const COPY_LIMIT: u64 = 1 << 30;
/// After so many seconds the system has written a file down by itself. git does not wait for loose objects.
const SETTLED: i64 = 3600;

/// Why the owner's objects are left to the fetch.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Left {
    /// The store is not complete in itself, or not as git lays it out.
    #[error("{} makes it a store that needs others", .0.display())]
    NotPlain(PathBuf),
    /// Others could change what was linked.
    #[error("others can write to {}", .0.display())]
    Shared(PathBuf),
    /// There is too much of it.
    #[error("it is too much")]
    Large,
    /// The file system failed, or the owner's git tidied up meanwhile.
    #[error("the file system refused")]
    Io(#[from] io::Error),
}

/// How objects get over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// One more name for the same file.
    Link,
    /// A file of its own.
    Copy,
}

/// The files of a store that may be taken, as they were found.
#[derive(Debug, Default)]
struct Found {
    /// Path below `objects`, in the order in which they have to appear: an index after its pack.
    packed: Vec<PathBuf>,
    loose: Vec<PathBuf>,
    bytes: u64,
}

/// Brings the owner's objects into `git_dir`, whose hold is `hold`. What a crash in between leaves are
/// objects that nothing refers to.
pub(crate) fn bring(place: &Place, git_dir: &Path, hold: &Hold, way: Way) -> Result<(), Left> {
    let found = survey(&place.common_dir)?;
    let (from, to) = (place.common_dir.join("objects"), git_dir.join("objects"));
    let mut way = way;
    let settled = hold.moment()?.0.saturating_sub(SETTLED);
    let mut folders: Vec<PathBuf> = Vec::new();
    for (path, is_packed) in
        found.packed.iter().map(|path| (path, true)).chain(found.loose.iter().map(|path| (path, false)))
    {
        let (source, target) = (from.join(path), to.join(path));
        let folder = target.parent().unwrap_or(&to);
        if folders.last().is_none_or(|last| last != folder) {
            fs::create_dir_all(folder)?;
            folders.push(folder.to_owned());
        }
        if way == Way::Link && !link(&source, &target)? {
            way = Way::Copy;
        }
        if way == Way::Copy {
            if found.bytes > COPY_LIMIT {
                return Err(Left::Large);
            }
            copy(&source, &target)?;
        } else if is_packed || fs::symlink_metadata(&target)?.mtime() > settled {
            File::open(&target)?.sync_all()?;
        }
    }
    for folder in folders.iter().chain([&to]) {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

/// Looks at the owner's store without touching it.
fn survey(common_dir: &Path) -> Result<Found, Left> {
    let objects = common_dir.join("objects");
    for place in [common_dir.join("shallow"), objects.join("info/alternates")] {
        if place.symlink_metadata().is_ok() {
            return Err(Left::NotPlain(place));
        }
    }
    let mut found = Found::default();
    plain_folder(&objects)?;
    let mut names: Vec<String> = names(&objects)?;
    names.retain(|name| name == "pack" || (is_hex(name) && name.len() == 2));
    // Packs first: most of what is loose may be there as well.
    names.sort_by_key(|name| (name != "pack", name.clone()));
    for name in names {
        let folder = objects.join(&name);
        plain_folder(&folder)?;
        if name == "pack" {
            packs(&folder, &mut found)?;
        } else {
            loose(&folder, &name, &mut found)?;
        }
    }
    Ok(found)
}

fn packs(folder: &Path, found: &mut Found) -> Result<(), Left> {
    let names = names(folder)?;
    if let Some(name) = names.iter().find(|name| name.ends_with(".promisor")) {
        return Err(Left::NotPlain(folder.join(name)));
    }
    for name in &names {
        let stem = name.strip_suffix(".pack");
        let hash = stem.and_then(|stem| stem.strip_prefix("pack-"));
        let Some((stem, _)) = stem.zip(hash).filter(|(_, hash)| is_hex(hash) && hash.len() == 40) else {
            continue;
        };
        let index = format!("{stem}.idx");
        if names.contains(&index) {
            for name in [name, &index] {
                found.bytes = found.bytes.saturating_add(plain_file(&folder.join(name))?);
                found.packed.push(Path::new("pack").join(name));
            }
        }
    }
    Ok(())
}

fn loose(folder: &Path, prefix: &str, found: &mut Found) -> Result<(), Left> {
    for name in names(folder)?.iter().filter(|name| is_hex(name) && name.len() == 38) {
        let size = plain_file(&folder.join(name))?;
        // A crash of the machine can leave empty ones.
        if size > 0 {
            found.bytes = found.bytes.saturating_add(size);
            found.loose.push(Path::new(prefix).join(name));
        }
    }
    if found.loose.len() > LOOSE_LIMIT { Err(Left::Large) } else { Ok(()) }
}

/// The names in a folder; one that is not UTF-8 is none of git's.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.extend(entry?.file_name().into_string());
    }
    Ok(names)
}

fn is_hex(name: &str) -> bool {
    name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn plain_folder(at: &Path) -> Result<(), Left> {
    let meta = at.symlink_metadata()?;
    // Who else may write to a folder can put files there, but those are not ours.
    if meta.is_dir() { Ok(()) } else { Err(Left::NotPlain(at.to_owned())) }
}

/// The size of a file that may be taken.
fn plain_file(at: &Path) -> Result<u64, Left> {
    let meta = at.symlink_metadata()?;
    if !meta.is_file() {
        return Err(Left::NotPlain(at.to_owned()));
    }
    ours(at, &meta).map(|()| meta.len())
}

/// Refuses what another user owns or may write to.
fn ours(at: &Path, meta: &fs::Metadata) -> Result<(), Left> {
    if meta.uid() == rustix::process::geteuid().as_raw() && meta.mode() & 0o022 == 0 {
        return Ok(());
    }
    Err(Left::Shared(at.to_owned()))
}

/// Makes `target` another name of `source`; what was there is that of a start that was killed. `false`:
/// these two places cannot share files.
fn link(source: &Path, target: &Path) -> Result<bool, Left> {
    let link = || fs::hard_link(source, target);
    let linked = match link() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(target)?;
            link()
        }
        other => other,
    };
    match linked {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(error.into()),
        Err(_) => return Ok(false),
    }
    // Between the look and the link somebody may have put another thing there.
    match plain_file(target) {
        Ok(_) => Ok(true),
        Err(left) => {
            fs::remove_file(target)?;
            Err(left)
        }
    }
}

/// Copies under a name that git takes for a left-over, until it is whole.
fn copy(source: &Path, target: &Path) -> Result<(), Left> {
    let draft = target.with_file_name("tmp_obj_regie");
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut from = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(source)?;
    let meta = from.metadata()?;
    if !meta.is_file() {
        return Err(Left::NotPlain(source.to_owned()));
    }
    ours(source, &meta)?;
    let _ = fs::remove_file(&draft);
    let mut to = OpenOptions::new().write(true).create_new(true).mode(0o444).open(&draft)?;
    io::copy(&mut from, &mut to)?;
    to.sync_all()?;
    fs::rename(&draft, target)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::Git;

    /// An owner's store with one loose object, and a git dir of ours.
    fn two(scratch: &Path) -> (Place, PathBuf, PathBuf) {
        let (root, ours) = (scratch.join("owner"), scratch.join("ours"));
        for dir in [&root, &ours] {
            fs::create_dir(dir).unwrap();
            Git::in_dir(dir, "init").args(["-q", "."]).run().unwrap();
        }
        let name: String = Git::in_dir(&root, "hash-object")
            .args(["-w", "--stdin"])
            .stdin(b"content\n".to_vec())
            .line()
            .unwrap();
        let (folder, rest) = name.split_at(2);
        let object = Path::new("objects").join(folder).join(rest);
        (Place::find(&root).unwrap(), ours.join(".git"), object)
    }

    #[test]
    fn where_links_cannot_be_had_objects_are_copied() {
        let scratch = tempfile::tempdir().unwrap();
        let (place, ours, object) = two(scratch.path());
        let hold = Hold::take(&ours.join("regie.lock")).unwrap();
        bring(&place, &ours, &hold, Way::Copy).unwrap();
        let (from, to) = (place.common_dir.join(&object), ours.join(&object));
        assert_eq!(fs::read(&from).unwrap(), fs::read(&to).unwrap());
        assert_ne!(from.metadata().unwrap().ino(), to.metadata().unwrap().ino());
        assert_eq!(to.metadata().unwrap().mode() & 0o777, 0o444);
        Git::at(&ours, "fsck").args(["--strict", "--full"]).run().unwrap();
        assert_eq!(fs::read_dir(to.parent().unwrap()).unwrap().count(), 1, "no draft is left");
    }

    #[test]
    fn a_link_in_the_last_moment_is_neither_linked_nor_followed() {
        let scratch = tempfile::tempdir().unwrap();
        let (place, ours, object) = two(scratch.path());
        let secret = scratch.path().join("secret");
        fs::write(&secret, "secret").unwrap();
        let (from, to) = (place.common_dir.join(&object), ours.join(&object));
        fs::remove_file(&from).unwrap();
        std::os::unix::fs::symlink(&secret, &from).unwrap();
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        assert!(matches!(link(&from, &to), Err(Left::NotPlain(_))));
        assert!(matches!(copy(&from, &to), Err(Left::Io(_))));
        assert_eq!(fs::read_dir(to.parent().unwrap()).unwrap().count(), 0);
    }
}
