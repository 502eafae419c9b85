//! One daemon per home: an exclusive lock that dies with the process, and the socket behind it.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use tokio::net::UnixListener;

use crate::home::Home;

/// Takes the lock of a home. It is given back when the file is closed, however the process ends.
pub(super) fn acquire(home: &Home) -> Result<File> {
    let path = home.lock();
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&path)
        .with_context(|| format!("{} cannot be opened; see `regie doctor`", path.display()))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            // Its holder may have written nothing yet.
            let mut held = String::new();
            let _ = file.read_to_string(&mut held);
            let who = match held.trim().parse::<u32>() {
                Ok(pid) => format!("another daemon (process {pid})"),
                Err(_) => "another daemon".into(),
            };
            bail!(
                "{who} serves {}: use it as it is, or end it with `regie serve --stop`",
                home.root().display()
            )
        }
        Err(error) => {
            return Err(error).with_context(|| {
                format!("{} cannot be locked; keep the home on a local disk", path.display())
            });
        }
    }
    file.set_len(0)?;
    writeln!(file, "{}", std::process::id())?;
    Ok(file)
}

/// Listens on the home's socket. A socket that is there belonged to a daemon that is dead: the lock
/// says so.
pub(super) fn listen(home: &Home) -> Result<UnixListener> {
    let path = home.socket();
    match std::fs::remove_file(&path) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("{} is in the way", path.display())),
    }
    let listener =
        UnixListener::bind(&path).with_context(|| format!("cannot listen on {}", path.display()))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}
