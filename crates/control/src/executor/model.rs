//! Model calls: executed by the daemon, streamed to whoever watches, recorded whole.

use std::sync::Arc;
use std::time::Duration;

use domain::{Amount, Outcome, Payload, Price, RunId, StepKind, Terms, Timestamp};
use engine::ModelFailure;
use kernel::fault::{Point, point};
use kernel::machine::Input;
use kernel::port::{Clock, Executor, Finished, Inbox, Journal, Probe, Records, Refused, Status, Work};
use models::tape::{Deaf, Tap};
use models::{Delta, Provider, Response, Wire, catalogue};
use tokio::sync::broadcast;

use super::batch::{self, BatchCall, Pace};
use super::inflight::Inflight;
use super::queue::{Note, Notes};
use crate::api;
use crate::recording::Recorder;
use crate::recording::call::Taping;
use crate::runs::Charter;
use crate::vendors::Vendors;

/// Executes model calls.
pub struct ModelExecutor {
    vendors: Arc<Vendors>,
    journal: Arc<dyn Journal>,
    clock: Arc<dyn Clock>,
    deltas: broadcast::Sender<api::Delta>,
    inflight: Inflight,
    notes: Notes,
    pace: Pace,
    recorder: Option<Arc<Recorder>>,
}

impl ModelExecutor {
    /// Calls the vendors of the runs, and sends what arrives to `deltas`.
    pub fn new(
        vendors: Arc<Vendors>,
        journal: Arc<dyn Journal>,
        records: Arc<dyn Records>,
        clock: Arc<dyn Clock>,
        deltas: broadcast::Sender<api::Delta>,
    ) -> Self {
        let (inflight, notes, pace) = (Inflight::default(), Notes(records), Pace::default());
        Self { vendors, journal, clock, deltas, inflight, notes, pace, recorder: None }
    }

    /// Asks about batches at this pace.
    #[must_use]
    pub fn at_pace(self, pace: Pace) -> Self {
        Self { pace, ..self }
    }

    /// With what writes down what comes over the wire.
    #[must_use]
    pub fn with_recorder(self, recorder: Arc<Recorder>) -> Self {
        Self { recorder: Some(recorder), ..self }
    }

    /// Begins a call by the vendor's queue, or goes on with the one that was noted.
    fn queue(
        &self,
        provider: Arc<dyn Provider>,
        terms: Terms,
        work: Work,
        inbox: Arc<dyn Inbox>,
        note: Option<Note>,
    ) {
        let call = BatchCall {
            provider,
            notes: self.notes.clone(),
            clock: Arc::clone(&self.clock),
            pace: self.pace,
            deltas: self.deltas.clone(),
            price: terms.price,
            work: work.clone(),
        };
        self.inflight.spawn(&work, inbox, call.run(note));
    }

    /// The terms that a run began on.
    fn terms(&self, run: RunId) -> Result<Terms, Refused> {
        let charter = Charter::read(&*self.journal, run)
            .map_err(|error| Refused { code: "run.unreadable".into(), hint: error.to_string() })?;
        Ok(catalogue::terms_of(&charter.mission))
    }
}

impl Executor for ModelExecutor {
    fn start(&self, work: Work, inbox: Arc<dyn Inbox>) {
        let Some(provider) = self.vendors.provider(work.run) else {
            let (run, wire) = (work.run, Wire::of(&work.tool));
            let hint = match wire {
                Wire::Chat => format!(
                    "the daemon was not told where the model server of run {run} is; set {} where that is not \
                     the usual place, and `regie resume {run}`",
                    wire.url_env()
                ),
                Wire::Messages | Wire::Responses => format!(
                    "the daemon holds no vendor key for run {run}; set {} and `regie resume {run}`",
                    wire.key_env()
                ),
            };
            let refused = Refused { code: "model.key_missing".into(), hint };
            inbox.send(Input::Refused(work.step, work.attempt, refused));
            return;
        };
        let terms = match self.terms(work.run) {
            Ok(terms) => terms,
            Err(refused) => return inbox.send(Input::Refused(work.step, work.attempt, refused)),
        };
        if terms.batch {
            return match self.notes.of_call(&work) {
                Ok(note) => self.queue(provider, terms, work, inbox, note),
                Err(error) => {
                    let hint = format!("what waits in the vendor's queue cannot be read: {error}");
                    let refused = Refused { code: "model.batch_unreadable".into(), hint };
                    inbox.send(Input::Refused(work.step, work.attempt, refused));
                }
            };
        }
        let (clock, deltas) = (Arc::clone(&self.clock), self.deltas.clone());
        let taping = self.recorder.as_ref().and_then(|recorder| recorder.call(&work));
        let call = call(provider, Arc::clone(&self.vendors), terms, clock, deltas, work.clone(), taping);
        self.inflight.spawn(&work, inbox, call);
    }

    fn status(&self, work: Work, inbox: Arc<dyn Inbox>) {
        // One that cannot be read is no proof that there is none.
        let may_be_noted = || !matches!(self.notes.of_call(&work), Ok(None));
        let is_batch = self.terms(work.run).is_ok_and(|terms| terms.batch);
        if self.inflight.contains(&work) || !is_batch || !may_be_noted() {
            return self.inflight.status(&work, inbox);
        }
        // The vendor has it, or may have it: starting it once more goes on with what was noted. Without a key
        // it is refused, which leaves the note for when there is one.
        inbox.send(Input::Status(work.step, Status::Running));
        self.start(work, inbox);
    }

    fn probe(&self, work: Work, inbox: Arc<dyn Inbox>) {
        inbox.send(Input::Probed(work.step, Probe::Unknown));
    }

    fn kill(&self, work: Work, inbox: Arc<dyn Inbox>) {
        self.inflight.abort(&work);
        if !matches!(self.notes.of_step(&work), Ok(Some(_))) {
            return inbox.send(Input::Killed(work.step));
        }
        let dropped = batch::drop_step(self.vendors.provider(work.run), self.notes.clone(), work.clone());
        tokio::spawn(async move {
            dropped.await;
            inbox.send(Input::Killed(work.step));
        });
    }
}

async fn call(
    provider: Arc<dyn Provider>,
    vendors: Arc<Vendors>,
    terms: Terms,
    clock: Arc<dyn Clock>,
    deltas: broadcast::Sender<api::Delta>,
    work: Work,
    taping: Option<Taping>,
) -> Input {
    let is_summary = work.kind == StepKind::Compaction;
    let health = vendors.health();
    let mut publish = |delta: Delta| {
        if let Delta::Retrying { attempt, .. } = &delta {
            health.struggles(provider.endpoint(), *attempt, clock.now());
        }
        // A summary is no word to the owner; it is shown as what it is when it is whole.
        if is_summary && !matches!(delta, Delta::Retrying { .. } | Delta::Waiting { .. }) {
            return;
        }
        // Nobody watching is not an error.
        let _ = deltas.send(delta_view(&work, delta, clock.now()));
    };
    let timeout = Duration::from_millis(work.timeout);
    let tap: &dyn Tap = taping.as_ref().map_or(&Deaf, |taping| taping);
    let calling = provider.call_tapped(work.request.clone(), &mut publish, tap);
    let called = tokio::time::timeout(timeout, calling).await;
    point(Point::AfterEffect);
    match &called {
        Ok(Ok(_)) => health.answered(provider.endpoint()),
        Ok(Err(error)) => health.failed(provider.endpoint(), error, clock.now()),
        // A long answer is none of the vendor's failures.
        Err(_) => {}
    }
    let now = clock.now();
    if let Some(taping) = taping {
        taping.end(now).await;
    }
    let ended = match called {
        Err(_) => Ok(failed(Outcome::TimedOut, &timed_out(&work))),
        Ok(result) => ended(work.kind, result, &terms, now),
    };
    match ended {
        Ok(finished) => Input::Finished(work.step, work.attempt, finished),
        Err(refused) => Input::Refused(work.step, work.attempt, refused),
    }
}

/// What a call that ended at `now` comes to, or why nothing of it counts.
pub(crate) fn ended(
    kind: StepKind,
    result: Result<Response, models::call::Error>,
    terms: &Terms,
    now: Timestamp,
) -> Result<Finished, Refused> {
    match result {
        Ok(response) => Ok(succeeded(kind, &response, terms.price.as_ref())),
        Err(error) => match ModelFailure::refusal(&error) {
            Some(refused) => Err(refused),
            None => Ok(failed(Outcome::Failed, &ModelFailure::new(&error, now))),
        },
    }
}

pub(super) fn succeeded(kind: StepKind, response: &Response, price: Option<&Price>) -> Finished {
    let usage = response.usage.plus(response.lost);
    let cost = catalogue::cost(&usage, price);
    let spent = Amount {
        tokens: usage.total_input().saturating_add(usage.output),
        nanodollars: cost.unwrap_or(0),
        unpriced: u64::from(cost.is_none()),
        // A summary is not a turn of the loop.
        turns: u64::from(kind == StepKind::ModelCall),
        ..Amount::CALL
    };
    match serde_json::to_vec(response) {
        Ok(bytes) => {
            Finished { outcome: Outcome::Succeeded, spent, payload: Payload(bytes), artifacts: Vec::new() }
        }
        Err(error) => Finished {
            spent,
            ..failed(
                Outcome::Failed,
                &ModelFailure {
                    code: "model.unrecordable".into(),
                    message: format!("the answer cannot be recorded: {error}"),
                    hint: String::new(),
                    retry_at: None,
                    retryable: false,
                },
            )
        },
    }
}

pub(super) fn failed(outcome: Outcome, failure: &ModelFailure) -> Finished {
    let payload = Payload(serde_json::to_vec(failure).unwrap_or_default());
    Finished { outcome, spent: Amount::CALL, payload, artifacts: Vec::new() }
}

pub(super) fn timed_out(work: &Work) -> ModelFailure {
    ModelFailure {
        code: "model.timed_out".into(),
        message: format!("the model gave no whole answer within {} s", work.timeout / 1000),
        hint: "try again later".into(),
        retry_at: None,
        retryable: true,
    }
}

fn delta_view(work: &Work, delta: Delta, now: Timestamp) -> api::Delta {
    let (kind, text) = match delta {
        Delta::Text(text) => ("text", text),
        Delta::Thinking(text) => ("thinking", text),
        Delta::ToolUse { name } => ("tool", name),
        Delta::Retrying { attempt, wait, why } => {
            ("retry", format!("attempt {attempt} failed: {why}; again in {:.1} s", wait.as_secs_f64()))
        }
        Delta::Waiting { wait: Some(wait) } => {
            let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            let until = engine::words::time_of_day(now.plus(wait).0);
            ("waiting", format!("waiting for the vendor's limit until {until}"))
        }
        Delta::Waiting { wait: None } => ("waiting", "waiting for the vendor's limit".to_owned()),
    };
    api::Delta { run: work.run.to_string(), step: work.step.0, kind: kind.into(), text }
}
