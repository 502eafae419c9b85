//! A witness outside the journal: one synced JSON line per request and per outside effect.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

/// One line of a ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Line {
    /// A request for a turn.
    Turn {
        /// The scenario that served it; empty when none matched.
        scenario: String,
        /// The turn, from 0. For a summary: the turns before it.
        turn: usize,
        /// Which summary was asked for, from 0, when it was one and no turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<usize>,
        /// Which attempt at this turn since the server started, from 1.
        attempt: u32,
        /// `answer`, or the fault or refusal.
        outcome: String,
        /// The model that was asked for.
        model: String,
        /// SHA-256 of the request's bytes.
        body_sha256: String,
        /// SHA-256 of the first user message's text: tells conversations apart.
        first_user_sha256: String,
    },
    /// What was asked of the batch queue.
    Batch {
        /// The vendor's id of the batch.
        id: String,
        /// `submit` or `cancel`.
        act: String,
        /// The ids of the items, when they are submitted.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        items: Vec<String>,
    },
    /// An outside effect.
    Entry {
        /// What it is filed under.
        key: String,
        /// What was said.
        text: String,
    },
}

/// An append-only file of lines.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    file: Mutex<File>,
}

impl Ledger {
    /// Opens or creates a ledger. A line that a crash tore is ended, so that the next one
    /// stands alone.
    ///
    /// # Errors
    /// When the file cannot be opened, read or written.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(&path)?;
        if file.metadata()?.len() > 0 {
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
            }
        }
        Ok(Self { path, file: Mutex::new(file) })
    }

    /// Appends a line and waits until it is on disk.
    ///
    /// # Errors
    /// When it cannot be written or synced.
    pub fn append(&self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(text.as_bytes())?;
        file.sync_data()
    }

    /// All whole lines of this ledger.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn lines(&self) -> io::Result<Vec<Line>> {
        Self::read(&self.path)
    }

    /// All whole lines of a ledger file; torn ones are left out.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(path: &Path) -> io::Result<Vec<Line>> {
        let text = String::from_utf8_lossy(&std::fs::read(path)?).into_owned();
        Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }
}
