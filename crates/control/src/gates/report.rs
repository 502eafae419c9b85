//! How often the owner is asked, by what, and what the answers are. Somebody who approves nearly everything does not
//! look any more: then there are too many questions.

use std::collections::BTreeMap;

use domain::gate::{Answer, Question};
use domain::{Fact, Timestamp};
use kernel::port::{GateRow, Journal};
use serde::{Deserialize, Serialize};

use super::{event, planned_before};
use crate::Control;
use crate::error::Error;

/// Above this share of approvals gates are too frequent, in percent.
const TOO_MANY: u64 = 95;
/// The fewest answers from which that can be said.
const ENOUGH: u64 = 20;

/// What gates asked, and what was answered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateReport {
    /// Since when, in milliseconds.
    pub since: u64,
    /// All of them together.
    pub all: Asked,
    /// The same by what they asked about, the most frequent first.
    pub by: Vec<AskedBy>,
    /// That they are too frequent, and which rule asks most; `null` where they are not, or too few to tell.
    pub too_frequent: Option<String>,
}

/// What asked, and how often.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedBy {
    /// The tool.
    pub tool: String,
    /// The rule, in its words.
    pub rule: String,
    /// How often.
    #[serde(flatten)]
    pub asked: Asked,
}

/// Numbers of gates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// How many were opened.
    pub asked: u64,
    /// How many were approved.
    pub approved: u64,
    /// How many were refused.
    pub refused: u64,
    /// How many nobody answered in time.
    pub expired: u64,
    /// How many wait.
    pub waiting: u64,
    /// The median time from question to answer, in milliseconds; `null` where none was answered.
    pub median_ms: Option<u64>,
}

impl Asked {
    /// The share of approvals among what a human answered, in percent, rounded down.
    fn approvals(&self) -> Option<u64> {
        (self.approved * 100).checked_div(self.approved + self.refused)
    }
}

#[derive(Default)]
struct Count {
    asked: Asked,
    waits: Vec<u64>,
}

impl Count {
    fn take(&mut self, answer: Option<(Answer, u64)>) {
        let asked = &mut self.asked;
        asked.asked += 1;
        match answer {
            None => asked.waiting += 1,
            Some((Answer::Expired, _)) => asked.expired += 1,
            Some((answer, after)) => {
                let refused = answer == Answer::Refused;
                *if refused { &mut asked.refused } else { &mut asked.approved } += 1;
                self.waits.push(after);
            }
        }
    }

    fn done(mut self) -> Asked {
        self.waits.sort_unstable();
        Asked { median_ms: self.waits.get(self.waits.len() / 2).copied(), ..self.asked }
    }
}

impl Control {
    /// What gates have asked within `span` milliseconds, and what was answered.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn gate_report(&self, span: u64) -> Result<GateReport, Error> {
        let (journal, now) = (self.journal(), self.clock().now());
        self.blocking(move || report(&*journal, Timestamp(now.0.saturating_sub(span)))).await
    }
}

fn report(journal: &dyn Journal, since: Timestamp) -> Result<GateReport, Error> {
    let (mut all, mut by) = (Count::default(), BTreeMap::<(String, String), Count>::new());
    for row in journal.gates(false)?.iter().filter(|row| row.opened_at.0 >= since.0) {
        let Some((what, answer)) = looked_at(journal, row)? else { continue };
        all.take(answer);
        by.entry(what).or_default().take(answer);
    }
    let done = |((tool, rule), count): ((String, String), Count)| AskedBy { tool, rule, asked: count.done() };
    let mut by: Vec<AskedBy> = by.into_iter().map(done).collect();
    by.sort_by_key(|one| std::cmp::Reverse(one.asked.asked));
    let all = all.done();
    Ok(GateReport { since: since.0, too_frequent: too_frequent(&all, &by), all, by })
}

/// What a gate asked about, with its answer and how long that took. Nothing for what was forgotten, and for what a
/// crash left open, which no rule asks.
type Looked = ((String, String), Option<(Answer, u64)>);

fn looked_at(journal: &dyn Journal, row: &GateRow) -> Result<Option<Looked>, Error> {
    let opened = event(journal, row, row.opened_seq)?.map(|event| event.header.fact);
    let Some(Fact::GateOpened { subject, question: Question::Approve, decision, .. }) = opened else {
        return Ok(None);
    };
    let Some((planned, _)) = planned_before(journal, row, subject)? else { return Ok(None) };
    let answered = row.answered_seq.map(|seq| event(journal, row, seq)).transpose()?.flatten();
    let answer = answered.and_then(|event| match event.header.fact {
        Fact::GateAnswered { answer, .. } => {
            Some((answer, event.header.at.0.saturating_sub(row.opened_at.0)))
        }
        _ => None,
    });
    let rule = decision.map(|decision| decision.rule).unwrap_or_default();
    Ok(Some(((planned.tool, rule), answer)))
}

fn too_frequent(all: &Asked, by: &[AskedBy]) -> Option<String> {
    let share = all.approvals().filter(|share| *share > TOO_MANY && all.approved + all.refused >= ENOUGH)?;
    let most = by.first()?;
    Some(format!(
        "{share} of 100 were approved: that many questions are not looked at any more. `{}` is asked most, as {}: write a \
         rule that allows what you always approve",
        most.tool, most.rule
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(approved: u64, refused: u64) -> Asked {
        Asked { asked: approved + refused, approved, refused, ..Asked::default() }
    }

    #[test]
    fn many_answers_of_one_kind_are_said() {
        let by = [AskedBy { tool: "shell".into(), rule: "r".into(), asked: asked(1, 0) }];
        for (approved, refused, is_said) in
            [(20, 0, true), (19, 0, false), (95, 5, false), (97, 3, true), (0, 30, false)]
        {
            let said = too_frequent(&asked(approved, refused), &by);
            assert_eq!(said.is_some(), is_said, "{approved} and {refused}: {said:?}");
        }
        assert!(too_frequent(&asked(30, 0), &by).unwrap().contains("`shell` is asked most, as r"));
    }

    #[test]
    fn what_waits_or_expired_is_no_answer() {
        let mut count = Count::default();
        for answer in
            [None, Some((Answer::Expired, 9)), Some((Answer::Approved, 3)), Some((Answer::Refused, 1))]
        {
            count.take(answer);
        }
        let done = count.done();
        assert_eq!((done.asked, done.approved, done.refused, done.expired, done.waiting), (4, 1, 1, 1, 1));
        assert_eq!((done.median_ms, done.approvals()), (Some(3), Some(50)));
        assert_eq!(Asked::default().approvals(), None);
    }
}
