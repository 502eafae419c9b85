//! A run's events as lines that a person can read: `turn 3 · shell: node --test · exit 1 · 0.4 s`.
//!
//! Pure: `regie show`, `regie log` and the live view fold the same events into the same lines. What
//! agents and tools wrote is cleaned, so that it can neither steer a terminal nor hide in it.

mod notes;
mod words;

use std::collections::BTreeMap;
use std::fmt;

use domain::fact::{Parking, StepPlanned};
use domain::gate::{Answer, Question};
use domain::step::OUTAGE;
use domain::{
    Amount, Fact, GateId, Header, Image, Millis, Mission, Outcome, Payload, Recorded, StepKind, StepNo,
    Timestamp,
};
use models::{Response, Stop};
use serde::Serialize;

use crate::failure::ModelFailure;
use crate::host::{self, Checkpoint, Delivered, HostFailure, MergeFailed, Merged};
use crate::output;
use crate::words::{clean, denial, dollars, lines, seconds};
use notes::Notes;
pub(crate) use words::end_name;
use words::{request_title, started_title};

/// What a line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are the nouns of the house")]
pub enum Kind {
    Start,
    Model,
    Tool,
    Compaction,
    Checkpoint,
    Verdict,
    Merge,
    Deliver,
    Gate,
    Said,
    Timer,
    Rest,
    Recovery,
    End,
}

/// One line of a run's timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Item {
    /// The event that the line comes from.
    pub seq: u64,
    /// The step that it is about.
    pub step: Option<StepNo>,
    /// The gate that it is about.
    pub gate: Option<GateId>,
    /// The model turn that it belongs to, from 1; 0 before the first.
    pub turn: u64,
    /// What it is about.
    pub kind: Kind,
    /// What happened, in a few words.
    pub title: String,
    /// What there is to read: output, prose, a reason. Lines, cleaned; may be empty.
    pub detail: String,
    /// How it ended, in a few words; empty where that goes without saying.
    pub outcome: String,
    /// Whether it went wrong.
    pub is_error: bool,
    /// What it used.
    pub cost: Amount,
    /// The image that it gave to look at, whose bytes are an artifact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// How long it took.
    pub millis: Option<Millis>,
    /// When.
    pub at: Timestamp,
}

/// Folds a run's events into lines.
#[derive(Debug, Default)]
pub struct Timeline {
    turn: u64,
    open: BTreeMap<StepNo, Open>,
    notes: Notes,
}

#[derive(Debug)]
struct Open {
    planned: StepPlanned,
    title: String,
    since: Option<Timestamp>,
}

/// The lines of these events.
pub fn items<'a>(events: impl IntoIterator<Item = &'a Recorded>) -> Vec<Item> {
    let mut timeline = Timeline::default();
    events.into_iter().filter_map(|event| timeline.fold(&event.header, event.payload.as_ref())).collect()
}

impl Timeline {
    /// What is running: step, title, since when.
    pub fn running(&self) -> impl Iterator<Item = (StepNo, &str, Timestamp)> {
        self.open.iter().filter_map(|(step, open)| Some((*step, open.title.as_str(), open.since?)))
    }

    /// Takes in one event; most lead to no line.
    pub fn fold(&mut self, header: &Header, payload: Option<&Payload>) -> Option<Item> {
        let item = |kind, title: String| Item {
            seq: header.seq,
            step: header.fact.step(),
            gate: None,
            turn: self.turn,
            kind,
            title,
            detail: String::new(),
            outcome: String::new(),
            is_error: false,
            cost: Amount::default(),
            image: None,
            millis: None,
            at: header.at,
        };
        match &header.fact {
            Fact::RunStarted(started) => {
                let mission: Option<Mission> = json(payload);
                self.notes = Notes::of(started.caps, mission.as_ref());
                let goal = mission.map_or_else(|| "(forgotten)".into(), |mission| mission.goal);
                Some(item(Kind::Start, started_title(started, &goal)))
            }
            Fact::StepPlanned(planned) => {
                self.plan(planned, payload);
                None
            }
            Fact::StepIntended { step, .. } => {
                if let Some(open) = self.open.get_mut(step) {
                    open.since = Some(header.at);
                }
                None
            }
            Fact::StepDenied { step, reason } => {
                let open = self.open.remove(step)?;
                let detail = denial(reason);
                let item = item(open.kind(), open.title);
                Some(Item { outcome: "denied".into(), detail, is_error: true, ..item })
            }
            Fact::StepCompleted { step, outcome, spent, .. } => {
                let open = self.open.remove(step)?;
                let millis = open.since.map(|since| header.at.since(since));
                let base = item(open.kind(), open.title.clone());
                let item = completed(Item { cost: *spent, millis, ..base }, &open, *outcome, payload);
                self.notes.answered(item.kind, payload);
                Some(self.notes.note(item))
            }
            // An outage is told while it lasts, any other wait once it is over.
            Fact::TimerSet { step, .. } => {
                let open = self.open.get(step).filter(|open| open.planned.tool == OUTAGE)?;
                Some(item(Kind::Timer, open.title.clone()))
            }
            Fact::TimerFired { step } => {
                let open = self.open.remove(step).filter(|open| open.planned.tool != OUTAGE)?;
                Some(item(Kind::Timer, open.title))
            }
            Fact::GateOpened { gate, question, decision, subject, .. } => {
                let title = self.open.get(subject).map_or("a step", |open| open.title.as_str());
                let title = match question {
                    Question::Approve => format!("gate: {title}?"),
                    Question::WasItDone => format!("gate: was this done before the crash: {title}?"),
                };
                let detail = decision.as_ref().map(|decision| decision.rule.clone()).unwrap_or_default();
                Some(Item { gate: Some(*gate), detail, ..item(Kind::Gate, title) })
            }
            fact => {
                let item = self.bookkeeping(fact, payload, &item)?;
                Some(self.notes.note(item))
            }
        }
    }

    fn plan(&mut self, planned: &StepPlanned, payload: Option<&Payload>) {
        // A question to a human is told by its gate.
        if planned.kind == StepKind::WaitHuman {
            return;
        }
        if planned.kind == StepKind::ModelCall {
            self.notes.is_trying = false;
            self.turn = self.turn.saturating_add(1);
        }
        let title = match planned.kind {
            StepKind::ModelCall => format!("model: {}", clean(&planned.tool, 60)),
            StepKind::Compaction => "compaction: the conversation is summarised".into(),
            _ => request_title(planned, payload),
        };
        self.open.insert(planned.step, Open { planned: planned.clone(), title, since: None });
    }

    fn bookkeeping(
        &self,
        fact: &Fact,
        payload: Option<&Payload>,
        item: &dyn Fn(Kind, String) -> Item,
    ) -> Option<Item> {
        let title_of = |step| self.open.get(step).map_or("a step", |open| open.title.as_str());
        Some(match fact {
            Fact::GateAnswered { gate, answer, by } => {
                let (answer, is_error) = match answer {
                    Answer::Approved => ("approved", false),
                    Answer::Refused => ("refused", true),
                    Answer::Expired => ("expired", true),
                    Answer::WasDone => ("it was done", false),
                    Answer::Repeat => ("it was not done: again", false),
                };
                let title = format!("gate: {answer} by {}", clean(by, 60));
                Item { gate: Some(*gate), is_error, ..item(Kind::Gate, title) }
            }
            Fact::StepUncertain { step } => Item {
                is_error: true,
                ..item(Kind::Recovery, format!("nobody knows whether this happened: {}", title_of(step)))
            },
            Fact::ModelCallLost { spent, .. } => Item {
                cost: *spent,
                ..item(Kind::Recovery, "the model's answer was lost in a crash; asked again".into())
            },
            Fact::WorkspaceRestored { step, .. } => item(
                Kind::Recovery,
                format!("files rolled back after a crash, run again: {}", title_of(step)),
            ),
            Fact::StopRequested { by } => item(Kind::Rest, format!("stop asked for by {}", clean(by, 60))),
            Fact::Interrupted { by } => {
                item(Kind::Rest, format!("what runs is interrupted by {}", clean(by, 60)))
            }
            Fact::CancelRequested { by } => item(Kind::Rest, format!("cancelled by {}", clean(by, 60))),
            Fact::Parked { reason: Parking::Stopped } => item(Kind::Rest, "stopped".into()),
            Fact::Parked { reason: Parking::Blocked { code, hint } } => Item {
                detail: lines(hint, 4),
                is_error: true,
                ..item(Kind::Rest, format!("waits: {}", clean(code, 60)))
            },
            Fact::Said { now, .. } => {
                let text = match payload {
                    Some(payload) => String::from_utf8_lossy(&payload.0).into_owned(),
                    None => "(forgotten)".into(),
                };
                let text = text.trim();
                // A word of one short line is its own title.
                let detail = if text.chars().count() > 100 || text.contains('\n') {
                    lines(text, 40)
                } else {
                    String::new()
                };
                let said = item(Kind::Said, format!("said: {}", clean(text, 100)));
                // Right after the first event it is what a fork begins with, and nothing runs.
                let outcome = if *now && said.seq > 2 { "interrupts what runs" } else { "" };
                Item { detail, outcome: outcome.into(), ..said }
            }
            Fact::Resumed { by } => item(Kind::Rest, format!("resumed by {}", clean(by, 60))),
            Fact::Ended { end } => Item {
                detail: payload
                    .map(|payload| lines(&String::from_utf8_lossy(&payload.0), 40))
                    .unwrap_or_default(),
                is_error: *end != domain::End::Done,
                ..item(Kind::End, format!("ended: {}", end_name(*end)))
            },
            _ => return None,
        })
    }
}

impl Open {
    fn kind(&self) -> Kind {
        match (self.planned.kind, self.planned.tool.as_str()) {
            (StepKind::ModelCall, _) => Kind::Model,
            (StepKind::Compaction, _) => Kind::Compaction,
            (StepKind::Checkpoint, _) => Kind::Checkpoint,
            (StepKind::Verdict, _) => Kind::Verdict,
            (StepKind::Timer, _) => Kind::Timer,
            (_, host::MERGE) => Kind::Merge,
            (_, host::DELIVER) => Kind::Deliver,
            _ => Kind::Tool,
        }
    }
}

/// Tells how a step went by what it gave back.
fn completed(item: Item, open: &Open, outcome: Outcome, payload: Option<&Payload>) -> Item {
    let is_error = outcome != Outcome::Succeeded;
    let plain = match outcome {
        Outcome::Succeeded => "",
        Outcome::Failed => "failed",
        Outcome::TimedOut => "time was up",
        Outcome::Cancelled => "interrupted",
    };
    let item = Item { is_error, outcome: plain.into(), ..item };
    match (open.kind(), is_error) {
        (Kind::Model | Kind::Compaction, false) => model_answer(item, payload),
        (Kind::Model | Kind::Compaction, true) => match json::<ModelFailure>(payload) {
            Some(failure) => Item { detail: lines(&failure.message, 4), outcome: failure.code, ..item },
            None => item,
        },
        (Kind::Checkpoint, false) => match json::<Checkpoint>(payload) {
            Some(checkpoint) if checkpoint.commit.is_some() => {
                let files: Vec<String> = checkpoint
                    .files
                    .iter()
                    .map(|file| {
                        format!(
                            "{} {} +{} −{}",
                            file.status,
                            clean(&file.path, 120),
                            file.added,
                            file.removed
                        )
                    })
                    .collect();
                let mut outcome =
                    format!("{}, +{} −{}", count(files.len()), checkpoint.added, checkpoint.removed);
                if !checkpoint.conflicts.is_empty() {
                    outcome.push_str(&format!(
                        ", conflicts with the line in {}",
                        clean(&checkpoint.conflicts.join(", "), 200)
                    ));
                } else if checkpoint.followed {
                    outcome.push_str(", on the line as it is now");
                }
                Item { outcome, detail: files.join("\n"), ..item }
            }
            _ => Item { outcome: "no changes".into(), ..item },
        },
        (Kind::Merge, false) => match json::<Merged>(payload) {
            Some(merged) => Item { outcome: format!("merged as {}", clean(&merged.commit, 12)), ..item },
            None => item,
        },
        (Kind::Merge, true) => match json::<MergeFailed>(payload) {
            Some(failed) => Item { detail: lines(&failed.message, 20), ..item },
            None => item,
        },
        (Kind::Deliver, false) => match json::<Delivered>(payload) {
            Some(Delivered::FastForwarded { commit, .. }) => {
                Item { outcome: format!("your branch is at {}", clean(&commit, 12)), ..item }
            }
            Some(Delivered::AlreadyThere) => Item { outcome: "your branch has it".into(), ..item },
            Some(Delivered::Left { reason, command }) => Item {
                outcome: "your branch was left alone".into(),
                detail: lines(&format!("{reason}\n{command}"), 8),
                ..item
            },
            None => item,
        },
        (Kind::Checkpoint | Kind::Deliver, true) => match json::<HostFailure>(payload) {
            Some(failure) => Item { detail: lines(&failure.message, 8), ..item },
            None => item,
        },
        _ => tool_output(item, payload),
    }
}

fn count(files: usize) -> String {
    match files {
        1 => "1 file".into(),
        files => format!("{files} files"),
    }
}

fn model_answer(item: Item, payload: Option<&Payload>) -> Item {
    let Some(response) = json::<Response>(payload) else { return item };
    let tokens = response.usage.total_input().saturating_add(response.usage.output);
    let said = [lines(&response.text(), 40), words::definition(&response), words::described(&response)];
    let detail = format!("{}{}", reasoning(&response), said.join("\n"));
    let mut outcome = format!("{tokens} tokens");
    if let Stop::Other(reason) = &response.stop {
        outcome.push_str(&match reason.as_str() {
            "" => " · it gave no reason to stop".into(),
            reason => format!(" · it stopped for a reason that Regie does not know: `{}`", clean(reason, 60)),
        });
    }
    Item { outcome, detail: detail.trim().into(), ..item }
}

/// What the model shows of its reasoning, told apart from what it says.
fn reasoning(response: &Response) -> String {
    match lines(response.reasoning().trim(), 6) {
        text if text.is_empty() => text,
        text => format!("[reasoning] {text}\n\n"),
    }
}

fn tool_output(item: Item, payload: Option<&Payload>) -> Item {
    let Some(output) = output::read(payload) else { return item };
    let outcome = match output.exit_code {
        Some(code) if item.outcome.is_empty() || code != 0 => format!("exit {code}"),
        _ if output.is_error && item.outcome.is_empty() => "error".into(),
        _ => item.outcome.clone(),
    };
    let image = output::image_of(payload);
    let outcome = image.as_ref().map_or(outcome, words::image);
    let outcome = if output.is_unheld() { words::unheld(&outcome) } else { outcome };
    let millis = output.duration_ms.or(item.millis);
    Item {
        outcome,
        detail: lines(&output.text, 40),
        is_error: item.is_error || output.is_error,
        image,
        millis,
        ..item
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.turn > 0 && matches!(self.kind, Kind::Model | Kind::Tool) {
            parts.push(format!("turn {}", self.turn));
        }
        parts.push(self.title.clone());
        if !self.outcome.is_empty() {
            parts.push(self.outcome.clone());
        }
        if self.cost.nanodollars > 0 {
            parts.push(dollars(self.cost.nanodollars));
        }
        if self.cost.unpriced > 0 {
            parts.push("price unknown".into());
        }
        if let Some(millis) = self.millis {
            parts.push(seconds(millis));
        }
        f.write_str(&parts.join(" · "))
    }
}

fn json<T: serde::de::DeserializeOwned>(payload: Option<&Payload>) -> Option<T> {
    serde_json::from_slice(&payload?.0).ok()
}
