//! The stop hook and what follows it: a mission ends as done only when its criteria pass and its
//! proposal was decided in favour.

use domain::fact::Denial;
use domain::run::End;
use domain::{Criterion, Outcome, Payload};
use serde::de::DeserializeOwned;

use super::view::{Judgement, Stage, View, short};
use crate::host::{
    Checkpoint, DeliverRequest, Delivered, HostFailure, MergeFailed, MergeRequest, Merged, Message,
};
use crate::output;
use crate::prompt::{self, Unmet};
use crate::words;

/// Refusals in a row, on the same commit, after which the model is asked to plan anew.
const STALLED: u32 = 3;
/// Times that Regie's line may move under a proposal before the owner is asked to see to it.
const MOVES: u32 = 5;
/// How much of the model's closing words goes into reasons and merges, in bytes.
const SUMMARY: usize = 2_000;

impl View {
    pub(super) fn checkpointed(&mut self, seq: u64, outcome: Outcome, payload: Option<&Payload>) {
        let checkpoint = match outcome {
            Outcome::Succeeded => parse::<Checkpoint>(payload),
            _ => None,
        };
        let saving = match &self.stage {
            Stage::Saving { end, reason } => Some((*end, reason.clone())),
            _ => None,
        };
        match (checkpoint, saving) {
            (Some(checkpoint), saving) => {
                self.unresolved.clone_from(&checkpoint.conflicts);
                self.checkpoint = Some(checkpoint);
                self.touched = false;
                match saving {
                    Some((end, reason)) => self.finish(end, format!("{reason}; {}", self.kept())),
                    None if self.unresolved.is_empty() => self.judge_all(seq),
                    None => self.conflicted(seq),
                }
            }
            (None, Some((end, reason))) => {
                let reason = format!("{reason}; the workspace could not be committed; {}", self.kept());
                self.finish(end, reason);
            }
            // Interrupted: it is planned again, and doing it twice is doing it once.
            (None, None) if outcome == Outcome::Cancelled => {}
            (None, None) => {
                let failure = parse::<HostFailure>(payload).unwrap_or_default();
                let reason =
                    format!("the workspace could not be committed: {}; {}", failure.message, self.kept());
                self.finish(End::Failed, reason);
            }
        }
    }

    /// Others changed the same places: the agent resolves it in its workspace, which holds both versions.
    fn conflicted(&mut self, seq: u64) {
        let paths = self.unresolved.join(", ");
        if self.moves >= MOVES && !self.is_spoken_to() {
            let reason = format!("the merge was not made: conflicts in {paths}; {}", self.kept());
            return self.finish(End::Partial, reason);
        }
        self.moves = self.moves.saturating_add(1);
        let line = self.mission.as_ref().map(|mission| mission.line.clone()).unwrap_or_default();
        self.say(seq, prompt::conflict(&line, &self.unresolved));
        self.stage = Stage::Asking;
    }

    fn judge_all(&mut self, seq: u64) {
        self.judgements.fill(Judgement::Due);
        self.stage = Stage::Judging;
        if self.judgements.is_empty() && !self.asks_for_definition(seq) {
            self.conclude();
        }
    }

    /// A criterion that was not judged is due again.
    pub(super) fn judge_again(&mut self, at: usize) {
        if let Some(slot) = self.judgements.get_mut(at) {
            *slot = Judgement::Due;
        }
    }

    pub(super) fn judged(&mut self, seq: u64, at: usize, outcome: Outcome, payload: Option<&Payload>) {
        let command = match self.mission.as_ref().and_then(|mission| mission.done.get(at)) {
            Some(Criterion::Command { command }) => command.clone(),
            None => return,
        };
        let output = output::read(payload);
        let code = output.as_ref().and_then(|output| output.exit_code);
        self.note_command(seq, &command, outcome, code);
        let mut text = output.as_ref().map(|output| output.text.clone()).unwrap_or_default();
        if let Some(path) = output.and_then(|output| output.path) {
            text.push_str(&format!("\n[`read` or `search` the whole in {path}]"));
        }
        let failed = |how: String| Judgement::Failed(Unmet { command, how, output: text });
        let judgement = match outcome {
            Outcome::Succeeded => Judgement::Passed,
            Outcome::Failed => {
                failed(code.map_or_else(|| "failed".into(), |code| format!("exit code {code}")))
            }
            Outcome::TimedOut => failed("its time was up and it was ended".into()),
            Outcome::Cancelled => Judgement::Due,
        };
        if let Some(slot) = self.judgements.get_mut(at) {
            *slot = judgement;
        }
        let open = |judgement: &Judgement| matches!(judgement, Judgement::Due | Judgement::Planned);
        let is_judged = !self.judgements.iter().any(open);
        if is_judged && self.stage == Stage::Trying {
            return self.tried(seq);
        }
        if self.stage != Stage::Judging || !is_judged {
            return;
        }
        let unmet: Vec<Unmet> = self
            .judgements
            .iter()
            .filter_map(|judgement| match judgement {
                Judgement::Failed(unmet) => Some(unmet.clone()),
                _ => None,
            })
            .collect();
        if unmet.is_empty() { self.conclude() } else { self.refuse(seq, &unmet) }
    }

    /// The stop hook refuses: the loop goes on, or stops when it goes in circles.
    fn refuse(&mut self, seq: u64, unmet: &[Unmet]) {
        let commit = self.checkpoint.as_ref().and_then(|checkpoint| checkpoint.commit.clone());
        if self.refusals > 0 && commit == self.refused_at {
            self.refusals = self.refusals.saturating_add(1);
        } else {
            self.refusals = 1;
        }
        self.refused_at = commit;
        if self.refusals > STALLED && !self.is_spoken_to() {
            let commands: Vec<String> =
                unmet.iter().map(|unmet| format!("`{}` ({})", unmet.command, unmet.how)).collect();
            let reason = format!(
                "the definition of done does not pass and the agent is stuck, also after a new plan: {}; {}{}",
                commands.join(", "),
                self.kept(),
                self.last_said()
            );
            return self.finish(End::Blocked, reason);
        }
        let followed = self.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.followed);
        self.say(seq, prompt::unmet(unmet, self.refusals == STALLED, followed));
        self.stage = Stage::Asking;
    }

    /// Everything that was to be checked passes.
    fn conclude(&mut self) {
        let changed = self.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.commit.is_some());
        if changed {
            self.stage = Stage::Merging;
            return;
        }
        if self.is_spoken_to() {
            self.stage = Stage::Asking;
            return;
        }
        let reason = format!("nothing to change: {}{}", self.checked(), self.last_said());
        self.finish(End::Done, reason);
    }

    pub(super) fn merge_request(&self) -> Option<MergeRequest> {
        let (mission, checkpoint) = (self.mission.as_ref()?, self.checkpoint.as_ref()?);
        let checks: Vec<String> =
            mission.done.iter().map(|Criterion::Command { command }| command.clone()).collect();
        Some(MergeRequest {
            run: self.run?,
            mission: mission.id,
            goal: mission.goal.clone(),
            branch: self.branch().to_owned(),
            head: checkpoint.commit.clone()?,
            base: checkpoint.base.clone(),
            line: mission.line.clone(),
            expected_line_head: checkpoint.line_head.clone(),
            checked: self.checked(),
            checks,
            proposed: self.definition.proposed(),
            export: self.exported.report(checkpoint),
            files: checkpoint.files.clone(),
            uncommitted: mission.uncommitted.clone(),
            added: checkpoint.added,
            removed: checkpoint.removed,
            patch: checkpoint.patch,
            summary: prompt::cut(&self.words, SUMMARY).to_owned(),
            message: self.commit_message("Merge"),
        })
    }

    pub(super) fn merge_refused(&mut self, reason: &Denial) {
        let why = words::denial(reason);
        let note = format!("Your proposal was not merged: {why}.");
        let reason = format!("the merge was not made: {why}; {}", self.kept());
        self.finish_unless_spoken_to(End::Partial, reason, note);
    }

    pub(super) fn merge_done(&mut self, outcome: Outcome, payload: Option<&Payload>) {
        if outcome == Outcome::Cancelled {
            // Interrupted: it is planned again, and doing it twice is doing it once.
            return;
        }
        if outcome == Outcome::Succeeded
            && let Some(Merged { commit }) = parse(payload)
        {
            let line = self.mission.as_ref().map(|mission| mission.line.clone()).unwrap_or_default();
            self.stage = Stage::Delivering { request: DeliverRequest { commit, line } };
            return;
        }
        let MergeFailed { message, conflicts, moved } = parse(payload).unwrap_or_default();
        if (moved || !conflicts.is_empty()) && self.moves < MOVES {
            self.moves = self.moves.saturating_add(1);
            self.stage = Stage::Following;
            return;
        }
        let why = match (conflicts.is_empty(), message.is_empty()) {
            (false, _) => format!("conflicts in {}", conflicts.join(", ")),
            (true, false) => message,
            (true, true) => "its result is not known".into(),
        };
        let note = format!("Your proposal could not be merged: {why}.");
        let reason = format!("the merge was not made: {why}; {}", self.kept());
        self.finish_unless_spoken_to(End::Partial, reason, note);
    }

    pub(super) fn delivered(&mut self, outcome: Outcome, payload: Option<&Payload>) {
        let delivered = match outcome {
            Outcome::Succeeded => parse::<Delivered>(payload),
            // Interrupted: it is planned again, and doing it twice is doing it once.
            Outcome::Cancelled => return,
            _ => None,
        };
        let (commit, line) = self.merge_commit();
        match delivered {
            Some(Delivered::FastForwarded { note: Some(note), .. }) => {
                let reason = format!("merged into {line} as {commit}; {}; {note}", self.checked());
                self.finish(End::Done, reason);
            }
            Some(Delivered::FastForwarded { .. } | Delivered::AlreadyThere) => {
                let reason = format!("merged into {line} as {commit}; {}", self.checked());
                self.finish(End::Done, reason);
            }
            Some(Delivered::Left { reason, command }) => {
                self.left_undelivered(&format!("{reason}; take it over with `{command}`"));
            }
            None => {
                let failure = parse::<HostFailure>(payload).unwrap_or_default();
                self.left_undelivered(&failure.message);
            }
        }
    }

    /// The merge is on Regie's line; the owner's branch does not have it yet.
    pub(super) fn left_undelivered(&mut self, why: &str) {
        let (commit, line) = self.merge_commit();
        let why = if why.is_empty() { "the reason is not known" } else { why };
        let reason = format!(
            "merged into Regie's line of {line} as {commit}; your branch was left alone: {why}; {}",
            self.checked()
        );
        self.finish(End::Done, reason);
    }

    fn merge_commit(&self) -> (String, String) {
        match &self.stage {
            Stage::Delivering { request } => (short(&request.commit).to_owned(), request.line.clone()),
            _ => (String::new(), String::new()),
        }
    }

    /// What was checked, in one plain sentence.
    fn checked(&self) -> String {
        let count = self.judgements.len();
        let passes = match self.mission.as_ref().map(|mission| mission.done.as_slice()) {
            None | Some([]) => {
                let missing = self.definition.missing();
                return format!("nothing was checked: the mission has no definition of done{missing}");
            }
            Some([Criterion::Command { command }]) => format!("checked: `{command}` passes"),
            Some(_) => format!("checked: all {count} criteria pass"),
        };
        match prompt::whose(&self.definition.proposed()) {
            None => passes,
            Some(whose) => format!("{passes} ({whose})"),
        }
    }

    fn last_said(&self) -> String {
        match prompt::cut(self.words.trim(), SUMMARY) {
            "" => String::new(),
            words => format!("\n\nThe agent's last words: {words}"),
        }
    }

    /// A commit's message: what the owner asked for, what the agent says, and where it comes from.
    pub(super) fn commit_message(&self, what: &str) -> Message {
        let (Some(mission), Some(started), Some(run)) = (&self.mission, &self.started, self.run) else {
            return Message::default();
        };
        let goal = one_line(&mission.goal);
        let mut trailers = vec![
            ("Regie-Run", run.to_string()),
            ("Regie-Mission", mission.id.to_string()),
            ("Regie-Principal", one_line(&started.principal)),
            ("Regie-On-Behalf-Of", one_line(&started.on_behalf_of)),
            ("Regie-Lease", started.lease.to_string()),
            ("Regie-Model", one_line(&mission.model)),
        ];
        let proposed = self.definition.proposed();
        trailers.extend(prompt::whose(&proposed).map(|whose| ("Regie-Criteria", whose)));
        let words = prompt::cut(self.words.trim(), SUMMARY).trim();
        Message {
            subject: format!("{what}: {}", prompt::cut(&goal, 60).trim_end()),
            body: [words, &prompt::definition(&proposed)].join("\n\n").trim().to_owned(),
            trailers: trailers.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
        }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn parse<T: DeserializeOwned>(payload: Option<&Payload>) -> Option<T> {
    serde_json::from_slice(&payload?.0).ok()
}
