//! Where a runner listens: a Unix socket in its spool directory.
//!
//! The address of a Unix socket holds about a hundred bytes, and a home may well lie deeper. So a
//! long path is reached through an open descriptor of its directory.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The socket's name in the spool directory.
const NAME: &str = "runner.sock";
/// What fits into an address on every system.
const LONGEST: usize = 100;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The path is too long for this system.
    #[error("the path {} is too long for a socket; move REGIE_HOME to a shorter one", .0.display())]
    TooLong(PathBuf),
    /// Listening or connecting failed.
    #[error("the runner's socket {} cannot be {doing}; check the permissions there", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// What was being done, as `bound`.
        doing: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// An address that fits, valid as long as this lives.
struct Address {
    path: PathBuf,
    _dir: Option<OwnedFd>,
}

fn address(dir: &Path) -> Result<Address, Error> {
    let path = dir.join(NAME);
    if path.as_os_str().len() <= LONGEST {
        return Ok(Address { path, _dir: None });
    }
    short(dir, path)
}

#[cfg(target_os = "linux")]
fn short(dir: &Path, path: PathBuf) -> Result<Address, Error> {
    use rustix::fs::{Mode, OFlags};
    use std::os::fd::AsRawFd as _;

    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(dir, flags, Mode::empty()).map_err(|source| Error::Io {
        path,
        doing: "reached",
        source: source.into(),
    })?;
    Ok(Address { path: format!("/proc/self/fd/{}/{NAME}", dir.as_raw_fd()).into(), _dir: Some(dir) })
}

#[cfg(not(target_os = "linux"))]
fn short(_: &Path, path: PathBuf) -> Result<Address, Error> {
    Err(Error::TooLong(path))
}

/// Listens in a spool directory. The caller holds its lock, so that whatever socket lies there is
/// a dead runner's.
pub(crate) fn listen(dir: &Path) -> Result<UnixListener, Error> {
    let failed = |source| Error::Io { path: dir.join(NAME), doing: "bound", source };
    remove(dir).map_err(failed)?;
    let address = address(dir)?;
    UnixListener::bind(&address.path).map_err(failed)
}

/// Connects to the runner of a spool directory.
pub(crate) fn connect(dir: &Path) -> Result<UnixStream, Error> {
    let address = address(dir)?;
    UnixStream::connect(&address.path).map_err(|source| Error::Io {
        path: dir.join(NAME),
        doing: "connected to",
        source,
    })
}

/// Removes the socket.
pub(crate) fn remove(dir: &Path) -> io::Result<()> {
    match std::fs::remove_file(dir.join(NAME)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
