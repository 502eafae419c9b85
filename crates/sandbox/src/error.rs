//! Why a jail did not start: which part, what the kernel said, and how to mend it.

use std::{io, path::PathBuf, process::ExitStatus};

use serde::{Deserialize, Serialize};

/// Why a plan did not become a process, or a child could not be followed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The plan itself cannot be carried out on any machine, or names what is not there.
    #[error("the jail's plan cannot be used: {reason}; mend the plan")]
    Plan {
        /// What is wrong with it.
        reason: String,
    },
    /// The plan could not be put into words for the launcher.
    #[error("the jail's plan could not be encoded; its paths must be valid UTF-8")]
    Encode {
        /// What the encoder said.
        #[source]
        source: serde_json::Error,
    },
    /// The program of the plan could not be executed inside the jail.
    #[error(
        "the program does not start in the jail: {0}; check that it is installed under a path that the jail shows"
    )]
    Program(Failure),
    /// A part of the confinement could not be put in place, and the posture is to refuse.
    #[error("no jail, so nothing was started: {failure}; {mend}")]
    Refused {
        /// Which part, and what the kernel said.
        failure: Failure,
        /// How to mend it.
        mend: String,
    },
    /// The launcher's binary could not be started.
    #[error("the jail's launcher {} could not be started; check that Regie's binary is in place", program.display())]
    Launcher {
        /// The binary.
        program: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The launcher ended, or went on, without an answer.
    #[error("the jail's launcher gave no answer ({}); start the step again, and report this if it stays", ended.map_or_else(|| "still running, now ended".to_owned(), |status| status.to_string()))]
    Silent {
        /// How it ended, when it did so by itself.
        ended: Option<ExitStatus>,
    },
    /// Talking with the launcher or following its process failed.
    #[error("the jail's process could not be followed ({doing}); start the step again")]
    Follow {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// This system has no jail.
    #[error("no jail on this system yet, so nothing was started; run Regie on Linux")]
    NoJail,
}

/// The part of the confinement that a failure belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Part {
    /// What the plan names: sources, working directory.
    Plan,
    /// The program's execution.
    Program,
    /// User, mount, process, network, IPC, host name and cgroup namespaces.
    Namespaces,
    /// The jail's own file tree.
    Files,
    /// A directory in layers.
    Layers,
    /// The jail's own loopback.
    Network,
    /// Resource limits.
    Limits,
    /// Capabilities and `no_new_privs`.
    Privileges,
    /// The Landlock rules.
    Landlock,
    /// The system call filters.
    Seccomp,
    /// The launcher's own processes and pipes.
    Launch,
}

/// A part that failed, as the launcher reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Which part.
    pub part: Part,
    /// What was being done.
    pub doing: String,
    /// The kernel's error number, where there is one.
    pub errno: Option<i32>,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Names of files are in it, and one line stays one.
        for c in self.doing.chars() {
            if c.is_control() { write!(f, "{}", c.escape_default())? } else { write!(f, "{c}")? }
        }
        match self.errno {
            Some(errno) => write!(f, ": {}", io::Error::from_raw_os_error(errno)),
            None => Ok(()),
        }
    }
}

impl Failure {
    /// Whether the machine is what lacks something, rather than the plan.
    #[must_use]
    pub fn is_machine(&self) -> bool {
        !matches!(self.part, Part::Plan | Part::Program)
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use super::{Failure, Part};

    impl Part {
        /// Turns a kernel error into a failure of this part.
        pub(crate) fn failed<E: Errno>(self, doing: impl Into<String>) -> impl FnOnce(E) -> Failure {
            move |error| Failure { part: self, doing: doing.into(), errno: error.number() }
        }
    }

    /// The error number in the error types met here.
    pub(crate) trait Errno {
        fn number(&self) -> Option<i32>;
    }

    impl Errno for rustix::io::Errno {
        fn number(&self) -> Option<i32> {
            Some(self.raw_os_error())
        }
    }

    impl Errno for std::io::Error {
        fn number(&self) -> Option<i32> {
            self.raw_os_error()
        }
    }
}
