//! Cancellation, from the root to the leaves: kill what runs, close what waits, end the run.

use domain::fact::{Denial, End};
use domain::gate::Answer;
use domain::run::{Command, Phase};
use domain::{Amount, Effect, Fact, Outcome, Payload, StepNo};

use super::advance::KERNEL;
use super::{Context, Flight, Machine, Output};
use crate::driver::Driver;
use crate::port::Finished;

impl<D: Driver> Machine<D> {
    /// Closes what is open, and ends the run once everything is.
    pub(super) fn cancel(&mut self, context: &Context<'_>) {
        for gate in self.state.gates.keys().copied().collect::<Vec<_>>() {
            let command =
                Command::AnswerGate { gate, action: None, answer: Answer::Refused, by: KERNEL.into() };
            self.must(context, command);
        }
        for step in self.state.open.keys().copied().collect::<Vec<_>>() {
            self.cancel_step(context, step);
        }
        if self.state.open.is_empty() && !self.halted {
            self.end(context, End::Cancelled, self.last_words());
        }
    }

    /// Why the run is over, with what nobody knows.
    fn last_words(&self) -> String {
        let named = |(step, tool): (&StepNo, &String)| format!("step {step} (`{tool}`)");
        let doubtful: Vec<_> = self.doubtful.iter().map(named).collect();
        match doubtful.as_slice() {
            [] => "cancelled by the owner".into(),
            steps => format!(
                "cancelled by the owner; nobody knows whether this was done, so look at what it acts on: {}",
                steps.join(", ")
            ),
        }
    }

    /// Keeps account of the steps of which nobody knows whether they were done. To be called before the
    /// fact is applied.
    pub(super) fn doubt(&mut self, fact: &Fact) {
        match fact {
            Fact::StepUncertain { step } => {
                if let Some(open) = self.state.open.get(step) {
                    self.doubtful.insert(*step, open.planned.tool.clone());
                }
            }
            // The owner has said that it was done, or that it was not.
            Fact::StepIntended { step, .. }
            | Fact::StepDenied { step, .. }
            | Fact::StepCompleted { step, outcome: Outcome::Succeeded, .. } => {
                self.doubtful.remove(step);
            }
            _ => {}
        }
    }

    fn cancel_step(&mut self, context: &Context<'_>, step: StepNo) {
        let Some(phase) = self.state.open.get(&step).map(|open| open.phase.clone()) else { return };
        let intended = matches!(phase, Phase::Intended { .. } | Phase::Uncertain { .. });
        if !intended {
            self.must(context, Command::Deny { step, reason: Denial::Cancelled });
            return;
        }
        match self.flights.get(&step) {
            // Its start is on the way: it is killed once its intention is durable.
            Some(Flight::Starting | Flight::Killing) => {}
            _ => {
                let Some(work) = self.named(step) else { return };
                self.flights.insert(step, Flight::Killing);
                // Nothing is killed for a cancellation that a crash could still undo.
                self.once_durable(Output::Kill(work));
            }
        }
    }

    /// A step and all that it started are gone.
    pub(super) fn killed(&mut self, context: &Context<'_>, step: StepNo) {
        match self.flights.get(&step) {
            Some(Flight::Clearing) => self.cleared(step),
            Some(Flight::Killing) => {
                self.flights.remove(&step);
                self.write_off(context, step, Outcome::Cancelled);
            }
            _ => {}
        }
    }

    /// A step without a result that will not be tried again: its reservation counts as used where money may have flowed,
    /// and a non-idempotent one is on record as uncertain.
    pub(super) fn write_off(&mut self, context: &Context<'_>, step: StepNo, outcome: Outcome) {
        let Some(open) = self.state.open.get(&step) else { return };
        let (effect, reserved) = (open.planned.effect, open.reserved());
        if effect == Effect::NonIdempotent && matches!(open.phase, Phase::Intended { .. }) {
            self.must(context, Command::DeclareUncertain { step });
        }
        let spent = match effect {
            Effect::ModelCall | Effect::NonIdempotent => reserved,
            _ => Amount::CALL,
        };
        let finished = Finished { outcome, spent, payload: Payload::EMPTY, artifacts: Vec::new() };
        self.complete(context, step, finished);
    }
}
