//! What is on record of the one batch that a run waits for: written before the batch is handed over, and
//! again when the vendor has named it, so that a daemon which dies in between finds it.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::{Digest, RunId, StepNo, Timestamp};
use kernel::port::{RecordError, Records, Work};
use models::batch::Handle;
use serde::{Deserialize, Serialize};

/// The record kind; the key is the run.
const KIND: &str = "batch";

/// A batch of one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    /// The step that waits for it.
    pub(super) step: StepNo,
    /// What is asked.
    pub(super) request: Digest,
    /// The batch's label, and the name of its only item.
    pub(super) label: String,
    /// When it was about to be handed over.
    pub(super) since: Timestamp,
    pub(super) state: State,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// The vendor may have it.
    Intended,
    /// The vendor has it.
    Queued(Handle),
    /// Nothing waits for it any more.
    Closed,
}

impl Note {
    /// Of a call that is about to be handed over.
    pub(super) fn new(work: &Work, now: Timestamp) -> Self {
        let key: String = work.key.to_string().chars().take(48).collect();
        Self {
            step: work.step,
            request: Digest::of(&work.request),
            label: format!("{key}-{}", work.attempt),
            since: now,
            state: State::Intended,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.state != State::Closed
    }
}

/// The notes of all runs.
#[derive(Clone)]
pub(super) struct Notes(pub(super) Arc<dyn Records>);

impl Notes {
    /// The open note of a step, whatever it asks.
    pub(super) fn of_step(&self, work: &Work) -> Result<Option<Note>, RecordError> {
        let note = self.0.get(KIND, &work.run.to_string())?;
        let note = note.and_then(|record| serde_json::from_slice::<Note>(&record.body).ok());
        Ok(note.filter(|note| note.is_open() && note.step == work.step))
    }

    /// The open note of this very call.
    pub(super) fn of_call(&self, work: &Work) -> Result<Option<Note>, RecordError> {
        let request = Digest::of(&work.request);
        Ok(self.of_step(work)?.filter(|note| note.request == request))
    }

    /// Keeps the note of a run in the place of the one before. Durable when it returns.
    pub(super) fn keep(&self, run: RunId, note: &Note) -> Result<(), RecordError> {
        let key = run.to_string();
        let version = self.0.get(KIND, &key)?.map_or(0, |record| record.version);
        let body = serde_json::to_vec(note).map_err(|error| RecordError::Storage(error.to_string()))?;
        self.0.put(KIND, &key, version, &body).map(|_| ())
    }

    /// The batches that other runs wait for, or have waited for last.
    pub(super) fn others(&self, run: RunId) -> Result<BTreeSet<String>, RecordError> {
        let own = run.to_string();
        let others = self.0.list(KIND)?.into_iter().filter(|record| record.key != own);
        let notes = others.filter_map(|record| serde_json::from_slice::<Note>(&record.body).ok());
        let named = notes.filter_map(|note| match note.state {
            State::Queued(Handle(name)) => Some(name),
            State::Intended | State::Closed => None,
        });
        Ok(named.collect())
    }
}
