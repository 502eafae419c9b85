//! The full-text index: a file of its own beside the journal, made from it, and thrown away when it is
//! damaged, old or of another journal.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain::{Digest, RunId, StepNo, Timestamp};
use kernel::port::{Found, Index, IndexError, Mark, Piece, Text};
use rusqlite::{Connection, OptionalExtension, params};

/// A change of the tables or of what is put into them gets a new number: an index of another number is
/// made again.
const VERSION: u32 = 1;
/// Around a match in an excerpt. Texts are freed of them before they are indexed.
const BEGIN: char = '\u{2}';
const END: char = '\u{3}';
/// How many words an excerpt has, roughly.
const EXCERPT_WORDS: u32 = 14;
/// Words that are looked for at once.
const MAX_WORDS: usize = 32;
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

const TABLES: &str = "
    CREATE TABLE mark (one INTEGER PRIMARY KEY CHECK (one = 1), position INTEGER NOT NULL, hash BLOB NOT NULL) STRICT;
    CREATE VIRTUAL TABLE texts USING fts5(
        text, run UNINDEXED, seq UNINDEXED, at UNINDEXED, step UNINDEXED, kind UNINDEXED,
        tokenize = 'unicode61 remove_diacritics 2'
    );";

/// A full-text index in one SQLite file. The file is opened when it is first needed.
#[derive(Debug)]
pub struct SearchIndex {
    path: PathBuf,
    connection: Mutex<Option<Connection>>,
}

impl SearchIndex {
    /// The index in this file, which need not be there.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), connection: Mutex::new(None) }
    }

    /// Uses the connection. After a failure it is opened anew.
    fn with<T>(&self, work: impl FnOnce(&mut Connection) -> rusqlite::Result<T>) -> Result<T, IndexError> {
        let mut kept = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => self.open()?,
        };
        let done = work(&mut connection).map_err(|error| IndexError(error.to_string()))?;
        *kept = Some(connection);
        Ok(done)
    }

    /// Opens the file. One that is damaged or of another version is made again.
    fn open(&self) -> Result<Connection, IndexError> {
        if let Ok(connection) = connect(&self.path)
            && is_usable(&connection).unwrap_or(false)
        {
            return Ok(connection);
        }
        remove(&self.path).map_err(|error| IndexError(error.to_string()))?;
        let made = connect(&self.path).and_then(|connection| {
            connection.execute_batch(TABLES)?;
            connection.pragma_update(None, "user_version", VERSION)?;
            Ok(connection)
        });
        made.map_err(|error| IndexError(error.to_string()))
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update_and_check(None, "journal_mode", "TRUNCATE", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    // What is cleared is overwritten.
    connection.pragma_update_and_check(None, "secure_delete", true, |_| Ok(()))?;
    Ok(connection)
}

fn is_usable(connection: &Connection) -> rusqlite::Result<bool> {
    let version: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let sound: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    Ok(version == VERSION && sound == "ok")
}

fn remove(path: &Path) -> io::Result<()> {
    let beside = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    for file in [path.to_owned(), beside("-journal"), beside("-wal"), beside("-shm")] {
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

impl Index for SearchIndex {
    fn mark(&self) -> Result<Option<Mark>, IndexError> {
        self.with(|connection| {
            connection
                .query_row("SELECT position, hash FROM mark", [], |row| {
                    Ok(Mark { position: number(row.get(0)?), hash: Digest::from_bytes(row.get(1)?) })
                })
                .optional()
        })
    }

    fn add(&self, texts: &[Text], mark: Mark) -> Result<(), IndexError> {
        self.with(|connection| {
            let transaction = connection.transaction()?;
            {
                let mut insert = transaction.prepare_cached(
                    "INSERT INTO texts (text, run, seq, at, step, kind) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?;
                for text in texts {
                    insert.execute(params![
                        text.text.replace([BEGIN, END], " "),
                        text.run.as_bytes(),
                        signed(text.seq),
                        signed(text.at.0),
                        text.step.map(|step| signed(step.0)),
                        text.kind
                    ])?;
                }
            }
            transaction.execute(
                "INSERT OR REPLACE INTO mark (one, position, hash) VALUES (1, ?1, ?2)",
                params![signed(mark.position), mark.hash.as_bytes()],
            )?;
            transaction.commit()
        })
    }

    fn clear(&self) -> Result<(), IndexError> {
        let mut kept = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = None;
        remove(&self.path).map_err(|error| IndexError(error.to_string()))
    }

    fn find(&self, words: &str, limit: usize) -> Result<Vec<Found>, IndexError> {
        let Some(query) = query(words) else { return Ok(Vec::new()) };
        self.with(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT run, seq, at, step, kind, snippet(texts, 0, ?2, ?3, '…', ?4)
                 FROM texts WHERE texts MATCH ?1 ORDER BY rank, at DESC LIMIT ?5",
            )?;
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let (begin, end) = (BEGIN.to_string(), END.to_string());
            let rows = statement.query_map(params![query, begin, end, EXCERPT_WORDS, limit], |row| {
                Ok(Found {
                    run: RunId::from_bytes(row.get(0)?),
                    seq: number(row.get(1)?),
                    at: Timestamp(number(row.get(2)?)),
                    step: row.get::<_, Option<i64>>(3)?.map(|step| StepNo(number(step))),
                    kind: row.get(4)?,
                    excerpt: pieces(&row.get::<_, String>(5)?),
                })
            })?;
            rows.collect()
        })
    }
}

/// What FTS5 is asked: every word as it stands, whatever its syntax would make of it, or the beginning
/// of one. `None` when nothing is looked for.
fn query(words: &str) -> Option<String> {
    let quoted: Vec<String> = words
        .split_whitespace()
        .filter(|word| word.chars().any(char::is_alphanumeric))
        .take(MAX_WORDS)
        .map(|word| format!("\"{}\"*", word.replace('"', "\"\"").replace('\0', "")))
        .collect();
    (!quoted.is_empty()).then(|| quoted.join(" "))
}

fn pieces(snippet: &str) -> Vec<Piece> {
    let mut all = Vec::new();
    let mut is_match = false;
    for text in snippet.split_inclusive([BEGIN, END]) {
        let words = text.trim_end_matches([BEGIN, END]);
        if !words.is_empty() {
            all.push(Piece { text: words.to_owned(), is_match });
        }
        is_match = text.ends_with(BEGIN);
    }
    all
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn number(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
