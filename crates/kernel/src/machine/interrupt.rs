//! Interruption: the owner's word is read at once, and what stands in its way is ended.
//!
//! Which steps are interrupted is on record with the word itself, so that a crash between the two
//! changes nothing. What an earlier daemon began is recovered first, as always: a result that lies in
//! a spool counts, and a workspace that nobody writes to any more is rolled back.

use domain::fact::Denial;
use domain::run::{Command, Phase};
use domain::{Outcome, StepNo};

use super::{Context, Flight, Machine, Output};
use crate::driver::Driver;

impl<D: Driver> Machine<D> {
    /// Ends the steps that the owner interrupted.
    pub(super) fn interrupt(&mut self, context: &Context<'_>) {
        let marked: Vec<_> = self.state.open.iter().filter(|(_, open)| open.interrupted).collect();
        let marked: Vec<_> = marked.into_iter().map(|(step, open)| (*step, open.phase.clone())).collect();
        for (step, phase) in marked {
            match phase {
                Phase::Planned => self.must(context, Command::Deny { step, reason: Denial::Interrupted }),
                Phase::Intended { .. } => self.cut(context, step),
                _ => {}
            }
        }
    }

    fn cut(&mut self, context: &Context<'_>, step: StepNo) {
        // Nobody executes it: its only way on would be to be repeated.
        if self.repeat.remove(&step) {
            return self.write_off(context, step, Outcome::Cancelled);
        }
        // One whose start is on the way is killed once its intention is durable.
        if self.flights.get(&step) == Some(&Flight::Running)
            && let Some(work) = self.work(step)
        {
            self.flights.insert(step, Flight::Killing);
            self.once_durable(Output::Kill(work));
        }
    }
}
