//! SQLite behind the kernel's ports, and content-addressed artifacts.
//!
//! | type | what it is |
//! |---|---|
//! | [`SqliteJournal`] | events, claims, positions, projections and records in one file |
//! | [`FileArtifacts`] | content-addressed files |
//! | [`SearchIndex`] | words in all runs; made from the journal, and disposable |
//!
//! What is acknowledged is on disk: `synchronous=FULL` in WAL mode, and one writer thread whose group
//! commits keep the order in which appends were queued.
#![forbid(unsafe_code)]

mod artifacts;
mod search;
mod sqlite;

pub use artifacts::FileArtifacts;
pub use search::SearchIndex;
#[cfg(feature = "mutants")]
pub use sqlite::Mutant;
pub use sqlite::{OpenError, SqliteJournal};
