//! What can go wrong in SQLite, classified once: what a caller reads, and whether the writer may go on.

use std::path::PathBuf;

use domain::RunId;
use kernel::port::{AppendError, ClaimError, JournalError, RecordError};
use rusqlite::ErrorCode;

/// Why a journal cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It has a schema that this version does not know.
    #[error(
        "`{path}` was written by a newer Regie (schema {found}, this one knows {known}): upgrade Regie, or set REGIE_HOME to another folder"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: u32,
        /// The newest schema that this version knows.
        known: u32,
    },
    /// It is somebody else's database.
    #[error("`{path}` is a database of another program: set REGIE_HOME to another folder")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// SQLite cannot open it.
    #[error(
        "the journal `{path}` cannot be opened: check that its folder exists, is writable and has free space"
    )]
    Storage {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: rusqlite::Error,
    },
    /// There is no copy to go back to, so that nothing was changed.
    #[error(
        "the journal cannot be copied to `{path}` before its upgrade: free as much space as it takes, and start again"
    )]
    Copy {
        /// The copy.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The operating system gives no thread.
    #[error("the journal's writer cannot start: the system has no thread left for it")]
    Thread {
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// A failed read or write.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    /// What, and how to mend it.
    pub(super) text: String,
    /// Whether it is unknown what is on disk, so that nothing may be acknowledged from here on.
    pub(super) fatal: bool,
}

impl Failure {
    pub(super) fn stopped() -> Self {
        Self { text: "its writer has stopped; restart Regie".into(), fatal: true }
    }

    /// The writer refuses what is not sound, whoever hands it in.
    pub(super) fn malformed(what: impl Into<String>) -> Self {
        Self { text: what.into(), fatal: false }
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        let (mend, fatal) = match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => ("the disk is full: free some space, then resume", false),
            // After a failed sync nobody knows what is on disk, and trying again may hide it.
            Some(ErrorCode::SystemIoFailure) => {
                ("the disk failed: check that it is sound and has free space, then restart Regie", true)
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                ("the file is damaged: restore it from a copy, then restart Regie", true)
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                ("another program holds the file: end it, then resume", false)
            }
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                ("the file is not writable: check its owner and mode, then resume", false)
            }
            _ => ("unexpected; restart Regie and report it", false),
        };
        Self { text: format!("{mend} ({error})"), fatal }
    }
}

impl From<Failure> for AppendError {
    fn from(failure: Failure) -> Self {
        Self::Storage(failure.text)
    }
}

impl From<Failure> for ClaimError {
    fn from(failure: Failure) -> Self {
        Self::Storage(failure.text)
    }
}

impl From<Failure> for RecordError {
    fn from(failure: Failure) -> Self {
        Self::Storage(failure.text)
    }
}

impl From<Failure> for JournalError {
    fn from(failure: Failure) -> Self {
        Self::Storage(failure.text)
    }
}

/// A row that cannot be what a writer of ours wrote.
pub(super) fn damaged(run: RunId, seq: u64, what: impl Into<String>) -> JournalError {
    JournalError::Damaged { run, seq, what: what.into() }
}
