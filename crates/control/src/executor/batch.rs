//! A model call by the vendor's batch queue: handed over once, then asked about until it has its answer.
//!
//! The queue is paid from the moment that it has the call. So the intention is noted before it is handed over
//! and the vendor's name of it after; what was noted in between is looked for at the vendor, and only what is
//! certainly not there is handed over again. A daemon that dies meanwhile changes nothing: the next one reads
//! the note and goes on asking.

use std::sync::Arc;
use std::time::Duration;

use domain::Price;
use engine::ModelFailure;
use kernel::fault::{Point, point};
use kernel::machine::Input;
use kernel::port::{Clock, RecordError, Refused, Work};
use models::batch::{Batches, Found, Handle, Item, Progress};
use models::{Provider, Response, call};
use tokio::sync::broadcast;

use super::model::{failed, succeeded, timed_out};
use super::queue::{Note, Notes, State};
use crate::api;

/// How often a call is handed over that certainly did not arrive.
const SUBMISSIONS: u32 = 8;

/// How often the vendor is asked for a batch that it does not list: a list may lag behind.
const LOOKS: u32 = 2;

/// How long a batch that is being dropped keeps its run waiting.
const DROP: Duration = Duration::from_secs(15);

/// How often a vendor is asked whether a batch has ended.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// The first wait; each one is half as long again as the one before.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { first: Duration::from_secs(10), longest: Duration::from_secs(5 * 60) }
    }
}

/// One call that goes by the queue.
pub(super) struct BatchCall {
    pub(super) provider: Arc<dyn Provider>,
    pub(super) notes: Notes,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) pace: Pace,
    pub(super) deltas: broadcast::Sender<api::Delta>,
    pub(super) price: Option<Price>,
    pub(super) work: Work,
}

/// How it ended.
enum End {
    /// With what the vendor says of this call.
    Answered(Result<Response, call::Error>),
    /// The vendor could not be asked.
    Failed(call::Error),
    /// It took too long.
    TimedOut,
    /// It could not be noted; nothing was handed over.
    Unnoted(RecordError),
}

impl From<call::Error> for End {
    fn from(error: call::Error) -> Self {
        Self::Failed(error)
    }
}

impl BatchCall {
    /// Begins the call, or goes on with the one that was noted.
    pub(super) async fn run(self, noted: Option<Note>) -> Input {
        let mut note = noted.clone().unwrap_or_else(|| Note::new(&self.work, self.clock.now()));
        let end = match self.provider.batches() {
            Some(queue) => self.end(&*queue, &mut note, noted.is_some()).await,
            None => return self.refused("model.no_batch", no_queue(&self.work.tool)),
        };
        point(Point::AfterEffect);
        self.input(&mut note, end)
    }

    async fn end(&self, queue: &dyn Batches, note: &mut Note, is_noted: bool) -> End {
        let ended = async {
            if !is_noted {
                self.notes.keep(self.work.run, note).map_err(End::Unnoted)?;
            }
            let batch = match (&note.state, is_noted) {
                (State::Queued(batch), _) => batch.clone(),
                (_, true) => self.look(queue, note).await?,
                (_, false) => self.submit(queue, note).await?,
            };
            self.wait(queue, note, &batch).await
        };
        match ended.await {
            Ok(answer) => End::Answered(answer),
            Err(end) => end,
        }
    }

    /// Hands the call over.
    async fn submit(&self, queue: &dyn Batches, note: &mut Note) -> Result<Handle, End> {
        let items = self.items(note);
        let mut waits = Waits::new(self.pace);
        for attempt in 1_u32.. {
            let unsent = match queue.submit(&note.label, &items).await {
                Ok(batch) => {
                    self.queued(note, &batch);
                    return Ok(batch);
                }
                Err(unsent) => unsent,
            };
            if unsent.may_have_arrived {
                tracing::warn!(error = %unsent.error, "whether a batch arrived is not known; it is looked for");
                return Box::pin(self.look(queue, note)).await;
            }
            if !unsent.error.is_retryable() || attempt >= SUBMISSIONS || self.is_over(note) {
                self.close(note);
                return Err(unsent.error.into());
            }
            let wait = match &unsent.error {
                call::Error::RateLimited { retry_after: Some(wait), .. } => (*wait).min(self.pace.longest),
                _ => waits.next(),
            };
            self.tell("retry", format!("{}; again in {:.1} s", unsent.error, wait.as_secs_f64()));
            tokio::time::sleep(wait).await;
        }
        Err(End::TimedOut)
    }

    /// Looks for a call that may have been handed over, and hands it over when it certainly was not.
    async fn look(&self, queue: &dyn Batches, note: &mut Note) -> Result<Handle, End> {
        let mut waits = Waits::new(self.pace);
        let mut looks = 0;
        loop {
            match queue.find(&note.label, 1, note.since).await {
                Ok(Found::Here(batch)) => {
                    self.queued(note, &batch);
                    return Ok(batch);
                }
                Ok(Found::Perhaps(batches)) => {
                    if let Some(batch) = self.sift(queue, note, batches).await? {
                        self.queued(note, &batch);
                        return Ok(batch);
                    }
                    looks += 1;
                }
                Ok(Found::Nowhere) => looks += 1,
                Err(error) if error.is_retryable() => tracing::warn!(%error, "a batch is looked for again"),
                Err(error) => return Err(error.into()),
            }
            if self.is_over(note) {
                return Err(End::TimedOut);
            }
            if looks >= LOOKS {
                return Box::pin(self.submit(queue, note)).await;
            }
            tokio::time::sleep(waits.next()).await;
        }
    }

    /// Which of these batches holds the call: their results tell once they have ended.
    async fn sift(
        &self,
        queue: &dyn Batches,
        note: &Note,
        mut batches: Vec<Handle>,
    ) -> Result<Option<Handle>, End> {
        let items = self.items(note);
        let others = self.notes.others(self.work.run).unwrap_or_default();
        batches.retain(|batch| !others.contains(&batch.0));
        let mut waits = Waits::new(self.pace);
        loop {
            let mut left = Vec::new();
            for batch in batches {
                match holds(queue, &batch, &items).await {
                    Ok(Some(true)) => return Ok(Some(batch)),
                    Ok(Some(false)) => {}
                    Ok(None) => left.push(batch),
                    Err(error) if error.is_retryable() => left.push(batch),
                    Err(error) => return Err(error.into()),
                }
            }
            if left.is_empty() {
                return Ok(None);
            }
            if self.is_over(note) {
                return Err(End::TimedOut);
            }
            batches = left;
            self.tell("queue", note.since.0.to_string());
            tokio::time::sleep(waits.next()).await;
        }
    }

    /// Asks until the batch has ended.
    async fn wait(
        &self,
        queue: &dyn Batches,
        note: &Note,
        batch: &Handle,
    ) -> Result<Result<Response, call::Error>, End> {
        let items = self.items(note);
        let mut waits = Waits::new(self.pace);
        loop {
            self.tell("queue", note.since.0.to_string());
            tokio::time::sleep(waits.next()).await;
            let asked = match queue.progress(batch).await {
                Ok(Progress::Waiting) => Ok(None),
                Ok(Progress::Ended) => queue.results(batch, &items).await.map(Some),
                Err(error) => Err(error),
            };
            match asked {
                Ok(Some(results)) => {
                    let answer = results.into_iter().next().map(|(_, answer)| answer);
                    return answer.ok_or_else(|| End::Failed(self.not_held()));
                }
                Ok(None) => {}
                Err(error) if error.is_retryable() => {
                    tracing::warn!(%error, "a batch is asked about again");
                }
                Err(error) => return Err(error.into()),
            }
            if self.is_over(note) {
                drop_batch(queue, batch).await;
                return Err(End::TimedOut);
            }
        }
    }

    fn items(&self, note: &Note) -> [Item; 1] {
        [Item { id: note.label.clone(), body: self.work.request.clone() }]
    }

    /// The vendor has named the batch. A note that cannot be kept costs a search after a crash, no more.
    fn queued(&self, note: &mut Note, batch: &Handle) {
        note.state = State::Queued(batch.clone());
        if let Err(error) = self.notes.keep(self.work.run, note) {
            tracing::warn!(%error, batch = batch.0, "the vendor's name of a batch could not be noted");
        }
    }

    fn close(&self, note: &mut Note) {
        note.state = State::Closed;
        if let Err(error) = self.notes.keep(self.work.run, note) {
            tracing::warn!(%error, "that a batch is over could not be noted");
        }
    }

    fn is_over(&self, note: &Note) -> bool {
        self.clock.now() >= note.since.plus(self.work.timeout)
    }

    fn tell(&self, kind: &str, text: String) {
        let delta =
            api::Delta { run: self.work.run.to_string(), step: self.work.step.0, kind: kind.into(), text };
        // Nobody watching is not an error.
        let _ = self.deltas.send(delta);
    }

    fn not_held(&self) -> call::Error {
        let wire = models::Wire::of(&self.work.tool);
        call::Error::Malformed {
            at: call::Endpoint { wire, url: self.provider.endpoint().into(), proxy: None },
            what: "the results of the batch lack this call".into(),
        }
    }

    fn refused(&self, code: &str, hint: String) -> Input {
        Input::Refused(self.work.step, self.work.attempt, Refused { code: code.into(), hint })
    }

    fn input(&self, note: &mut Note, end: End) -> Input {
        let (error, is_answer) = match end {
            End::Answered(Ok(response)) => {
                let finished = succeeded(self.work.kind, &response, self.price.as_ref());
                return Input::Finished(self.work.step, self.work.attempt, finished);
            }
            End::TimedOut => {
                let finished = failed(domain::Outcome::TimedOut, &timed_out(&self.work));
                return Input::Finished(self.work.step, self.work.attempt, finished);
            }
            End::Unnoted(error) => {
                return self.refused(
                    "model.batch_unnoted",
                    format!("nothing was sent, because what waits in the vendor's queue could not be noted: {error}"),
                );
            }
            End::Answered(Err(error)) => (error, true),
            End::Failed(error) => (error, false),
        };
        let Some(refused) = ModelFailure::refusal(&error) else {
            let failure = ModelFailure::new(&error, self.clock.now());
            return Input::Finished(
                self.work.step,
                self.work.attempt,
                failed(domain::Outcome::Failed, &failure),
            );
        };
        // The run rests, and its step comes again. A batch that is done with is not asked about then; one that
        // waits is.
        if is_answer {
            self.close(note);
        }
        Input::Refused(self.work.step, self.work.attempt, refused)
    }
}

/// What is said of a model whose vendor has no batch queue.
pub(crate) fn no_queue(model: &str) -> String {
    format!(
        "`{model}` has no batch queue; leave --batch and `[mission] batch` out, or choose a model of Anthropic or OpenAI"
    )
}

/// Drops what a step that is being ended has in the queue, as far as the vendor can be told.
pub(super) async fn drop_step(provider: Option<Arc<dyn Provider>>, notes: Notes, work: Work) {
    let mut note = match notes.of_step(&work) {
        Ok(Some(note)) => note,
        Ok(None) => return,
        Err(error) => {
            return tracing::warn!(%error, "a batch that nobody waits for any more may stay in the queue");
        }
    };
    let queue = provider.as_deref().and_then(Provider::batches);
    match (&note.state, queue) {
        (_, None) => tracing::warn!(run = %work.run, "without a key, a batch stays in the vendor's queue"),
        (State::Queued(batch), Some(queue)) => drop_batch(&*queue, batch).await,
        (_, Some(queue)) => {
            let found = tokio::time::timeout(DROP, queue.find(&note.label, 1, note.since)).await;
            match found {
                Ok(Ok(Found::Here(batch))) => drop_batch(&*queue, &batch).await,
                Ok(Ok(Found::Nowhere)) => {}
                _ => tracing::warn!(run = %work.run, "a batch may have arrived that nobody waits for"),
            }
        }
    }
    note.state = State::Closed;
    if let Err(error) = notes.keep(work.run, &note) {
        tracing::warn!(%error, "that a batch is over could not be noted");
    }
}

async fn drop_batch(queue: &dyn Batches, batch: &Handle) {
    match tokio::time::timeout(DROP, queue.cancel(batch)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, batch = batch.0, "a batch could not be cancelled"),
        Err(_) => tracing::warn!(batch = batch.0, "a batch could not be cancelled in time"),
    }
}

/// Whether a batch holds these items; `None` before it has ended.
async fn holds(queue: &dyn Batches, batch: &Handle, items: &[Item]) -> Result<Option<bool>, call::Error> {
    match queue.progress(batch).await? {
        Progress::Waiting => Ok(None),
        Progress::Ended => Ok(Some(!queue.results(batch, items).await?.is_empty())),
    }
}

/// Waits that grow.
struct Waits {
    next: Duration,
    longest: Duration,
}

impl Waits {
    fn new(pace: Pace) -> Self {
        Self { next: pace.first, longest: pace.longest }
    }

    fn next(&mut self) -> Duration {
        let wait = self.next.min(self.longest);
        self.next = wait.saturating_mul(3) / 2;
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_from_ten_seconds_to_five_minutes() {
        let mut waits = Waits::new(Pace::default());
        let all: Vec<u64> = (0..10).map(|_| waits.next().as_secs()).collect();
        assert_eq!(all, [10, 15, 22, 33, 50, 75, 113, 170, 256, 300]);
    }
}
