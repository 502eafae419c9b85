//! The reference: what a run comes to when nothing ever crashes.
//!
//! It shares no code with the kernel and knows neither steps nor tries nor journals. What people and
//! policy decided is handed in; everything else follows from the program alone.

use std::collections::BTreeMap;

use domain::Outcome;
use domain::run::End;

use super::outside::KILLED;
use super::program::{Act, Program};
use super::script::{DENIED, FIRED, fingerprint, result_text};

/// What was decided about an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Nothing stood in its way.
    Ran,
    /// It must not happen.
    Denied,
    /// It was closed without its result: by the owner's word, or because it could not be repeated.
    Closed(Outcome),
    /// The owner interrupted it.
    Cut {
        /// How much of what it writes is there: neither, the first half or both.
        halves: u8,
        /// Whether its executor lived to tell.
        told: bool,
    },
}

/// What must be there at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// The workspace.
    pub workspace: String,
    /// What came of each operation.
    pub results: BTreeMap<usize, String>,
    /// The end.
    pub end: End,
}

/// What the workspace is, in one word.
pub(super) fn glance(workspace: &str) -> String {
    format!("{:016x}", fingerprint([workspace]))
}

/// The first half of what an operation writes.
pub(super) fn first_half(index: usize) -> String {
    format!("[{index}")
}

/// The second half.
pub(super) fn second_half(index: usize) -> String {
    format!("{index}]")
}

/// What the workspace holds of an operation that wrote this many halves.
fn written(index: usize, halves: u8) -> String {
    match halves {
        0 => String::new(),
        1 => first_half(index),
        _ => first_half(index) + &second_half(index),
    }
}

/// How many halves of an operation the workspace holds.
pub(super) fn halves_of(index: usize, workspace: &str) -> u8 {
    // Between two brackets that open lies what exactly one operation wrote.
    let piece = |halves| {
        workspace.split_inclusive(']').flat_map(|part| part.split('[')).any(|part| {
            let whole = written(index, halves);
            whole.strip_prefix('[') == Some(part)
        })
    };
    (1..=2).rev().find(|halves| piece(*halves)).unwrap_or(0)
}

/// Runs the program. An operation without a fate ends it: that is a run that went less far.
pub fn interpret(program: &Program, fates: &BTreeMap<usize, Fate>) -> Option<Expected> {
    let mut expected = Expected { workspace: String::new(), results: BTreeMap::new(), end: End::Done };
    for (index, op) in program.ops().enumerate() {
        let outcome = if op.fails { Outcome::Failed } else { Outcome::Succeeded };
        let result = match fates.get(&index)? {
            Fate::Denied => DENIED.into(),
            Fate::Closed(outcome) => result_text(*outcome, ""),
            Fate::Cut { halves, told } => {
                expected.workspace.push_str(&written(index, *halves));
                result_text(Outcome::Cancelled, if *told { KILLED } else { "" })
            }
            Fate::Ran => {
                let seen = fingerprint(expected.results.values().map(String::as_str));
                let payload = match op.act {
                    Act::Model => format!("answer {index} to op {index} after {seen:016x}"),
                    Act::Read => format!("saw {}", glance(&expected.workspace)),
                    Act::Write | Act::Verdict => {
                        expected.workspace.push_str(&first_half(index));
                        if !op.fails {
                            expected.workspace.push_str(&second_half(index));
                        }
                        format!("wrote {index}")
                    }
                    Act::Put => format!("put {index}"),
                    Act::Commit => format!("commit {}", glance(&expected.workspace)),
                    Act::Send => format!("sent {index}"),
                    Act::Timer(_) => String::new(),
                };
                if matches!(op.act, Act::Timer(_)) { FIRED.into() } else { result_text(outcome, &payload) }
            }
        };
        let denied = result == DENIED;
        let failed = op.act == Act::Model && !result.starts_with("Succeeded");
        expected.results.insert(index, result);
        if failed {
            expected.end = if denied { End::Blocked } else { End::Failed };
            break;
        }
    }
    Some(expected)
}
