//! An erasure: the order that the contents of some events be forgotten.
//!
//! Nothing may follow the end of a run, so it is no event. It is a record of the installation, written before
//! anything is destroyed and never changed after; each holds the digest of the one before, so that none can be
//! taken away or altered without a trace. Only what an erasure names may be missing from a run.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::id::RunId;
use crate::step::StepNo;
use crate::time::Timestamp;

/// The record kind; the key is [`key`] of the erasure's number, from 1.
pub const KIND: &str = "erasure";
/// The record kind of the note that an erasure is complete, under the same key.
pub const DONE: &str = "erasure-done";

/// The key of an erasure: numbers of one length are in order.
pub fn key(number: u64) -> String {
    format!("{number:016}")
}

/// What is on record before anything is destroyed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Erasure {
    /// Who asked for it.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// The run.
    pub run: RunId,
    /// The step that alone is forgotten; otherwise all of the run is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepNo>,
    /// The events whose contents go, by first and last number.
    pub events: Vec<(u64, u64)>,
    /// The end of the run's chain.
    pub head: Digest,
    /// The digest of the record before, [`Digest::ZERO`] for the first.
    pub previous: Digest,
}

impl Erasure {
    /// Whether the content of an event goes by it.
    pub fn covers(&self, run: RunId, seq: u64) -> bool {
        self.run == run && self.events.iter().any(|(first, last)| (*first..=*last).contains(&seq))
    }
}

/// Event numbers, ascending, as ranges.
pub fn ranges(numbers: impl IntoIterator<Item = u64>) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_a_row_are_one_range() {
        assert_eq!(ranges([1, 2, 3, 7, 9, 10]), [(1, 3), (7, 7), (9, 10)]);
        assert_eq!(ranges([]), []);
        assert_eq!(ranges([u64::MAX]), [(u64::MAX, u64::MAX)]);
    }
}
