//! One daemon per home: an exclusive lock that dies with the process, and the socket behind it.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Seek as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use tokio::net::UnixListener;

use crate::home::Home;

/// How often and how long one that begins or ends is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const LOOKS: u32 = 1_500;

/// Takes the lock of a home. It is given back when the file is closed, however the process ends. A daemon
/// that is about to be gone is waited for.
pub(super) async fn acquire(home: &Home) -> Result<File> {
    let path = home.lock();
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&path)
        .with_context(|| format!("{} cannot be opened; see `regie doctor`", path.display()))?;
    let mut looks = 0;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
            Err(rustix::io::Errno::WOULDBLOCK) if looks < LOOKS && !is_listening(home) => {
                looks += 1;
                tokio::time::sleep(LOOK_EVERY).await;
            }
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let who = match written(&mut file) {
                    Some(pid) => format!("another daemon (process {pid})"),
                    None => "another daemon".into(),
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
    }
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())?;
    Ok(file)
}

/// Whether somebody can be talked with. One that holds the lock and cannot begins or ends.
fn is_listening(home: &Home) -> bool {
    UnixStream::connect(home.socket()).is_ok()
}

/// The process id in the lock. Its holder may have written nothing yet.
fn written(file: &mut File) -> Option<u32> {
    let mut held = String::new();
    let _ = file.rewind();
    let _ = file.read_to_string(&mut held);
    held.trim().parse().ok()
}

/// Returns when this process holds the lock no more, which is when it is gone.
///
/// # Errors
/// When it takes too long.
pub(crate) async fn given_back(home: &Home, pid: u32) -> Result<()> {
    for _ in 0..LOOKS {
        // Without the lock nobody holds it.
        let Ok(mut file) = File::open(home.lock()) else { return Ok(()) };
        let is_free = flock(&file, FlockOperation::NonBlockingLockShared).is_ok();
        if is_free || written(&mut file) != Some(pid) {
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    bail!("the daemon (process {pid}) does not end")
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
