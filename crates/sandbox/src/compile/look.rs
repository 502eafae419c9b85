//! A look at the file tree that rules are compiled for.

use std::ffi::OsString;
use std::io;
use std::path::Path;

#[cfg(target_os = "linux")]
use crate::place::holds_a_place;

#[cfg(not(target_os = "linux"))]
fn holds_a_place(_: &std::fs::Metadata) -> bool {
    false
}

/// The longest path that the kernel takes.
pub(super) const LONGEST: usize = 4_095;
/// The longest name of a file.
pub(super) const LONGEST_NAME: usize = 255;

/// What stands at a path. No link is followed, neither at its end nor on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing, or what only stands there so that nothing can be made.
    Absent,
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A socket, a pipe, or a device.
    Other,
    /// What cannot be looked at: it may be anything, and hold anything.
    Unseen,
}

/// A file tree, as far as the compiler looks at it.
pub trait Look {
    /// What stands at an absolute path whose parents are directories.
    fn kind(&self, path: &Path) -> Kind;

    /// The names in a directory, in any order.
    ///
    /// # Errors
    /// When they cannot be read; the compiler then treats the directory as one that may hold anything.
    fn names(&self, path: &Path) -> io::Result<Vec<OsString>>;
}

/// The file tree of this machine.
#[derive(Clone, Copy, Debug)]
pub struct Machine;

impl Look for Machine {
    fn kind(&self, path: &Path) -> Kind {
        match std::fs::symlink_metadata(path) {
            Ok(found) if found.is_dir() => Kind::Directory,
            Ok(found) if holds_a_place(&found) => Kind::Absent,
            Ok(found) if found.is_file() => Kind::File,
            Ok(found) if found.is_symlink() => Kind::Link,
            Ok(_) => Kind::Other,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Kind::Absent,
            // A name that no file can have. Of a path that is too long as a whole, a shorter one leads there.
            Err(error)
                if error.kind() == io::ErrorKind::InvalidFilename && path.as_os_str().len() <= LONGEST =>
            {
                Kind::Absent
            }
            Err(_) => Kind::Unseen,
        }
    }

    fn names(&self, path: &Path) -> io::Result<Vec<OsString>> {
        std::fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect()
    }
}
