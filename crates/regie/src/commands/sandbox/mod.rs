//! `regie sandbox`: any program in Regie's jail, without a daemon, a home or a mission.

mod changes;
mod explain;
mod plan;

use std::future::poll_fn;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::task::Poll;
use std::time::Duration;

use ::sandbox::{Bound, Child, Error, LAUNCH_ARG, Launcher, Stdin};

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::config::span;
use crate::failure::{Exit, Failure};
use crate::home::Home;
use crate::screen::{self, text};

/// Nothing was started.
const NOT_STARTED: i32 = 125;
/// The program is there and cannot be executed.
const NOT_EXECUTABLE: i32 = 126;
/// There is no such program in the jail.
const NOT_FOUND: i32 = 127;
/// Its time was over.
const TIMED_OUT: i32 = 124;
/// Added to the number of the signal that ended the program.
const SIGNALLED: i32 = 128;

/// What `regie sandbox` is asked for.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Sandbox {
    /// Run a program in a jail: the current directory is writable, the system is read-only, your home is not
    /// there, and there is no network
    #[command(after_help = "Exit codes: the program's own; 128 and the number of the signal that ended it; \
        137 also when all of it together had used up its memory, disk or files; 124 when its time was over, 125 when nothing was started, 126 when the program cannot be executed, \
        127 when it is not there.")]
    Run(Options),
    /// Show what `regie sandbox run` would do with the same options, and why; starts nothing
    Explain(Options),
}

/// What a jail is made of.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Make this writable, in place of the current directory, which is read-only then
    #[arg(long, value_name = "PATH")]
    pub(crate) write: Vec<PathBuf>,
    /// Show this, to be read and executed
    #[arg(long, value_name = "PATH")]
    pub(crate) read: Vec<PathBuf>,
    /// Leave the current directory as it is: what is changed in it is kept in DIR, and shown again with the same DIR
    #[arg(long, value_name = "DIR", conflicts_with = "write")]
    pub(crate) changes: Option<PathBuf>,
    /// Deny what this means, whatever else is granted: absolute, ~/…, or relative to the working directory, with
    /// *, ?, [a-z] and ** as wildcards
    #[arg(long, value_name = "GLOB")]
    pub(crate) deny: Vec<String>,
    /// What the program reaches over the network: nothing, or what this machine reaches
    #[arg(long, value_enum, default_value_t = Net::None)]
    pub(crate) net: Net,
    /// 1: the jail. 0: the same, and nothing outside of scratch can be written, and no program executed but CMD
    #[arg(long, value_name = "TIER", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=1))]
    pub(crate) tier: u8,
    /// Memory of all of it together, and of each process, as 512M or 4G
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) memory: Option<u64>,
    /// Processes and threads alive at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) processes: Option<u64>,
    /// What all of it together may write to disk, as 512M or 4G
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) disk: Option<u64>,
    /// Files that all of it together may make on disk
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) files: Option<u64>,
    /// End it after this long, as 90s, 30m or 1h30m
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) time: Option<u64>,
    /// Pass a variable on, or set it, as NAME=VALUE
    #[arg(long, value_name = "NAME")]
    pub(crate) env: Vec<String>,
    /// Start in this directory [default: the current one]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

/// What a program reaches over the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Net {
    /// Nothing but a loopback of its own
    None,
    /// What this machine reaches
    Host,
}

/// Needs no home; one that is there is denied.
pub(super) fn run(home: Option<&Path>, json: bool, command: &Sandbox) -> Result<Exit, Failure> {
    let home = Home::resolve(home).ok();
    let regie = home.as_ref().map(Home::root);
    match command {
        Sandbox::Run(options) => start(regie, options),
        Sandbox::Explain(options) => explain::run(regie, json, options),
    }
}

fn launcher() -> Launcher {
    Launcher::at("/proc/self/exe", vec![LAUNCH_ARG.into()])
}

fn start(regie: Option<&Path>, options: &Options) -> Result<Exit, Failure> {
    let made = plan::make(regie, options)?;
    for name in &made.unset {
        screen::warning(&format!("{name} is not set here, so the program does not get it"))?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| refused(format!("no runtime can be had: {error}")))?;
    let (end, ended, bound) = runtime.block_on(async {
        // Listened to before there is anything that a signal could leave behind.
        let signals = Signals::listen()?;
        if let Some(layers) = &made.plan.layers {
            changes::make(layers)?;
        }
        let child = launcher().spawn(&made.plan, Stdin::Inherited).map_err(|error| not_started(&error))?;
        follow(child, signals, options.time).await
    })?;
    if let Some(bound) = bound {
        screen::warning(&format!("{bound}: it and all that it started were ended; {}", bound.mend()))?;
    }
    Ok(Exit::Of(match end {
        End::Itself => {
            ended.code().or_else(|| ended.signal().map(|signal| SIGNALLED + signal)).unwrap_or(NOT_STARTED)
        }
        End::Signal(signal) => SIGNALLED + signal,
        End::Time => {
            let after = text::span(options.time.unwrap_or_default());
            screen::warning(&format!("ended after {after}, as --time says"))?;
            TIMED_OUT
        }
    }))
}

/// What comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The program ends.
    Itself,
    /// This process is told to end, which ends the jail too.
    Signal(i32),
    /// Its time is over.
    Time,
}

/// The signals that ask this process to end.
struct Signals(Vec<(i32, Signal)>);

impl Signals {
    fn listen() -> Result<Self, Failure> {
        let kinds =
            [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()];
        let listen = |kind: SignalKind| signal(kind).map(|signal| (kind.as_raw_value(), signal));
        let all = kinds.into_iter().map(listen).collect::<io::Result<_>>();
        all.map(Self).map_err(|error| refused(format!("signals cannot be listened to: {error}")))
    }

    async fn next(&mut self) -> i32 {
        poll_fn(|context| {
            let came = self
                .0
                .iter_mut()
                .find_map(|(number, signal)| signal.poll_recv(context).is_ready().then_some(*number));
            came.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// Until nothing of the jail is alive; says what came first, and how the program ended.
async fn follow(
    mut child: Child,
    mut signals: Signals,
    millis: Option<u64>,
) -> Result<(End, ExitStatus, Option<Bound>), Failure> {
    let killer = child.killer();
    let mut waiting = tokio::task::spawn_blocking(move || child.wait().map(|ended| (ended, child.bound())));
    let time = async {
        match millis {
            Some(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
            None => std::future::pending().await,
        }
    };
    let (end, ended) = tokio::select! {
        biased;
        ended = &mut waiting => (End::Itself, Some(ended)),
        signal = signals.next() => (End::Signal(signal), None),
        () = time => (End::Time, None),
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            killer.kill().map_err(|error| not_started(&error))?;
            waiting.await
        }
    };
    let ended = ended.map_err(|error| refused(format!("its end cannot be waited for: {error}")))?;
    ended.map(|(ended, bound)| (end, ended, bound)).map_err(|error| not_started(&error))
}

/// The words of what did not start, with the exit code that says it.
fn not_started(error: &Error) -> Failure {
    let code = match error {
        Error::Program(failure) if failure.errno == Some(rustix::io::Errno::NOENT.raw_os_error()) => {
            NOT_FOUND
        }
        Error::Program(_) => NOT_EXECUTABLE,
        _ => NOT_STARTED,
    };
    let failure = Failure { exit: Exit::Of(code), ..Failure::new(error.to_string()) };
    match error {
        Error::Refused { .. } | Error::NoJail => failure.hint("`regie doctor` shows what this machine lacks"),
        Error::Program(_) => failure.hint("--read PATH shows more than the system's programs"),
        _ => failure,
    }
}

/// A number of bytes, as 512M or 4G.
fn size(text: &str) -> Result<u64, String> {
    let wrong = || "expected a size, as 512M or 4G".to_owned();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let shift = match unit.to_ascii_uppercase().trim_end_matches("IB").trim_end_matches('B') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).filter(|bytes| *bytes >= 1 << 20).ok_or_else(|| {
        "expected at least 1M, as no program starts in less, and less than 2^64 bytes".to_owned()
    })
}

/// A path as the system knows it, without links and detours.
fn resolved(path: &Path, what: &str) -> Result<PathBuf, Failure> {
    path.canonicalize().map_err(|error: io::Error| {
        refused(format!("{what} {path:?} cannot be used: {error}"))
            .hint("name a path that is there, and that you may read")
    })
}

/// Nothing is started, for a reason that lies in what was asked for.
fn refused(detail: impl Into<String>) -> Failure {
    Failure { exit: Exit::Of(NOT_STARTED), ..Failure::new(detail) }
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_are_read() {
        assert_eq!(size("4G"), Ok(4 << 30));
        assert_eq!(size("512MiB"), Ok(512 << 20));
        assert_eq!(size("1048576"), Ok(1 << 20));
        for wrong in ["", "G", "4X", "-1", "1K", "99999999999999999999", "99999999T"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
