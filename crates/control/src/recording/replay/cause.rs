//! What led to the event that is due.

use domain::{Effect, Fact, Outcome, StepNo, Timestamp};
use kernel::machine::{Input, Order};
use kernel::port::{Finished, Probe, Refused, Status};

use super::{Asked, Replay, Stop, What, is_model};
use crate::executor::model;
use crate::recording::format::Written;
use crate::recording::read;

/// Who answers a gate that nobody has answered in time.
const KERNEL: &str = "svc:kernel";

impl Replay<'_> {
    /// The order that a fact records, if it records one.
    pub(super) fn order(&self, written: &Written) -> Option<Order> {
        let header = &written.event.header;
        Some(match &header.fact {
            Fact::StopRequested { by } => Order::Stop { by: by.clone() },
            Fact::Interrupted { by } => Order::StopNow { by: by.clone() },
            Fact::CancelRequested { by } => Order::Cancel { by: by.clone() },
            Fact::Resumed { by } => match self.resumed_to_be_cancelled(header.seq, header.at) {
                true => Order::Cancel { by: by.clone() },
                false => Order::Resume { by: by.clone() },
            },
            Fact::Said { by, now } => {
                let payload = written.event.payload.clone().unwrap_or_default();
                let text = String::from_utf8_lossy(&payload.0).into_owned();
                Order::Say { by: by.clone(), text, now: *now }
            }
            Fact::GateAnswered { gate, answer, by } if by != KERNEL => {
                Order::Answer { gate: *gate, action: None, answer: *answer, by: by.clone() }
            }
            _ => return None,
        })
    }

    /// What rests is resumed for the sake of a cancellation.
    fn resumed_to_be_cancelled(&self, seq: u64, at: Timestamp) -> bool {
        let after = self.recording.events.iter().find(|written| written.event.header.seq == seq + 1);
        after.is_some_and(|after| {
            let header = &after.event.header;
            header.at == at && matches!(header.fact, Fact::CancelRequested { .. })
        })
    }

    /// Gives the machine what led to the next event.
    pub(super) async fn cause(&mut self) -> Result<(), Stop> {
        let Some(written) = self.foreseen.next().cloned() else { return Ok(()) };
        if let Some(ended) = self.foreseen.rests()
            && self.block(&ended, written.event.header.at)?
        {
            return Ok(());
        }
        // What nobody has any more cannot be interrupted.
        if matches!(written.event.header.fact, Fact::Interrupted { .. } | Fact::Said { now: true, .. }) {
            let mut running = self.asked.iter().filter(|(_, asked)| asked.what == What::Running);
            if let Some(step) = running.find(|(step, _)| self.foreseen.is_lost(**step)).map(|(step, _)| *step)
            {
                return self.lost(step, written.event.header.at);
            }
        }
        if let Some(order) = self.order(&written) {
            return self.give(written.event.header.at, order);
        }
        let (at, fact) = (written.event.header.at, &written.event.header.fact);
        let asked = fact.step().and_then(|step| self.asked.get(&step)).map(|asked| asked.what);
        match (fact, asked) {
            (Fact::Claimed { .. }, _) => {
                self.lose();
                Ok(())
            }
            (Fact::GateAnswered { .. } | Fact::TimerFired { .. }, _) => self.feed(at, Input::Tick),
            (Fact::StepCompleted { step, .. }, Some(_)) => self.complete(*step, &written).await,
            (Fact::StepReturned { step }, Some(What::Running | What::Killing)) if self.is_refused(*step) => {
                self.refuse(*step, at).await
            }
            (Fact::StepReturned { step }, Some(What::Probing)) => {
                self.asked.remove(step);
                self.feed(at, Input::Probed(*step, Probe::NotDone))
            }
            (Fact::StepUncertain { step }, Some(What::Probing)) => {
                self.asked.remove(step);
                self.feed(at, Input::Probed(*step, Probe::Unknown))
            }
            (Fact::StepUncertain { step } | Fact::WorkspaceRestored { step, .. }, Some(What::Killing)) => {
                self.feed(at, Input::Killed(*step))
            }
            (Fact::WorkspaceRestored { step, .. }, Some(What::Restoring)) => {
                self.asked.remove(step);
                self.feed(at, Input::Restored(*step))
            }
            (_, Some(What::Asking)) => self.unknown(fact.step(), at),
            (
                Fact::StepReturned { step }
                | Fact::StepUncertain { step }
                | Fact::StepIntended { step, .. }
                | Fact::WorkspaceRestored { step, .. },
                Some(What::Running),
            ) => self.lost(*step, at),
            _ => self.other(at),
        }
    }

    /// What may be due without saying of itself what for.
    fn other(&mut self, at: Timestamp) -> Result<(), Stop> {
        if self.wants_snapshot {
            self.wants_snapshot = false;
            let snapshot = self.foreseen.snapshot();
            return self.feed(at, Input::Snapshotted(snapshot));
        }
        if let Some(step) = self.first(What::Asking) {
            return self.unknown(Some(step), at);
        }
        if let Some(step) = self.first(What::Killing) {
            self.asked.remove(&step);
            return self.feed(at, Input::Killed(step));
        }
        match self.first(What::Running) {
            Some(step) => self.lost(step, at),
            None => Ok(()),
        }
    }

    /// Gives the machine why it comes to rest, which shows only when what runs has ended: true when something
    /// was given.
    fn block(&mut self, ended: &[StepNo], at: Timestamp) -> Result<bool, Stop> {
        let is_refused = |asked: &&Asked| {
            let repeatable = matches!(asked.work.effect, Effect::Read | Effect::IdempotentWrite);
            let runs = asked.what == What::Running && !ended.contains(&asked.work.step);
            runs && repeatable && asked.work.attempt > 1
        };
        let refused = self.foreseen.refused();
        if let Some(Asked { work, .. }) = self.asked.values().find(is_refused).cloned() {
            self.asked.remove(&work.step);
            self.feed(at, Input::Refused(work.step, work.attempt, refused))?;
            return Ok(true);
        }
        if self.wants_snapshot {
            self.wants_snapshot = false;
            self.feed(at, Input::WorkspaceFailed(refused))?;
            return Ok(true);
        }
        Ok(false)
    }

    fn first(&self, what: What) -> Option<StepNo> {
        self.asked.iter().find(|(_, asked)| asked.what == what).map(|(step, _)| *step)
    }

    fn is_refused(&self, step: StepNo) -> bool {
        let can_be_asked =
            self.asked.get(&step).is_some_and(|asked| asked.work.effect == Effect::NonIdempotent);
        !can_be_asked || self.foreseen.is_refused(step)
    }

    /// The executor of a step died.
    fn lost(&mut self, step: StepNo, at: Timestamp) -> Result<(), Stop> {
        let Some(attempt) = self.asked.get(&step).map(|asked| asked.work.attempt) else { return Ok(()) };
        self.feed(at, Input::Lost(step, attempt))
    }

    /// Nobody had the step when it was asked for.
    fn unknown(&mut self, step: Option<StepNo>, at: Timestamp) -> Result<(), Stop> {
        let Some(step) = step else { return Ok(()) };
        self.asked.remove(&step);
        self.feed(at, Input::Status(step, Status::Unknown))
    }

    /// A step could not start.
    async fn refuse(&mut self, step: StepNo, at: Timestamp) -> Result<(), Stop> {
        let Some(asked) = self.asked.remove(&step) else { return Ok(()) };
        let answer = match is_model(asked.work.kind) {
            true => self.answer(&asked, None).await?,
            false => None,
        };
        let attempt = asked.work.attempt;
        self.feed(
            at,
            match answer {
                Some(Ok(finished)) => Input::Finished(step, attempt, finished),
                Some(Err(refused)) => Input::Refused(step, attempt, refused),
                // It was never sent.
                None => Input::Refused(step, attempt, self.foreseen.refused()),
            },
        )
    }

    /// A step gave its result back.
    async fn complete(&mut self, step: StepNo, written: &Written) -> Result<(), Stop> {
        let Fact::StepCompleted { outcome, spent, artifacts, .. } = &written.event.header.fact else {
            return Ok(());
        };
        let (Some(asked), at) = (self.asked.remove(&step), written.event.header.at) else { return Ok(()) };
        let on_record = Finished {
            outcome: *outcome,
            spent: *spent,
            payload: written.event.payload.clone().unwrap_or_default(),
            artifacts: artifacts.clone(),
        };
        let is_answered = !matches!(outcome, Outcome::Cancelled | Outcome::TimedOut);
        let finished = match is_model(asked.work.kind) && is_answered {
            false => on_record,
            true => match self.answer(&asked, Some(&on_record)).await? {
                Some(Ok(finished)) => finished,
                Some(Err(refused)) => {
                    return self.feed(at, Input::Refused(step, asked.work.attempt, refused));
                }
                None if self.was_under_way(step) => {
                    self.unheard += 1;
                    on_record
                }
                None => return Err(self.missing(&asked)),
            },
        };
        let input = match asked.what {
            What::Asking => Input::Status(step, Status::Spooled(finished)),
            What::Probing => Input::Probed(step, Probe::Done(finished)),
            What::Running | What::Killing | What::Restoring => {
                Input::Finished(step, asked.work.attempt, finished)
            }
        };
        self.feed(at, input)
    }

    /// What came over the wire, read again; nothing when it was not recorded to its end.
    async fn answer(
        &mut self,
        asked: &Asked,
        on_record: Option<&Finished>,
    ) -> Result<Option<Result<Finished, Refused>>, Stop> {
        let Some(taped) = self.taped(&asked.work)? else { return Ok(None) };
        let Some(at) = taped.call.at else { return Ok(None) };
        let manifest = &self.recording.manifest;
        let wire = models::Wire::of(&asked.work.tool);
        let echo = manifest.key.clone().map(models::Secret::new);
        let attempts = taped.attempts.len();
        let request = asked.work.request.clone();
        let mut endpoint = models::call::Endpoint::new(wire, manifest.endpoint.as_str());
        endpoint.proxy = manifest.proxy.as_deref().map(Into::into);
        let played = models::tape::play(endpoint, echo, taped.attempts, request).await;
        let played = played.map_err(|error| self.differs(format!("the wire cannot be read: {error}")))?;
        if played.is_outside {
            self.unheard += 1;
            return Ok(on_record.cloned().map(Ok));
        }
        if played.is_short || played.left > 0 {
            let made = attempts.saturating_sub(played.left);
            let more = if played.is_short { "more than that" } else { "fewer" };
            return Err(
                self.differs(format!("{attempts} attempts are on record, and {made} or {more} are made"))
            );
        }
        self.calls += 1;
        let Some(terms) = &self.terms else { return Ok(None) };
        Ok(Some(model::ended(asked.work.kind, played.result, terms, at)))
    }

    /// Whether a call had begun before the recording did.
    fn was_under_way(&self, wanted: StepNo) -> bool {
        let since = self.recording.manifest.since;
        let intended = self
            .history
            .iter()
            .rev()
            .find(|event| matches!(event.header.fact, Fact::StepIntended { step, .. } if step == wanted));
        intended.is_some_and(|event| event.header.seq < since)
    }

    fn missing(&self, asked: &Asked) -> Stop {
        let dir =
            crate::recording::format::call_dir(std::path::Path::new(""), asked.work.step, asked.work.attempt);
        Stop::Read(read::Error::Damaged {
            file: dir.display().to_string(),
            what: "the call is on record as answered, and its answer is not there".into(),
        })
    }
}
