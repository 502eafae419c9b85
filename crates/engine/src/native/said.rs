//! What the owner says on the way: read at the next boundary, and never dropped.
//!
//! A word waits while a step is open. Once nothing is, it joins the message that the model reads next:
//! beside the results of a turn, or in place of the end that would have come. Only an end that cannot be
//! turned back any more leaves it unread, and then says so.

use domain::Payload;
use domain::run::End;

use super::view::{Stage, View};
use crate::prompt;

/// What the results of calls that have not begun say after an interruption.
const NOT_BEGUN: &str = "not run: the owner interrupted";
/// The same where a run goes on from another one.
const NOT_BEGUN_AT_FORK: &str = "not run: the owner took another way from here";

impl View {
    /// The owner said something; `now` interrupts, and `at_fork` tells that a run goes on with it from
    /// another one.
    pub(super) fn said(&mut self, seq: u64, now: bool, at_fork: bool, payload: Option<&Payload>) {
        let text = match payload {
            Some(payload) => String::from_utf8_lossy(&payload.0).into_owned(),
            None => "(forgotten on the owner's wish)".into(),
        };
        let (says, not_begun) = match at_fork {
            true => (prompt::AT_FORK, NOT_BEGUN_AT_FORK),
            false => ("The owner says, while you are working:", NOT_BEGUN),
        };
        self.unread.push(format!("{says}\n\n{}", text.trim()));
        if now && self.stage == Stage::Acting {
            self.turn.drop_due(not_begun);
            self.settle_turn(seq);
        }
    }

    /// Reads what waits, if this is a boundary: nothing is open, and the run can still go on.
    pub(super) fn hear(&mut self, seq: u64) {
        let goes_on = matches!(
            self.stage,
            Stage::Asking
                | Stage::Trying
                | Stage::Stalled { .. }
                | Stage::Refused { .. }
                | Stage::Checkpointing
                | Stage::Following
                | Stage::Judging
                | Stage::Merging
        );
        if self.unread.is_empty() || self.is_busy() || !goes_on {
            return;
        }
        if self.stage == Stage::Trying {
            self.tried(seq);
        }
        for text in std::mem::take(&mut self.unread) {
            self.pin(seq, text);
        }
        // Whoever is steered begins anew: what failed before counts no more.
        (self.failures, self.pauses, self.nudges, self.refusals) = (0, 0, 0, 0);
        self.stall.reset();
        self.stage = Stage::Asking;
    }

    /// Whether the owner said something that the model has not read.
    pub(super) fn is_spoken_to(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Ends the run, unless the owner has said something: then the model reads `note` and the words.
    pub(super) fn finish_unless_spoken_to(&mut self, end: End, reason: String, note: String) {
        if self.is_spoken_to() {
            self.unread.insert(0, note);
            self.stage = Stage::Asking;
        } else {
            self.finish(end, reason);
        }
    }

    /// The reason of an end, with what it leaves unread.
    pub(super) fn last_reason(&self, end: End, reason: &str) -> String {
        if self.is_spoken_to() && end != End::Cancelled {
            format!(
                "{reason}; what you said last came too late to be read: start a new mission with it, `regie run`"
            )
        } else {
            reason.to_owned()
        }
    }
}
