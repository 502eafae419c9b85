//! Exit codes and the last words of a command that failed.

use std::io::{self, Write};

use control::api;

use crate::screen::style;

/// How a command ends, as its exit code says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what it was asked for.
    Done,
    /// It failed.
    Failed,
    /// It was asked for something that makes no sense.
    Usage,
    /// The run waits at a gate.
    Waiting,
    /// A gate was refused.
    Denied,
    /// A cap was reached.
    Budget,
    /// It was interrupted.
    Interrupted,
    /// As a program that it ran ended, or why that one did not start.
    Of(i32),
}

impl Exit {
    pub(crate) const fn code(self) -> i32 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Waiting => 3,
            Self::Denied => 4,
            Self::Budget => 5,
            Self::Interrupted => 130,
            Self::Of(code) => code,
        }
    }
}

/// Why a command failed: one line of what, one of how to mend it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) detail: String,
    pub(crate) hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(detail: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, detail: detail.into(), hint: None }
    }

    pub(crate) fn usage(detail: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, ..Self::new(detail) }
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Says it on stderr. Nothing is said when it is only that nobody reads on.
    pub(crate) fn tell(self) -> Exit {
        if self.exit == Exit::Done {
            return Exit::Done;
        }
        let mut err = anstream::stderr().lock();
        let _ = writeln!(err, "{} {}", style::error("error:"), self.detail);
        if let Some(hint) = self.hint {
            let _ = writeln!(err, "{} {hint}", style::hint("hint:"));
        }
        self.exit
    }
}

impl From<io::Error> for Failure {
    /// A failed write to the terminal or a pipe.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self { exit: Exit::Done, detail: String::new(), hint: None },
            _ => Self::new(format!("the output cannot be written: {error}"))
                .hint("check the disk or the terminal that it goes to"),
        }
    }
}

impl From<api::Problem> for Failure {
    fn from(problem: api::Problem) -> Self {
        let exit = match problem.status {
            403 => Exit::Denied,
            _ => Exit::Failed,
        };
        Self { exit, detail: problem.detail, hint: problem.hint }
    }
}
