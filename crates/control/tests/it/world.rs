//! A home, an owner's repository with a bug, a scripted model, and daemons one after another.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use control::api::{self, AnswerGate, StartMission, Started, Vendor};
use control::drivers::NativeDrivers;
use control::executor::{Dispatch, HostExecutor, ModelExecutor, Pace, SetupExecutor};
use control::vendors::Vendors;
use control::workspaces::StoreWorkspaces;
use control::{Control, Error, Layout, Parts};
use domain::{Digest, RunId};
use engine::native::Patience;
use journal::{FileArtifacts, SqliteJournal};
use kernel::host::Ports;
use kernel::port::{ArtifactError, Artifacts, Journal, Record, RecordError, Records};
use sandbox::Status as Jail;
use testkit::fakes::{CountingRng, RuntimeClock};
use testkit::script::{self, Options, Server};
use tokio::runtime::Runtime;

use crate::jail::Bare;
use crate::wire::connect;

/// Two conversations: one mends the sum, the other writes a note.
pub(crate) const MODEL: &str = r#"
[[scenario]]
name = "note"
match = "Write a note"
[[scenario.turn]]
[[scenario.turn.call]]
name = "shell"
input = { command = "echo noted > NOTE" }
[[scenario.turn]]
text = "The note is written."
[[scenario.turn]]
text = "A note needs no check."
[[scenario.turn]]
text = "There is none."

[[scenario]]
name = "mend"
[[scenario.turn]]
text = "It subtracts."
[[scenario.turn.call]]
name = "shell"
input = { command = "cp right.sh sum.sh" }
[[scenario.turn]]
text = "The sum is right now."
"#;

pub(crate) const CHECK: &str = "sh check.sh && echo seen > left-over";
/// Nothing here takes that long; it only keeps a broken test from hanging.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct World {
    daemon: Option<Daemon>,
    model: Server,
    clock: Arc<RuntimeClock>,
    rng: Arc<CountingRng>,
    /// What daemons are told of the machine.
    pub(crate) jail: Jail,
    /// How long they wait for a vendor that is out.
    pub(crate) patience: Patience,
    /// Dropped last: everything lies in it.
    scratch: tempfile::TempDir,
    _wires: Runtime,
}

/// Dropping it is its death: what it was doing is cut off.
pub(crate) struct Daemon {
    runtime: Runtime,
    pub(crate) control: Arc<Control>,
    pub(crate) bare: Arc<Bare>,
    pub(crate) vendors: Arc<Vendors>,
    pub(crate) journal: Arc<SqliteJournal>,
    pub(crate) artifacts: Arc<Breakable<FileArtifacts>>,
    pub(crate) records: Arc<Breakable<SqliteJournal>>,
}

/// A part that fails when a test says so.
pub(crate) struct Breakable<T> {
    part: Arc<T>,
    broken: AtomicBool,
    unreadable: AtomicBool,
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(MODEL)
    }

    pub(crate) fn with(scenario: &str) -> Self {
        let wires = runtime();
        let model = wires.block_on(Server::start(script::parse(scenario).unwrap(), Options::default()));
        let mut world = Self {
            daemon: None,
            model: model.unwrap(),
            clock: Arc::new(RuntimeClock::begin()),
            rng: Arc::default(),
            jail: Jail::Enforced,
            patience: Patience::default(),
            scratch: tempfile::tempdir().unwrap(),
            _wires: wires,
        };
        world.repository();
        std::fs::create_dir(world.layout().home).unwrap();
        world.restart();
        world
    }

    fn repository(&self) {
        std::fs::create_dir(self.project()).unwrap();
        self.write("sum.sh", "echo $(($1 - $2))\n");
        self.write("right.sh", "echo $(($1 + $2))\n");
        self.write("check.sh", "test \"$(sh sum.sh 1 2)\" = 3 || { echo wrong; exit 1; }\n");
        self.git(&["init", "-q", "-b", "main"]);
        self.commit("Sample");
    }

    /// Where the owner's repository lies.
    pub(crate) fn project(&self) -> PathBuf {
        self.scratch().join("project")
    }

    pub(crate) fn scratch(&self) -> PathBuf {
        self.scratch.path().canonicalize().unwrap()
    }

    pub(crate) fn layout(&self) -> Layout {
        let home = self.scratch().join("home");
        Layout { trees: home.join("trees"), work: home.join("work"), spool: home.join("spool"), home }
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        std::fs::write(self.project().join(path), text).unwrap();
    }

    pub(crate) fn commit(&self, subject: &str) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", subject]);
    }

    pub(crate) fn git(&self, args: &[&str]) -> String {
        git(&self.project(), args)
    }

    /// The git dir of the only project.
    pub(crate) fn tree(&self) -> store::Tree {
        let dirs: Vec<_> = std::fs::read_dir(self.layout().trees).unwrap().collect();
        assert_eq!(dirs.len(), 1);
        store::Tree::open_or_create(&dirs.into_iter().next().unwrap().unwrap().path()).unwrap()
    }

    /// Kills the daemon that there is, and starts another one over the same home.
    pub(crate) fn restart(&mut self) {
        self.kill();
        self.daemon = Some(Daemon::start(self));
        self.recover();
    }

    /// The same, with results kept back from the first moment.
    pub(crate) fn restart_held(&mut self) {
        self.kill();
        self.daemon = Some(Daemon::start(self));
        self.daemon().bare.hold();
        self.recover();
    }

    fn recover(&self) {
        let left = self.block(self.control().recover()).unwrap();
        assert_eq!(left, []);
    }

    pub(crate) fn kill(&mut self) {
        if let Some(Daemon { runtime, control, journal, .. }) = self.daemon.take() {
            drop(runtime);
            drop(control);
            drop(journal);
        }
    }

    pub(crate) fn daemon(&self) -> &Daemon {
        self.daemon.as_ref().unwrap()
    }

    pub(crate) fn control(&self) -> &Control {
        &self.daemon().control
    }

    #[track_caller]
    pub(crate) fn block<T>(&self, future: impl Future<Output = T>) -> T {
        let patient = async { tokio::time::timeout(PATIENCE, future).await };
        self.daemon().runtime.block_on(patient).unwrap()
    }

    pub(crate) fn vendor(&self) -> Vendor {
        Vendor {
            api_key: Some("sk-scripted".into()),
            auth_token: None,
            base_url: Some(self.model.base_url().into()),
            ..Vendor::default()
        }
    }

    /// A mission that mends the sum.
    pub(crate) fn mission(&self) -> StartMission {
        StartMission {
            lease: api::LeaseWanted::default(),
            goal: "Make the check pass".into(),
            project: self.project().display().to_string(),
            done: vec![CHECK.into()],
            model: None,
            or: Vec::new(),
            effort: None,
            batch: false,
            caps: api::CapsWanted::default(),
            approve_merge: false,
            allow_unjailed: false,
            dirty: false,
            follow: None,
            setup: None,
            services: Vec::new(),
            record: None,
            vendor: self.vendor(),
        }
    }

    pub(crate) fn note(&self) -> StartMission {
        StartMission { goal: "Write a note".into(), done: Vec::new(), ..self.mission() }
    }

    pub(crate) fn start(&self, mission: StartMission) -> Result<Started, Error> {
        self.block(self.control().mission_start(mission))
    }

    /// Starts the mission and waits until it asks.
    #[track_caller]
    pub(crate) fn asked(&self, mission: StartMission) -> (String, api::Gate) {
        let run = self.start(mission).unwrap().run;
        (run.clone(), self.gate(&run))
    }

    /// Waits until the run asks.
    #[track_caller]
    pub(crate) fn gate(&self, run: &str) -> api::Gate {
        let shown = self.until(run, |run| run.status != "active");
        assert_eq!((shown.status.as_str(), shown.gates.len()), ("waiting", 1), "{shown:?}");
        self.block(self.control().gate_fetch(&shown.gates[0])).unwrap()
    }

    pub(crate) fn answer(&self, gate: &api::Gate, answer: &str) -> Result<api::Gate, Error> {
        let request =
            AnswerGate { answer: answer.into(), action: gate.action.clone(), vendor: Vendor::default() };
        self.block(self.control().gate_answer(&gate.gate, request))
    }

    /// Waits until the run is as it should be.
    #[track_caller]
    pub(crate) fn until(&self, run: &str, is: impl Fn(&api::Run) -> bool) -> api::Run {
        self.block(async {
            let mut bell = self.control().bell();
            loop {
                bell.borrow_and_update();
                let shown = self.control().run_fetch(run).await.unwrap();
                if is(&shown) {
                    return shown;
                }
                bell.changed().await.unwrap();
            }
        })
    }

    /// Waits for the end of the run: how it ended, and why.
    #[track_caller]
    pub(crate) fn ended(&self, run: &str) -> (String, String) {
        let run = self.until(run, |run| run.status == "ended");
        (run.end.unwrap(), run.reason.unwrap())
    }

    pub(crate) fn workspace(&self, run: &str) -> PathBuf {
        self.layout().workspace(run.parse::<RunId>().unwrap())
    }

    /// The names of the facts of a run.
    pub(crate) fn facts(&self, run: &str) -> Vec<&'static str> {
        let history = self.daemon().journal.history(run.parse().unwrap(), 0, 10_000).unwrap();
        history.iter().map(|event| event.header.fact.name()).collect()
    }

    /// The requests that the model was sent so far.
    pub(crate) fn model_requests(&self) -> Vec<serde_json::Value> {
        self.model.served().iter().map(|served| serde_json::from_slice(&served.body).unwrap()).collect()
    }

    /// An executor of the host's steps beside that of the daemon.
    pub(crate) fn host_executor(&self) -> HostExecutor {
        let daemon = self.daemon();
        let (journal, artifacts) = (Arc::clone(&daemon.journal), Arc::clone(&daemon.artifacts));
        HostExecutor::new(self.layout(), journal, artifacts, Arc::clone(&self.clock) as _)
    }
}

impl Daemon {
    fn start(world: &World) -> Self {
        let runtime = runtime();
        let _inside = runtime.enter();
        let layout = world.layout();
        let sqlite = Arc::new(SqliteJournal::open(layout.home.join("regie.db")).unwrap());
        let journal: Arc<dyn Journal> = Arc::clone(&sqlite) as _;
        let records = Arc::new(Breakable::new(Arc::clone(&sqlite)));
        let files = FileArtifacts::open(layout.home.join("artifacts")).unwrap();
        let artifacts = Arc::new(Breakable::new(Arc::new(files)));
        let clock = Arc::clone(&world.clock);
        let deltas = control::deltas();
        let vendors = Arc::new(Vendors::new(connect()));
        let bare = Arc::new(Bare::new(layout.clone()));
        let dispatch = Dispatch {
            model: ModelExecutor::new(
                Arc::clone(&vendors),
                Arc::clone(&journal),
                Arc::clone(&records) as _,
                Arc::clone(&clock) as _,
                deltas.clone(),
            )
            .at_pace(Pace { first: Duration::from_millis(10), longest: Duration::from_millis(40) }),
            host: HostExecutor::new(
                layout.clone(),
                Arc::clone(&journal),
                Arc::clone(&artifacts) as _,
                Arc::clone(&clock) as _,
            ),
            jail: Arc::clone(&bare) as _,
            setup: SetupExecutor::new(layout.clone(), Arc::clone(&journal), Arc::clone(&bare) as _),
            outside: Default::default(),
        };
        let compose = Arc::new(models::wire::compose);
        let ports = Ports {
            authority: Arc::new(trust::Door::new(Arc::clone(&sqlite) as _, Arc::clone(&journal), u64::MAX)),
            executor: Arc::new(dispatch),
            workspaces: Arc::new(StoreWorkspaces::new(layout.clone(), Arc::clone(&journal))),
            drivers: Arc::new(
                NativeDrivers::new(Arc::clone(&artifacts) as _, compose).with_patience(world.patience),
            ),
            rng: Arc::clone(&world.rng) as _,
            journal,
            clock,
        };
        let control = Control::new(Parts {
            layout,
            ports,
            records: Arc::clone(&records) as _,
            artifacts: Arc::clone(&artifacts) as _,
            index: Arc::new(journal::SearchIndex::new(world.layout().home.join("index.db"))),
            vendors: Arc::clone(&vendors),
            deltas,
            toolbox: engine::Toolbox::built_in().unwrap(),
            jail: world.jail.clone(),
            manners: Arc::new(|| store::Manners::NONE),
            holder: "daemon:test".into(),
        });
        drop(_inside);
        Self { runtime, control: Arc::new(control), bare, vendors, journal: sqlite, artifacts, records }
    }
}

impl<T> Breakable<T> {
    fn new(part: Arc<T>) -> Self {
        Self { part, broken: AtomicBool::new(false), unreadable: AtomicBool::new(false) }
    }

    pub(crate) fn break_now(&self, broken: bool) {
        self.broken.store(broken, Ordering::Relaxed);
    }

    pub(crate) fn break_reads(&self, broken: bool) {
        self.unreadable.store(broken, Ordering::Relaxed);
    }

    fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }
}

impl<T: Artifacts> Artifacts for Breakable<T> {
    fn put(&self, bytes: &[u8]) -> Result<Digest, ArtifactError> {
        if self.is_broken() {
            let source = std::io::Error::from(std::io::ErrorKind::StorageFull);
            return Err(ArtifactError::Io { digest: Digest::of(bytes), source });
        }
        self.part.put(bytes)
    }

    fn get(&self, digest: Digest) -> Result<Vec<u8>, ArtifactError> {
        if self.unreadable.load(Ordering::Relaxed) {
            return Err(ArtifactError::Missing(digest));
        }
        self.part.get(digest)
    }

    fn find(&self, beginning: &str) -> Result<Vec<Digest>, ArtifactError> {
        self.part.find(beginning)
    }

    fn stored(&self, digest: Digest) -> Result<Option<kernel::port::Stored>, ArtifactError> {
        self.part.stored(digest)
    }

    fn discard(&self, digest: Digest, put_before: domain::Timestamp) -> Result<bool, ArtifactError> {
        self.part.discard(digest, put_before)
    }
}

impl<T: Records> Records for Breakable<T> {
    fn get(&self, kind: &str, key: &str) -> Result<Option<Record>, RecordError> {
        self.part.get(kind, key)
    }

    fn list(&self, kind: &str) -> Result<Vec<Record>, RecordError> {
        self.part.list(kind)
    }

    fn put(&self, kind: &str, key: &str, expected: u64, body: &[u8]) -> Result<u64, RecordError> {
        // Only the lease: it is written when everything else of a mission is prepared.
        if self.is_broken() && kind == trust::leases::KIND {
            return Err(RecordError::Storage("no space left".into()));
        }
        self.part.put(kind, key, expected, body)
    }

    fn put_all(&self, writes: &[kernel::port::Put<'_>]) -> Result<(), RecordError> {
        self.part.put_all(writes)
    }

    fn kinds(&self) -> Result<Vec<String>, RecordError> {
        self.part.kinds()
    }
}

/// What one is told who wants something of a run that is over.
pub(crate) const ENDED_HINT: &str = "start a new mission with `regie run`, or one that knows this run with \
                                     `regie run --follow RUN \"…\"`";

#[expect(clippy::disallowed_methods, reason = "the tests play the owner, who types git commands")]
pub(crate) fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .current_dir(dir)
        .args(["-c", "user.name=Owner", "-c", "user.email=owner@example.org"])
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}
