//! Intention without result: what an earlier daemon began, by effect class.

use domain::gate::Question;
use domain::run::{Command, Phase};
use domain::{Effect, StepNo};

use super::{Context, Flight, Machine, Output, Workspace};
use crate::driver::Driver;
use crate::port::{Probe, Refused, Status};

impl<D: Driver> Machine<D> {
    /// The executor's answer about a step whose intention is on record.
    pub(super) fn status(&mut self, context: &Context<'_>, step: StepNo, status: Status) {
        let Some(flight @ (Flight::Asking | Flight::Doubting)) = self.flights.get(&step).copied() else {
            return;
        };
        match status {
            Status::Running if flight == Flight::Doubting => self.ask(step),
            Status::Running => {
                self.flights.insert(step, Flight::Running);
            }
            Status::Spooled(finished) => self.complete(context, step, finished),
            Status::Unknown => self.recover_unknown(context, step),
        }
    }

    /// A try could not start: the run rests until somebody has mended why.
    pub(super) fn refused(&mut self, context: &Context<'_>, step: StepNo, refused: Refused) {
        let Some(open) = self.state.open.get(&step) else { return };
        let repeatable = matches!(open.planned.effect, Effect::Read | Effect::IdempotentWrite);
        let tried_before = open.attempts > 1;
        self.flights.remove(&step);
        if repeatable && tried_before {
            // Nothing of this try happened, but an earlier one may have: the step stays intended.
            self.repeat.insert(step);
        } else {
            self.must(context, Command::Return { step });
        }
        self.rest_for(refused);
    }

    /// The executor of a step died. The result may lie in its spool: it is asked for like that of an
    /// earlier daemon.
    pub(super) fn lost(&mut self, step: StepNo) {
        match self.flights.get(&step) {
            Some(Flight::Running) => self.ask(step),
            Some(Flight::Asking) => {
                self.flights.insert(step, Flight::Doubting);
            }
            _ => {}
        }
    }

    /// Asks the executor what it knows of a step.
    pub(super) fn ask(&mut self, step: StepNo) {
        if let Some(work) = self.work(step) {
            self.flights.insert(step, Flight::Asking);
            self.outputs.push(Output::Status(work));
        }
    }

    /// Nobody has the step: it may have happened, in part or whole.
    pub(super) fn recover_unknown(&mut self, context: &Context<'_>, step: StepNo) {
        let Some(open) = self.state.open.get(&step) else { return };
        let effect = open.planned.effect;
        self.flights.remove(&step);
        #[cfg(feature = "mutants")]
        if self.mutant == Some(super::Mutant::BlindRetry) && effect == Effect::NonIdempotent {
            self.must(context, Command::Return { step });
            return;
        }
        match effect {
            Effect::Read | Effect::IdempotentWrite => {
                self.repeat.insert(step);
            }
            Effect::ModelCall => self.must(context, Command::LoseModelCall { step }),
            Effect::WorkspaceWrite => {
                if let Some(work) = self.work(step) {
                    self.flights.insert(step, Flight::Clearing);
                    self.outputs.push(Output::Kill(work));
                }
            }
            Effect::NonIdempotent => {
                if let Some(work) = self.work(step) {
                    self.flights.insert(step, Flight::Probing);
                    self.outputs.push(Output::Probe(work));
                }
            }
        }
    }

    /// What the step may have started is gone: the workspace can be rolled back.
    pub(super) fn cleared(&mut self, step: StepNo) {
        let Some(Phase::Intended { snapshot: Some(snapshot), .. }) =
            self.state.open.get(&step).map(|open| open.phase.clone())
        else {
            return;
        };
        self.flights.insert(step, Flight::Restoring);
        self.outputs.push(Output::Restore(step, snapshot));
    }

    /// The workspace is what it was before the step.
    pub(super) fn restored(&mut self, context: &Context<'_>, step: StepNo) {
        if self.flights.get(&step) != Some(&Flight::Restoring) {
            return;
        }
        self.flights.remove(&step);
        if let Some(Phase::Intended { snapshot: Some(snapshot), .. }) =
            self.state.open.get(&step).map(|open| open.phase.clone())
        {
            self.workspace = Workspace::Fresh(snapshot);
            self.must(context, Command::Restore { step });
        }
    }

    /// The workspace cannot be recorded or rolled back: rest, and say why. A step whose roll-back
    /// failed stays intended, so that the next daemon tries again.
    pub(super) fn workspace_failed(&mut self, refused: Refused) {
        if self.workspace == Workspace::Taking {
            self.workspace = Workspace::Stale;
        }
        let failed: Vec<_> = self
            .flights
            .iter()
            .filter(|(_, flight)| **flight == Flight::Restoring)
            .map(|(s, _)| *s)
            .collect();
        if failed.is_empty() {
            self.rest_for(refused);
        } else {
            self.halt(super::Halt::Storage(refused.hint));
        }
    }

    /// A non-idempotent tool's answer to "was it done?".
    pub(super) fn probed(&mut self, context: &Context<'_>, step: StepNo, probe: Probe) {
        if self.flights.get(&step) != Some(&Flight::Probing) {
            return;
        }
        self.flights.remove(&step);
        match probe {
            Probe::Done(finished) => self.complete(context, step, finished),
            Probe::NotDone => self.must(context, Command::Return { step }),
            Probe::Unknown => {
                self.must(context, Command::DeclareUncertain { step });
                self.open_gate(context, step, Question::WasItDone, None);
            }
        }
    }
}
