//! A run that goes on from another one: the same program, from where the other stood after a step.

use std::sync::Arc;

use domain::fact::{Forked, Purpose};
use domain::{Fact, Recorded, RunId, StepNo};

use super::check::Check;
use super::journal::BEGIN;
use super::world::World;

/// What a run goes on from.
#[derive(Debug, Clone)]
pub(super) struct Inherited {
    events: Vec<Recorded>,
    forked: Forked,
}

impl Inherited {
    pub(super) fn forked(&self) -> Box<Forked> {
        Box::new(self.forked.clone())
    }

    pub(super) fn events(&self) -> impl Iterator<Item = &Recorded> {
        self.events.iter()
    }
}

impl World {
    /// The steps that have a result by now, as the journal has it.
    pub fn steps_done(&self) -> Vec<StepNo> {
        let done = |recorded: &Recorded| match recorded.header.fact {
            Fact::StepCompleted { step, .. } => Some(step),
            _ => None,
        };
        self.journal.events.iter().take(self.journal.synced).filter_map(done).collect()
    }

    /// A world of its own with a run that stands where this one stood after a step. Its files are those
    /// from before the next write, else the present ones. `None` for a step without a result.
    ///
    /// # Errors
    /// When the first event breaks a rule.
    pub fn fork(&self, at: StepNo, seed: u64) -> Result<Option<Self>, String> {
        let events = &self.journal.events[..self.journal.synced];
        let is_result = |recorded: &Recorded| matches!(recorded.header.fact, Fact::StepCompleted { step, .. } if step == at);
        let Some(cut) = events.iter().position(is_result) else { return Ok(None) };
        let (prefix, later) = events.split_at(cut + 1);
        let before_a_write = later.iter().find_map(|recorded| match &recorded.header.fact {
            Fact::StepIntended { snapshot: Some(snapshot), .. } => Some(snapshot.as_str()),
            _ => None,
        });
        let workspace = match before_a_write {
            Some(name) => self.outside.snapshot_content(name).ok_or("a snapshot is gone")?.to_owned(),
            None => self.outside.workspace.clone(),
        };
        let Some(last) = prefix.last() else { return Ok(None) };
        let forked = Forked {
            parent: self.checker.state.id,
            step: at,
            seq: last.header.seq,
            head: last.hash,
            snapshot: Some("files".into()),
            purpose: Purpose::Fork,
        };
        let older = self.inherited.iter().flat_map(Inherited::events);
        let events: Vec<Recorded> = older.chain(prefix).cloned().collect();
        let run = RunId::new(BEGIN.0, [u8::try_from(seed % 200).unwrap_or(0) + 20; 10]);
        let mut world = Self::empty(Arc::clone(&self.program), run, seed, self.flaws);
        world.checker.inherit(&events, self.checker.closed(&self.outside.workspace)?);
        world.inherited = Some(Inherited { events, forked });
        world.outside.workspace = workspace;
        world.create()?;
        Ok(Some(world))
    }

    /// Lets the faults of a seed happen for a while.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn trouble(&mut self, turns: usize) -> Check {
        self.faults = super::schedule::Faults::random(&self.dice);
        self.turns(turns)
    }
}
