//! The connection to a runner: finds the living one, starts one, or learns that there is none.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use domain::RunId;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use crate::config::{Config, GIVEN_ENV, NO_JAIL_ENV};
use crate::serve::READY;
use crate::wire::{Answer, Request, VERSION};
use crate::{lock, socket, spool};

/// How long a living runner may take to answer before it counts as stuck and is ended.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a new runner may take until it can be reached. It may have to wait for a dead one's jails.
const START_WITHIN: Duration = Duration::from_secs(40);
/// How often a runner is looked for that is about to appear or to leave.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// What a runner inherits of the daemon's environment; vendor keys, above all, are not among it.
const INHERITED: [&str; 8] =
    ["PATH", "HOME", "LANG", "TMPDIR", "RUST_LOG", "REGIE_FAULT", "LLVM_PROFILE_FILE", NO_JAIL_ENV];

/// Why there is no runner.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The binary could not be started.
    #[error("the runner {} cannot be started; check that Regie's binary is in place", program.display())]
    Start {
        /// The binary.
        program: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It started and ended again, or cannot be reached.
    #[error("the runner did not get ready; its log {} says why", log.display())]
    NotReady {
        /// Where its log is.
        log: PathBuf,
    },
    /// The spool cannot be used.
    #[error("the run's spool cannot be used")]
    Spool(#[source] spool::Error),
    /// The spool's lock cannot be read.
    #[error("the lock of the spool {} cannot be read; check the permissions there", dir.display())]
    Lock {
        /// The spool.
        dir: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The socket cannot be used.
    #[error("the runner cannot be reached")]
    Socket(#[source] socket::Error),
    /// The configuration could not be put into words.
    #[error("the runner's configuration cannot be encoded; its paths must be valid UTF-8")]
    Encode(#[source] serde_json::Error),
}

/// A connection on which both sides have said hello.
#[derive(Debug)]
pub(super) struct Link {
    write: OwnedWriteHalf,
    answers: mpsc::Receiver<Answer>,
}

impl Link {
    /// Connects to the living runner; `None` when there is none.
    pub(super) async fn find(config: &Config) -> Result<Option<Self>, Error> {
        let dir = &config.spool;
        let deadline = Instant::now() + PATIENCE + PATIENCE;
        loop {
            match socket::connect(dir) {
                Ok(stream) => match timeout(PATIENCE, Self::greet(stream, config.run)).await {
                    Ok(Ok(link)) => return Ok(Some(link)),
                    // It was about to leave.
                    Ok(Err(Greeting::Closed)) => {}
                    Ok(Err(Greeting::Foreign)) | Err(_) => end_holder(dir)?,
                },
                Err(socket::Error::Io { source, .. })
                    if matches!(
                        source.kind(),
                        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
                    ) => {}
                Err(error) => return Err(Error::Socket(error)),
            }
            if holder(dir)?.is_none() {
                return Ok(None);
            }
            if Instant::now() >= deadline {
                end_holder(dir)?;
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Connects to the living runner, or starts one.
    pub(super) async fn open(config: &Config) -> Result<Self, Error> {
        if let Some(link) = Self::find(config).await? {
            return Ok(link);
        }
        start(config).await?;
        // Also when the start failed: somebody else may have been faster.
        let log = log_path(&config.spool);
        Self::find(config).await?.ok_or(Error::NotReady { log })
    }

    async fn greet(stream: std::os::unix::net::UnixStream, run: RunId) -> Result<Self, Greeting> {
        let closed = |_: io::Error| Greeting::Closed;
        stream.set_nonblocking(true).map_err(closed)?;
        let (read, mut write) = UnixStream::from_std(stream).map_err(closed)?.into_split();
        say(&mut write, &Request::Hello { version: VERSION }).await.map_err(closed)?;
        let mut read = BufReader::new(read);
        match hear(&mut read).await {
            Some(Answer::Hello { version: VERSION, run: theirs }) if theirs == run => {}
            Some(_) => return Err(Greeting::Foreign),
            None => return Err(Greeting::Closed),
        }
        let (sender, answers) = mpsc::channel(64);
        tokio::spawn(async move {
            while let Some(answer) = hear(&mut read).await {
                if sender.send(answer).await.is_err() {
                    break;
                }
            }
        });
        Ok(Self { write, answers })
    }

    /// Says something.
    pub(super) async fn say(&mut self, request: &Request) -> io::Result<()> {
        say(&mut self.write, request).await
    }

    /// The next answer; `None` when the connection has ended.
    pub(super) async fn hear(&mut self) -> Option<Answer> {
        self.answers.recv().await
    }
}

/// Why a greeting failed.
enum Greeting {
    /// Nobody answered to the end.
    Closed,
    /// A runner of another version, or of another run.
    Foreign,
}

async fn say(write: &mut OwnedWriteHalf, request: &Request) -> io::Result<()> {
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    write.write_all(&line).await
}

async fn hear(read: &mut BufReader<OwnedReadHalf>) -> Option<Answer> {
    let mut line = Vec::new();
    read.read_until(b'\n', &mut line).await.ok()?;
    match serde_json::from_slice(&line) {
        Ok(answer) => Some(answer),
        Err(error) => {
            if !line.is_empty() {
                tracing::warn!(%error, "a runner says something that is no answer; it is disconnected");
            }
            None
        }
    }
}

async fn start(config: &Config) -> Result<(), Error> {
    spool::create_dir(&config.spool).map_err(Error::Spool)?;
    let failed = |source| Error::Start { program: config.program.clone(), source };
    let log = OpenOptions::new().create(true).append(true).open(log_path(&config.spool)).map_err(failed)?;
    #[expect(clippy::disallowed_methods, reason = "runners are processes of their own, outside of any jail")]
    let mut command = Command::new(&config.program);
    command
        .args(config.args().map_err(Error::Encode)?)
        .env_clear()
        .envs(INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
        .envs(sandbox::lacks::switches())
        .env(GIVEN_ENV, config.given_env().map_err(Error::Encode)?)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log);
    let mut newborn = Newborn(Some(command.spawn().map_err(failed)?));
    if let Some(out) = newborn.0.as_mut().and_then(|child| child.stdout.take()) {
        let mut line = String::new();
        let ready = timeout(START_WITHIN, BufReader::new(out).read_line(&mut line)).await;
        if !matches!(ready, Ok(Ok(_))) || line != READY {
            tracing::warn!(run = %config.run, "a new runner did not get ready");
        }
    }
    // It outlives this process; while both live, its end is collected here.
    if let Some(mut child) = newborn.0.take() {
        tokio::spawn(async move { child.wait().await });
    }
    Ok(())
}

/// A runner that does not serve yet. When nobody waits for it any more, it is ended: it could not be
/// found by its lock.
struct Newborn(Option<tokio::process::Child>);

impl Drop for Newborn {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.start_kill();
        }
    }
}

fn log_path(dir: &Path) -> PathBuf {
    dir.join("runner.log")
}

fn holder(dir: &Path) -> Result<Option<Option<u32>>, Error> {
    lock::holder(dir).map_err(|source| Error::Lock { dir: dir.to_owned(), source })
}

/// Ends a runner that lives and cannot be talked with; its jails end with it.
pub(super) fn end_holder(dir: &Path) -> Result<(), Error> {
    if let Some(Some(pid)) = holder(dir)?
        && let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw)
    {
        tracing::warn!(pid = pid.as_raw_nonzero(), "a runner that does not answer is ended");
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    Ok(())
}
