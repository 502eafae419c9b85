//! A look at the file tree that rules are compiled for.

use std::ffi::OsString;
use std::io;
use std::path::Path;

/// What stands at a path. No link is followed, neither at its end nor on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    Absent,
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A socket, a pipe, a device, or what cannot be looked at.
    Other,
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
            Ok(found) if found.is_file() => Kind::File,
            Ok(found) if found.is_symlink() => Kind::Link,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Kind::Absent,
            Ok(_) | Err(_) => Kind::Other,
        }
    }

    fn names(&self, path: &Path) -> io::Result<Vec<OsString>> {
        std::fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect()
    }
}
