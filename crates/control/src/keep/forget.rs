//! Forgetting: what a run was about is destroyed, and that it ran stays on record.
//!
//! The order is put on record first, as an erasure that names each event whose content goes. Everything after
//! it can be repeated, so a crash in between is completed by the next order or the next start.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::sync::{Arc, Mutex, PoisonError};

use domain::erasure::{self, Erasure};
use domain::fact::RunStarted;
use domain::{Digest, Fact, Recorded, RunId, StepNo};
use kernel::lineage;
use kernel::port::{Index, RunRow};
use store::Tree;

use super::sweep::{Ground, digests, take_away, unremoved};
use super::view::{Forget, Forgotten, ForgottenRun};
use super::{bin, size};
use crate::error::{Error, Kind};
use crate::missions::OWNER;
use crate::view;

/// Events read at a time.
const PAGE: usize = 2048;
/// The owner's hand alone may do it; no lease holds it.
const ACT: &str = "forget";
/// Copies of the journal that upgrades have left beside it.
const COPIES: &str = "regie.db.schema-";

/// What forgetting works on.
pub(super) struct Eraser {
    pub(super) ground: Ground,
    pub(super) index: Arc<dyn Index>,
    /// Held while the index is brought up to the journal.
    pub(super) indexing: Arc<Mutex<()>>,
}

/// One run, as far as it goes.
struct Target {
    run: RunId,
    step: Option<StepNo>,
    started: RunStarted,
    head: Digest,
    goal: String,
    /// The events whose contents go.
    events: Vec<u64>,
    /// How many of them have a content still.
    contents: u64,
    /// Every digest that they name.
    names: HashSet<Digest>,
}

impl Target {
    fn has(&self, event: &Recorded) -> bool {
        event.header.run == self.run && self.step.is_none_or(|step| event.header.fact.step() == Some(step))
    }
}

impl Eraser {
    pub(super) fn forget(&self, runs: Vec<RunId>, order: &Forget) -> Result<Forgotten, Error> {
        let rows = self.ground.journal.runs(false, usize::MAX)?;
        let wanted = self.with_forks(&rows, runs, order)?;
        for run in &wanted {
            self.check_over(*run)?;
        }
        let step = order.step.map(StepNo);
        let targets: Vec<Target> =
            wanted.iter().map(|run| self.target(*run, step)).collect::<Result<_, _>>()?;
        let done = self.erasures()?;
        if targets.iter().all(|target| target.contents == 0 && done.is_complete(target)) {
            let what = targets.first().map(|target| target.run.to_string()).unwrap_or_default();
            return Err(Error::new(
                Kind::Conflict,
                "forget.already",
                format!("{what} was forgotten already"),
            )
            .hint("`regie audit acts` says when"));
        }
        let goes = self.artifacts_of(&targets)?;
        let mut forgotten = Forgotten { dry_run: order.dry_run, ..Forgotten::default() };
        for target in &targets {
            forgotten.runs.push(self.shown(target, &goes));
        }
        forgotten.stays = stays(order);
        if order.dry_run {
            return Ok(forgotten);
        }
        // What goes on from another first: at no moment does it refer to what is gone.
        for target in targets.iter().rev() {
            let act = || self.carry_out(target, &goes).map_err(|error| view::with_causes(&error));
            self.ground.hand.does(ACT, target.run, act).map_err(|why| {
                Error::new(
                    Kind::Unavailable,
                    "forget.incomplete",
                    format!("not all of {} is gone: {why}", target.run),
                )
                .hint("mend that and repeat it: it goes on where it stopped")
            })?;
        }
        let projects: BTreeSet<_> = targets.iter().map(|target| target.started.project).collect();
        for project in projects.into_iter().filter(|_| step.is_none()) {
            if let Err(error) = self.collect(project) {
                forgotten.stays.push(format!(
                    "what git still holds of it, under no name, until `regie gc`: {}",
                    view::with_causes(&error)
                ));
            }
        }
        Ok(forgotten)
    }

    /// Completes what a crash has cut short; gives what could not be.
    pub(super) fn complete(&self) -> Result<Vec<(RunId, Error)>, Error> {
        let erasures = self.erasures()?;
        let mut left = Vec::new();
        for erasure in erasures.pending() {
            let completed = self.target(erasure.run, erasure.step).and_then(|target| {
                let goes = self.artifacts_of(std::slice::from_ref(&target))?;
                self.carry_out(&target, &goes)?;
                if erasure.step.is_none() { self.collect(target.started.project) } else { Ok(()) }
            });
            if let Err(error) = completed {
                left.push((erasure.run, error));
            }
        }
        Ok(left)
    }

    /// The runs, and those that go on from them: these refer to what would be gone.
    fn with_forks(&self, rows: &[RunRow], runs: Vec<RunId>, order: &Forget) -> Result<Vec<RunId>, Error> {
        let mut all: Vec<RunId> = runs;
        let named = all.len();
        let done = self.erasures()?;
        // The oldest first, so that one pass finds the forks of forks.
        for row in rows.iter().rev() {
            let first = self.ground.journal.history(row.run, 0, 1)?;
            let parent = first.first().and_then(|first| lineage::origin(&first.header.fact));
            let is_fork = parent.is_some_and(|parent| all.contains(&parent.parent));
            if is_fork && !all.contains(&row.run) && !done.has_all_of(row.run) {
                all.push(row.run);
            }
        }
        if all.len() > named && !order.with_forks {
            let forks: Vec<String> = all.iter().skip(named).map(ToString::to_string).collect();
            let detail = format!("other runs go on from it and refer to its contents: {}", forks.join(", "));
            return Err(Error::new(Kind::Conflict, "forget.has_forks", detail)
                .hint("forget those first, or all together with `--with-forks`"));
        }
        Ok(all)
    }

    fn check_over(&self, run: RunId) -> Result<(), Error> {
        match self.ground.journal.run(run)?.status {
            "ended" => Ok(()),
            _ => Err(Error::new(Kind::Conflict, "forget.run_open", format!("run {run} has not ended"))
                .hint("wait for its end, or `regie cancel` it")),
        }
    }

    fn target(&self, run: RunId, step: Option<StepNo>) -> Result<Target, Error> {
        let journal = &self.ground.journal;
        let first = journal.history(run, 0, 1)?.into_iter().next();
        let Some(Recorded { header, payload, .. }) = first else {
            return Err(kernel::port::JournalError::NoSuchRun(run).into());
        };
        let Fact::RunStarted(started) = header.fact else {
            return Err(Error::new(Kind::Internal, "run.damaged", "the first event does not start the run"));
        };
        let mission = payload.and_then(|payload| serde_json::from_slice::<domain::Mission>(&payload.0).ok());
        let goal = mission.map(|mission| mission.goal).unwrap_or_default();
        let head = journal.run(run)?.head.hash;
        let mut target =
            Target { run, step, started, head, goal, events: Vec::new(), contents: 0, names: HashSet::new() };
        let mut seq = 0;
        loop {
            let page = journal.history(run, seq, PAGE)?;
            let Some(last) = page.last() else { break };
            seq = last.header.seq;
            for event in &page {
                if target.has(event) {
                    target.events.push(event.header.seq);
                    target.contents += u64::from(event.payload.is_some());
                    named_in(event, &mut target.names)?;
                }
            }
        }
        match (step, target.events.is_empty()) {
            (Some(step), true) => {
                Err(Error::new(Kind::NotFound, "forget.no_step", format!("run {run} has no step {}", step.0))
                    .hint(format!("`regie log {run}` shows its steps")))
            }
            _ => Ok(target),
        }
    }

    /// The artifacts that the targets name and nothing else does.
    fn artifacts_of(&self, targets: &[Target]) -> Result<Vec<(Digest, u64)>, Error> {
        let mut goes = Vec::new();
        let named: HashSet<Digest> = targets.iter().flat_map(|target| target.names.iter().copied()).collect();
        for digest in named {
            if let Some(stored) = self.ground.artifacts.stored(digest)? {
                goes.push((digest, stored.bytes));
            }
        }
        if goes.is_empty() {
            return Ok(goes);
        }
        let (mut others, mut position, done) = (HashSet::new(), 0, self.erasures()?);
        loop {
            let page = self.ground.journal.stream(position, PAGE)?;
            let Some(last) = page.last() else { break };
            position = last.position;
            let other = |event: &&Recorded| {
                !targets.iter().any(|target| target.has(event)) && !done.has_all_of(event.header.run)
            };
            for event in page.iter().filter(other) {
                named_in(event, &mut others)?;
            }
        }
        for kind in self.ground.records.kinds()? {
            // What is kept by the run's own name is no other.
            let own = |key: &str| targets.iter().any(|target| key.contains(&target.run.to_string()));
            for record in self.ground.records.list(&kind)?.iter().filter(|record| !own(&record.key)) {
                digests(&record.body, &mut others);
            }
        }
        goes.retain(|(digest, _)| !others.contains(digest));
        goes.sort_unstable();
        Ok(goes)
    }

    fn shown(&self, target: &Target, goes: &[(Digest, u64)]) -> ForgottenRun {
        let layout = &self.ground.layout;
        let artifacts = goes.iter().filter(|(digest, _)| target.names.contains(digest));
        let is_whole = target.step.is_none();
        ForgottenRun {
            run: target.run.to_string(),
            goal: target.goal.clone(),
            step: target.step.map(|step| step.0),
            contents: target.contents,
            artifacts: artifacts.clone().count() as u64,
            bytes: artifacts.map(|(_, bytes)| bytes).sum(),
            workspace: if is_whole { size::of(&layout.room(target.run)) } else { 0 },
            branch: is_whole.then(|| target.started.branch.clone()),
        }
    }

    /// Destroys it. Each part can be repeated.
    fn carry_out(&self, target: &Target, goes: &[(Digest, u64)]) -> Result<(), Error> {
        let ground = &self.ground;
        let spool = ground.layout.spooled(target.run);
        if spool.exists() && !runner::spool::clear_away(&spool).map_err(|error| unremoved(&error))? {
            let detail = format!("the runner of {} has not left yet", target.run);
            return Err(Error::new(Kind::Unavailable, "forget.busy", detail).hint("repeat it in a moment"));
        }
        let number = self.intend(target)?;
        for (digest, _) in goes.iter().filter(|(digest, _)| target.names.contains(digest)) {
            // One that somebody has put again meanwhile is another's.
            ground.artifacts.discard(*digest, ground.hand.now)?;
        }
        if target.step.is_none() {
            self.forget_files(target)?;
        }
        ground.journal.erase(target.run, &erasure::ranges(target.events.iter().copied()))?;
        {
            let _one = self.indexing.lock().unwrap_or_else(PoisonError::into_inner);
            self.index.clear()?;
        }
        self.forget_copies()?;
        ground.records.put(erasure::DONE, &erasure::key(number), 0, b"{}")?;
        Ok(())
    }

    /// Puts the erasure on record, or finds one that a crash has left open.
    fn intend(&self, target: &Target) -> Result<u64, Error> {
        let erasures = self.erasures()?;
        let same = |erasure: &Erasure| (erasure.run, erasure.step) == (target.run, target.step);
        if let Some((number, ..)) =
            erasures.all.iter().find(|(_, erasure, is_done)| same(erasure) && !is_done)
        {
            return Ok(*number);
        }
        let erasure = Erasure {
            by: OWNER.into(),
            at: self.ground.hand.now,
            run: target.run,
            step: target.step,
            events: erasure::ranges(target.events.iter().copied()),
            head: target.head,
            previous: erasures.last,
        };
        let body = serde_json::to_vec(&erasure)
            .map_err(|error| Error::new(Kind::Internal, "internal", view::with_causes(&error)))?;
        let number = erasures.all.last().map_or(0, |(number, ..)| *number).saturating_add(1);
        self.ground.records.put(erasure::KIND, &erasure::key(number), 0, &body)?;
        Ok(number)
    }

    /// What lies outside of the journal: workspace, refs, and the goal in the lease.
    fn forget_files(&self, target: &Target) -> Result<(), Error> {
        let ground = &self.ground;
        let room = ground.layout.room(target.run);
        if room.exists() {
            take_away(&room).map_err(|error| unremoved(&error))?;
        }
        let git_dir = ground.layout.tree(target.started.project);
        if git_dir.join("HEAD").exists() {
            Tree::open_or_create(&git_dir)?.run_purge(&target.started.branch, &target.run.to_string())?;
        }
        match trust::leases::forget_purpose(&*ground.records, target.started.lease) {
            Ok(()) | Err(trust::leases::Error::Missing(_)) => Ok(()),
            Err(error) => Err(crate::missions::unavailable("lease.failed", &error)),
        }
    }

    /// Copies of the journal that upgrades have left hold everything still.
    fn forget_copies(&self) -> Result<(), Error> {
        for entry in fs::read_dir(&self.ground.layout.home).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(COPIES) {
                fs::remove_file(entry.path()).map_err(|error| unremoved(&error))?;
            }
        }
        Ok(())
    }

    /// Lets go of the objects of a project that nothing refers to any more, at once.
    fn collect(&self, project: domain::ProjectId) -> Result<(), Error> {
        let ground = &self.ground;
        if !ground.layout.tree(project).join("HEAD").exists() {
            return Ok(());
        }
        let tree = ground.tree(project)?;
        for row in ground.journal.runs(false, usize::MAX)? {
            let first = ground.journal.history(row.run, 0, 1)?.into_iter().next();
            let Some(Fact::RunStarted(started)) = first.map(|first| first.header.fact) else { continue };
            if started.project != project || self.erasures()?.has_all_of(row.run) {
                continue;
            }
            if row.status != "ended" {
                let detail = format!("run {} of the project is not over", row.run);
                return Err(Error::new(Kind::Conflict, "keep.busy", detail));
            }
            let name = row.run.to_string();
            if ground.layout.room(row.run).exists() {
                tree.workspace_open(&started.branch, &ground.layout.workspace(row.run))?.put_by(&name)?;
            }
            if !bin::was_emptied(&*ground.records, row.run) {
                tree.keep(&name, &ground.snapshots(row.run)?)?;
            }
        }
        Ok(tree.collect_all()?)
    }

    fn erasures(&self) -> Result<Erasures, Error> {
        let done: HashSet<String> =
            self.ground.records.list(erasure::DONE)?.into_iter().map(|record| record.key).collect();
        let mut found = Erasures { all: Vec::new(), last: Digest::ZERO };
        for record in self.ground.records.list(erasure::KIND)? {
            let damaged = || {
                Error::new(Kind::Internal, "forget.damaged", format!("erasure {} cannot be read", record.key))
                    .hint("see `regie audit verify`")
            };
            let erasure = serde_json::from_slice::<Erasure>(&record.body).map_err(|_| damaged())?;
            let number: u64 = record.key.parse().map_err(|_| damaged())?;
            found.last = Digest::of(&record.body);
            found.all.push((number, erasure, done.contains(&record.key)));
        }
        Ok(found)
    }
}

/// The erasures on record.
struct Erasures {
    /// Number, order, and whether it is complete.
    all: Vec<(u64, Erasure, bool)>,
    /// The digest of the last one.
    last: Digest,
}

impl Erasures {
    fn pending(&self) -> impl Iterator<Item = &Erasure> {
        self.all.iter().filter(|(.., is_done)| !is_done).map(|(_, erasure, _)| erasure)
    }

    /// Whether all of a run was ordered to be forgotten.
    fn has_all_of(&self, run: RunId) -> bool {
        self.all.iter().any(|(_, erasure, _)| erasure.run == run && erasure.step.is_none())
    }

    fn is_complete(&self, target: &Target) -> bool {
        self.all.iter().any(|(_, erasure, is_done)| {
            *is_done && erasure.run == target.run && (erasure.step.is_none() || erasure.step == target.step)
        })
    }
}

fn named_in(event: &Recorded, names: &mut HashSet<Digest>) -> Result<(), Error> {
    let fact = serde_json::to_vec(&event.header.fact)
        .map_err(|error| Error::new(Kind::Internal, "internal", view::with_causes(&error)))?;
    digests(&fact, names);
    digests(event.payload.as_ref().map(|payload| payload.0.as_slice()).unwrap_or_default(), names);
    Ok(())
}

/// What forgetting does not reach, for the preview.
fn stays(order: &Forget) -> Vec<String> {
    let mut stays = vec![
        "that it ran: times, costs, names of tools and models, decisions, hashes".to_owned(),
        "what was merged: your repository's history, its commit messages, Regie's line of it".to_owned(),
        "what others have: your model's vendor, notifications, recordings (`--record`), exports, backups"
            .to_owned(),
        "the project's caches and kept environments; `regie gc` and you may clear them".to_owned(),
    ];
    if order.step.is_some() {
        stays.push("what other steps quote of it, the workspace, its snapshots and its branch".to_owned());
    }
    stays
}
