//! The end of all runners of a home, with the daemon that they serve.
//!
//! What runs may come to its end, and is in the spool then. What takes longer is ended with its runner:
//! the next daemon finds an intention without a result, as after any other death.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{RunnerExecutor, link};
use crate::wire::{Request, VERSION};
use crate::{lock, orphan, socket};

/// How long runners may take to bring what runs to its end.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long one that was killed may take to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(5);
/// How long a runner may take to answer that it is there.
const ANSWERS_WITHIN: Duration = Duration::from_millis(500);
const LOOK_EVERY: Duration = Duration::from_millis(10);

impl RunnerExecutor {
    /// Ends every runner whose spool lies in `spools`, also those that an earlier daemon has left; their
    /// jails and services with them. Returns when they are gone, a few seconds later at most. Nothing is
    /// executed any more from here on, and nobody is told of what is cut short.
    pub async fn end(&self, spools: &Path) {
        let deadline = Instant::now() + PATIENCE;
        for task in self.close_stations() {
            let stop = task.abort_handle();
            let left = deadline.saturating_duration_since(Instant::now());
            if tokio::time::timeout(left, task).await.is_err() {
                stop.abort();
            }
        }
        let spools = spools.to_owned();
        let ended = tokio::task::spawn_blocking(move || end_all(&living(&spools), deadline)).await;
        if let Err(error) = ended {
            tracing::error!(%error, "the runners could not be ended; they leave by themselves in a while");
        }
    }
}

/// The spools whose runner lives.
fn living(spools: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(spools).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|dir| is_served(dir)).collect()
}

fn is_served(dir: &Path) -> bool {
    // One that never had a runner is not to get a lock by this question.
    dir.join(lock::NAME).exists() && matches!(lock::holder(dir), Ok(Some(_)))
}

fn end_all(spools: &[PathBuf], deadline: Instant) {
    let mut left: Vec<_> = spools.iter().map(PathBuf::as_path).collect();
    for dir in &left {
        // One that has its goodbye from its station hears it twice, which changes nothing.
        if let Err(error) = say_goodbye(dir) {
            tracing::debug!(dir = %dir.display(), %error, "a runner cannot be talked with");
        }
    }
    await_gone(&mut left, deadline);
    for dir in &left {
        if let Err(error) = link::end_holder(dir) {
            tracing::warn!(dir = %dir.display(), %error, "a runner cannot be ended");
        }
    }
    let killed = left.clone();
    await_gone(&mut left, Instant::now() + GONE_WITHIN);
    for dir in left {
        tracing::error!(dir = %dir.display(), "a runner does not end");
    }
    // The jails of one that left by itself are gone before it is.
    killed.iter().for_each(|dir| orphan::reap(dir));
}

fn await_gone(dirs: &mut Vec<&Path>, deadline: Instant) {
    loop {
        dirs.retain(|dir| is_served(dir));
        if dirs.is_empty() || Instant::now() >= deadline {
            return;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Tells a runner to leave when nothing runs in it any more.
fn say_goodbye(dir: &Path) -> std::io::Result<()> {
    let mut stream = match socket::connect(dir) {
        Ok(stream) => stream,
        Err(socket::Error::Io { source, .. }) => return Err(source),
        Err(error) => return Err(std::io::Error::other(error)),
    };
    stream.set_read_timeout(Some(ANSWERS_WITHIN))?;
    stream.set_write_timeout(Some(ANSWERS_WITHIN))?;
    for request in [Request::Hello { version: VERSION }, Request::Bye] {
        let mut line = serde_json::to_vec(&request)?;
        line.push(b'\n');
        stream.write_all(&line)?;
    }
    // Its hello says that it reads.
    BufReader::new(stream).read_line(&mut String::new()).map(drop)
}
