//! Numbers, keys and classes as SQLite keeps them.
//!
//! SQLite's integers have 63 bits and a sign. What counts in Regie stays far below; what does not fit
//! is kept as the largest value rather than wrapped.

use domain::run::End;
use domain::{Digest, RunId};
use rusqlite::Row;

use super::failure::Failure;

pub(super) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A column that holds a number from 0.
pub(super) fn uint(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0))
}

pub(super) fn maybe_uint(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<u64>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(|value| u64::try_from(value).unwrap_or(0)))
}

pub(super) fn digest(row: &Row<'_>, column: usize) -> rusqlite::Result<Digest> {
    row.get(column).map(Digest::from_bytes)
}

pub(super) fn run_id(row: &Row<'_>, column: usize) -> rusqlite::Result<RunId> {
    row.get(column).map(RunId::from_bytes)
}

/// A limit of a query.
pub(super) fn limit(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

/// Whether a run moves, as the column `runs.status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Active = 0,
    Parked = 1,
    Ended = 2,
}

impl Status {
    pub(super) const fn column(self) -> i64 {
        self as i64
    }

    pub(super) fn of_column(value: i64) -> Result<Self, Failure> {
        match value {
            0 => Ok(Self::Active),
            1 => Ok(Self::Parked),
            2 => Ok(Self::Ended),
            other => Err(Failure::malformed(format!("a run has the unknown status {other}"))),
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Parked => "parked",
            Self::Ended => "ended",
        }
    }
}

/// The column `runs.end`. The numbers are those of the event format.
pub(super) const fn end_column(end: End) -> i64 {
    match end {
        End::Done => 0,
        End::Partial => 1,
        End::Blocked => 2,
        End::Failed => 3,
        End::Cancelled => 4,
        End::BudgetExhausted => 5,
    }
}

pub(super) fn end_of_column(value: i64) -> Result<End, Failure> {
    Ok(match value {
        0 => End::Done,
        1 => End::Partial,
        2 => End::Blocked,
        3 => End::Failed,
        4 => End::Cancelled,
        5 => End::BudgetExhausted,
        other => return Err(Failure::malformed(format!("a run has the unknown end {other}"))),
    })
}
