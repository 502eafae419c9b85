//! Appends inside a batch: checked against fence, head and lease, then written with their
//! projections. The inner result refuses this append alone, the outer one fails the batch.

use domain::event::{self, Head, Sealed};
use domain::{Fact, LeaseId, RunId, Timestamp};
use kernel::port::{Append, AppendError, Appended, DayCap};
use rusqlite::{Connection, OptionalExtension, params};

use super::Rules;
use super::failure::Failure;
use super::projection::{self, Projected};
use super::record;
use super::value::{Status, digest, end_column, end_of_column, int, maybe_uint, uint};

type Outcome = Result<Result<Appended, AppendError>, Failure>;

/// The row of a run, as far as an append needs it.
struct Row {
    fence: u64,
    head: Head,
    projected: Projected,
}

/// Writes a run's first events.
pub(super) fn create(connection: &Connection, rules: Rules, last: &mut u64, append: &Append) -> Outcome {
    if load(connection, append.run)?.is_some() || append.expect.head != Head::EMPTY {
        return Ok(Err(AppendError::HeadMoved(append.run)));
    }
    let Some(first) = append.events.first() else {
        return Ok(Err(refusal(append.run, "has no first event")));
    };
    let row = Row { fence: append.expect.fence, head: Head::EMPTY, projected: Projected::default() };
    if let Some(error) = check(connection, rules, append, &row)? {
        return Ok(Err(error));
    }
    connection
        .prepare_cached(
            "INSERT INTO runs (run, head_seq, head_hash, fence, status, started_at, updated_at,
                 nanodollars, tokens, unpriced, turns, open_gates)
             VALUES (?1, 0, ?2, ?3, 0, ?4, ?4, 0, 0, 0, 0, 0)",
        )?
        .execute(params![
            append.run.as_bytes(),
            Head::EMPTY.hash.as_bytes(),
            int(append.expect.fence),
            int(first.header.at.0)
        ])?;
    write(connection, last, append, row.projected)
}

/// Writes further events of a run.
pub(super) fn append(connection: &Connection, rules: Rules, last: &mut u64, append: &Append) -> Outcome {
    let Some(row) = load(connection, append.run)? else {
        return Ok(Err(AppendError::HeadMoved(append.run)));
    };
    match check(connection, rules, append, &row)? {
        Some(error) => Ok(Err(error)),
        None => write(connection, last, append, row.projected),
    }
}

fn load(connection: &Connection, run: RunId) -> Result<Option<Row>, Failure> {
    let row = connection
        .prepare_cached(
            "SELECT fence, head_seq, head_hash, status, end, nanodollars, tokens, unpriced, turns, open_gates
             FROM runs WHERE run = ?1",
        )?
        .query_row([run.as_bytes()], |row| {
            let head = Head { seq: uint(row, 1)?, hash: digest(row, 2)? };
            let projected = Projected {
                nanodollars: uint(row, 5)?,
                tokens: uint(row, 6)?,
                unpriced: uint(row, 7)?,
                turns: uint(row, 8)?,
                open_gates: uint(row, 9)?,
                ..Projected::default()
            };
            Ok((Row { fence: uint(row, 0)?, head, projected }, uint(row, 3)?, maybe_uint(row, 4)?))
        })
        .optional()?;
    let Some((mut row, status, end)) = row else { return Ok(None) };
    row.projected.status = Status::of_column(int(status))?;
    row.projected.end = end.map(|end| end_of_column(int(end))).transpose()?;
    Ok(Some(row))
}

/// Why the append is not written, if so.
fn check(
    connection: &Connection,
    rules: Rules,
    append: &Append,
    row: &Row,
) -> Result<Option<AppendError>, Failure> {
    let Append { run, expect, events } = append;
    if rules.check_fence && row.fence != expect.fence {
        return Ok(Some(AppendError::Fenced { run: *run, current: row.fence, ours: expect.fence }));
    }
    if row.head != expect.head {
        return Ok(Some(AppendError::HeadMoved(*run)));
    }
    if let Some((lease, epoch)) = expect.lease
        && lease_epoch(connection, lease)? != Some(epoch)
    {
        return Ok(Some(AppendError::LeaseMoved(lease)));
    }
    if let Some(cap) = expect.day.filter(|_| rules.check_day)
        && passes(connection, cap, events)?
    {
        return Ok(Some(AppendError::DayFull(cap.day, *run)));
    }
    Ok((!follows(*run, expect.head, events))
        .then(|| refusal(*run, "was handed events that do not follow its head")))
}

/// Whether what these events reserve passes the day's cap, on top of what all runs have settled and
/// reserved on it.
fn passes(connection: &Connection, cap: DayCap, events: &[Sealed]) -> rusqlite::Result<bool> {
    let wanted = events.iter().fold(0u64, |wanted, sealed| match &sealed.header.fact {
        Fact::StepIntended { reserved, .. } => wanted.saturating_add(reserved.nanodollars),
        _ => wanted,
    });
    if wanted == 0 {
        return Ok(false);
    }
    Ok(projection::held_on(connection, cap.day)?.saturating_add(wanted) > cap.nanodollars)
}

fn lease_epoch(connection: &Connection, lease: LeaseId) -> Result<Option<u64>, Failure> {
    record::version(connection, "lease", &lease.to_string())
}

/// Whether the events are sealed one after another: a broken chain is never written.
fn follows(run: RunId, head: Head, events: &[Sealed]) -> bool {
    let mut previous = head;
    events.iter().all(|sealed| {
        let header = &sealed.header;
        let fits = header.run == run
            && header.seq == previous.seq.saturating_add(1)
            && sealed.content == event::content_digest(&sealed.salt, &sealed.payload)
            && sealed.hash == event::link(previous.hash, sealed.content, &sealed.bytes);
        previous = Head { seq: header.seq, hash: sealed.hash };
        fits
    })
}

fn refusal(run: RunId, what: &str) -> AppendError {
    AppendError::Storage(format!("run {run} {what}; restart Regie and report it"))
}

fn write(connection: &Connection, last: &mut u64, append: &Append, mut projected: Projected) -> Outcome {
    for sealed in &append.events {
        *last = last.saturating_add(1);
        insert(connection, *last, append.run, sealed)?;
        projection::project(connection, &mut projected, &sealed.header)?;
    }
    if let Some(end) = append.events.last() {
        let head = Head { seq: end.header.seq, hash: end.hash };
        update(connection, append.run, head, end.header.at, &projected)?;
    }
    Ok(Ok(Appended { position: *last }))
}

fn insert(connection: &Connection, position: u64, run: RunId, sealed: &Sealed) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO events (position, run, seq, header, content, hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            int(position),
            run.as_bytes(),
            int(sealed.header.seq),
            sealed.bytes,
            sealed.content.as_bytes(),
            sealed.hash.as_bytes(),
        ])?;
    connection
        .prepare_cached("INSERT INTO payloads (position, salt, payload) VALUES (?1, ?2, ?3)")?
        .execute(params![int(position), sealed.salt, sealed.payload.0])?;
    Ok(())
}

fn update(
    connection: &Connection,
    run: RunId,
    head: Head,
    at: Timestamp,
    projected: &Projected,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE runs SET head_seq = ?2, head_hash = ?3, updated_at = ?4, status = ?5, end = ?6,
                 nanodollars = ?7, tokens = ?8, unpriced = ?9, turns = ?10, open_gates = ?11
             WHERE run = ?1",
        )?
        .execute(params![
            run.as_bytes(),
            int(head.seq),
            head.hash.as_bytes(),
            int(at.0),
            projected.status.column(),
            projected.end.map(end_column),
            int(projected.nanodollars),
            int(projected.tokens),
            int(projected.unpriced),
            int(projected.turns),
            int(projected.open_gates),
        ])?;
    Ok(())
}
