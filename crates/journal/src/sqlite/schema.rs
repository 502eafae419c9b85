//! The tables, their migrations, and how a connection is set up.
//!
//! A change of the schema is one more entry of [`MIGRATIONS`]: entries are never edited. Each runs in
//! a transaction together with its version number, so that a crash leaves either version whole.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::Rules;
use super::failure::OpenError;

/// `Regi`, which tells a journal from the database of another program.
const APPLICATION_ID: i32 = 0x5265_6769;
/// How long a connection waits for a lock that another holds: SQLite takes short ones inside.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// A write-ahead log that has grown above this is cut back, in bytes.
const LOG_LIMIT: i64 = 64 * 1024 * 1024;
/// All statements of this crate fit.
const STATEMENTS: usize = 64;

/// Entry n brings a file from schema n to schema n + 1.
const MIGRATIONS: &[&str] = &[
    // Payloads lie apart, so that forgetting one deletes a row and leaves the chain whole.
    // `days` and `reservations` hold money in nanodollars.
    "CREATE TABLE events (
         position INTEGER PRIMARY KEY,
         run BLOB NOT NULL,
         seq INTEGER NOT NULL,
         header BLOB NOT NULL,
         content BLOB NOT NULL,
         hash BLOB NOT NULL,
         UNIQUE (run, seq)
     ) STRICT;
     CREATE TABLE payloads (
         position INTEGER PRIMARY KEY,
         salt BLOB NOT NULL,
         payload BLOB NOT NULL
     ) STRICT;
     CREATE TABLE runs (
         run BLOB PRIMARY KEY,
         head_seq INTEGER NOT NULL,
         head_hash BLOB NOT NULL,
         fence INTEGER NOT NULL,
         holder TEXT,
         claim_expires_at INTEGER NOT NULL DEFAULT 0,
         status INTEGER NOT NULL,
         end INTEGER,
         started_at INTEGER NOT NULL,
         updated_at INTEGER NOT NULL,
         nanodollars INTEGER NOT NULL,
         tokens INTEGER NOT NULL,
         unpriced INTEGER NOT NULL,
         turns INTEGER NOT NULL,
         open_gates INTEGER NOT NULL
     ) STRICT, WITHOUT ROWID;
     CREATE INDEX runs_newest ON runs (started_at, run);
     CREATE INDEX runs_open ON runs (started_at, run) WHERE status < 2;
     CREATE TABLE gates (
         gate BLOB PRIMARY KEY,
         run BLOB NOT NULL,
         subject INTEGER NOT NULL,
         opened_seq INTEGER NOT NULL,
         opened_at INTEGER NOT NULL,
         expires_at INTEGER NOT NULL,
         answered_seq INTEGER
     ) STRICT, WITHOUT ROWID;
     CREATE INDEX gates_open ON gates (opened_at, gate) WHERE answered_seq IS NULL;
     CREATE TABLE reservations (
         run BLOB NOT NULL,
         step INTEGER NOT NULL,
         day INTEGER NOT NULL,
         nanodollars INTEGER NOT NULL,
         PRIMARY KEY (run, step)
     ) STRICT, WITHOUT ROWID;
     CREATE TABLE days (
         day INTEGER PRIMARY KEY,
         settled INTEGER NOT NULL,
         reserved INTEGER NOT NULL
     ) STRICT;
     CREATE TABLE records (
         kind TEXT NOT NULL,
         key TEXT NOT NULL,
         version INTEGER NOT NULL,
         body BLOB NOT NULL,
         PRIMARY KEY (kind, key)
     ) STRICT, WITHOUT ROWID;",
];

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// It writes, and makes the file when there is none.
    Write,
    /// It reads what is there.
    Read,
}

/// Opens a connection.
pub(super) fn connect(path: &Path, purpose: Purpose, rules: Rules) -> Result<Connection, OpenError> {
    let storage = |source| OpenError::Storage { path: path.into(), source };
    // Not `SQLITE_OPEN_URI`: a path is a path, whatever it begins with.
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    flags.set(OpenFlags::SQLITE_OPEN_CREATE, purpose == Purpose::Write);
    let connection = Connection::open_with_flags(path, flags).map_err(storage)?;
    configure(&connection, rules).map_err(storage)?;
    connection.pragma_update(None, "query_only", purpose == Purpose::Read).map_err(storage)?;
    Ok(connection)
}

fn configure(connection: &Connection, rules: Rules) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Else a kept statement is planned anew for every number that it is given.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", if rules.sync { "FULL" } else { "OFF" })?;
    // On macOS a plain sync stops at the drive's cache.
    connection.pragma_update(None, "fullfsync", rules.sync)?;
    connection.pragma_update(None, "checkpoint_fullfsync", rules.sync)?;
    connection.pragma_update_and_check(None, "journal_size_limit", LOG_LIMIT, |_| Ok(()))?;
    // What is forgotten is overwritten.
    connection.pragma_update_and_check(None, "secure_delete", true, |_| Ok(()))?;
    connection.pragma_update(None, "temp_store", "MEMORY")
}

/// Brings the schema up to date.
pub(super) fn migrate(path: &Path, connection: &mut Connection) -> Result<(), OpenError> {
    let storage = |source| OpenError::Storage { path: path.into(), source };
    let known = u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX);
    let found: u32 = pragma(connection, "user_version").map_err(storage)?;
    let owner: i32 = pragma(connection, "application_id").map_err(storage)?;
    let tables: u32 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(storage)?;
    if owner != APPLICATION_ID && (owner != 0 || tables > 0) {
        return Err(OpenError::Foreign { path: path.into() });
    }
    if found > known {
        return Err(OpenError::Newer { path: path.into(), found, known });
    }
    for (version, migration) in (1u32..).zip(MIGRATIONS).skip(found as usize) {
        step(connection, version, migration).map_err(storage)?;
    }
    Ok(())
}

fn step(connection: &mut Connection, version: u32, migration: &str) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(migration)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", version)?;
    transaction.commit()
}

fn pragma<T: rusqlite::types::FromSql>(connection: &Connection, name: &str) -> rusqlite::Result<T> {
    connection.pragma_query_value(None, name, |row| row.get(0))
}
