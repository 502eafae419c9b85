//! When the conversation grows: old results are cleared in batches, then all of it is compacted into a
//! summary by the model, with what Regie itself has on record beside it.
//!
//! A compaction is a step like any other. It cannot go on for ever: when the conversation is full again
//! before the model has got anywhere, the run ends as blocked.

use domain::run::End;
use domain::{Outcome, Payload};
use models::{Block, Message, Response, Role, Stop};
use serde_json::Value;

use super::view::{Stage, View};
use crate::{output, prompt, words};

/// Answers of the model that must lie between two compactions.
const PROGRESS: u32 = 2;
/// Compactions in a row that may give no summary.
const FRUITLESS: u32 = 3;
/// How long a summary may be, in bytes.
const LONGEST_SUMMARY: usize = 32 * 1024;
/// How many bytes of directories' instructions outlive a compaction; further ones are only named. A
/// repository with many of them must not fill the window for good.
const PINNED_INSTRUCTIONS: usize = 24 * 1024;
/// How many commands and files a summary names.
const NAMED: usize = 20;

/// What relief has to remember of a run.
#[derive(Debug, Default)]
pub(super) struct Relief {
    /// Whether old results are cleared; runs of an earlier driver were not.
    pub(super) clears: bool,
    /// Answers of the model in all, and since the last compaction.
    answers: u64,
    since: u32,
    /// Compactions in all, and those in a row that gave no summary.
    compactions: u32,
    fruitless: u32,
    /// The vendor says that the conversation is too long, whatever was counted.
    is_overlong: bool,
    /// Commands that ran: event, command, how it ended.
    ran: Vec<(u64, String, String)>,
    /// Bytes of instructions that are pinned, and the files of those that are not.
    pinned: usize,
    unpinned: Vec<String>,
    /// Files by the last time they were touched, and whether they were changed.
    files: Vec<(String, bool)>,
}

impl View {
    /// Makes room before the model is asked again, when there is need.
    pub(super) fn relieve(&mut self, seq: u64) {
        if self.stage != Stage::Asking || self.is_busy() {
            return;
        }
        if self.relief.clears {
            self.conversation.clear(seq, self.config.clearing);
        }
        let (used, limit) = (self.conversation.tokens(self.fixed), self.config.compaction_threshold());
        let is_full = used > limit && self.conversation.last_role() == Some(Role::User);
        if !is_full && !self.relief.is_overlong {
            return;
        }
        let needed = if self.relief.compactions == 0 { 1 } else { PROGRESS };
        if self.relief.since >= needed {
            self.stage = Stage::Compacting;
            return;
        }
        if self.relief.is_overlong {
            return self.block(format!(
                "the vendor takes no conversation as long as this one, of about {used} tokens, and there is \
                 nothing in it that could be left out; cut the goal into smaller missions"
            ));
        }
        let what = match self.relief.compactions {
            0 => "the goal and the instructions alone".to_owned(),
            count => format!("the conversation is full again right after compaction {count}: it"),
        };
        self.block(format!(
            "{what} take about {used} tokens, more than the {limit} that are used of this model's window of {}; \
             cut the goal into smaller missions or choose a model with a larger window",
            self.config.window
        ));
    }

    /// Ends the run as blocked, with the work committed.
    fn block(&mut self, reason: String) {
        if self.touched {
            self.stage = Stage::Saving { end: End::Blocked, reason };
        } else {
            let reason = format!("{reason}; {}", self.kept());
            self.finish(End::Blocked, reason);
        }
    }

    /// The vendor does not take the conversation. Gives whether anything can be done about it.
    pub(super) fn shorten(&mut self, seq: u64) -> bool {
        if self.relief.is_overlong {
            return false;
        }
        self.relief.is_overlong = true;
        self.conversation.clear_all(seq);
        self.stage = Stage::Asking;
        true
    }

    /// Counts an answer of the loop.
    pub(super) fn answered(&mut self, response: &Response) {
        self.relief.answers = self.relief.answers.saturating_add(1);
        self.relief.since = self.relief.since.saturating_add(1);
        let usage = &response.usage;
        let tokens = match usage.total_input() {
            0 => 0,
            input => input.saturating_add(usage.output),
        };
        self.conversation.measure(tokens);
    }

    /// Takes the summary.
    pub(super) fn compacted(&mut self, seq: u64, outcome: Outcome, payload: Option<&Payload>) {
        let bytes = payload.map_or(&[][..], |payload| payload.0.as_slice());
        if outcome != Outcome::Succeeded {
            return self.model_failed(seq, outcome, bytes);
        }
        let response = match serde_json::from_slice::<Response>(bytes) {
            Ok(response) => response,
            Err(_) => {
                return self.give_up("a summary of the conversation was forgotten or cannot be read".into());
            }
        };
        self.model_works();
        let text = response.text();
        self.stage = Stage::Asking;
        if text.trim().is_empty() || matches!(response.stop, Stop::Refusal | Stop::ContextExceeded) {
            self.relief.fruitless = self.relief.fruitless.saturating_add(1);
            if self.relief.fruitless >= FRUITLESS {
                let count = self.relief.fruitless;
                self.block(format!(
                    "the conversation is full, and the model gave no summary of it {count} times in a row"
                ));
            }
            return;
        }
        self.relief.fruitless = 0;
        self.relief.since = 0;
        self.relief.is_overlong = false;
        self.relief.compactions = self.relief.compactions.saturating_add(1);
        let summary = self.on_record(text.trim(), prompt::summary);
        self.conversation.compact(seq, Message::user(vec![Block::text(summary)]));
    }

    /// Another model goes on: nothing that this one's vendor wrote may reach it. What the owner and Regie said
    /// stays; what was done is told from the record, with the last words as text.
    pub(super) fn hand_over(&mut self, seq: u64, last_words: &str, commit: Option<&str>) {
        let text = self.on_record(last_words.trim(), |record| prompt::handover(record, commit));
        self.conversation.compact(seq, Message::user(vec![Block::text(text)]));
        let relief = &mut self.relief;
        (relief.answers, relief.since, relief.compactions, relief.fruitless) = (0, 0, 0, 0);
        relief.is_overlong = false;
    }

    fn on_record(&self, text: &str, write: impl Fn(&prompt::Summary<'_>) -> String) -> String {
        let most = usize::try_from(self.config.compaction_threshold()).unwrap_or(usize::MAX);
        let relief = &self.relief;
        let ran = relief.ran.iter().skip(relief.ran.len().saturating_sub(NAMED));
        let ran: Vec<String> = ran.map(|(seq, what, how)| format!("event {seq}: `{what}`: {how}")).collect();
        let named = |changed: bool| -> Vec<&str> {
            let files = relief.files.iter().rev().filter(|(_, is_changed)| *is_changed == changed);
            files.map(|(path, _)| path.as_str()).take(NAMED).collect()
        };
        write(&prompt::Summary {
            turns: relief.answers,
            compactions: relief.compactions,
            text: prompt::cut(text, most.min(LONGEST_SUMMARY)),
            ran: &ran,
            changed: &named(true),
            looked_at: &named(false),
            instructions: &relief.unpinned,
        })
    }

    /// Appends the instructions that came with the results of a turn.
    pub(super) fn instruct(&mut self, seq: u64) {
        for (text, path) in std::mem::take(&mut self.news) {
            let pinned = self.relief.pinned.saturating_add(text.len());
            if pinned <= PINNED_INSTRUCTIONS {
                self.relief.pinned = pinned;
                self.pin(seq, text);
            } else {
                self.relief.unpinned.push(path);
                self.say(seq, text);
            }
        }
    }

    /// Remembers what a finished call is evidence of, and takes up the instructions that came with it.
    pub(super) fn note_call(&mut self, seq: u64, at: usize, outcome: Outcome, payload: Option<&Payload>) {
        let output = output::read(payload);
        if let Some(found) = output.as_ref().and_then(|output| output.instructions.as_ref())
            && self.instructed.insert(found.path.clone())
        {
            let path = words::clean(&found.path, 200);
            self.news.push((prompt::nested(&path, &found.text), path));
        }
        let Some((name, request)) = self.turn.request(at) else { return };
        let input = serde_json::from_slice::<Value>(request).unwrap_or_default();
        let told = |field: &str| input["input"][field].as_str().map(str::to_owned);
        match name {
            "shell" => {
                let Some(command) = told("command") else { return };
                let code = output.and_then(|output| output.exit_code);
                self.note_command(seq, &command, outcome, code);
            }
            "edit" | "write" | "read" if outcome == Outcome::Succeeded => {
                let Some(path) = told("path") else { return };
                let files = &mut self.relief.files;
                let known = files.iter().position(|(known, _)| *known == path).map(|at| files.remove(at));
                let is_changed = name != "read" || known.is_some_and(|(_, is_changed)| is_changed);
                files.push((path, is_changed));
            }
            _ => {}
        }
    }

    pub(super) fn note_command(&mut self, seq: u64, command: &str, outcome: Outcome, code: Option<i32>) {
        let how = match (outcome, code) {
            (Outcome::TimedOut, _) => "its time was up".into(),
            (Outcome::Cancelled, _) => "interrupted".into(),
            (_, Some(code)) => format!("exit code {code}"),
            (Outcome::Succeeded, None) => "succeeded".into(),
            (Outcome::Failed, None) => "failed".into(),
        };
        self.relief.ran.push((seq, words::clean(command, 200), how));
    }
}
