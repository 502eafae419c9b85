//! The titles of steps and ends.

use domain::fact::{Forked, Purpose, RunStarted, StepPlanned};
use domain::step::OUTAGE;
use domain::{End, Image, Payload, StepKind};
use models::Response;
use serde::Deserialize;
use serde_json::Value;

use crate::host;
use crate::native::{deferred, done, stall};
use crate::words::clean;

/// Which field of a tool's input says most.
const TELLING: [&str; 5] = ["command", "path", "pattern", "url", "query"];

/// How many tools a line names.
const NAMED: usize = 16;

/// What a step was asked to do, in one line.
pub(super) fn request_title(planned: &StepPlanned, payload: Option<&Payload>) -> String {
    #[derive(Deserialize)]
    struct Call {
        #[serde(default)]
        input: Value,
        #[serde(default)]
        command: Option<String>,
        #[serde(default)]
        line: Option<String>,
        #[serde(default)]
        reason: Option<String>,
    }
    let call: Option<Call> = payload.and_then(|payload| serde_json::from_slice(&payload.0).ok());
    let Some(call) = call else { return clean(&planned.tool, 60) };
    let line = call.line.unwrap_or_default();
    match (planned.kind, planned.tool.as_str()) {
        (StepKind::Verdict, _) => format!("check: {}", clean(&call.command.unwrap_or_default(), 100)),
        (StepKind::Checkpoint, _) => "checkpoint".into(),
        (StepKind::Timer, _) if call.reason.as_ref().is_some_and(|why| why.starts_with(stall::REPLANS)) => {
            clean(&call.reason.unwrap_or_default(), 160)
        }
        (StepKind::Timer, OUTAGE) => clean(&call.reason.unwrap_or_default(), 320),
        (StepKind::Timer, _) => format!("wait: {}", clean(&call.reason.unwrap_or_default(), 100)),
        (_, host::MERGE) => format!("merge this proposal into {}", clean(&line, 60)),
        (_, host::DELIVER) => format!("deliver to {}", clean(&line, 60)),
        (_, tool) => {
            let telling = TELLING.iter().find_map(|name| call.input.get(name)?.as_str());
            match telling {
                Some(text) => format!("{}: {}", clean(tool, 60), clean(text, 100)),
                None => clean(tool, 60),
            }
        }
    }
}

/// An image in a few words, as `image 640×480 png 12 KB`.
pub(super) fn image(image: &Image) -> String {
    let Image { width, height, format, bytes, .. } = image;
    format!("image {width}×{height} {format} {} KB", bytes.div_ceil(1_000))
}

/// How a step ended that no jail held.
pub(super) fn unheld(outcome: &str) -> String {
    let parts = [outcome, "no jail"].into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(" · ")
}

/// The definition of done that an answer proposes; empty when there is none.
pub(super) fn definition(response: &Response) -> String {
    let proposals = response.calls().filter(|call| call.name == done::TOOL);
    let read = proposals.filter_map(|call| done::read(call.input.ok()?.as_str()).ok()).next();
    let Some(wanted) = read else { return String::new() };
    let line = |one: &done::Wanted| format!("- {} ({})", clean(&one.command, 200), clean(&one.why, 200));
    let criteria: Vec<String> = wanted.iter().map(line).collect();
    format!("proposes as the definition of done:\n{}", criteria.join("\n"))
}

/// The tools whose inputs an answer asks for, as no step says it; empty when there are none.
pub(super) fn described(response: &Response) -> String {
    #[derive(Deserialize)]
    struct Names {
        names: Vec<String>,
    }
    let asked = response.calls().filter(|call| call.name == deferred::DESCRIBE);
    let names =
        asked.filter_map(|call| call.input.ok()?.decode::<Names>().ok()).flat_map(|asked| asked.names);
    let names: Vec<String> = names.take(NAMED).map(|name| clean(&name, 60)).collect();
    if names.is_empty() { String::new() } else { format!("asks what these tools take: {}", names.join(", ")) }
}

pub(crate) const fn end_name(end: End) -> &'static str {
    match end {
        End::Done => "done",
        End::Partial => "partial",
        End::Blocked => "blocked",
        End::Failed => "failed",
        End::Cancelled => "cancelled",
        End::BudgetExhausted => "budget exhausted",
    }
}

/// The first line of a run: what it is for, and what it goes on from.
pub(super) fn started_title(started: &RunStarted, goal: &str) -> String {
    let goal = clean(goal, 100);
    match started.forked.as_deref() {
        None => format!("started: {goal}"),
        Some(Forked { parent, step, purpose: Purpose::Fork, .. }) => {
            format!("forked from {parent} at step {step}: {goal}")
        }
        Some(Forked { parent, purpose: Purpose::FollowUp, .. }) => format!("follows {parent}: {goal}"),
    }
}
