//! Starting the daemon on demand.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use control::api;
use models::network::{CERT_DIR_ENV, CERT_FILE_ENV};

use super::{Client, Error};
use crate::screen;

/// How long a daemon may take until it answers. It may have to wait for the end of the one before.
const ANSWER_WITHIN: Duration = Duration::from_secs(40);
/// How long another daemon may take when ours ended, having lost the race for the lock.
const OTHER_WITHIN: Duration = Duration::from_secs(2);
/// How often it is asked.
const EVERY: Duration = Duration::from_millis(30);
/// Bytes of a log that are repeated.
const TAIL_BYTES: u64 = 2_000;

/// How a daemon begins that a client starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begin {
    /// It takes all runs over.
    Going,
    /// It halts everything first, so that none goes on for a moment.
    Halted,
}

/// Starts one and waits until it answers, or until one that another client started does.
pub(super) async fn daemon(client: &Client, begin: Begin) -> Result<api::Hello, Error> {
    client.home.create().map_err(Error::Home)?;
    let path = client.home.daemon_log();
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(&path).map_err(Error::Spawn)?;
    let before = log.metadata().map_err(Error::Spawn)?.len();
    let mut child = spawn(client, log, begin)?;
    let mut left = ANSWER_WITHIN;
    loop {
        match client.hello().await {
            Ok(hello) => return Ok(hello),
            Err(Error::Unreachable { .. } | Error::Broken(_)) => {}
            Err(error) => return Err(error),
        }
        if child.as_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None))) {
            child = None;
            left = left.min(OTHER_WITHIN);
        }
        left = left.saturating_sub(EVERY);
        if left.is_zero() {
            return Err(Error::Silent { tail: tail(&path, before), log: path });
        }
        tokio::time::sleep(EVERY).await;
    }
}

#[expect(clippy::disallowed_methods, reason = "the daemon is this program, and is to outlive it")]
fn spawn(client: &Client, log: File, begin: Begin) -> Result<Option<Child>, Error> {
    let program = std::env::current_exe().map_err(Error::Spawn)?;
    let mut command = Command::new(program);
    // What a client hands over in words is not inherited.
    for name in api::Vendor::VARIABLES {
        command.env_remove(name);
    }
    // Certificates that are not there would leave every later run without any.
    for name in [CERT_FILE_ENV, CERT_DIR_ENV] {
        if std::env::var_os(name)
            .is_some_and(|paths| std::env::split_paths(&paths).all(|path| !path.exists()))
        {
            command.env_remove(name);
        }
    }
    let child = command
        .arg("--home")
        .arg(client.home.root())
        .args(["serve", "--detached"])
        .args((begin == Begin::Halted).then_some("--halted"))
        .current_dir(client.home.root())
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(Error::Spawn)?)
        .stderr(log)
        .spawn()
        .map_err(Error::Spawn)?;
    Ok(Some(child))
}

/// The last lines that were written after `before`.
fn tail(path: &std::path::Path, before: u64) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(path)?;
        let end = file.metadata()?.len();
        file.seek(SeekFrom::Start(before.max(end.saturating_sub(TAIL_BYTES))))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    screen::text::lines(&read().unwrap_or_default())
}
