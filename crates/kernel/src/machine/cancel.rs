//! Cancellation, from the root to the leaves: kill what runs, close what waits, end the run.

use domain::fact::{Denial, End};
use domain::gate::Answer;
use domain::run::{Command, Phase};
use domain::{Amount, Effect, Outcome, Payload, StepNo};

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
            self.end(context, End::Cancelled, "cancelled by the owner".into());
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
            _ => match self.work(step) {
                Some(work) => {
                    self.flights.insert(step, Flight::Killing);
                    // Nothing is killed for a cancellation that a crash could still undo.
                    self.once_durable(Output::Kill(work));
                }
                None => self.write_off(context, step, Outcome::Cancelled),
            },
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
