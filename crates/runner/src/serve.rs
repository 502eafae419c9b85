//! The runner process: hands steps to jails, keeps their results, and outlives daemons.
//!
//! One thread accepts, two serve each daemon that is connected (there is one, or for a moment the
//! old and the new), one follows each step. All that they share is one state; nothing blocks
//! while it is held, except that a higher fence is put on disk before anything happens under it.

mod desk;
mod peer;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::config::Config;
use crate::supervise::span;
use crate::{lock, orphan, socket, spool};
use desk::Desk;

/// What a runner says on its standard output when it can be reached.
pub(crate) const READY: &str = "ready\n";

/// Why a runner cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another one does already.
    #[error("another runner serves the spool {}; there is nothing to do", .0.display())]
    Taken(PathBuf),
    /// The spool cannot be used.
    #[error("the runner cannot use its spool")]
    Spool(#[source] spool::Error),
    /// The socket cannot be used.
    #[error("the runner cannot listen")]
    Socket(#[source] socket::Error),
    /// The system refused something.
    #[error("the runner cannot {doing}; start the run again")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

fn failed(doing: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Io { doing, source }
}

/// Serves one run until its daemon says goodbye, or nobody has come for a while.
///
/// # Errors
/// When another runner serves the spool, or spool or socket cannot be used.
pub fn serve(config: Config) -> Result<(), Error> {
    // Out of the daemon's terminal and its signals.
    let _ = rustix::process::setsid();
    spool::create_dir(&config.spool).map_err(Error::Spool)?;
    let dir = config.spool.clone();
    let held = lock::take(&dir).map_err(failed("take its lock"))?;
    let Some(held) = held else { return Err(Error::Taken(dir)) };
    orphan::reap(&dir);
    let spool = spool::Spool::open(&dir).map_err(Error::Spool)?;
    let listener = socket::listen(&dir).map_err(Error::Socket)?;
    let idle = Duration::from_millis(config.idle);
    let desk = Arc::new(Desk::open(config, spool)?);
    say_ready();
    desk.prepare();
    loop {
        let patience = match desk.leaves_at(idle) {
            Some(at) if at <= Instant::now() => break,
            Some(at) => Some(span(at.saturating_duration_since(Instant::now()))),
            None => None,
        };
        let bell = desk.changed();
        let mut fds = [PollFd::new(&listener, PollFlags::IN), PollFd::new(&bell, PollFlags::IN)];
        match poll(&mut fds, patience.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(failed("wait")(error.into())),
        }
        let [is_called, is_changed] = fds.map(|fd| !fd.revents().is_empty());
        drop(bell);
        if is_changed {
            desk.note_change();
        }
        if is_called && let Ok((stream, _)) = listener.accept() {
            peer::welcome(&desk, stream);
        }
    }
    desk.retire();
    // A daemon that connects from here on finds a closed door and starts another runner.
    let _ = socket::remove(&dir);
    desk.close();
    // It goes with the process: who finds it free finds nobody alive.
    std::mem::forget(held);
    Ok(())
}

/// Tells who started this process that it can be reached, and lets go of its pipe.
fn say_ready() {
    let mut out = io::stdout();
    let _ = out.write_all(READY.as_bytes()).and_then(|()| out.flush());
    if let Ok(null) = std::fs::OpenOptions::new().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(null);
    }
}
