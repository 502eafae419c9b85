//! Exclusive use of a git dir or a workspace that outlives its process: the lock is shared with
//! every git that works under it, so that a successor waits for those that a killed process left.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use rustix::fs::{Timespec, Timestamps, futimens};

/// A lock of the operating system on a file. The file is the standard error of the gits that work
/// under it: that is what makes them share the lock.
#[derive(Clone, Debug)]
pub(crate) struct Hold(Arc<File>);

impl Hold {
    /// Waits for the lock on the file `path`, which is created when it is not there.
    pub(crate) fn take(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        file.lock()?;
        Ok(Self(Arc::new(file)))
    }

    /// An empty standard error for the next git.
    pub(crate) fn stderr(&self) -> io::Result<Stdio> {
        self.0.set_len(0)?;
        Ok(Stdio::from(self.0.try_clone()?))
    }

    /// Now, by the clock that stamps the files beside it: seconds and nanoseconds.
    pub(crate) fn moment(&self) -> io::Result<(i64, i64)> {
        let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
        futimens(&*self.0, &Timestamps { last_access: now, last_modification: now })?;
        let meta = self.0.metadata()?;
        Ok((meta.ctime(), meta.ctime_nsec()))
    }

    /// The first bytes of what the last git said there.
    pub(crate) fn said(&self) -> Vec<u8> {
        let mut buffer = vec![0; 4096];
        let length = self.0.read_at(&mut buffer, 0).unwrap_or(0);
        buffer.truncate(length);
        buffer
    }
}
