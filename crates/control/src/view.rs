//! From what is on record to what is shown.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use domain::causes::in_full;
use domain::{Payload, Recorded, RunId};
use engine::timeline::{Item, Kind, Timeline};
use kernel::port::Journal;
use serde::Serialize;

use crate::api;

/// Runs whose timelines are kept folded for the live stream.
const FOLDED: usize = 64;
/// Events read at a time to fold a timeline from its beginning.
const PAGE: usize = 4096;

/// An error and all its causes, in one line.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let text = in_full(error);
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The name of a unit variant, as the API writes it.
pub(crate) fn name(value: impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
    }
}

/// A payload: JSON where it is JSON, text otherwise, null where it is empty.
pub(crate) fn content(payload: &Payload) -> serde_json::Value {
    if payload.0.is_empty() {
        return serde_json::Value::Null;
    }
    serde_json::from_slice(&payload.0)
        .unwrap_or_else(|_| serde_json::Value::String(String::from_utf8_lossy(&payload.0).into_owned()))
}

/// What a run goes on from.
pub(crate) fn origin(forked: &domain::fact::Forked) -> api::Origin {
    api::Origin { run: forked.parent.to_string(), step: forked.step.0, purpose: name(forked.purpose) }
}

pub(crate) const fn file_status(status: &store::Status) -> &'static str {
    match status {
        store::Status::Added => "added",
        store::Status::Deleted => "deleted",
        store::Status::Modified => "modified",
        store::Status::TypeChanged => "type_changed",
        store::Status::Renamed { .. } => "renamed",
    }
}

pub(crate) fn file(file: &store::FileChange) -> api::File {
    api::File {
        path: file.path.to_string_lossy().into_owned(),
        status: file_status(&file.status).into(),
        added: file.added,
        removed: file.removed,
    }
}

pub(crate) fn proposed_file(file: &engine::host::FileChange) -> api::File {
    api::File {
        path: file.path.clone(),
        status: file.status.clone(),
        added: Some(file.added),
        removed: Some(file.removed),
    }
}

/// Timelines of the runs that are being watched: a line may need what came before it, so each run's
/// timeline stays folded between two looks at it.
#[derive(Clone, Default)]
pub struct Lines(Arc<Mutex<HashMap<RunId, Folded>>>);

#[derive(Default)]
struct Folded {
    seq: u64,
    timeline: Timeline,
}

impl Lines {
    /// An event as it is shown.
    pub(crate) fn event(&self, journal: &dyn Journal, event: &Recorded) -> api::Event {
        event_view(event, self.line(journal, event))
    }

    /// Lets go of all that is kept folded.
    pub(crate) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn line(&self, journal: &dyn Journal, event: &Recorded) -> Option<api::Line> {
        let header = &event.header;
        let mut folded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if folded.len() >= FOLDED && !folded.contains_key(&header.run) {
            folded.clear();
        }
        let of = folded.entry(header.run).or_default();
        if of.seq.saturating_add(1) != header.seq {
            *of = fold_until(journal, header.run, header.seq);
        }
        of.seq = header.seq;
        of.timeline.fold(header, event.payload.as_ref()).map(line_view)
    }
}

/// The timeline of a run just before an event.
fn fold_until(journal: &dyn Journal, run: RunId, seq: u64) -> Folded {
    let mut folded = Folded::default();
    while folded.seq.saturating_add(1) < seq {
        let Ok(page) = journal.history(run, folded.seq, PAGE) else { return folded };
        let before: Vec<_> = page.iter().take_while(|event| event.header.seq < seq).collect();
        let Some(last) = before.last() else { return folded };
        folded.seq = last.header.seq;
        for event in before {
            folded.timeline.fold(&event.header, event.payload.as_ref());
        }
    }
    folded
}

/// Events of one run as they are shown, from its first on.
pub(crate) fn shown(events: &[Recorded]) -> Vec<api::Event> {
    let mut timeline = Timeline::default();
    let mut show = |event: &Recorded| {
        let line = timeline.fold(&event.header, event.payload.as_ref()).map(line_view);
        event_view(event, line)
    };
    events.iter().map(&mut show).collect()
}

fn event_view(event: &Recorded, line: Option<api::Line>) -> api::Event {
    let header = &event.header;
    api::Event {
        position: event.position,
        run: header.run.to_string(),
        seq: header.seq,
        at: header.at.0,
        source: name(header.source),
        fact: serde_json::to_value(&header.fact).unwrap_or_default(),
        content: event.payload.as_ref().map_or(serde_json::Value::Null, content),
        hash: event.hash.to_string(),
        line,
    }
}

fn line_view(item: Item) -> api::Line {
    let kind = match item.kind {
        Kind::Model => "model",
        Kind::Tool => "tool",
        Kind::Verdict => "verdict",
        Kind::Gate => "gate",
        Kind::Merge => "merge",
        Kind::Deliver => "deliver",
        Kind::Checkpoint => "checkpoint",
        Kind::End => "end",
        Kind::Said => "said",
        Kind::Start | Kind::Timer | Kind::Rest | Kind::Recovery | Kind::Compaction => "note",
    };
    let mark = match (item.kind, item.is_error) {
        (Kind::Gate, false) if item.outcome.is_empty() && item.step.is_some() => "waiting",
        (_, true) => "failed",
        (Kind::Start | Kind::Timer | Kind::Rest | Kind::Recovery, false)
        | (Kind::Gate | Kind::Compaction | Kind::Said, false) => "info",
        (_, false) => "ok",
    };
    let mut title = item.title;
    if !item.outcome.is_empty() {
        title = format!("{title} · {}", item.outcome);
    }
    if let Some(millis) =
        item.millis.filter(|_| matches!(item.kind, Kind::Model | Kind::Tool | Kind::Verdict))
    {
        title = format!("{title} · {}", span(millis));
    }
    api::Line {
        step: item.step.map(|step| step.0),
        kind: kind.into(),
        mark: mark.into(),
        title,
        detail: (!item.detail.is_empty()).then_some(item.detail),
        image: item.image.map(|image| api::Image {
            artifact: image.digest.to_string(),
            media_type: image.format.media_type().into(),
            width: image.width,
            height: image.height,
        }),
    }
}

/// A span in words: `0.4 s`, `3 min 12 s`.
fn span(millis: u64) -> String {
    if millis < 60_000 {
        return format!("{}.{} s", millis / 1000, millis % 1000 / 100);
    }
    format!("{} min {} s", millis / 60_000, millis % 60_000 / 1000)
}
