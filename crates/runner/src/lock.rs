//! One living runner for each spool.
//!
//! The lock goes with its holder however that ends, so it tells the living from the dead where a
//! socket file does not.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// The lock's name in the spool directory.
pub(crate) const NAME: &str = "lock";

/// The lock, held until this is dropped.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "it is held, not used")] File);

/// Takes the lock for a runner; `None` when another one lives.
pub(crate) fn take(dir: &Path) -> io::Result<Option<Lock>> {
    let mut file = open(dir)?;
    if !grab(&file, FlockOperation::NonBlockingLockExclusive)? {
        return Ok(None);
    }
    file.set_len(0)?;
    file.rewind()?;
    write!(file, "{}", std::process::id())?;
    Ok(Some(Lock(file)))
}

/// The process id of the living runner; `None` when there is none.
pub(crate) fn holder(dir: &Path) -> io::Result<Option<Option<u32>>> {
    if !dir.exists() {
        return Ok(None);
    }
    let mut file = open(dir)?;
    if grab(&file, FlockOperation::NonBlockingLockShared)? {
        return Ok(None);
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(Some(text.trim().parse().ok()))
}

fn open(dir: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(dir.join(NAME))
}

fn grab(file: &File, how: FlockOperation) -> io::Result<bool> {
    match flock(file, how) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
