//! When a run gets nowhere: the same turns again and again, or many turns in which nothing is new.
//!
//! Deterministic, from recorded events alone: what was called, what came back, and the content of the
//! workspace, which the snapshot before each write names. First the model is told what it repeats and
//! asked for a new plan; if it goes on, the run rests until its owner says how, and spends nothing.

use std::collections::{BTreeSet, VecDeque};

use domain::{Digest, StepNo};

use super::turn::Sight;
use super::view::{Stage, View};
use crate::prompt;
use crate::words::clean;

/// Turns that make the longest cycle which is seen as one.
const CYCLE: usize = 4;
/// Times that a turn or a cycle of turns must come in a row.
const TIMES: usize = 3;
/// Turns in a row in which every call, its result and the files were seen before.
const IDLE: u32 = 25;
/// How much of a call is told.
const TOLD: usize = 120;

/// What the record says when the agent is asked for a new plan.
pub(crate) const REPLANS: &str = "the agent is asked for a new plan";

/// The stable code of a run that rests because it gets nowhere.
pub const CODE: &str = "run.stalled";

/// What was seen of a run since its owner last spoke.
#[derive(Debug, Default)]
pub(super) struct Stall {
    /// Runs of earlier drivers are not watched: what the model was told is on record.
    pub(super) watches: bool,
    /// The last turns, the newest last.
    turns: VecDeque<Seen>,
    /// Every call with its result and the files at that moment.
    known: BTreeSet<Digest>,
    /// Turns in a row that brought nothing new.
    idle: u32,
    /// Whether the model was asked for a new plan, and has changed no file since.
    is_warned: bool,
    files: Files,
}

/// The contents that the workspace had.
#[derive(Debug, Default)]
struct Files {
    first: Option<Digest>,
    now: Option<Digest>,
    all: BTreeSet<Digest>,
}

#[derive(Debug)]
struct Seen {
    key: Digest,
    what: String,
}

/// What the detector found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Finding {
    /// The model should plan anew.
    Replan(String),
    /// It was told, and goes on all the same.
    Rest(String),
}

impl Stall {
    /// Takes in the content of the workspace before a write.
    pub(super) fn files(&mut self, snapshot: &str) {
        let files = Digest::of(snapshot.as_bytes());
        self.files.first.get_or_insert(files);
        self.files.now = Some(files);
        // Work that was not there before: whatever was repeated, it led somewhere.
        if self.files.all.insert(files) {
            self.is_warned = false;
        }
    }

    /// Whether the workspace is what it was at the start; `None` before the first write.
    pub(super) fn is_untouched(&self) -> Option<bool> {
        Some(self.files.first? == self.files.now?)
    }

    /// The owner steers: all begins anew.
    pub(super) fn reset(&mut self) {
        self.turns.clear();
        self.known.clear();
        self.idle = 0;
        self.is_warned = false;
    }

    /// Another mission begins, in another workspace.
    pub(super) fn forget(&mut self) {
        *self = Self { watches: self.watches, ..Self::default() };
    }

    /// Takes in a turn whose calls all have their results.
    pub(super) fn observe<'a>(&mut self, sights: impl Iterator<Item = Sight<'a>>) -> Option<Finding> {
        let (mut keys, mut told, mut is_new) = (Vec::new(), Vec::new(), false);
        let files = self.files.now.map(|files| *files.as_bytes()).unwrap_or_default();
        for sight in sights {
            let result = steady(&sight.result.replace(sight.path.unwrap_or("\0"), ""));
            let call = Digest::of_parts(&[sight.name.as_bytes(), b"\0", sight.request]);
            let key = Digest::of_parts(&[call.as_bytes(), Digest::of(result.as_bytes()).as_bytes(), &files]);
            is_new |= self.known.insert(key);
            keys.extend_from_slice(key.as_bytes());
            told.push(sight.title());
        }
        if told.is_empty() {
            return None;
        }
        self.idle = if is_new { 0 } else { self.idle.saturating_add(1) };
        self.turns.push_back(Seen { key: Digest::of(&keys), what: clean(&told.join(", "), TOLD) });
        if self.turns.len() > CYCLE * TIMES {
            self.turns.pop_front();
        }
        let what = self.repetition()?;
        self.turns.clear();
        self.idle = 0;
        Some(match std::mem::replace(&mut self.is_warned, true) {
            false => Finding::Replan(what),
            true => Finding::Rest(what),
        })
    }

    /// What is repeated, in words.
    fn repetition(&self) -> Option<String> {
        for length in 1..=CYCLE {
            let Some(from) = self.turns.len().checked_sub(length * TIMES) else { break };
            let last: Vec<&Seen> = self.turns.iter().skip(from).collect();
            if last.iter().zip(last.iter().skip(length)).all(|(one, next)| one.key == next.key) {
                let cycle: Vec<&str> = last.iter().take(length).map(|seen| seen.what.as_str()).collect();
                let cycle = cycle.join("; then ");
                return Some(format!(
                    "{TIMES} times in a row the same: {cycle}, with the same results on the same files"
                ));
            }
        }
        let last = self.turns.back().map(|seen| seen.what.as_str()).unwrap_or_default();
        (self.idle >= IDLE).then(|| {
            format!("{IDLE} turns in a row brought nothing that was not seen before; the last one: {last}")
        })
    }
}

/// A result without what differs each time although nothing has changed: spans and clock times. A command
/// that is asked over and over is no repetition as long as anything else in its output moves.
fn steady(text: &str) -> String {
    const UNITS: [&str; 12] =
        ["ms", "s", "sec", "secs", "seconds", "second", "us", "µs", "ns", "min", "m", "h"];
    let is_number = |word: &str| {
        let digits = word.trim_matches(['(', ')', '[', ']', ',', ';']);
        !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ':'))
    };
    let is_span = |word: &str| {
        let word = word.trim_matches(['(', ')', '[', ']', ',', ';', '.']);
        let unit = word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        unit.len() < word.len() && UNITS.contains(&unit)
    };
    let is_clock = |word: &str| is_number(word) && word.matches(':').count() >= 1;
    let mut kept = String::with_capacity(text.len());
    let mut words = text.split_whitespace().peekable();
    let mut before = "";
    while let Some(word) = words.next() {
        let unit_follows = words
            .peek()
            .is_some_and(|next| UNITS.contains(&next.trim_matches(['(', ')', '[', ']', ',', ';', '.'])));
        let is_named = before.contains("duration") || before.ends_with("_ms");
        let shown = match is_span(word) || is_clock(word) || (is_number(word) && (unit_follows || is_named)) {
            true => "#",
            false => word,
        };
        kept.push_str(shown);
        kept.push(' ');
        before = word;
    }
    kept
}

impl View {
    /// A step is about to start on these files.
    pub(super) fn intended(&mut self, step: StepNo, snapshot: &str) {
        self.stall.files(snapshot);
        if self.stage == Stage::Trying && self.is_planned(step) {
            self.definition.starts(self.stall.is_untouched());
        }
    }

    /// Looks whether the turn that has just ended got anywhere.
    pub(super) fn watch(&mut self, seq: u64, found: Option<Finding>) {
        match found {
            None => {}
            Some(Finding::Replan(what)) => {
                self.say(seq, prompt::stalled(&what));
                // Waits for nothing: it is on record, and so before the owner's eyes, what the agent is told.
                if self.stage == Stage::Asking {
                    let why = format!("{REPLANS}: {what}");
                    self.stage = Stage::Pausing { until: self.at, why };
                }
            }
            Some(Finding::Rest(what)) => self.stage = Stage::Stalled { what },
        }
    }

    /// Why the run rests, and how it goes on.
    pub(super) fn stalled_hint(&self, what: &str) -> String {
        let run = self.run.map(|run| run.to_string()).unwrap_or_default();
        format!(
            "the agent repeats itself, also after it was asked for a new plan: {what}. Nothing is spent while it \
             rests. Say how to go on and let it: `regie say {run} \"…\"`, `regie resume {run}`; or end it: \
             `regie cancel {run}`"
        )
    }

    /// The owner lets the run go on.
    pub(super) fn resumed(&mut self, seq: u64) {
        self.failures = 0;
        self.pauses = 0;
        if let Stage::Stalled { what } = &self.stage {
            let text = prompt::goes_on(what);
            self.say(seq, text);
            self.stall.reset();
            self.stage = Stage::Asking;
        }
        if matches!(self.stage, Stage::Refused { .. }) {
            self.stage = Stage::Asking;
        }
    }
}

#[cfg(test)]
mod tests;
