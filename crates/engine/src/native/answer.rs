//! The model's answers, and what it gets back for its calls.

use domain::run::End;
use domain::{Outcome, Payload};
use models::{Message, Response, Stop};

use super::turn::Turn;
use super::view::{Stage, View};
use crate::failure::{CONTEXT_TOO_LONG, IMAGE, ModelFailure};
use crate::{output, prompt};

/// Failed calls in a row that are asked again at once.
const RETRIES: u32 = 3;
/// Waits in a row that the vendor may ask for.
const PAUSES: u32 = 5;
/// Answers in a row that are asked to go on.
const NUDGES: u32 = 3;

impl View {
    pub(super) fn model_answered(&mut self, seq: u64, outcome: Outcome, payload: Option<&Payload>) {
        let bytes = payload.map_or(&[][..], |payload| payload.0.as_slice());
        match outcome {
            Outcome::Succeeded if payload.is_none() => {
                self.give_up("an answer of the model was forgotten: the conversation cannot go on".into());
            }
            Outcome::Succeeded => match serde_json::from_slice::<Response>(bytes) {
                Ok(response) => self.take_answer(seq, &response),
                Err(error) => self.give_up(format!("an answer of the model cannot be read: {error}")),
            },
            // The owner interrupted it: no failure, and asked again with what was said.
            Outcome::Cancelled if self.is_spoken_to() => self.stage = Stage::Asking,
            Outcome::Failed | Outcome::TimedOut | Outcome::Cancelled => {
                self.model_failed(seq, outcome, bytes);
            }
        }
    }

    pub(super) fn model_failed(&mut self, seq: u64, outcome: Outcome, bytes: &[u8]) {
        let failure = serde_json::from_slice(bytes).unwrap_or_else(|_| unexplained(outcome));
        let refused = failure.parameter();
        let ModelFailure { code, message, hint, retry_at, retryable } = failure;
        if refused.is_some_and(|parameter| self.leave_out(seq, parameter)) {
            return;
        }
        if code == IMAGE {
            return self.hide_images(seq, code, &message);
        }
        if code == CONTEXT_TOO_LONG && self.shorten(seq) {
            return;
        }
        if let Some(until) = retry_at {
            self.pauses = self.pauses.saturating_add(1);
            if self.pauses <= PAUSES {
                self.stage = Stage::Pausing { until, why: message };
                return;
            }
        } else if retryable {
            self.failures = self.failures.saturating_add(1);
            if self.failures <= RETRIES {
                self.stage = Stage::Asking;
                return;
            }
        }
        let end = if code == CONTEXT_TOO_LONG { End::Blocked } else { End::Failed };
        let hint = if hint.is_empty() { hint } else { format!("; {hint}") };
        self.finish(end, format!("{message} ({code}){hint}; {}", self.kept()));
    }

    /// The vendor gave a whole answer.
    pub(super) fn model_works(&mut self) {
        self.failures = 0;
        self.pauses = 0;
    }

    fn take_answer(&mut self, seq: u64, response: &Response) {
        self.model_works();
        let words = response.text();
        if !words.is_empty() {
            self.words = words;
        }
        self.turn = Turn::new(response, &self.config.toolbox);
        self.define();
        self.push(seq, Message::assistant(response));
        self.answered(response);
        let over = match response.stop {
            Stop::Refusal => Some("the model refuses to go on with this goal; put it in other words"),
            Stop::ContextExceeded => Some("the model's window is full; cut the goal into smaller missions"),
            _ => None,
        };
        if let Some(why) = over {
            self.turn.drop_due("the run ended before this call was made");
            self.settle_turn(seq);
            if response.stop == Stop::ContextExceeded && self.shorten(seq) {
                return;
            }
            let reason = format!("{why}; {}", self.kept());
            return self.finish(End::Blocked, reason);
        }
        if !self.turn.is_empty() {
            self.nudges = 0;
            self.calls_again();
            self.stage = Stage::Acting;
            return self.settle_turn(seq);
        }
        let goes_on = matches!(response.stop, Stop::PauseTurn | Stop::MaxTokens);
        if !goes_on && self.takes_written(seq, response) {
            return;
        }
        match response.stop {
            Stop::PauseTurn => self.stage = Stage::Asking,
            Stop::MaxTokens => self.nudge(seq, prompt::CONTINUE),
            Stop::ToolUse => self.nudge(seq, prompt::NO_CALL),
            _ => {
                self.nudges = 0;
                self.stage = Stage::Checkpointing;
            }
        }
    }

    fn nudge(&mut self, seq: u64, text: &str) {
        self.nudges = self.nudges.saturating_add(1);
        if self.nudges > NUDGES && !self.is_spoken_to() {
            let reason = format!(
                "the model's answer was incomplete {} times in a row (output limit {} tokens); {}",
                self.nudges,
                self.config.max_output_tokens,
                self.kept()
            );
            return self.finish(End::Blocked, reason);
        }
        self.say(seq, text.to_owned());
        self.stage = Stage::Asking;
    }

    /// Goes on once every call of the turn has its result.
    pub(super) fn settle_turn(&mut self, seq: u64) {
        if self.turn.exhausted.is_some() || self.turn.cancelled {
            self.turn.drop_due("not run: the run is ending");
        }
        let Some(results) = self.turn.results() else { return };
        let turn = std::mem::take(&mut self.turn);
        let found = if self.stall.watches { self.stall.observe(turn.sights()) } else { None };
        if !turn.is_empty() {
            self.conversation.push(seq, results, turn.stub());
            if let Some(shown) = turn.images() {
                self.conversation.show(seq, shown);
            }
        }
        self.instruct(seq);
        match turn.exhausted {
            _ if turn.cancelled => self.finish(End::Cancelled, "cancelled by the owner".into()),
            Some(cap) => self.exhausted(cap),
            None => {
                self.stage = self.after_turn();
                self.watch(seq, found);
            }
        }
    }
}

/// The kernel closes a call whose fate it cannot know without a payload.
fn unexplained(outcome: Outcome) -> ModelFailure {
    let (code, message) = match outcome {
        Outcome::TimedOut => ("model.timed_out", "the model gave no whole answer in time"),
        Outcome::Cancelled => ("model.interrupted", "the call to the model was interrupted"),
        _ => ("model.unknown", "the call to the model failed without a reason on record"),
    };
    ModelFailure {
        code: code.into(),
        message: message.into(),
        hint: String::new(),
        retry_at: None,
        retryable: true,
    }
}

/// Only the owner interrupts a call and lets the run go on.
const INTERRUPTED: &str = "interrupted by the owner before it ended";

/// What the model reads of a tool's result.
pub(super) fn result(outcome: Outcome, payload: Option<&Payload>) -> Result<String, String> {
    let Some(payload) = payload else {
        return Err("the output of this call was forgotten on the owner's wish".into());
    };
    if payload.0.is_empty() {
        // The kernel closed it without its executor: after a crash, or on the owner's word.
        return match outcome {
            Outcome::Succeeded => Ok("done; its output was lost".into()),
            Outcome::Failed => Err("it was interrupted; whether it had an effect is not known".into()),
            Outcome::TimedOut => Err("its time was up and it was ended".into()),
            Outcome::Cancelled => Err(format!("{INTERRUPTED}; whether it had an effect is not known")),
        };
    }
    let Some(output) = output::read(Some(payload)) else {
        return Err(
            "the result of this call cannot be read; look at the state of things before you repeat it".into(),
        );
    };
    let mut text = output.text;
    // How a command ended is its last line in brackets; what the runner has said is not said twice.
    let is_told = text.lines().next_back().is_some_and(|line| line.starts_with('[') && line.ends_with(']'));
    let note = match (outcome, output.exit_code) {
        (Outcome::Cancelled, _) => Some(format!("[{INTERRUPTED}]")),
        _ if is_told => None,
        (Outcome::TimedOut, _) => Some("[its time was up and it was ended]".to_owned()),
        (_, Some(code)) if code != 0 => Some(format!("[exit code {code}]")),
        _ => None,
    };
    if let Some(note) = note {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&note);
    }
    if outcome != Outcome::Succeeded || output.is_error { Err(text) } else { Ok(text) }
}
