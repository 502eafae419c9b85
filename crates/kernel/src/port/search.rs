//! Finding words in what was recorded.
//!
//! An index is made from the journal and can be thrown away: what it lacks is read again.

use domain::{Digest, RunId, StepNo, Timestamp};

/// One recorded text as it is indexed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// The run.
    pub run: RunId,
    /// The event.
    pub seq: u64,
    /// When it was recorded.
    pub at: Timestamp,
    /// The step that it is about.
    pub step: Option<StepNo>,
    /// What it is, as `answer`.
    pub kind: &'static str,
    /// The words.
    pub text: String,
}

/// How far an index has come: the position of the last event in it, and that event's hash, which tells
/// one journal from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The position.
    pub position: u64,
    /// The hash.
    pub hash: Digest,
}

/// A text that has all the words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The run.
    pub run: RunId,
    /// The event.
    pub seq: u64,
    /// When it was recorded.
    pub at: Timestamp,
    /// The step that it is about.
    pub step: Option<StepNo>,
    /// What it is.
    pub kind: String,
    /// A piece of the text, cut where matches begin and end.
    pub excerpt: Vec<Piece>,
}

/// A piece of an excerpt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The words.
    pub text: String,
    /// Whether they are what was looked for.
    pub is_match: bool,
}

/// Why an index cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the search index cannot be read or written: {0}; it can be deleted, and is made again")]
pub struct IndexError(pub String);

/// A full-text index over all runs.
pub trait Index: Send + Sync {
    /// How far it has come; `None` when it is empty.
    ///
    /// # Errors
    /// When it cannot be read.
    fn mark(&self) -> Result<Option<Mark>, IndexError>;

    /// Takes texts in, and with them everything up to `mark`. All or nothing.
    ///
    /// # Errors
    /// When it cannot be written.
    fn add(&self, texts: &[Text], mark: Mark) -> Result<(), IndexError>;

    /// Empties it.
    ///
    /// # Errors
    /// When it cannot be written.
    fn clear(&self) -> Result<(), IndexError>;

    /// The texts that have all of these words, or words that begin so; the best ones first, at most
    /// `limit`.
    ///
    /// # Errors
    /// When it cannot be read.
    fn find(&self, words: &str, limit: usize) -> Result<Vec<Found>, IndexError>;
}
