//! The tables, their migrations, and how a connection is set up.
//!
//! A change of the schema is one more entry of [`MIGRATIONS`]: entries are never edited. Each runs in
//! a transaction together with its version number, so that a crash leaves either version whole.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
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

/// Brings the schema up to date. Of a journal of an older one a copy is made first: the way back.
pub(super) fn migrate(path: &Path, connection: &mut Connection) -> Result<(), OpenError> {
    migrate_by(path, connection, MIGRATIONS)
}

fn migrate_by(path: &Path, connection: &mut Connection, migrations: &[&str]) -> Result<(), OpenError> {
    let storage = |source| OpenError::Storage { path: path.into(), source };
    let known = u32::try_from(migrations.len()).unwrap_or(u32::MAX);
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
    if found > 0 && found < known {
        keep_copy(path, connection, found)?;
    }
    for (version, migration) in (1u32..).zip(migrations).skip(found as usize) {
        step(connection, version, migration).map_err(storage)?;
    }
    Ok(())
}

/// The copy beside a journal of a schema, as `regie.db.schema-1`.
fn copy_path(path: &Path, schema: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".schema-{schema}"));
    name.into()
}

/// Copies the journal as it is, whole and durable before the name says that it is there.
fn keep_copy(path: &Path, connection: &Connection, schema: u32) -> Result<(), OpenError> {
    let copy = copy_path(path, schema);
    let mut unfinished = copy.clone().into_os_string();
    unfinished.push(".new");
    let unfinished = PathBuf::from(unfinished);
    let written = || -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        match fs::remove_file(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let name = unfinished.to_str().ok_or("its path is not UTF-8")?;
        connection.execute("VACUUM INTO ?1", [name])?;
        fs::set_permissions(&unfinished, fs::Permissions::from_mode(0o600))?;
        fs::File::open(&unfinished)?.sync_all()?;
        fs::rename(&unfinished, &copy)?;
        let folder = copy.parent().filter(|folder| !folder.as_os_str().is_empty());
        Ok(fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?)
    };
    written().map_err(|source| OpenError::Copy { path: copy.clone(), source })?;
    tracing::info!(copy = %copy.display(), "the journal was copied before its upgrade");
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

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &Path) -> Connection {
        connect(path, Purpose::Write, Rules::RIGHT).unwrap()
    }

    fn version(connection: &Connection) -> u32 {
        pragma(connection, "user_version").unwrap()
    }

    /// Migrations as a later version may have them.
    fn later(next: &'static str) -> Vec<&'static str> {
        MIGRATIONS.iter().copied().chain([next]).collect()
    }

    #[test]
    fn before_an_upgrade_a_copy_is_made_that_the_version_before_opens() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("regie.db");
        let mut connection = open(&path);
        migrate(&path, &mut connection).unwrap();
        let before = version(&connection);
        let copy = copy_path(&path, before);
        assert!(!copy.exists(), "a new journal needs none");
        connection.execute("INSERT INTO records VALUES ('k', 'a', 1, x'01')", []).unwrap();
        // What a crash during a copy has left.
        fs::write(format!("{}.new", copy.display()), "half").unwrap();
        migrate_by(&path, &mut connection, &later("CREATE TABLE more (a)")).unwrap();
        assert_eq!(version(&connection), before + 1);
        connection.execute("DELETE FROM records", []).unwrap();

        let mut old = open(&copy);
        migrate(&copy, &mut old).unwrap();
        assert_eq!(version(&old), before);
        let records: u32 = old.query_row("SELECT count(*) FROM records", [], |row| row.get(0)).unwrap();
        assert_eq!(records, 1);
        assert!(matches!(migrate(&path, &mut connection), Err(OpenError::Newer { .. })));
    }

    #[test]
    fn without_a_copy_nothing_is_changed() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("regie.db");
        let mut connection = open(&path);
        migrate(&path, &mut connection).unwrap();
        let before = version(&connection);
        // Something that no file can be put in the place of.
        fs::create_dir_all(copy_path(&path, before).join("in the way")).unwrap();
        let error = migrate_by(&path, &mut connection, &later("CREATE TABLE more (a)")).unwrap_err();
        assert!(matches!(error, OpenError::Copy { .. }), "{error:?}");
        assert_eq!(version(&connection), before);
    }

    #[test]
    fn a_migration_that_fails_leaves_the_version_before() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("regie.db");
        let mut connection = open(&path);
        migrate(&path, &mut connection).unwrap();
        let before = version(&connection);
        let broken = later("CREATE TABLE more (a); CREATE TABLE more (a)");
        assert!(migrate_by(&path, &mut connection, &broken).is_err());
        assert_eq!(version(&connection), before);
        migrate(&path, &mut connection).unwrap();
    }
}
