//! The daemon: the one place that knows the concrete parts and puts them together.

mod day_cap;
mod export;
mod housekeeping;
mod keeping;
pub(crate) mod lock;
mod notify;
mod recording;
mod system;

use std::fs::File;
use std::sync::Arc;

use anyhow::{Context, Result};
use control::api::Vendor;
use control::executor::{Dispatch, HostExecutor, Manners, ModelExecutor, Pace, SetupExecutor};
use control::vendors::{Connect, Vendors};
use control::workspaces::StoreWorkspaces;
use control::{Control, Layout, Parts, drivers::NativeDrivers};
use domain::RunId;
use journal::{FileArtifacts, SqliteJournal};
use kernel::host::Ports;
use kernel::port::{Clock, Executor, Journal, Records, Refused};
use models::config::{Config as Connection, Error as ConnectionError, IDLE_ENV};
use models::{Adapter, Limits, Provider, Wire};
use runner::RunnerExecutor;
use runner::toolchains::{self, Cache};

use crate::config;
use crate::home::Home;
use day_cap::FileDayCap;
use system::{OsRng, SystemClock};

/// How many seconds pass until a vendor is asked for the first time whether a batch has ended, in the
/// environment: for vendors that are quicker than ten seconds, and for tests.
const BATCH_POLL_ENV: &str = "REGIE_BATCH_POLL_SECONDS";

/// Serves a home until the daemon is asked to end. Runs that were moving when the last daemon died
/// go on. Gives the home's lock, which is to be kept until this process is about to be gone.
///
/// # Errors
/// When another daemon serves this home, or a part of it cannot be opened.
pub(crate) async fn serve(home: &Home, halted: bool) -> Result<File> {
    let lock = lock::acquire(home).await?;
    scratch(home)?;
    let listener = lock::listen(home)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let (control, runner, journal) = assemble(home, Arc::clone(&clock))?;
    let records: Arc<dyn Records> = Arc::clone(&journal) as _;
    let keeping = housekeeping::start(Arc::clone(&control), Arc::clone(&runner));
    let recording = recording::start(Arc::clone(&control));
    let telling = notify::start(notify::Parts {
        control: Arc::clone(&control),
        records: Arc::clone(&records),
        clock: Arc::clone(&clock),
        home: home.clone(),
    });
    let sweeping = keeping::start(Arc::clone(&control), records, clock, home.clone());
    if halted {
        control.halt_ahead().await?;
    }
    for (run, why) in control.recover().await? {
        tracing::error!(%run, why, "a run could not be taken over; `regie resume` tries again");
    }
    tracing::info!(home = %home.root().display(), "serving");
    let ending = {
        let control = Arc::clone(&control);
        async move {
            tokio::select! {
                () = control.ended() => {}
                () = system::terminated() => {}
            }
        }
    };
    let served = server::serve(listener, Arc::clone(&control), ending).await;
    for task in [keeping, recording, telling, sweeping] {
        task.abort();
        // What it was at is on record, or is not.
        let _ = task.await;
    }
    end(home, &control, &runner, journal).await;
    served?;
    Ok(lock)
}

/// Leaves nothing alive. Runs first, so that none of them takes the end of its runner for news: for them
/// this is a crash, after which the next daemon goes on.
async fn end(home: &Home, control: &Control, runner: &RunnerExecutor, journal: Arc<SqliteJournal>) {
    control.close().await;
    runner.end(&home.spool()).await;
    let folded = tokio::task::spawn_blocking(move || journal.fold_log());
    if let Ok(Err(error)) = folded.await {
        tracing::warn!(%error, "the journal's log stays beside it");
    }
    let _ = std::fs::remove_file(home.socket());
    tracing::info!("the end");
}

/// Scratch files go into the home, where those that a killed daemon left behind are found and removed. The
/// directory stays: clients that start at the same moment look at it.
fn scratch(home: &Home) -> Result<()> {
    home.create()?;
    let dir = home.tmp();
    let failed = || format!("{} cannot be emptied", dir.display());
    for entry in std::fs::read_dir(&dir).with_context(failed)? {
        let entry = entry.with_context(failed)?;
        let removed = match entry.file_type().with_context(failed)?.is_dir() {
            true => std::fs::remove_dir_all(entry.path()),
            false => std::fs::remove_file(entry.path()),
        };
        removed.with_context(failed)?;
    }
    // Set once a process; a second daemon in one process is a test's, and shares the first one's.
    let _ = tempfile::env::override_temp_dir(&dir);
    Ok(())
}

/// What the daemon itself goes on to use.
type Assembled = (Arc<Control>, Arc<RunnerExecutor>, Arc<SqliteJournal>);

fn assemble(home: &Home, clock: Arc<dyn Clock>) -> Result<Assembled> {
    let layout =
        Layout { home: home.root().to_owned(), trees: home.trees(), work: home.work(), spool: home.spool() };
    let sqlite = Arc::new(SqliteJournal::open(home.db()).context("the journal cannot be opened")?);
    let journal: Arc<dyn Journal> = Arc::clone(&sqlite) as _;
    let artifacts: Arc<FileArtifacts> =
        Arc::new(FileArtifacts::open(home.artifacts()).context("the artifacts cannot be opened")?);
    let day_cap = FileDayCap::open(home).map_err(|error| anyhow::anyhow!("{error}; {}", error.mend()))?;
    let deltas = control::deltas();
    let recorder = recording::recorder(
        home,
        Arc::clone(&journal),
        Arc::clone(&sqlite) as _,
        Arc::clone(&artifacts) as _,
        Arc::clone(&clock),
    );
    let vendors = Arc::new(Vendors::new(connect(home)));
    let program = std::env::current_exe().context("the path of this binary is unknown")?;
    let launcher = sandbox::Launcher::this_binary();
    let jail = sandbox::overall(&sandbox::support(&launcher));
    let runner = {
        let (journal, records) = (Arc::clone(&journal), Arc::clone(&sqlite));
        let (layout, home) = (layout.clone(), home.clone());
        let configs = move |run: RunId| runner_config(&*journal, &*records, &layout, &home, &program, run);
        Arc::new(RunnerExecutor::new(
            Arc::new(configs),
            Arc::clone(&artifacts) as _,
            tokio::runtime::Handle::current(),
        ))
    };
    let outside = outside_tools()?;
    let manners = manners(home);
    let export = export::live(home)?;
    let dispatch = Dispatch {
        model: ModelExecutor::new(
            Arc::clone(&vendors),
            Arc::clone(&journal),
            Arc::clone(&sqlite) as _,
            Arc::clone(&clock),
            deltas.clone(),
        )
        .at_pace(pace())
        .with_recorder(Arc::clone(&recorder)),
        host: HostExecutor::new(
            layout.clone(),
            Arc::clone(&journal),
            Arc::clone(&artifacts) as _,
            Arc::clone(&clock),
        )
        .with_manners(Arc::clone(&manners))
        .with_export(Arc::clone(&export)),
        jail: Arc::clone(&runner) as _,
        setup: SetupExecutor::new(layout.clone(), Arc::clone(&journal), Arc::clone(&runner) as _),
        outside: outside.iter().map(|(tool, run)| (tool.spec.name.clone(), Arc::clone(run))).collect(),
    };
    let ports = Ports {
        authority: Arc::new(
            trust::Door::new(Arc::clone(&sqlite) as _, Arc::clone(&journal), day_cap)
                .with_export(export)
                .with_rules(control::policy::Files::new(layout.clone(), Arc::clone(&journal)).rulebooks()),
        ),
        executor: Arc::new(dispatch),
        workspaces: Arc::new(StoreWorkspaces::new(layout.clone(), Arc::clone(&journal))),
        drivers: Arc::new(NativeDrivers::new(Arc::clone(&artifacts) as _, Arc::new(models::wire::compose))),
        rng: Arc::new(OsRng),
        journal,
        clock,
    };
    let control = Control::new(Parts {
        layout,
        ports,
        records: Arc::clone(&sqlite) as _,
        artifacts,
        index: Arc::new(journal::SearchIndex::new(home.index())),
        vendors,
        deltas,
        toolbox: toolbox(outside.into_iter().map(|(tool, _)| tool))?,
        jail,
        manners,
        holder: format!("daemon:{}", std::process::id()),
    })
    .with_recorder(recorder);
    Ok((Arc::new(control), runner, sqlite))
}

/// The tools of a new run, in the order in which the model sees them.
fn toolbox(outside: impl Iterator<Item = engine::Tool>) -> Result<engine::Toolbox> {
    let built_in = engine::Toolbox::built_in()?;
    Ok(engine::Toolbox::new(built_in.iter().cloned().chain(outside).collect())?)
}

/// How often batches are asked about.
fn pace() -> Pace {
    let seconds = std::env::var(BATCH_POLL_ENV).ok().and_then(|text| text.parse::<f64>().ok());
    let first = seconds.and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds).ok());
    match first.filter(|first| !first.is_zero()) {
        Some(first) => Pace { first, longest: first.saturating_mul(30) },
        None => Pace::default(),
    }
}

/// The owner's file, read for each delivery. While it makes no sense, what is built in holds.
fn manners(home: &Home) -> Manners {
    let home = home.clone();
    Arc::new(move || {
        config::manners(&home).unwrap_or_else(|error| {
            tracing::warn!(%error, "a delivery does what is built in");
            store::Manners { sign: true, hooks: false }
        })
    })
}

type Outside = (engine::Tool, Arc<dyn Executor>);

/// Tools that act outside the jail. The built-in ones all stay in it.
#[cfg(not(feature = "testkit"))]
fn outside_tools() -> Result<Vec<Outside>> {
    Ok(Vec::new())
}

/// For chaos tests: a tool whose effect must not be repeated, with a ledger outside as witness.
#[cfg(feature = "testkit")]
fn outside_tools() -> Result<Vec<Outside>> {
    use testkit::announce::{self, Announce};

    let Ok(ledger) = std::env::var(announce::LEDGER_ENV) else { return Ok(Vec::new()) };
    let more = std::env::var(announce::MORE_ENV).ok().and_then(|count| count.parse().ok()).unwrap_or(0);
    let more = (0..more).map(|serial: usize| format!("{}.{serial:02}", announce::NAME));
    let schema = models::RawJson::parse(announce::SCHEMA)?;
    let tool = |name: String| engine::Tool {
        spec: models::ToolSpec {
            name,
            description: announce::DESCRIPTION.into(),
            input_schema: schema.clone(),
        },
        effect: domain::Effect::NonIdempotent,
        risk: domain::Risk::External,
        deferred: false,
    };
    let executor: Arc<dyn Executor> = Arc::new(Announce::new(ledger));
    let names = std::iter::once(announce::NAME.to_owned()).chain(more);
    Ok(names.map(|name| (tool(name), Arc::clone(&executor))).collect())
}

fn runner_config(
    journal: &dyn Journal,
    records: &dyn Records,
    layout: &Layout,
    home: &Home,
    program: &std::path::Path,
    run: RunId,
) -> Result<runner::Config, Refused> {
    let charter = control::runs::Charter::read(journal, run)
        .map_err(|error| Refused { code: "run.unreadable".into(), hint: error.to_string() })?;
    let spool = layout.spool.join(run.to_string());
    let mut config = runner::Config::new(run, spool, layout.workspace(run), program);
    if charter.mission.allow_unjailed {
        config.posture = sandbox::Posture::Ask;
    }
    let lease = trust::leases::read(records, charter.started.lease)
        .map_err(|error| Refused { code: "run.lease".into(), hint: domain::causes::in_full(&error) })?;
    config.paths = lease.paths;
    let scratch = store::Scratch::open(&layout.workspace(run));
    // The history holds all files, whatever the lease shows of them.
    config.git = scratch.filter(|_| config.paths.reads_everything()).map(|scratch| runner::config::Git {
        dir: scratch.git_dir(),
        given: scratch.given(),
        told: scratch.told(),
    });
    config.limits = limits(home)?;
    config.withheld = charter.mission.withheld;
    config.services = charter.mission.services;
    config.given = given(home, std::path::Path::new(&charter.mission.repository))?;
    let cache = Cache::new(layout.cache(charter.mission.project));
    cache.prepare().map_err(|error| Refused {
        code: "run.no_cache".into(),
        hint: format!("the project's cache in {} cannot be made: {error}", layout.home.display()),
    })?;
    if let Some(home) = std::env::var_os("HOME").filter(|home| !home.is_empty()) {
        let found = toolchains::find(std::path::Path::new(&home), &cache, &toolchains::Machine);
        config.mounts.extend(found.mounts);
        config.env.extend(found.env);
        config.setup_mounts = found.setup_mounts;
        config.setup_env = found.setup_env;
    }
    Ok(config)
}

/// What a step may use up, as the owner has it now.
fn limits(home: &Home) -> Result<sandbox::Limits, Refused> {
    let config = config::of_installation(home).map_err(|error| Refused {
        code: "run.configuration".into(),
        hint: format!("{error}; {}", error.mend()),
    })?;
    Ok(sandbox::Limits {
        memory_bytes: config.amount(config::Key::LimitMemory),
        processes: config.amount(config::Key::LimitProcesses),
        disk_bytes: config.amount(config::Key::LimitDisk),
        disk_files: config.amount(config::Key::LimitFiles),
        ..sandbox::Limits::default()
    })
}

/// The variables that the files give to steps, with their values as they are now.
fn given(home: &Home, repository: &std::path::Path) -> Result<runner::config::Given, Refused> {
    let config = config::of_steps(home, repository).map_err(|error| Refused {
        code: "run.configuration".into(),
        hint: format!("{error}; {}", error.mend()),
    })?;
    let value = |given: config::Given| {
        let value = match given.value {
            config::env::Value::Set(value) => Some(value),
            config::env::Value::Passed => std::env::var(&given.name).ok(),
        };
        Some((given.name, value?))
    };
    Ok(runner::config::Given(config.given().into_iter().filter_map(value).collect()))
}

/// Connects to the vendor of a model with what a client handed over.
fn connect(home: &Home) -> Connect {
    let home = home.clone();
    // All runs of one account share what its vendor lets them ask for.
    let limits = Limits::new();
    Arc::new(move |model, vendor| {
        let config = connection(&home, model, vendor)?;
        let adapter = Adapter::within(config, &limits).map_err(|error| unconnected(&error))?;
        Ok(Arc::new(adapter) as Arc<dyn Provider>)
    })
}

/// How the vendor of a model is reached, with what a client handed over.
///
/// # Errors
/// When there is no key, or the address or the key makes no sense.
pub(crate) fn connection(home: &Home, model: &str, vendor: &Vendor) -> Result<Connection, control::Error> {
    let wire = Wire::of(model);
    // Where one's own server is belongs to the installation; a client's environment goes first.
    let local = match &vendor.local_base_url {
        None if wire == Wire::Chat => config::local_url(home).map_err(|error| {
            let why = format!("{error}; {}", error.mend());
            control::Error::new(control::error::Kind::Invalid, "model.config", why)
        })?,
        _ => None,
    };
    let lookup = |name: &str| match name {
        IDLE_ENV => std::env::var(IDLE_ENV).ok(),
        _ if name == Wire::Chat.url_env() => vendor.get(name).or_else(|| local.clone()),
        _ => vendor.get(name),
    };
    Connection::from_lookup(wire, lookup).map_err(|error| unconnected(&error))
}

fn unconnected(error: &ConnectionError) -> control::Error {
    let code = match error {
        ConnectionError::NoKey(_) => "model.key_missing",
        _ => "model.config",
    };
    control::Error::new(control::error::Kind::Invalid, code, error.to_string())
}
