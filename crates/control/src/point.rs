//! Points of a run's record that another run can go on from, and the files as they were there.

use std::collections::{BTreeMap, BTreeSet};

use domain::event::Recorded;
use domain::fact::{Forked, StepPlanned};
use domain::{Digest, Effect, Fact, Outcome, RunId, StepKind, StepNo};
use engine::host::{Checkpoint, DELIVER, MERGE};
use kernel::lineage;
use kernel::port::Journal;
use store::{Commit, Tree, TreeId};

use crate::error::{Error, Kind};
use crate::layout::Layout;
use crate::runs::Charter;
use crate::view;

/// Events read at a time.
const PAGE: usize = 4096;

/// A run and all of its record.
pub(crate) struct Parent {
    pub(crate) run: RunId,
    pub(crate) charter: Charter,
    pub(crate) events: Vec<Recorded>,
    planned: BTreeMap<StepNo, StepPlanned>,
}

/// A point in the record of a run: everything up to an event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point {
    pub(crate) step: StepNo,
    /// How many of its events count.
    pub(crate) events: usize,
}

impl Parent {
    pub(crate) fn read(journal: &dyn Journal, run: RunId) -> Result<Self, Error> {
        let mut events: Vec<Recorded> = Vec::new();
        loop {
            let after = events.last().map_or(0, |event| event.header.seq);
            let page = journal.history(run, after, PAGE)?;
            let is_last = page.len() < PAGE;
            events.extend(page);
            if is_last {
                break;
            }
        }
        if events.first().is_some_and(|first| first.payload.is_none()) {
            return Err(forgotten(run, 1));
        }
        let charter = Charter::read(journal, run)?;
        let planned = events.iter().filter_map(|event| match &event.header.fact {
            Fact::StepPlanned(planned) => Some((planned.step, planned.clone())),
            _ => None,
        });
        let planned = planned.collect();
        Ok(Self { run, charter, events, planned })
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.events.last().is_some_and(|last| matches!(last.header.fact, Fact::Ended { .. }))
    }

    /// The whole record.
    pub(crate) fn end(&self) -> Point {
        let step = self.planned.keys().next_back().copied().unwrap_or(StepNo(0));
        Point { step, events: self.events.len() }
    }

    /// The point after a step, or after the last one that can be gone on from.
    pub(crate) fn point(&self, at: Option<u64>) -> Result<Point, Error> {
        let Some(number) = at else { return self.last_point() };
        let step = StepNo(number);
        let refused = |kind, code, detail: String| Error::new(kind, code, detail);
        let Some(planned) = self.planned.get(&step) else {
            let last = self.end().step;
            let detail = format!("run {} has no step {number}: its steps are 1 to {last}", self.run);
            return Err(refused(Kind::NotFound, "fork.no_step", detail)
                .hint(format!("`regie show {}` lists them", self.run)));
        };
        if is_of_the_end(planned) {
            let detail = format!("step {number} of run {} is its {}, not its work", self.run, planned.tool);
            return Err(refused(Kind::Conflict, "fork.after_merge", detail).hint(format!(
                "fork at a step of its work, as `regie show` numbers them, or go on with `regie run --follow {} \"…\"`",
                self.run
            )));
        }
        self.result_of(step).ok_or_else(|| {
            let detail = format!("step {number} of run {} has no result", self.run);
            refused(Kind::Conflict, "fork.no_result", detail)
                .hint("fork at an earlier step; leave --at out for the last one with a result")
        })
    }

    fn last_point(&self) -> Result<Point, Error> {
        let mut steps = self.planned.iter().rev().filter(|(_, planned)| !is_of_the_end(planned));
        steps.find_map(|(step, _)| self.result_of(*step)).ok_or_else(|| {
            let detail = format!("no step of run {} has a result yet", self.run);
            Error::new(Kind::Conflict, "fork.no_result", detail)
                .hint("wait for its first answer, or steer it with `regie say`")
        })
    }

    fn result_of(&self, step: StepNo) -> Option<Point> {
        let is_result = |event: &Recorded| matches!(event.header.fact, Fact::StepCompleted { step: of, .. } if of == step);
        self.events.iter().position(is_result).map(|at| Point { step, events: at + 1 })
    }

    /// The events that count at a point.
    pub(crate) fn upto(&self, point: Point) -> &[Recorded] {
        self.events.get(..point.events).unwrap_or_default()
    }

    /// The files as they were at a point.
    ///
    /// What a criterion leaves behind after the agent has finished is no part of them, as it is no part of
    /// a proposal.
    pub(crate) fn files(
        &self,
        journal: &dyn Journal,
        tree: &Tree,
        layout: &Layout,
        point: Point,
    ) -> Result<TreeId, Error> {
        if let Some(committed) = self.committed(tree, point, Strictly::SinceTheAgentFinished)? {
            return self.there(tree, point, committed);
        }
        if let Some(files) = self.kept_next(tree, self.events.get(point.events..).unwrap_or_default())? {
            return self.there(tree, point, files);
        }
        let dir = layout.workspace(self.run);
        let opened =
            tree.workspace_open(&self.charter.started.branch, &dir).and_then(|there| there.snapshot());
        // One that is taken away meanwhile is on record.
        if let Some(now) =
            opened.map(Some).or_else(|error| if dir.exists() { Err(error) } else { Ok(None) })?
        {
            let now = now.tree;
            // A write that has begun meanwhile has a snapshot of before: an intention is on record first.
            let seq = point.events.try_into().unwrap_or(u64::MAX);
            let since = journal.history(self.run, seq, PAGE)?;
            return match self.kept_next(tree, &since)? {
                Some(files) => self.there(tree, point, files),
                None => Ok(now),
            };
        }
        // What a workspace held when it was taken away, long after the end.
        if let Some(left) = tree.left(&self.run.to_string())? {
            return Ok(left);
        }
        match self.committed(tree, point, Strictly::SinceTheLastWrite)? {
            Some(committed) => self.there(tree, point, committed),
            None => Err(self.files_gone(point)),
        }
    }

    /// What the changes of the run were counted against at a point: what it started from, or the line that
    /// its branch had followed by then. What others have merged is no change of a run that goes on from it.
    pub(crate) fn base(&self, tree: &Tree, point: Point) -> Option<Commit> {
        let checkpoints = self.upto(point).iter().rev().filter(|event| self.is_checkpoint(event));
        let last = checkpoints.filter_map(checkpoint).next()?;
        let base: Commit = last.base.parse().ok()?;
        // One that nothing refers to any more is of no use.
        tree.tree_of(&base).is_ok().then_some(base)
    }

    fn is_checkpoint(&self, event: &Recorded) -> bool {
        let planned = event.header.fact.step().and_then(|step| self.planned.get(&step));
        planned.is_some_and(|planned| planned.kind == StepKind::Checkpoint)
    }

    /// The files before any of these events changed them: as the first checkpoint committed them, before the
    /// line came in, or the snapshot before the first write. `None` when nothing has changed them.
    fn kept_next(&self, tree: &Tree, events: &[Recorded]) -> Result<Option<TreeId>, Error> {
        let mut checkpoints = BTreeSet::new();
        for event in events {
            match &event.header.fact {
                Fact::StepPlanned(planned) if planned.kind == StepKind::Checkpoint => {
                    checkpoints.insert(planned.step);
                }
                Fact::StepIntended { snapshot: Some(snapshot), .. } => return self.named(snapshot).map(Some),
                Fact::StepCompleted { step, .. }
                    if checkpoints.contains(step) || self.is_checkpoint(event) =>
                {
                    let done = checkpoint(event).filter(|done| done.followed);
                    let Some(commit) = done.and_then(|done| done.commit) else { continue };
                    let Ok(commit) = commit.parse::<Commit>() else { continue };
                    let own = tree.before_following(&commit)?;
                    if let Some(own) = own {
                        return Ok(Some(tree.tree_of(&own)?));
                    }
                }
                _ => {}
            }
        }
        Ok(None)
    }

    fn named(&self, snapshot: &str) -> Result<TreeId, Error> {
        snapshot.parse().map_err(|_| {
            let detail = format!("`{snapshot}`, on record of run {}, is no snapshot", self.run);
            Error::new(Kind::Internal, "run.damaged", detail).hint("see `regie audit verify`")
        })
    }

    fn there(&self, tree: &Tree, point: Point, files: TreeId) -> Result<TreeId, Error> {
        if tree.snapshot_is_there(&files)? { Ok(files) } else { Err(self.files_gone(point)) }
    }

    pub(crate) fn files_gone(&self, point: Point) -> Error {
        let detail = format!("the files of run {} after step {} are no longer kept", self.run, point.step);
        Error::new(Kind::Conflict, "fork.files_gone", detail)
            .hint("fork at another step, or start a new mission with `regie run`")
    }

    /// The files of the last checkpoint, when nothing has changed them up to the point.
    fn committed(&self, tree: &Tree, point: Point, strictly: Strictly) -> Result<Option<TreeId>, Error> {
        let mut commit: Option<String> = None;
        for event in self.upto(point) {
            let Some(planned) = event.header.fact.step().and_then(|step| self.planned.get(&step)) else {
                continue;
            };
            let writes = planned.kind == StepKind::ToolCall
                && !is_of_the_end(planned)
                && !matches!(planned.effect, Effect::Read);
            let thinks = planned.kind == StepKind::ModelCall && strictly == Strictly::SinceTheAgentFinished;
            match &event.header.fact {
                Fact::StepIntended { .. } if writes => commit = None,
                Fact::StepCompleted { .. } if thinks => commit = None,
                Fact::StepCompleted { outcome: Outcome::Succeeded, .. }
                    if planned.kind == StepKind::Checkpoint =>
                {
                    commit = checkpoint(event).map(|done| done.commit.unwrap_or(done.base));
                }
                _ => {}
            }
        }
        let commit = commit.and_then(|commit| commit.parse::<Commit>().ok());
        Ok(commit.and_then(|commit| tree.tree_of(&commit).ok()))
    }

    /// The steps that have a result at a point.
    pub(crate) fn steps(&self, point: Point) -> BTreeSet<StepNo> {
        let done = |event: &Recorded| match event.header.fact {
            Fact::StepCompleted { step, .. } => Some(step),
            _ => None,
        };
        self.upto(point).iter().filter_map(done).collect()
    }
}

/// Since when nothing may have happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strictly {
    SinceTheLastWrite,
    SinceTheAgentFinished,
}

/// The instruction file that came with a result.
pub(crate) fn instructions(event: &Recorded) -> Option<String> {
    let value: serde_json::Value = serde_json::from_slice(&event.payload.as_ref()?.0).ok()?;
    value["instructions"]["path"].as_str().map(str::to_owned)
}

/// The name and the artifact of the long output that a result only previews.
pub(crate) fn output(event: &Recorded) -> Option<(String, Digest)> {
    let value: serde_json::Value = serde_json::from_slice(&event.payload.as_ref()?.0).ok()?;
    let (_, name) = value["path"].as_str()?.rsplit_once('/')?;
    Some((name.to_owned(), value["artifact"].as_str()?.parse().ok()?))
}

/// What a checkpoint that succeeded has committed.
fn checkpoint(event: &Recorded) -> Option<Checkpoint> {
    let Fact::StepCompleted { outcome: Outcome::Succeeded, .. } = event.header.fact else { return None };
    serde_json::from_slice(&event.payload.as_ref()?.0).ok()
}

/// Merge, delivery and the questions to the owner: where the work is over.
fn is_of_the_end(planned: &StepPlanned) -> bool {
    planned.kind == StepKind::WaitHuman || matches!(planned.tool.as_str(), MERGE | DELIVER)
}

/// Refuses what the agent could not be told: a record that is not whole, a content that was forgotten.
pub(crate) fn is_remembered(journal: &dyn Journal, forked: &Forked) -> Result<(), Error> {
    let inherited = lineage::inherited(journal, forked)
        .map_err(|error| Error::new(Kind::Conflict, "run.lineage", view::with_causes(&error)).mend_apart())?;
    match inherited.iter().find(|event| event.payload.is_none()) {
        Some(event) => Err(forgotten(event.header.run, event.header.seq)),
        None => Ok(()),
    }
}

/// A content that was forgotten cannot be gone on from.
pub(crate) fn forgotten(run: RunId, seq: u64) -> Error {
    let detail = format!("the content of event {seq} of run {run} was forgotten: nothing can go on from it");
    Error::new(Kind::Conflict, "fork.forgotten", detail).hint("start a new mission with `regie run`")
}

#[cfg(test)]
mod tests {
    use domain::fact::Purpose;
    use testkit::fakes::MemoryJournal;
    use testkit::suite::history::Chain;

    use super::*;

    #[test]
    fn what_was_forgotten_or_altered_cannot_be_gone_on_from() {
        let journal = MemoryJournal::default();
        let mut chain = Chain::new(1);
        journal.create(chain.start()).unwrap();
        journal.create(Chain::new(2).start()).unwrap();
        let Ok([first]) = <[Recorded; 1]>::try_from(journal.events(chain.run())) else { panic!("one event") };
        let forked = Forked {
            parent: chain.run(),
            step: StepNo(0),
            seq: 1,
            head: first.hash,
            snapshot: None,
            purpose: Purpose::Fork,
        };
        is_remembered(&journal, &forked).unwrap();
        let altered = Forked { head: Digest::of(b"another"), ..forked.clone() };
        let refused = is_remembered(&journal, &altered).unwrap_err();
        assert_eq!(
            (refused.code, refused.hint.as_deref()),
            ("run.lineage", Some("see `regie audit verify`"))
        );
        journal.forget(chain.run(), 1);
        let refused = is_remembered(&journal, &forked).unwrap_err();
        assert_eq!((refused.code, refused.status()), ("fork.forgotten", 409));
        assert!(refused.hint.is_some());
    }

    #[test]
    fn the_end_of_the_work_is_told_from_the_work() {
        let planned = |kind, tool: &str| StepPlanned {
            step: StepNo(1),
            kind,
            effect: Effect::IdempotentWrite,
            risk: domain::Risk::External,
            tool: tool.into(),
            request: Digest::ZERO,
            composed_upto: None,
            reserve: domain::Amount::ZERO,
            timeout: 0,
        };
        assert!(is_of_the_end(&planned(StepKind::ToolCall, "merge")));
        assert!(is_of_the_end(&planned(StepKind::ToolCall, "deliver")));
        assert!(is_of_the_end(&planned(StepKind::WaitHuman, "announce")));
        assert!(!is_of_the_end(&planned(StepKind::Checkpoint, "checkpoint")));
        assert!(!is_of_the_end(&planned(StepKind::ToolCall, "shell")));
    }
}
