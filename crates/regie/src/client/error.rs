//! Why the daemon did not do what it was asked for.

use std::io;
use std::path::PathBuf;

use control::api;

use crate::failure::{Exit, Failure};
use crate::home;

/// A failed request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The daemon refused it.
    #[error("{}", .0.detail)]
    Refused(api::Problem),
    /// Nothing listens.
    #[error("no daemon answers at {}", socket.display())]
    Unreachable {
        /// Where it would listen.
        socket: PathBuf,
        /// What the connection said.
        #[source]
        source: reqwest::Error,
    },
    /// The connection broke while a request was under way.
    #[error("the daemon went away before it answered")]
    Broken(#[source] reqwest::Error),
    /// An answer of another form.
    #[error("the daemon's answer cannot be read")]
    Unreadable(#[source] serde_json::Error),
    /// A refusal of another form.
    #[error("the daemon answered with status {0} and no reason")]
    Status(u16),
    /// A daemon of another version.
    #[error(
        "the running daemon is Regie {daemon} with API {daemon_api}, this client speaks API {client_api}"
    )]
    Version {
        /// Its version.
        daemon: String,
        /// Its API.
        daemon_api: u32,
        /// Ours.
        client_api: u32,
        /// Its process id.
        pid: u32,
    },
    /// Something that is no id.
    #[error("`{0}` is not an id")]
    Name(String),
    /// The home is not usable.
    #[error("{0}")]
    Home(home::Error),
    /// The HTTP client cannot be made.
    #[error("the client cannot be set up")]
    Client(#[source] reqwest::Error),
    /// The daemon's process cannot be started.
    #[error("the daemon cannot be started")]
    Spawn(#[source] io::Error),
    /// The daemon does not answer.
    #[error("the daemon was started and does not answer")]
    Silent {
        /// Where its last words are.
        log: PathBuf,
        /// Its last words.
        tail: String,
    },
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let failure = Self::new(error.to_string());
        match error {
            Error::Refused(problem) => problem.into(),
            Error::Name(_) => Self { exit: Exit::Usage, ..failure }
                .hint("`regie runs` and `regie gate list` print them; `last` is the latest run"),
            Error::Version { pid, .. } => failure.hint(format!(
                "end the other one with `kill {pid}` and run this again: runs go on where they were"
            )),
            Error::Silent { log, tail } => {
                let said = match tail.trim_end() {
                    "" => "it said nothing".to_owned(),
                    tail => format!("its last words:\n  {}", tail.replace('\n', "\n  ")),
                };
                Self { detail: format!("{}; {said}", failure.detail), ..failure }
                    .hint(format!("the whole log is {}; `regie doctor` looks for causes", log.display()))
            }
            Error::Spawn(source) => Self { detail: format!("{}: {source}", failure.detail), ..failure }
                .hint("run `regie doctor`, or `regie serve` to see it start"),
            Error::Unreachable { .. } => failure.hint("`regie serve` starts one in the foreground"),
            Error::Broken(_) => failure.hint("run it again; runs go on where they were"),
            Error::Unreadable(_) | Error::Status(_) => failure
                .hint("client and daemon may be of different builds: end the daemon and run this again"),
            Error::Home(_) => failure,
            Error::Client(source) => Self { detail: format!("{}: {source}", failure.detail), ..failure },
        }
    }
}
