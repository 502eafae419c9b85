//! Where a replay is not what was recorded.

use std::fmt;

use domain::StepNo;

/// How many bytes are shown on each side of the first that differs.
const AROUND: usize = 48;

/// The first difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The number of the event that was expected.
    pub event: u64,
    /// The step that it is about.
    pub step: Option<StepNo>,
    /// What differs.
    pub what: String,
    /// Both sides, where there are bytes to compare.
    pub sides: Option<Sides>,
}

/// Two texts that differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sides {
    /// The first byte that differs, from 0.
    pub offset: usize,
    /// What was recorded, around it.
    pub recorded: String,
    /// What the replay gave, around it.
    pub replayed: String,
}

impl Sides {
    /// Both sides around the first byte that differs; `None` when there is none.
    pub fn of(recorded: &[u8], replayed: &[u8]) -> Option<Self> {
        let same = recorded.iter().zip(replayed).take_while(|(a, b)| a == b).count();
        if same == recorded.len() && same == replayed.len() {
            return None;
        }
        Some(Self { offset: same, recorded: around(recorded, same), replayed: around(replayed, same) })
    }
}

fn around(bytes: &[u8], at: usize) -> String {
    let (begin, end) = (at.saturating_sub(AROUND), at.saturating_add(AROUND).min(bytes.len()));
    let shown = String::from_utf8_lossy(bytes.get(begin..end).unwrap_or_default()).into_owned();
    let shown: String = shown.chars().map(|c| if c.is_control() { '·' } else { c }).collect();
    let (before, after) = (if begin > 0 { "…" } else { "" }, if end < bytes.len() { "…" } else { " (end)" });
    format!("{before}{shown}{after}")
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.step {
            Some(step) => write!(f, "step {step}, event {}: {}", self.event, self.what)?,
            None => write!(f, "event {}: {}", self.event, self.what)?,
        }
        match &self.sides {
            Some(sides) => write!(f, ", at byte {}", sides.offset),
            None => Ok(()),
        }
    }
}
