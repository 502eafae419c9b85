//! Starting a mission: import the owner's branch, make the run's branch, workspace and lease, and
//! write its first event. Until that event is durable nothing of it counts; what was prepared is
//! taken away again when a later part fails.

use std::path::{Path, PathBuf};

use domain::budget::Caps;
use domain::event::{self, Event, Head};
use domain::fact::{Forked, RunStarted};
use domain::mission::Criterion;
use domain::{
    Digest, Environment, Fact, Grants, Lease, LeaseId, Mission, MissionId, Payload, ProjectId, RunId, Source,
    Timestamp,
};
use kernel::port::{Append, Expect, RecordError};
use sandbox::Status as JailStatus;
use serde::{Deserialize, Serialize};
use store::{Owner, Tree, Treeish as _};

use crate::api::{self, CapsWanted, StartMission, Started};
use crate::error::{Error, Kind};
use crate::leases::Held;
use crate::route::Routed;
use crate::start::{self, From};
use crate::unborn::Unborn;
use crate::{Control, environments, view};

/// The role of the built-in coding agent.
pub(crate) const ROLE: &str = "coder";
/// The accountable human of a one-owner installation.
pub(crate) const OWNER: &str = "human:owner";
/// The record kind of a project.
pub(crate) const PROJECT: &str = "project";
/// How long a run's lease holds, in milliseconds.
const LEASE_TIME: u64 = 30 * 24 * 60 * 60 * 1000;
/// The most bytes of instruction files that are placed into the system prompt.
const INSTRUCTIONS_LIMIT: u64 = 32 * 1024;

/// What is on record of a project.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Project {
    pub(crate) id: ProjectId,
    pub(crate) root: PathBuf,
}

impl Project {
    /// The key of the record of the project of a repository.
    pub(crate) fn key(root: &Path) -> String {
        Digest::of(root.as_os_str().as_encoded_bytes()).to_string()
    }
}

/// What the first events of a run say.
pub(crate) struct First<'a> {
    pub(crate) run: RunId,
    pub(crate) lease: LeaseId,
    pub(crate) branch: String,
    pub(crate) mission: &'a Mission,
    pub(crate) now: Timestamp,
    pub(crate) driver: String,
    pub(crate) tools: Vec<String>,
    /// The files that its lease is about.
    pub(crate) paths: Grants,
    /// The labels of what it takes in at most.
    pub(crate) labels: Option<domain::Labels>,
    /// What the run goes on from.
    pub(crate) forked: Option<Forked>,
    /// What its agent reads first; may be empty.
    pub(crate) words: String,
}

/// What is prepared before the first event.
struct Prepared {
    owner: Owner,
    project: ProjectId,
    base: String,
    workspace: PathBuf,
    system: Digest,
    tools: Digest,
    uncommitted: Vec<String>,
    withheld: Vec<String>,
    environment: Option<Environment>,
    warnings: Vec<String>,
    unborn: Unborn,
}

impl Control {
    /// Starts a mission and its root run.
    ///
    /// # Errors
    /// What is wrong with the request, the repository or the installation; nothing has begun then.
    pub async fn mission_start(&self, request: StartMission) -> Result<Started, Error> {
        self.check_halt().await?;
        if let Some(parent) = request.follow.clone() {
            return self.mission_follow(&parent, request).await;
        }
        let goal = checked(&request)?;
        services(&request.services)?;
        let caps = caps(&request.caps, default_caps(request.batch))?;
        let held = Held::of(&request.lease, &self.toolbox)?;
        self.can_be_held(&held)?;
        let mut warnings = self.jail_warning(request.allow_unjailed)?;
        let Routed { model, terms, provider, warnings: routed } = self.route(&request).await?;
        warnings.extend(routed);
        let recording = self.recording_prepare(request.record.as_ref()).await?;
        let now = self.clock().now();
        let (run, mission, lease) =
            (RunId::new(now.0, self.random()), MissionId::new(now.0, self.random()), self.lease_id(now));
        let branch = format!("{ROLE}/{run}");
        let tree = if request.dirty { From::WorkingTree } else { From::Head };
        let toolbox = self.toolbox_for(&request.done, &held)?;
        let prepared = self.prepare(&request.project, toolbox, tree, run, &branch, request.setup).await?;
        warnings.extend(prepared.warnings);

        let mission = Mission {
            id: mission,
            goal,
            project: prepared.project,
            repository: prepared.owner.root.display().to_string(),
            line: prepared.owner.branch.clone(),
            base: prepared.base.clone(),
            done: criteria(&request.done),
            caps,
            model: model.clone(),
            system: prepared.system,
            tools: prepared.tools,
            approve_merge: request.approve_merge,
            allow_unjailed: request.allow_unjailed,
            uncommitted: prepared.uncommitted,
            withheld: prepared.withheld,
            environment: prepared.environment,
            services: request.services.clone(),
            terms: Some(terms.clone()),
        };
        let position = self.ports.journal.position();
        let driver = engine::native::NAME.to_owned();
        let tools = self.lease_tools(&self.toolbox, &mission, &held);
        let first = First {
            run,
            lease,
            branch: branch.clone(),
            mission: &mission,
            now,
            driver,
            tools,
            paths: held.paths,
            labels: held.labels,
            forked: None,
            words: String::new(),
        };
        let begun = match self.room(&*provider, &mission).await {
            Ok(()) => self.begin(first).await,
            Err(error) => Err(error),
        };
        if let Err(error) = begun {
            self.take_back(prepared.unborn, prepared.workspace, None).await;
            return Err(error);
        }
        prepared.unborn.begun();
        let recorded =
            self.recording_begin(run, recording, &request.vendor, std::sync::Arc::clone(&provider)).await;
        warnings.extend(recorded.err().map(|error| format!("the run is not recorded: {error}")));
        self.move_off(run, provider, &mut warnings).await;
        Ok(Started {
            mission: mission.id.to_string(),
            run: run.to_string(),
            branch,
            line: mission.line,
            base: mission.base,
            model,
            effort: terms.effort,
            warnings,
            environment: mission.environment.as_ref().map(api::Environment::from),
            position,
        })
    }

    /// Hands a run that has begun to the host.
    pub(crate) async fn move_off(
        &self,
        run: RunId,
        provider: std::sync::Arc<dyn models::Provider>,
        warnings: &mut Vec<String>,
    ) {
        self.host.ring();
        self.vendors.keep(run, provider);
        if let Err(error) = self.host.launch(run, None).await {
            // It is on record: it has begun, and can be moved when that is mended.
            warnings.push(format!("the run does not move yet: {error}; `regie resume {run}` tries again"));
        }
    }

    /// Grants the lease and writes the first events.
    pub(crate) async fn begin(&self, first: First<'_>) -> Result<(), Error> {
        let First { run, lease, branch, mission, now, driver, tools, paths, labels, forked, words } = first;
        let principal = format!("agent:{ROLE}");
        let granted = Lease {
            id: lease,
            run: Some(run),
            parent: None,
            paths,
            budget: Some(mission.caps),
            labels,
            granted_at: Some(now),
            principal: principal.clone(),
            on_behalf_of: OWNER.into(),
            purpose: mission.goal.clone(),
            tools,
            expires_at: now.plus(LEASE_TIME),
            epoch: 0,
            revoked: false,
        };
        let started = Fact::RunStarted(RunStarted {
            mission: mission.id,
            project: mission.project,
            principal,
            on_behalf_of: OWNER.into(),
            lease,
            branch,
            driver,
            engine: env!("CARGO_PKG_VERSION").into(),
            system: mission.system,
            tools: mission.tools,
            caps: mission.caps,
            forked: forked.map(Box::new),
        });
        let payload = serde_json::to_vec(mission).map_err(internal)?;
        let event = |fact, payload| Event { at: now, source: Source::Owner, fact, payload: Payload(payload) };
        let mut events = vec![event(started, payload)];
        if !words.trim().is_empty() {
            events.push(event(Fact::Said { by: OWNER.into(), now: true }, words.into_bytes()));
        }
        let events = event::seal(run, Head::EMPTY, events, || self.random());
        let expect = Expect { fence: 0, head: Head::EMPTY, lease: None, day: None };
        let (records, journal) = (std::sync::Arc::clone(&self.records), self.journal());
        let approve_merge = mission.approve_merge;
        self.blocking(move || {
            trust::leases::grant(&*records, &granted).map_err(|e| unavailable("lease.failed", &e))?;
            if approve_merge {
                trust::leases::approve_merges(&*records, lease)
                    .map_err(|e| unavailable("lease.failed", &e))?;
            }
            journal
                .create(Append { run, expect, events })
                .map_err(|error| unavailable("journal.unwritable", &error))?;
            Ok(())
        })
        .await
    }

    /// All that a run needs and that can be made before it exists.
    async fn prepare(
        &self,
        project: &str,
        toolbox: Vec<u8>,
        from: From,
        run: RunId,
        branch: &str,
        setup: Option<api::Setup>,
    ) -> Result<Prepared, Error> {
        let (records, artifacts) =
            (std::sync::Arc::clone(&self.records), std::sync::Arc::clone(&self.artifacts));
        let (layout, path, branch) = (self.layout.clone(), PathBuf::from(project), branch.to_owned());
        let fresh = ProjectId::new(self.clock().now().0, self.random());
        let dir = layout.workspace(run);
        let now = self.clock().now();
        let prepare = move || {
            let owner = Tree::inspect(&path)?;
            let project = project_of(&*records, &owner.root, fresh)?;
            let tree = Tree::open_or_create(&layout.tree(project))?;
            let mut begin = start::begin(&tree, &owner, from, now)?;
            let unborn = Unborn::new(tree.clone(), &branch);
            tree.branch_create(&branch, &begin.base)?;
            if let Some(parent) = dir.parent() {
                std::fs::create_dir_all(parent).map_err(|error| unavailable("store.failed", &error))?;
            }
            // What the agent will see of the history is packed while the files are written.
            let workspace = std::thread::scope(|scope| {
                scope.spawn(|| tree.view_prepare(&begin.base));
                tree.workspace_create(&branch, &dir)
            })?;
            let submodules = workspace.fill_submodules(&owner)?;
            begin.warnings.extend(start::submodules(&submodules));
            let included = workspace.include(&owner)?;
            begin.warnings.extend(start::not_included(&included));
            let environment = match setup.filter(|setup| !setup.command.trim().is_empty()) {
                Some(setup) => Some(environments::prepare(&layout, project, &workspace, &setup)?),
                None => None,
            };
            begin.warnings.extend(start::scratch(&workspace, &owner, &owner.branch, &begin.base));
            let instructions = instructions(workspace.dir());
            let tools = engine::Toolbox::from_bytes(&toolbox).map_err(internal)?;
            let system = engine::prompt::system(instructions.as_deref());
            let system = engine::prompt::with_tools(system, &tools);
            Ok(Prepared {
                system: artifacts.put(system.as_bytes())?,
                tools: artifacts.put(&toolbox)?,
                base: begin.base.hex().to_owned(),
                uncommitted: begin.uncommitted,
                withheld: start::withheld(&included),
                environment,
                warnings: begin.warnings,
                workspace: dir,
                unborn,
                owner,
                project,
            })
        };
        let workspace = self.layout.workspace(run);
        self.blocking(move || prepare().inspect_err(|_| take_away(&workspace))).await
    }

    pub(crate) fn jail_warning(&self, allow_unjailed: bool) -> Result<Vec<String>, Error> {
        let (JailStatus::Unsupported(why) | JailStatus::Degraded(why)) = &self.jail else {
            return Ok(Vec::new());
        };
        if allow_unjailed {
            return Ok(vec![format!("steps are NOT jailed on this machine: {why}")]);
        }
        Err(Error::new(
            Kind::Unavailable,
            "jail.unsupported",
            format!("this machine cannot jail steps: {why}"),
        )
        .hint("`regie doctor` says how to mend it; --allow-unjailed runs without a jail, with a warning"))
    }

    /// The tools of a run, byte for byte the artifact: where its owner gave no criterion, the agent has one
    /// more, to define what done means.
    fn toolbox_for(&self, done: &[String], held: &Held) -> Result<Vec<u8>, Error> {
        let tools = self.toolbox.iter().filter(|tool| held.has(&tool.spec.name)).cloned();
        let toolbox = engine::Toolbox::new(tools.collect()).map_err(internal)?;
        let toolbox = match done {
            [] => toolbox.with_definition().map_err(internal)?,
            _ => toolbox,
        };
        toolbox.deferring().to_bytes().map_err(internal)
    }

    /// The tools of a lease: those of the toolbox that are to be held, and what the host does for a mission.
    pub(crate) fn lease_tools(
        &self,
        toolbox: &engine::Toolbox,
        mission: &Mission,
        held: &Held,
    ) -> Vec<String> {
        let setup = mission.environment.as_ref().filter(|environment| !environment.kept);
        let own = [engine::host::MERGE, engine::host::DELIVER].into_iter();
        let own = own.chain(setup.map(|_| engine::host::SETUP));
        let tools = toolbox.iter().map(|tool| tool.spec.name.clone()).filter(|tool| held.has(tool));
        tools.chain(own.map(str::to_owned)).collect()
    }

    pub(crate) fn lease_id(&self, now: Timestamp) -> LeaseId {
        LeaseId::new(now.0, self.random())
    }

    pub(crate) fn random<const N: usize>(&self) -> [u8; N] {
        let mut random = [0; N];
        self.rng().fill(&mut random);
        random
    }
}

/// The goal of a request that makes sense.
pub(crate) fn checked(request: &StartMission) -> Result<String, Error> {
    let goal = request.goal.trim().to_owned();
    if goal.is_empty() {
        return Err(Error::new(Kind::Invalid, "mission.no_goal", "the goal is empty")
            .hint("say what should be done: regie run \"Make the failing test pass\""));
    }
    if request.done.iter().any(|command| command.trim().is_empty()) {
        return Err(Error::new(Kind::Invalid, "mission.blank_criterion", "a criterion is blank")
            .hint("give a command that exits with 0 when the work is done: --done \"make test\""));
    }
    Ok(goal)
}

pub(crate) fn criteria(done: &[String]) -> Vec<Criterion> {
    done.iter().map(|command| Criterion::Command { command: command.clone() }).collect()
}

/// The project of a repository that a mission was started on.
pub(crate) fn project_known(
    records: &dyn kernel::port::Records,
    root: &Path,
) -> Result<Option<ProjectId>, Error> {
    let key = Project::key(root);
    let Some(record) = records.get(PROJECT, &key)? else { return Ok(None) };
    let project: Project = serde_json::from_slice(&record.body).map_err(internal)?;
    Ok(Some(project.id))
}

/// The project of a repository; put on record when it is new.
fn project_of(
    records: &dyn kernel::port::Records,
    root: &Path,
    fresh: ProjectId,
) -> Result<ProjectId, Error> {
    let key = Project::key(root);
    if let Some(id) = project_known(records, root)? {
        return Ok(id);
    }
    let body = serde_json::to_vec(&Project { id: fresh, root: root.to_owned() }).map_err(internal)?;
    match records.put(PROJECT, &key, 0, &body) {
        Ok(_) => Ok(fresh),
        // Another mission on the same repository was a moment earlier.
        Err(RecordError::Moved { .. }) => Ok(project_known(records, root)?.unwrap_or(fresh)),
        Err(error) => Err(error.into()),
    }
}

/// The project's instructions for agents: `AGENTS.md`, or the same under another vendor's name.
/// Links are not followed: the file is the repository's own or none.
fn instructions(workspace: &Path) -> Option<String> {
    ["AGENTS.md", "CLAUDE.md"].iter().find_map(|name| {
        let path = workspace.join(name);
        let meta = std::fs::symlink_metadata(&path).ok()?;
        if !meta.is_file() || meta.len() > INSTRUCTIONS_LIMIT {
            return None;
        }
        let text = String::from_utf8_lossy(&std::fs::read(&path).ok()?).into_owned();
        (!text.trim().is_empty()).then_some(text)
    })
}

/// Names become names of files.
pub(crate) fn services(wanted: &[domain::Service]) -> Result<(), Error> {
    let refused = |what: String| {
        Err(Error::new(Kind::Invalid, "mission.service", what)
            .hint("mend [services] in regie.toml: a name of letters, digits, _ and -, once, and a command"))
    };
    for (at, service) in wanted.iter().enumerate() {
        if !domain::Service::is_name(&service.name) {
            return refused(format!("{:?} cannot be the name of a service", service.name));
        }
        if wanted.iter().take(at).any(|other| other.name == service.name) {
            return refused(format!("the service `{}` is there twice", service.name));
        }
        let blank = |text: &str| text.trim().is_empty() || text.contains('\0');
        if blank(&service.command) || service.ready.as_deref().is_some_and(blank) {
            return refused(format!("the service `{}` has a blank command", service.name));
        }
    }
    Ok(())
}

/// What bounds a mission unless somebody says otherwise. One that waits for a batch queue is given a week.
pub(crate) fn default_caps(batch: bool) -> Caps {
    match batch {
        true => Caps { millis: api::BATCH_TIME, ..Caps::default() },
        false => Caps::default(),
    }
}

/// The caps that are asked for; what is not takes that of `default`.
pub(crate) fn caps(wanted: &CapsWanted, default: Caps) -> Result<Caps, Error> {
    let caps = Caps {
        nanodollars: wanted.nanodollars.unwrap_or(default.nanodollars),
        tokens: wanted.tokens.unwrap_or(default.tokens),
        turns: wanted.turns.unwrap_or(default.turns),
        millis: wanted.millis.unwrap_or(default.millis),
        calls: default.calls.max(wanted.turns.unwrap_or(0).saturating_mul(5)),
    };
    if caps.tokens == 0 || caps.turns == 0 || caps.millis == 0 {
        return Err(Error::new(Kind::Invalid, "mission.cap_zero", "a cap of 0 lets nothing happen")
            .hint("leave the option out for the default"));
    }
    Ok(caps)
}

/// Takes away the room that was prepared for a run that did not begin.
pub(crate) fn take_away(workspace: &Path) {
    let dir = workspace.parent().unwrap_or(workspace);
    if let Err(error) = store::remove_all(dir) {
        let dir = dir.display();
        tracing::warn!(%dir, %error, "a workspace of a run that did not begin is left behind");
    }
}

pub(crate) fn internal(error: impl std::error::Error) -> Error {
    Error::new(Kind::Internal, "internal", view::with_causes(&error))
}

pub(crate) fn unavailable(code: &'static str, error: &dyn std::error::Error) -> Error {
    Error::new(Kind::Unavailable, code, view::with_causes(error)).hint("see `regie doctor`")
}
