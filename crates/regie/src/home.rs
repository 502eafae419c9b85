//! Where everything of an installation lies.
//!
//! One directory, `$REGIE_HOME`, readable by its owner alone. Only the socket may lie elsewhere: the
//! kernel takes no more than about a hundred bytes for its path.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::disk;

/// The longest path of a socket, in bytes; the kernel's own bound is 107 on Linux, 103 elsewhere.
const MAX_SOCKET_BYTES: usize = 100;

/// The variable that lets a home lie on another machine's disk.
const ALLOW: &str = "REGIE_ALLOW_NETWORK_HOME";

/// Why there is no home.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Neither an option nor the environment says where.
    #[error("nothing says where Regie's home is: set REGIE_HOME or HOME to an absolute path")]
    Nowhere,
    /// Programs that Regie starts take its paths as text.
    #[error("the home {} is not UTF-8: set REGIE_HOME to a path that is", path.display())]
    NotUtf8 {
        /// The path.
        path: PathBuf,
    },
    /// The path cannot be made absolute.
    #[error("the home {} is not a usable path; set REGIE_HOME to an absolute one", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A directory cannot be made.
    #[error(
        "the directory {} cannot be made ({why}): check its permissions, or set REGIE_HOME to another place",
        path.display()
    )]
    Make {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        why: io::Error,
    },
    /// It lies on the disk of another machine.
    #[error(
        "the home {} is on {disk}, where the journal's locks and syncs do not hold: set REGIE_HOME to a directory on a local disk (or {ALLOW}=1, when only this machine ever uses it)",
        path.display()
    )]
    Network {
        /// The home.
        path: PathBuf,
        /// What the disk is called.
        disk: &'static str,
    },
    /// There is no room to begin anything.
    #[error("the disk under the home {} is full: free some space there, then run this again", path.display())]
    Full {
        /// The home.
        path: PathBuf,
    },
    /// It cannot be written.
    #[error(
        "the home {} cannot be written ({why}): make it writable for this user, or set REGIE_HOME to another place",
        path.display()
    )]
    ReadOnly {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        why: io::Error,
    },
    /// A directory could be changed or read by others.
    #[error(
        "the directory {} is not this user's alone; run `chmod 700` on it, or set REGIE_HOME to another place",
        path.display()
    )]
    Shared {
        /// The directory.
        path: PathBuf,
    },
}

/// The paths of an installation. Making one touches nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Home {
    root: PathBuf,
    socket: PathBuf,
}

impl Home {
    /// The home that was asked for (`--home`, `REGIE_HOME`), else the one in the user's data
    /// directory.
    ///
    /// # Errors
    /// [`Error::Nowhere`], [`Error::Path`] and [`Error::NotUtf8`].
    pub(crate) fn resolve(asked: Option<&Path>) -> Result<Self, Error> {
        let root = match asked.filter(|path| !path.as_os_str().is_empty()) {
            Some(path) => path.to_owned(),
            None => default_root().ok_or(Error::Nowhere)?,
        };
        // The same home by whatever links it is named, as its socket is named after it.
        let root = match fs::canonicalize(&root) {
            Ok(root) => root,
            Err(_) => std::path::absolute(&root).map_err(|source| Error::Path { path: root, source })?,
        };
        if root.to_str().is_none() {
            return Err(Error::NotUtf8 { path: root });
        }
        let socket = socket_of(&root);
        Ok(Self { root, socket })
    }

    /// Makes its directories, for this user alone.
    ///
    /// # Errors
    /// Each way in which a home can be unusable has its variant.
    pub(crate) fn create(&self) -> Result<(), Error> {
        self.check_disk()?;
        make(&self.root)?;
        writable(&self.root)?;
        for path in [self.artifacts(), self.trees(), self.work(), self.spool(), self.log(), self.tmp()] {
            make(&path)?;
        }
        match self.socket.parent() {
            Some(parent) => make(parent),
            None => Ok(()),
        }
    }

    /// Whether the disk is one that a journal can live on, with room to begin.
    fn check_disk(&self) -> Result<(), Error> {
        let path = self.root.clone();
        let allowed = std::env::var_os(ALLOW).is_some_and(|value| value == "1");
        match disk::under(&path) {
            Some(disk::Kind::Network(disk)) if !allowed => return Err(Error::Network { path, disk }),
            _ => {}
        }
        match disk::room(&path) {
            Some(0..disk::LEAST_ROOM) => Err(Error::Full { path }),
            _ => Ok(()),
        }
    }

    /// Whether the directory, where it is there, is this user's alone.
    ///
    /// # Errors
    /// [`Error::Shared`].
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.root.exists() { owned(&self.root) } else { Ok(()) }
    }

    /// Whether the socket lies where only this user can have put it; to be asked before a secret is
    /// sent through it.
    ///
    /// # Errors
    /// [`Error::Shared`].
    pub(crate) fn check_socket(&self) -> Result<(), Error> {
        match self.socket.parent() {
            Some(parent) if parent.exists() => owned(parent),
            _ => Ok(()),
        }
    }

    /// The directory itself.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The journal.
    pub(crate) fn db(&self) -> PathBuf {
        self.root.join("regie.db")
    }

    /// The full-text index: made from the journal, and disposable.
    pub(crate) fn index(&self) -> PathBuf {
        self.root.join("index.db")
    }

    /// Scratch files of the daemon, emptied at its start.
    pub(crate) fn tmp(&self) -> PathBuf {
        self.root.join("tmp")
    }

    /// Content-addressed blobs.
    pub(crate) fn artifacts(&self) -> PathBuf {
        self.root.join("artifacts")
    }

    /// Git directories, one for each project.
    pub(crate) fn trees(&self) -> PathBuf {
        self.root.join("trees")
    }

    /// Workspaces, one for each run.
    pub(crate) fn work(&self) -> PathBuf {
        self.root.join("work")
    }

    /// Results that runners keep until the journal has them.
    pub(crate) fn spool(&self) -> PathBuf {
        self.root.join("spool")
    }

    /// Where the daemon listens.
    pub(crate) fn socket(&self) -> PathBuf {
        self.socket.clone()
    }

    /// The directory of the logs.
    pub(crate) fn log(&self) -> PathBuf {
        self.root.join("log")
    }

    /// What the daemon writes to when it was started on demand.
    pub(crate) fn daemon_log(&self) -> PathBuf {
        self.log().join("daemon.log")
    }

    /// The lock of the one daemon.
    pub(crate) fn lock(&self) -> PathBuf {
        self.root.join("daemon.lock")
    }
}

fn default_root() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    match absolute("XDG_DATA_HOME") {
        Some(data) => Some(data.join("regie")),
        None => absolute("HOME").map(|home| home.join(".local/share/regie")),
    }
}

fn socket_of(root: &Path) -> PathBuf {
    let inside = root.join("regie.sock");
    if fits(&inside) {
        return inside;
    }
    let digest = domain::Digest::of(root.as_os_str().as_bytes()).to_string();
    let name: String = digest.chars().take(16).chain(".sock".chars()).collect();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let beside = runtime.map(|runtime| runtime.join("regie").join(&name)).filter(|path| fits(path));
    beside.unwrap_or_else(|| {
        let user = rustix::process::geteuid().as_raw();
        PathBuf::from(format!("/tmp/regie-{user}")).join(name)
    })
}

fn fits(path: &Path) -> bool {
    path.as_os_str().len() <= MAX_SOCKET_BYTES
}

fn make(path: &Path) -> Result<(), Error> {
    let fresh = !path.exists();
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|why| Error::Make { path: path.to_owned(), why })?;
    if fresh {
        // The mode above is subject to the umask, which can only take rights away.
        let open = fs::Permissions::from_mode(0o700);
        fs::set_permissions(path, open).map_err(|why| Error::Make { path: path.to_owned(), why })?;
    }
    owned(path)
}

/// Whether files can be made there: permissions, and how the disk is mounted.
fn writable(path: &Path) -> Result<(), Error> {
    access(path, Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|error| Error::ReadOnly { path: path.to_owned(), why: error.into() })
}

/// A directory of this user, not a link to one, that nobody else may enter.
fn owned(path: &Path) -> Result<(), Error> {
    let shared = || Error::Shared { path: path.to_owned() };
    let found = fs::symlink_metadata(path).map_err(|_| shared())?;
    let own = rustix::process::geteuid().as_raw();
    let private = found.is_dir() && found.uid() == own && found.mode() & 0o077 == 0;
    if private { Ok(()) } else { Err(shared()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_home_has_its_socket_elsewhere() {
        let deep = PathBuf::from("/nowhere").join("x".repeat(120));
        let home = Home::resolve(Some(&deep)).unwrap();
        assert!(!home.socket().starts_with(home.root()));
        assert!(fits(&home.socket()), "{}", home.socket().display());
        let other = Home::resolve(Some(&deep.join("y"))).unwrap();
        assert_ne!(home.socket(), other.socket());
    }

    #[test]
    fn a_short_home_has_its_socket_inside() {
        let home = Home::resolve(Some(Path::new("/nowhere/regie"))).unwrap();
        assert_eq!(home.socket(), Path::new("/nowhere/regie/regie.sock"));
    }

    #[test]
    fn a_home_is_private() {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::resolve(Some(&scratch.path().join("home"))).unwrap();
        home.create().unwrap();
        assert_eq!(fs::metadata(home.root()).unwrap().mode() & 0o777, 0o700);
        fs::set_permissions(home.root(), fs::Permissions::from_mode(0o755)).unwrap();
        assert!(matches!(home.create(), Err(Error::Shared { .. })));
    }
}
