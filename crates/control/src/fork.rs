//! Going on from another run: a fork, which is the same mission on another way, and a follow-up, which is
//! a new mission whose agent knows what the run before has done. Both refer to the record of that run and
//! copy nothing of it; that run is only read, whether it moves, rests or is over.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::fact::{Forked, Purpose};
use domain::{Fact, Mission, MissionId, RunId, Terms, Timestamp};
use engine::Toolbox;
use kernel::lineage;
use kernel::port::{Artifacts, Journal};
use models::{catalogue, wire};
use store::{Tree, TreeId, Treeish as _, Workspace};

use crate::api::{self, StartMission, Started};
use crate::error::{Error, Kind};
use crate::leases::Held;
use crate::missions::{self, First, ROLE};
use crate::point::{self, Parent, Point};
use crate::route::{queued, unpriced};
use crate::runs::base;
use crate::start::{self, From};
use crate::unborn::Unborn;
use crate::{Control, environments, say, undo, view};

/// A run that is about to begin.
struct Wanted {
    parent: Parent,
    point: Point,
    purpose: Purpose,
    /// What a follow-up starts from when there are no files of the other run to go on from.
    from: From,
    words: String,
    mission: Mission,
    held: Held,
    /// The project's setup, for a follow-up.
    setup: Option<api::Setup>,
    provider: Arc<dyn models::Provider>,
    recording: Option<PathBuf>,
    vendor: api::Vendor,
    warnings: Vec<String>,
}

/// What was made for it.
struct Made {
    mission: Mission,
    forked: Forked,
    toolbox: Toolbox,
    warnings: Vec<String>,
    unborn: Unborn,
}

impl Control {
    /// Starts a run of the same mission that stands where another one stood after a step.
    ///
    /// # Errors
    /// What is wrong with the request, that run or the installation; nothing has begun then.
    pub async fn run_fork(&self, name: &str, request: api::Fork) -> Result<Started, Error> {
        self.check_halt().await?;
        let words = request.words.trim().to_owned();
        say::fits(&words)?;
        let parent = self.parent(name).await?;
        let held = self.held_as(parent.charter.started.lease, &request.lease).await?;
        self.can_be_held(&held)?;
        let provider = self.vendors.connect(&parent.charter.mission.model, &request.vendor)?;
        let (recording, vendor) = (request.record.as_ref(), request.vendor.clone());
        let recording = self.recording_prepare(recording).await?;
        let allow_unjailed = request.allow_unjailed || parent.charter.mission.allow_unjailed;
        let mut warnings = self.jail_warning(allow_unjailed)?;
        warnings.extend(self.out(&*provider));
        let point = parent.point(request.at)?;
        let mission = Mission {
            caps: missions::caps(&request.caps, parent.charter.mission.caps)?,
            approve_merge: request.approve_merge,
            allow_unjailed,
            ..parent.charter.mission.clone()
        };
        let (purpose, from) = (Purpose::Fork, From::Head);
        let setup = None;
        self.go_on(Wanted {
            parent,
            point,
            purpose,
            from,
            words,
            mission,
            held,
            setup,
            provider,
            recording,
            vendor,
            warnings,
        })
        .await
    }

    /// Starts a mission that follows a run which is over.
    ///
    /// # Errors
    /// What is wrong with the request, that run or the installation; nothing has begun then.
    pub(crate) async fn mission_follow(&self, name: &str, request: StartMission) -> Result<Started, Error> {
        let goal = missions::checked(&request)?;
        missions::services(&request.services)?;
        let parent = self.parent(name).await?;
        if !parent.has_ended() {
            let detail = format!("run {} has not ended: a mission follows one that is over", parent.run);
            return Err(Error::new(Kind::Conflict, "follow.run_open", detail).hint(format!(
                "steer it with `regie say {} \"…\"`, or `regie cancel` it first",
                parent.run
            )));
        }
        let of_parent = &parent.charter.mission;
        let given = Path::new(&request.project);
        if !request.project.is_empty() && Tree::inspect(given)?.root != Path::new(&of_parent.repository) {
            let detail =
                format!("run {} worked on {}, not on {}", parent.run, of_parent.repository, request.project);
            return Err(Error::new(Kind::Invalid, "follow.other_project", detail)
                .hint("leave --project out: the mission that follows is on the same repository"));
        }
        let held = self.held_as(parent.charter.started.lease, &request.lease).await?;
        self.can_be_held(&held)?;
        let mut warnings = self.jail_warning(request.allow_unjailed)?;
        let other = request.model.as_ref().filter(|model| !wire::is_same(model, &of_parent.model));
        let model = other.unwrap_or(&of_parent.model).clone();
        let provider = self.vendors.connect(&model, &request.vendor)?;
        let terms = match other {
            None => as_before(of_parent, &request),
            Some(_) => Some(self.hand_over(of_parent, &model, &provider, &request, &mut warnings).await?),
        };
        let (recording, vendor) = (request.record.as_ref(), request.vendor.clone());
        let recording = self.recording_prepare(recording).await?;
        let elsewhere = "--model names another, which is given what is on record, as text";
        warnings.extend(self.out(&*provider).map(|why| format!("{why}; {elsewhere}")));
        let batch = terms.as_ref().is_some_and(|terms| terms.batch);
        if request.batch && !batch {
            warnings
                .push("the model is asked at once, as in the run that it follows, and not by batch".into());
        }
        let done = match request.done.is_empty() {
            true => of_parent.done.clone(),
            false => missions::criteria(&request.done),
        };
        let mission = Mission {
            id: MissionId::new(self.clock().now().0, self.random()),
            goal,
            done,
            caps: missions::caps(&request.caps, missions::default_caps(batch))?,
            approve_merge: request.approve_merge,
            allow_unjailed: request.allow_unjailed,
            services: request.services.clone(),
            model,
            terms,
            ..of_parent.clone()
        };
        let (point, purpose, words) = (parent.end(), Purpose::FollowUp, String::new());
        let from = if request.dirty { From::WorkingTree } else { From::Head };
        let setup = request.setup;
        self.go_on(Wanted {
            parent,
            point,
            purpose,
            from,
            words,
            mission,
            held,
            setup,
            provider,
            recording,
            vendor,
            warnings,
        })
        .await
    }

    /// The terms of a follow-up with another model, which cannot read what the first one wrote.
    async fn hand_over(
        &self,
        before: &Mission,
        model: &str,
        provider: &Arc<dyn models::Provider>,
        request: &StartMission,
        warnings: &mut Vec<String>,
    ) -> Result<Terms, Error> {
        let (listed, warning) = self.known(model, provider).await?;
        let terms = Terms { effort: request.effort, batch: request.batch, ..listed.terms() };
        let terms = queued(terms, model, &**provider)?;
        warnings.push(format!(
            "the conversation was with `{}`, which alone can read it: `{model}` is given what is on record, as text",
            before.model
        ));
        warnings.extend(warning);
        warnings.extend(unpriced(model, &terms));
        Ok(terms)
    }

    async fn parent(&self, name: &str) -> Result<Parent, Error> {
        let run = self.resolve(name).await?;
        let journal = self.journal();
        let parent = self.blocking(move || Parent::read(&*journal, run)).await?;
        let driver = &parent.charter.started.driver;
        if engine::native::drives(driver) {
            return Ok(parent);
        }
        let detail = format!("run {run} was started with driver `{driver}`, which this Regie does not drive");
        Err(Error::new(Kind::Conflict, "run.undrivable", detail)
            .hint("fork it with the Regie that started it"))
    }

    async fn go_on(&self, wanted: Wanted) -> Result<Started, Error> {
        let Wanted { parent, point, purpose, from, words, mission, setup, provider, mut warnings, .. } =
            wanted;
        let (recording, vendor, held) = (wanted.recording, wanted.vendor, wanted.held);
        let now = self.clock().now();
        let run = RunId::new(now.0, self.random());
        let branch = format!("{ROLE}/{run}");
        let (journal, artifacts, layout) = (self.journal(), Arc::clone(&self.artifacts), self.layout.clone());
        let (driver, tools) = (parent.charter.started.driver.clone(), parent.charter.started.tools);
        let (dir, made_branch) = (layout.workspace(run), branch.clone());
        let (workspace, layout_spool) = (dir.clone(), layout.spool.clone());
        let make = move || {
            let toolbox = Toolbox::from_bytes(&artifacts.get(tools)?).map_err(missions::internal)?;
            let making = Making {
                journal: &*journal,
                artifacts: &*artifacts,
                layout: &layout,
                parent: &parent,
                point,
                purpose,
                setup,
                now,
            };
            making.make(run, &made_branch, from, mission, toolbox)
        };
        let spool = layout_spool.join(run.to_string());
        let left = spool.clone();
        let take_away = move || {
            missions::take_away(&dir);
            // One that was not made is not there.
            let _ = std::fs::remove_dir_all(&left);
        };
        let made = self.blocking(move || make().inspect_err(|_| take_away())).await?;
        warnings.extend(made.warnings);
        let first = First {
            run,
            lease: self.lease_id(now),
            branch: branch.clone(),
            mission: &made.mission,
            now,
            driver,
            tools: self.lease_tools(&made.toolbox, &made.mission, &held),
            paths: held.paths,
            labels: held.labels,
            forked: Some(made.forked),
            words,
        };
        let position = self.ports.journal.position();
        let begun = match purpose {
            // It begins with other words; what comes before them, the other run could hold.
            Purpose::FollowUp => match self.room(&*provider, &made.mission).await {
                Ok(()) => self.begin(first).await,
                Err(error) => Err(error),
            },
            Purpose::Fork => self.begin(first).await,
        };
        if let Err(error) = begun {
            self.take_back(made.unborn, workspace, Some(spool)).await;
            return Err(error);
        }
        made.unborn.begun();
        let recorded = self.recording_begin(run, recording, &vendor, Arc::clone(&provider)).await;
        warnings.extend(recorded.err().map(|error| format!("the run is not recorded: {error}")));
        self.move_off(run, provider, &mut warnings).await;
        Ok(Started {
            mission: made.mission.id.to_string(),
            run: run.to_string(),
            branch,
            line: made.mission.line,
            base: made.mission.base,
            model: made.mission.model,
            effort: made.mission.terms.as_ref().and_then(|terms| terms.effort),
            warnings,
            environment: made.mission.environment.as_ref().map(api::Environment::from),
            position,
        })
    }
}

/// The terms of a follow-up with the model of the run before.
fn as_before(before: &Mission, request: &StartMission) -> Option<Terms> {
    let known = before.terms.clone();
    let terms = known.or_else(|| request.effort.map(|_| catalogue::terms(&before.model)));
    terms.map(|terms| Terms { effort: request.effort.or(terms.effort), instead_of: None, ..terms })
}

/// All that a run needs which goes on from another one, made before it exists.
struct Making<'a> {
    journal: &'a dyn Journal,
    artifacts: &'a dyn Artifacts,
    layout: &'a crate::Layout,
    parent: &'a Parent,
    point: Point,
    purpose: Purpose,
    setup: Option<api::Setup>,
    now: Timestamp,
}

impl Making<'_> {
    fn make(
        &self,
        run: RunId,
        branch: &str,
        from: From,
        mission: Mission,
        toolbox: Toolbox,
    ) -> Result<Made, Error> {
        let mut forked = self.reference()?;
        point::is_remembered(self.journal, &forked)?;
        let tree = Tree::open_or_create(&self.layout.tree(mission.project))?;
        let owner = Tree::inspect(Path::new(&mission.repository))?;
        let unborn = Unborn::new(tree.clone(), branch);
        let mut made = Made { mission, forked: forked.clone(), toolbox, warnings: Vec::new(), unborn };
        if let Some(base) = self.parent.base(&tree, self.point) {
            made.mission.base = base.hex().to_owned();
        }
        let files = self.files(&tree, &made.mission, from)?;
        match &files {
            Some(files) => forked.snapshot = Some(files.hex().to_owned()),
            None => {
                let begin = start::begin(&tree, &owner, from, self.now)?;
                made.mission.line.clone_from(&owner.branch);
                made.mission.base = begin.base.hex().to_owned();
                made.mission.uncommitted = begin.uncommitted;
                made.warnings.extend(begin.warnings);
            }
        }
        made.forked = forked;
        let base = base(&made.mission)?;
        tree.branch_create(branch, &base)?;
        let dir = self.layout.workspace(run);
        if let Some(above) = dir.parent() {
            std::fs::create_dir_all(above).map_err(|error| missions::unavailable("store.failed", &error))?;
        }
        let workspace = tree.workspace_create(branch, &dir)?;
        let submodules = workspace.fill_submodules(&owner)?;
        made.warnings.extend(start::submodules(&submodules));
        let included = workspace.include(&owner)?;
        made.warnings.extend(start::not_included(&included));
        made.mission.withheld = start::withheld(&included);
        if let Some(files) = &files {
            tree.snapshot_hold(branch, files)?;
            workspace.restore(files).map_err(|error| {
                tracing::warn!(run = %self.parent.run, error = view::with_causes(&error), "a snapshot cannot be restored");
                self.parent.files_gone(self.point)
            })?;
        }
        // After the files: which environment it is depends on them.
        self.environment(&mut made, &workspace)?;
        made.warnings.extend(start::scratch(&workspace, &owner, &made.mission.line, &base));
        self.spool(run, &made.forked)?;
        Ok(made)
    }

    /// What a setup made is no part of a snapshot: it is brought anew. A fork has no place for a setup of its
    /// own, as it may begin in the middle of a turn.
    fn environment(&self, made: &mut Made, workspace: &Workspace) -> Result<(), Error> {
        let project = made.mission.project;
        if self.purpose == Purpose::FollowUp {
            let setup = self.setup.as_ref().filter(|setup| !setup.command.trim().is_empty());
            let prepared = setup
                .map(|setup| environments::prepare(self.layout, project, workspace, setup))
                .transpose()?;
            made.mission.environment = prepared;
            return Ok(());
        }
        let Some(environment) = made.mission.environment.take() else { return Ok(()) };
        made.mission.environment = environments::again(self.layout, project, workspace, environment)?;
        if made.mission.environment.is_none() {
            made.warnings
                .push("what the setup made is not kept, and not in the workspace of the fork".into());
        }
        Ok(())
    }

    /// The reference to what counts of the other run.
    fn reference(&self) -> Result<Forked, Error> {
        let parent = self.parent.run;
        let last = self.parent.upto(self.point).last().ok_or_else(|| {
            Error::new(Kind::Internal, "run.damaged", format!("run {parent} has no events"))
        })?;
        Ok(Forked {
            parent,
            step: self.point.step,
            seq: last.header.seq,
            head: last.hash,
            snapshot: None,
            purpose: self.purpose,
        })
    }

    /// The files to go on from; `None` for those of the owner's branch as it is now.
    fn files(&self, tree: &Tree, mission: &Mission, from: From) -> Result<Option<TreeId>, Error> {
        let parent = self.parent;
        if self.purpose == Purpose::FollowUp && undo::merged(self.journal, parent.run)?.is_some() {
            return Ok(None);
        }
        let files = parent.files(self.journal, tree, self.layout, self.point)?;
        if self.purpose == Purpose::FollowUp && files == tree.tree_of(&base(mission)?)? {
            return Ok(None);
        }
        if from == From::WorkingTree {
            let detail = format!(
                "run {} was not merged: the mission goes on from its files, not from yours",
                parent.run
            );
            return Err(Error::new(Kind::Conflict, "follow.dirty", detail)
                .hint("leave --dirty out, or start a mission that does not follow"));
        }
        Ok(Some(files))
    }

    /// What the agent has seen of files, and the long outputs that its conversation names, lie in the spool.
    /// That of a run which is over is gone; the outputs are artifacts as well.
    fn spool(&self, run: RunId, forked: &Forked) -> Result<(), Error> {
        let failed = |error: runner::spool::Error| missions::unavailable("spool.failed", &error);
        let of = |run: RunId| -> PathBuf { self.layout.spool.join(run.to_string()) };
        let events = lineage::inherited(self.journal, forked)
            .map_err(|error| missions::unavailable("run.lineage", &error))?;
        let begins = events.iter().filter(|event| matches!(event.header.fact, Fact::RunStarted(_)));
        let inherited = runner::spool::Inherited {
            from: of(self.parent.run),
            generation: u64::try_from(begins.count()).unwrap_or(u64::MAX),
            steps: self.parent.steps(self.point),
            told: events.iter().filter_map(point::instructions).collect(),
        };
        let dir = of(run);
        runner::spool::inherit(&dir, &inherited).map_err(failed)?;
        for (name, digest) in events.iter().filter_map(point::output) {
            match self.artifacts.get(digest) {
                Ok(bytes) => runner::spool::restore_output(&dir, &name, &bytes).map_err(failed)?,
                Err(error) => tracing::warn!(%run, name, %error, "a long output is not there for a fork"),
            }
        }
        Ok(())
    }
}
