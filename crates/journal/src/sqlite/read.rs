//! What readers ask for, on connections that never wait for the writer.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use domain::event::Head;
use domain::{Digest, GateId, Header, Payload, Recorded, RunId, Timestamp};
use kernel::port::{GateRow, JournalError, RunRow};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use super::failure::{Failure, damaged};
use super::value::{Status, digest, end_of_column, int, limit, maybe_uint, run_id, uint};
use super::{Rules, schema};

/// Idle connections that are kept; more are opened when more read at once.
const KEPT: usize = 4;

/// Connections that read.
#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    rules: Rules,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(super) const fn new(path: PathBuf, rules: Rules) -> Self {
        Self { path, rules, idle: Mutex::new(Vec::new()) }
    }

    /// Lends a connection. One that failed is not used again.
    pub(super) fn with<T, E: From<Failure>>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = idle.map_or_else(|| self.connect(), Ok)?;
        let result = read(&connection)?;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < KEPT {
            idle.push(connection);
        }
        Ok(result)
    }

    fn connect(&self) -> Result<Connection, Failure> {
        schema::connect(&self.path, schema::Purpose::Read, self.rules)
            .map_err(|error| Failure { text: error.to_string(), fatal: false })
    }
}

pub(super) fn storage(error: rusqlite::Error) -> JournalError {
    Failure::from(error).into()
}

/// The position of the last event, 0 for none.
pub(super) fn last_position(connection: &Connection) -> rusqlite::Result<u64> {
    connection.query_row("SELECT coalesce(max(position), 0) FROM events", [], |row| uint(row, 0))
}

const EVENT: &str = "SELECT e.position, e.run, e.seq, e.header, e.hash, p.payload
    FROM events e LEFT JOIN payloads p ON p.position = e.position";

pub(super) fn history(
    connection: &Connection,
    run: RunId,
    after_seq: u64,
    rows: usize,
) -> Result<Vec<Recorded>, JournalError> {
    let sql = format!("{EVENT} WHERE e.run = ?1 AND e.seq > ?2 ORDER BY e.seq LIMIT ?3");
    let events = events(connection, &sql, params![run.as_bytes(), int(after_seq), limit(rows)])?;
    if events.is_empty() {
        // An unknown run is told from one that has nothing new.
        self::run(connection, run)?;
    }
    Ok(events)
}

pub(super) fn stream(
    connection: &Connection,
    after: u64,
    rows: usize,
) -> Result<Vec<Recorded>, JournalError> {
    let sql = format!("{EVENT} WHERE e.position > ?1 ORDER BY e.position LIMIT ?2");
    events(connection, &sql, params![int(after), limit(rows)])
}

/// An event as its row has it.
struct Raw {
    position: u64,
    run: RunId,
    seq: u64,
    header: Vec<u8>,
    hash: Digest,
    payload: Option<Vec<u8>>,
}

fn events(connection: &Connection, sql: &str, params: impl Params) -> Result<Vec<Recorded>, JournalError> {
    let mut statement = connection.prepare_cached(sql).map_err(storage)?;
    let rows = statement
        .query_map(params, |row| {
            Ok(Raw {
                position: uint(row, 0)?,
                run: run_id(row, 1)?,
                seq: uint(row, 2)?,
                header: row.get(3)?,
                hash: digest(row, 4)?,
                payload: row.get(5)?,
            })
        })
        .map_err(storage)?;
    rows.map(|raw| raw.map_err(storage).and_then(recorded)).collect()
}

fn recorded(raw: Raw) -> Result<Recorded, JournalError> {
    let header =
        Header::from_bytes(&raw.header).map_err(|error| damaged(raw.run, raw.seq, error.to_string()))?;
    Ok(Recorded { position: raw.position, header, payload: raw.payload.map(Payload), hash: raw.hash })
}

const RUN: &str = "SELECT run, status, end, started_at, updated_at, head_seq, head_hash, fence,
    nanodollars, tokens, unpriced, turns, open_gates FROM runs";

pub(super) fn runs(
    connection: &Connection,
    only_open: bool,
    rows: usize,
) -> Result<Vec<RunRow>, JournalError> {
    let filter = if only_open { "WHERE status < 2" } else { "" };
    let sql = format!("{RUN} {filter} ORDER BY started_at DESC, run DESC LIMIT ?1");
    let mut statement = connection.prepare_cached(&sql).map_err(storage)?;
    let rows = statement.query_map([limit(rows)], raw_run).map_err(storage)?;
    rows.map(|raw| raw.map_err(storage).and_then(run_row)).collect()
}

pub(super) fn run(connection: &Connection, run: RunId) -> Result<RunRow, JournalError> {
    let sql = format!("{RUN} WHERE run = ?1");
    let mut statement = connection.prepare_cached(&sql).map_err(storage)?;
    let raw = statement.query_row([run.as_bytes()], raw_run).optional().map_err(storage)?;
    raw.map_or(Err(JournalError::NoSuchRun(run)), run_row)
}

/// A run's row, and its columns `status` and `end`.
type RawRun = (RunRow, i64, Option<i64>);

fn raw_run(row: &Row<'_>) -> rusqlite::Result<RawRun> {
    let run = RunRow {
        run: run_id(row, 0)?,
        status: Status::Active.name(),
        end: None,
        started_at: Timestamp(uint(row, 3)?),
        updated_at: Timestamp(uint(row, 4)?),
        head: Head { seq: uint(row, 5)?, hash: digest(row, 6)? },
        fence: uint(row, 7)?,
        nanodollars: uint(row, 8)?,
        tokens: uint(row, 9)?,
        unpriced: uint(row, 10)?,
        turns: uint(row, 11)?,
        open_gates: uint(row, 12)?,
    };
    Ok((run, row.get(1)?, row.get(2)?))
}

fn run_row((run, status, end): RawRun) -> Result<RunRow, JournalError> {
    let status = Status::of_column(status)?.name();
    let end = end.map(end_of_column).transpose()?;
    Ok(RunRow { status, end, ..run })
}

pub(super) fn gates(connection: &Connection, only_open: bool) -> Result<Vec<GateRow>, JournalError> {
    let filter = if only_open { "WHERE answered_seq IS NULL" } else { "" };
    let sql = format!(
        "SELECT gate, run, opened_seq, opened_at, expires_at, answered_seq FROM gates {filter}
         ORDER BY opened_at, gate"
    );
    let mut statement = connection.prepare_cached(&sql).map_err(storage)?;
    let rows = statement
        .query_map([], |row| {
            Ok(GateRow {
                gate: row.get(0).map(GateId::from_bytes)?,
                run: run_id(row, 1)?,
                opened_seq: uint(row, 2)?,
                opened_at: Timestamp(uint(row, 3)?),
                expires_at: Timestamp(uint(row, 4)?),
                answered_seq: maybe_uint(row, 5)?,
            })
        })
        .map_err(storage)?;
    rows.map(|row| row.map_err(storage)).collect()
}

pub(super) fn spent_on(connection: &Connection, day: u64) -> Result<u64, JournalError> {
    super::projection::held_on(connection, day).map_err(storage)
}
