//! Why a use case failed: classified once, for the CLI's exit code and the API's status alike.

use crate::api::Problem;

/// A failed use case.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct Error {
    /// What kind of failure.
    pub kind: Kind,
    /// A stable code, as `run.not_found`.
    pub code: &'static str,
    /// What is wrong and where, one line.
    pub detail: String,
    /// How to mend it, one line.
    pub hint: Option<String>,
}

/// What kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// What was asked for makes no sense as it stands.
    Invalid,
    /// There is no such thing.
    NotFound,
    /// It does not fit the present state.
    Conflict,
    /// Something outside is missing or broken.
    Unavailable,
    /// A defect or a broken disk.
    Internal,
}

impl Error {
    /// A failure without a hint.
    pub fn new(kind: Kind, code: &'static str, detail: impl Into<String>) -> Self {
        Self { kind, code, detail: detail.into(), hint: None }
    }

    /// With the mend.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// With the mend that the detail ends in, as a hint of its own: `what is wrong; how to mend it`.
    #[must_use]
    pub fn mend_apart(mut self) -> Self {
        if self.hint.is_none()
            && let Some((what, mend)) = self.detail.rsplit_once("; ")
        {
            self.hint = Some(mend.to_owned());
            self.detail = what.to_owned();
        }
        self
    }

    /// The HTTP status.
    pub const fn status(&self) -> u16 {
        match self.kind {
            Kind::Invalid => 422,
            Kind::NotFound => 404,
            Kind::Conflict => 409,
            Kind::Unavailable => 503,
            Kind::Internal => 500,
        }
    }

    /// As the API shows it.
    pub fn problem(&self) -> Problem {
        Problem {
            status: self.status(),
            code: self.code.into(),
            detail: self.detail.clone(),
            hint: self.hint.clone(),
        }
    }
}

impl From<kernel::port::JournalError> for Error {
    fn from(error: kernel::port::JournalError) -> Self {
        use kernel::port::JournalError::{Damaged, Forgotten, NoSuchRun, Storage};
        let detail = error.to_string();
        match error {
            NoSuchRun(_) => Self::new(Kind::NotFound, "run.not_found", detail).mend_apart(),
            Forgotten(_) => Self::new(Kind::Conflict, "run.forgotten", detail).mend_apart(),
            Storage(_) => {
                Self::new(Kind::Unavailable, "journal.unreadable", detail).hint("see `regie doctor`")
            }
            Damaged { .. } => {
                Self::new(Kind::Internal, "journal.damaged", detail).hint("see `regie audit verify`")
            }
        }
    }
}

impl From<kernel::host::Error> for Error {
    fn from(error: kernel::host::Error) -> Self {
        use kernel::host::Error as Host;
        use kernel::port::ClaimError;
        let detail = error.to_string();
        match error {
            Host::Refused(_) => Self::new(Kind::Conflict, "run.refused", detail).mend_apart(),
            Host::Claim(ClaimError::NoSuchRun(_)) => {
                Self::new(Kind::NotFound, "run.not_found", detail).mend_apart()
            }
            Host::Claim(_) => Self::new(Kind::Conflict, "run.claimed", detail),
            Host::Journal(error) => error.into(),
            Host::Driver(_) => Self::new(Kind::Unavailable, "run.undrivable", detail).mend_apart(),
            Host::Closed => Self::new(Kind::Unavailable, "daemon.ending", detail).mend_apart(),
            Host::NotRecorded => Self::new(Kind::Unavailable, "run.not_recorded", detail).mend_apart(),
        }
    }
}

impl From<kernel::port::RecordError> for Error {
    fn from(error: kernel::port::RecordError) -> Self {
        Self::new(Kind::Unavailable, "records.failed", error.to_string()).hint("see `regie doctor`")
    }
}

impl From<kernel::port::ArtifactError> for Error {
    fn from(error: kernel::port::ArtifactError) -> Self {
        let detail = crate::view::with_causes(&error);
        match error {
            kernel::port::ArtifactError::Missing(_) => {
                Self::new(Kind::NotFound, "artifact.not_found", detail)
            }
            _ => Self::new(Kind::Unavailable, "artifact.failed", detail).hint("see `regie doctor`"),
        }
    }
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        let (kind, code) = match error {
            store::Error::Owner(_) => (Kind::Invalid, "project.unusable"),
            store::Error::Altered { .. } => (Kind::Invalid, "project.altered"),
            store::Error::Diverged { .. } => (Kind::Conflict, "project.diverged"),
            _ => (Kind::Unavailable, "store.failed"),
        };
        let said = error.to_string();
        let detail = crate::view::with_causes(&error);
        // The store's messages end in the mend; a conflict's end in the list of its files.
        let mend = said.rsplit_once(": ").filter(|_| !matches!(error, store::Error::Conflict { .. }));
        match (mend, detail.strip_prefix(&said)) {
            (Some((what, mend)), Some(causes)) => Self::new(kind, code, format!("{what}{causes}")).hint(mend),
            _ => Self::new(kind, code, detail),
        }
    }
}
