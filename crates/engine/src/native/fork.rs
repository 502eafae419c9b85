//! Going on from another run: where a fork or a follow-up stands when it begins.
//!
//! What is inherited was folded like events of the run itself. Here it comes to a boundary from which the
//! run can go on: what had no result is due again, and an end is taken back. The messages stay byte for
//! byte, so that the vendor's cache holds.

use domain::Mission;
use domain::fact::{Forked, Purpose};
use models::{Role, wire};

use super::view::{Judgement, Stage, View, first_stage};
use crate::{prompt, timeline};

/// What calls without a result say when a new mission begins.
const LEFT: &str = "not run: the mission was over";

impl View {
    pub(super) fn go_on_from(&mut self, forked: &Forked, mut mission: Mission) {
        if self.broken.is_some() {
            return;
        }
        // Nothing is committed on the branch of this run.
        let commit = self.commit().map(str::to_owned);
        self.touched |= commit.is_some();
        self.checkpoint = None;
        self.stall.reset();
        match forked.purpose {
            Purpose::Fork => self.definition.carry(&mut mission),
            Purpose::FollowUp => {
                self.definition.forget();
                self.stall.forget();
            }
        }
        self.judgements = vec![Judgement::Due; mission.done.len()];
        (self.failures, self.pauses, self.nudges, self.refusals, self.moves) = (0, 0, 0, 0, 0);
        self.refused_at = None;
        self.turn.begin_again();
        match forked.purpose {
            Purpose::Fork => {
                self.take_back();
                self.is_at_fork = true;
            }
            Purpose::FollowUp => self.follow_up(forked, &mission, commit.as_deref()),
        }
        self.mission = Some(mission);
    }

    /// Back to the last boundary of the loop: the end of the run before is none of this one's.
    fn take_back(&mut self) {
        match self.stage {
            Stage::Fresh
            | Stage::Asking
            | Stage::Trying
            | Stage::Compacting
            | Stage::Acting
            | Stage::Pausing { .. } => {}
            _ if !self.turn.is_empty() => self.stage = Stage::Acting,
            _ if self.conversation.last_role() == Some(Role::User) => self.stage = Stage::Asking,
            _ => self.stage = Stage::Checkpointing,
        }
    }

    fn follow_up(&mut self, forked: &Forked, mission: &Mission, commit: Option<&str>) {
        let seq = self.position;
        let end = match &self.stage {
            Stage::Over { end, reason } => format!("{}: {reason}", timeline::end_name(*end)),
            // Not by the loop's own doing.
            _ => "the owner ended it".into(),
        };
        if !self.turn.is_empty() {
            self.turn.drop_due(LEFT);
            self.settle_turn(seq);
        }
        let keeps_files = forked.snapshot.is_some();
        if !keeps_files {
            self.touched = false;
            self.unresolved.clear();
        }
        // What was said and not read belongs to the mission that is over.
        self.unread.clear();
        let last_words = std::mem::take(&mut self.words);
        if self.mission.as_ref().is_some_and(|before| !wire::is_same(&before.model, &mission.model)) {
            self.hand_over(seq, &last_words, commit);
        }
        self.stage = first_stage(mission);
        let end = prompt::cut(end.trim_end_matches('.'), 2_000).to_owned();
        self.pin(seq, prompt::follow_up(mission, self.definition.is_asked, &end, keeps_files));
    }
}
