//! What a run asks of its vendor beyond the conversation, and what it no longer asks once the vendor has
//! refused it: an account that may not see summaries, or a gateway that knows no cache key, must not end
//! a run. What is asked follows from recorded events, so a request of any moment can be made again.

use domain::Mission;
use models::{Extras, Parameter};

use super::view::{Stage, View};

/// What is asked, by the position from which on it is.
#[derive(Debug, Default)]
pub(super) struct Asked {
    since: Vec<(u64, Extras)>,
    refused: Vec<Parameter>,
    /// The positions from which on reasoning that is older does not go back.
    forgets: Vec<u64>,
}

impl Asked {
    /// A run begins, or goes on from another one, whose refusals hold for it as well.
    pub(super) fn begin(&mut self, seq: u64, driver: &str, mission: &Mission) {
        let extras = match driver == super::NAME {
            // Only what was known when the run began counts: what is known today may be more.
            true => Extras {
                cache_key: true,
                reasoning: mission.terms.as_ref().is_some_and(|terms| terms.reasoning),
            },
            false => Extras::default(),
        };
        let extras = self.refused.iter().fold(extras, |extras, parameter| extras.without(*parameter));
        self.since.push((seq, extras));
    }

    /// What was asked right after the event `upto`.
    pub(super) fn at(&self, upto: u64) -> Extras {
        let count = self.since.partition_point(|(seq, _)| *seq <= upto);
        count.checked_sub(1).and_then(|last| self.since.get(last)).map_or_else(Extras::default, |(_, it)| *it)
    }

    /// Before which position reasoning did not go back, right after the event `upto`.
    pub(super) fn forgotten(&self, upto: u64) -> u64 {
        let count = self.forgets.partition_point(|seq| *seq <= upto);
        count.checked_sub(1).and_then(|last| self.forgets.get(last)).copied().unwrap_or(0)
    }

    fn refuse(&mut self, seq: u64, parameter: Parameter) -> bool {
        let now = self.at(u64::MAX);
        if !now.holds(parameter) {
            return false;
        }
        self.refused.push(parameter);
        self.since.push((seq, now.without(parameter)));
        true
    }
}

impl View {
    /// The vendor does not take a parameter. Gives whether it is asked again without it; what the owner has
    /// chosen is never left out.
    pub(super) fn leave_out(&mut self, seq: u64, parameter: Parameter) -> bool {
        let is_new = self.started.as_ref().is_some_and(|started| started.driver == super::NAME);
        let is_left_out = match parameter {
            Parameter::CacheKey | Parameter::Reasoning => self.asked.refuse(seq, parameter),
            Parameter::Recall if is_new => {
                let goes_back = self.conversation.reasons_since(self.asked.forgotten(u64::MAX));
                if goes_back {
                    self.asked.forgets.push(seq);
                }
                goes_back
            }
            Parameter::Images => self.close_eyes(seq),
            Parameter::Recall | Parameter::Effort => false,
        };
        if is_left_out {
            self.stage = Stage::Asking;
        }
        is_left_out
    }
}
