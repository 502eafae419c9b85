//! Facts as rows: what lists and caps need to know without folding a run's history.
//!
//! Computed in the transaction of the events, so that a row never says what no event says.

use domain::fact::Parking;
use domain::gate::Answer;
use domain::run::End;
use domain::{Amount, Fact, Header, RunId, StepNo};
use rusqlite::{Connection, OptionalExtension, params};

use super::value::{Status, int, uint};

/// The projected columns of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Projected {
    pub(super) status: Status,
    pub(super) end: Option<End>,
    pub(super) nanodollars: u64,
    pub(super) tokens: u64,
    pub(super) unpriced: u64,
    pub(super) turns: u64,
    pub(super) open_gates: u64,
}

impl Default for Projected {
    fn default() -> Self {
        Self {
            status: Status::Active,
            end: None,
            nanodollars: 0,
            tokens: 0,
            unpriced: 0,
            turns: 0,
            open_gates: 0,
        }
    }
}

impl Projected {
    fn spend(&mut self, spent: Amount) {
        self.nanodollars = self.nanodollars.saturating_add(spent.nanodollars);
        self.tokens = self.tokens.saturating_add(spent.tokens);
        self.unpriced = self.unpriced.saturating_add(spent.unpriced);
    }
}

/// Applies one fact.
pub(super) fn project(connection: &Connection, row: &mut Projected, header: &Header) -> rusqlite::Result<()> {
    let (run, day) = (header.run, header.at.day());
    match &header.fact {
        Fact::StepIntended { step, attempt, reserved, .. } => {
            // A repetition under the same key holds one reservation, not two.
            if *attempt > 1 {
                settle(connection, run, *step, day, 0)?;
            }
            reserve(connection, run, *step, day, reserved.nanodollars)?;
        }
        Fact::StepCompleted { step, spent, .. } => {
            settle(connection, run, *step, day, spent.nanodollars)?;
            row.spend(*spent);
            row.turns = row.turns.saturating_add(spent.turns);
        }
        Fact::ModelCallLost { step, spent, .. } => {
            settle(connection, run, *step, day, spent.nanodollars)?;
            row.spend(*spent);
        }
        Fact::StepDenied { step, .. }
        | Fact::StepReturned { step }
        | Fact::WorkspaceRestored { step, .. } => settle(connection, run, *step, day, 0)?,
        Fact::GateOpened { .. } => open_gate(connection, row, header)?,
        Fact::GateAnswered { .. } => answer_gate(connection, row, header)?,
        Fact::Parked { reason: Parking::Stopped | Parking::Blocked { .. } } => row.status = Status::Parked,
        Fact::Resumed { .. } => row.status = Status::Active,
        Fact::Ended { end } => {
            row.status = Status::Ended;
            row.end = Some(*end);
            close_all(connection, row, header)?;
        }
        Fact::RunStarted(_)
        | Fact::Claimed { .. }
        | Fact::StepPlanned(_)
        | Fact::StepUncertain { .. }
        | Fact::TimerSet { .. }
        | Fact::TimerFired { .. }
        | Fact::StopRequested { .. }
        | Fact::CancelRequested { .. }
        | Fact::Said { .. }
        | Fact::Interrupted { .. } => {}
    }
    Ok(())
}

fn reserve(
    connection: &Connection,
    run: RunId,
    step: StepNo,
    day: u64,
    nanodollars: u64,
) -> rusqlite::Result<()> {
    if nanodollars == 0 {
        return Ok(());
    }
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO reservations (run, step, day, nanodollars) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![run.as_bytes(), int(step.0), int(day), int(nanodollars)])?;
    book(connection, day, |_, reserved| *reserved = reserved.saturating_add(nanodollars))
}

/// Gives back what a step reserved and books what it used: on the day that admitted it, which is
/// the day whose cap the reservation was judged by.
fn settle(connection: &Connection, run: RunId, step: StepNo, day: u64, spent: u64) -> rusqlite::Result<()> {
    let held = connection
        .prepare_cached("DELETE FROM reservations WHERE run = ?1 AND step = ?2 RETURNING day, nanodollars")?
        .query_row(params![run.as_bytes(), int(step.0)], |row| Ok((uint(row, 0)?, uint(row, 1)?)))
        .optional()?;
    let (day, held) = held.unwrap_or((day, 0));
    if held == 0 && spent == 0 {
        return Ok(());
    }
    book(connection, day, |settled, reserved| {
        *reserved = reserved.saturating_sub(held);
        *settled = settled.saturating_add(spent);
    })
}

/// What is settled and reserved on a day.
fn day_of(connection: &Connection, day: u64) -> rusqlite::Result<(u64, u64)> {
    let row = connection
        .prepare_cached("SELECT settled, reserved FROM days WHERE day = ?1")?
        .query_row([int(day)], |row| Ok((uint(row, 0)?, uint(row, 1)?)))
        .optional()?;
    Ok(row.unwrap_or_default())
}

/// What all runs have settled and reserved on a day together.
pub(super) fn held_on(connection: &Connection, day: u64) -> rusqlite::Result<u64> {
    day_of(connection, day).map(|(settled, reserved)| settled.saturating_add(reserved))
}

/// Changes what is settled and reserved on a day.
fn book(connection: &Connection, day: u64, change: impl FnOnce(&mut u64, &mut u64)) -> rusqlite::Result<()> {
    let (mut settled, mut reserved) = day_of(connection, day)?;
    change(&mut settled, &mut reserved);
    connection
        .prepare_cached("INSERT OR REPLACE INTO days (day, settled, reserved) VALUES (?1, ?2, ?3)")?
        .execute(params![int(day), int(settled), int(reserved)])?;
    Ok(())
}

fn open_gate(connection: &Connection, row: &mut Projected, header: &Header) -> rusqlite::Result<()> {
    let Fact::GateOpened { gate, subject, expires_at, .. } = &header.fact else { return Ok(()) };
    let opened = connection
        .prepare_cached(
            "INSERT INTO gates (gate, run, subject, opened_seq, opened_at, expires_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (gate) DO NOTHING",
        )?
        .execute(params![
            gate.as_bytes(),
            header.run.as_bytes(),
            int(subject.0),
            int(header.seq),
            int(header.at.0),
            int(expires_at.0)
        ])?;
    row.open_gates = row.open_gates.saturating_add(opened as u64);
    Ok(())
}

fn answer_gate(connection: &Connection, row: &mut Projected, header: &Header) -> rusqlite::Result<()> {
    let Fact::GateAnswered { gate, answer, .. } = &header.fact else { return Ok(()) };
    let subject = connection
        .prepare_cached(
            "UPDATE gates SET answered_seq = ?3 WHERE gate = ?1 AND run = ?2 AND answered_seq IS NULL
             RETURNING subject",
        )?
        .query_row(params![gate.as_bytes(), header.run.as_bytes(), int(header.seq)], |row| uint(row, 0))
        .optional()?;
    let Some(subject) = subject else { return Ok(()) };
    row.open_gates = row.open_gates.saturating_sub(1);
    // An uncertain step that was not done goes back to the start, and reserves again there. The
    // other answers to that question are followed by the fact that completes the step.
    if *answer == Answer::Repeat {
        settle(connection, header.run, StepNo(subject), header.at.day(), 0)?;
    }
    Ok(())
}

/// A run that has ended asks nothing and holds nothing.
fn close_all(connection: &Connection, row: &mut Projected, header: &Header) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE gates SET answered_seq = ?2 WHERE run = ?1 AND answered_seq IS NULL")?
        .execute(params![header.run.as_bytes(), int(header.seq)])?;
    row.open_gates = 0;
    let held = connection
        .prepare_cached("SELECT step FROM reservations WHERE run = ?1")?
        .query_map([header.run.as_bytes()], |row| uint(row, 0))?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    held.into_iter().try_for_each(|step| settle(connection, header.run, StepNo(step), header.at.day(), 0))
}
