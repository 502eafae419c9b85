//! Small typed state, and content-addressed files.

use domain::{Digest, Timestamp};

/// A versioned record of trust, agents or server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The kind, as `lease` or `project`.
    pub kind: String,
    /// The key within the kind.
    pub key: String,
    /// Raised by each write, from 1. For a `lease` this is its epoch.
    pub version: u64,
    /// The body, as its owner encodes it.
    pub body: Vec<u8>,
}

/// One of several records that are written together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Put<'a> {
    /// The kind.
    pub kind: &'a str,
    /// The key within the kind.
    pub key: &'a str,
    /// The version that must be there, 0 for none.
    pub expected: u64,
    /// The new body.
    pub body: &'a [u8],
}

/// Why a record could not be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Somebody else wrote in between.
    #[error("record {kind}/{key} has version {current}, expected {expected}")]
    Moved {
        /// The kind.
        kind: String,
        /// The key.
        key: String,
        /// What is there; 0 for nothing.
        current: u64,
        /// What was expected.
        expected: u64,
    },
    /// Reading or writing failed.
    #[error("records cannot be read or written: {0}")]
    Storage(String),
}

/// Small typed state, so that SQL stays in the journal's crate.
pub trait Records: Send + Sync {
    /// One record.
    ///
    /// # Errors
    /// When it cannot be read.
    fn get(&self, kind: &str, key: &str) -> Result<Option<Record>, RecordError>;

    /// All records of a kind, by key.
    ///
    /// # Errors
    /// When they cannot be read.
    fn list(&self, kind: &str) -> Result<Vec<Record>, RecordError>;

    /// Writes a record whose version is `expected` (0: it must not exist) and gives its new version.
    /// Durable when it returns.
    ///
    /// # Errors
    /// When somebody else wrote in between or the write fails.
    fn put(&self, kind: &str, key: &str, expected: u64, body: &[u8]) -> Result<u64, RecordError>;

    /// Writes several records together: all of them, or none when one is not at the version that is expected
    /// of it. Durable when it returns. Who cannot says so, and writes none.
    ///
    /// # Errors
    /// When somebody else wrote one of them in between, or the write fails.
    fn put_all(&self, writes: &[Put<'_>]) -> Result<(), RecordError> {
        let _ = writes;
        Err(RecordError::Storage("several records cannot be written together".into()))
    }

    /// The kinds that there are. Who cannot tell says so: then nothing may be taken for unreferenced.
    ///
    /// # Errors
    /// When they cannot be read, or are not known.
    fn kinds(&self) -> Result<Vec<String>, RecordError> {
        Err(RecordError::Storage("the kinds of records are not known".into()))
    }
}

/// Why an artifact could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// There is none.
    #[error("there is no artifact {0}")]
    Missing(Digest),
    /// Its bytes do not have its digest.
    #[error("artifact {0} is damaged: its bytes have another digest")]
    Damaged(Digest),
    /// Reading or writing failed.
    #[error("artifact {digest} cannot be read or written")]
    Io {
        /// Which one.
        digest: Digest,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// Content-addressed files.
pub trait Artifacts: Send + Sync {
    /// Keeps bytes. Durable when it returns; keeping the same bytes twice is once.
    ///
    /// # Errors
    /// When they cannot be written.
    fn put(&self, bytes: &[u8]) -> Result<Digest, ArtifactError>;

    /// The bytes, verified against their digest.
    ///
    /// # Errors
    /// When they are missing, damaged or cannot be read.
    fn get(&self, digest: Digest) -> Result<Vec<u8>, ArtifactError>;

    /// The artifacts whose digest begins with these two or more hexadecimal characters, in lower case.
    ///
    /// # Errors
    /// When the place cannot be read.
    fn find(&self, beginning: &str) -> Result<Vec<Digest>, ArtifactError>;

    /// How much an artifact takes and when it was last put; `None` where that is not known.
    ///
    /// # Errors
    /// When the place cannot be read.
    fn stored(&self, digest: Digest) -> Result<Option<Stored>, ArtifactError> {
        let _ = digest;
        Ok(None)
    }

    /// Takes an artifact away that was last put before an instant. Whether it did so; one that is put
    /// again meanwhile stays.
    ///
    /// # Errors
    /// When it cannot be removed.
    fn discard(&self, digest: Digest, put_before: Timestamp) -> Result<bool, ArtifactError> {
        let _ = (digest, put_before);
        Ok(false)
    }
}

/// What an artifact takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Its size in bytes.
    pub bytes: u64,
    /// When it was last put.
    pub at: Timestamp,
}
