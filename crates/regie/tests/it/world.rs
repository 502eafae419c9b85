//! A home, a repository with a bug, and a model that mends it; all gone at the end.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::script::{self, Options, Server};

/// A model that runs the tests, mends the sum, and runs them again.
pub(crate) const MEND: &str = include_str!("mend.toml");

/// Nothing here takes that long; it only keeps a broken test from hanging.
const PATIENCE: Duration = Duration::from_secs(90);

/// The binary under test; `REGIE_BIN` names a copy that another user may execute.
fn binary() -> PathBuf {
    std::env::var_os("REGIE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_regie").into()).into()
}

pub(crate) struct World {
    scratch: tempfile::TempDir,
    runtime: tokio::runtime::Runtime,
    model: Option<Server>,
}

impl World {
    /// A world without a model.
    pub(crate) fn empty() -> Self {
        Self::empty_at(tempfile::tempdir().unwrap())
    }

    fn empty_at(scratch: tempfile::TempDir) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let world = Self { scratch, runtime, model: None };
        std::fs::create_dir(world.project()).unwrap();
        world
    }

    /// A world with a repository whose check fails, and a scripted model.
    pub(crate) fn new(scenario: &str) -> Self {
        Self::with(scenario, Options::default())
    }

    /// The same, with a model server of one's own making.
    pub(crate) fn with(scenario: &str, options: Options) -> Self {
        Self::of(tempfile::tempdir().unwrap(), scenario, options)
    }

    /// The same, in a directory that the scenario could name.
    pub(crate) fn at(scratch: tempfile::TempDir, scenario: &str) -> Self {
        Self::of(scratch, scenario, Options::default())
    }

    fn of(scratch: tempfile::TempDir, scenario: &str, options: Options) -> Self {
        let mut world = Self::empty_at(scratch);
        let scenarios = script::parse(scenario).unwrap();
        let model = world.runtime.block_on(Server::start(scenarios, options)).unwrap();
        world.model = Some(model);
        std::fs::write(world.project().join("sum.sh"), "echo $(($1 - $2))\n").unwrap();
        std::fs::write(
            world.project().join("check.sh"),
            "test \"$(sh sum.sh 1 2)\" = 3 || { echo wrong; exit 1; }\n",
        )
        .unwrap();
        for args in [
            &["init", "-q", "-b", "main"][..],
            &["config", "user.name", "Owner"],
            &["config", "user.email", "owner@localhost"],
            &["add", "."],
            &["commit", "-q", "-m", "Sample"],
        ] {
            assert!(world.git(args).status.success(), "{args:?}");
        }
        world
    }

    /// A directory that everything of this world lies in, and that is gone with it.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.scratch.path().canonicalize().unwrap()
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.scratch.path().join("project")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.scratch.path().join("home")
    }

    pub(crate) fn git(&self, args: &[&str]) -> Output {
        Command::new("git").args(args).current_dir(self.project()).output().unwrap()
    }

    /// The binary in this world, without a terminal.
    pub(crate) fn regie(&self, args: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command
            .args(args)
            .current_dir(self.project())
            .env("REGIE_HOME", self.home())
            .env_remove("ANTHROPIC_AUTH_TOKEN")
            .env_remove("ANTHROPIC_API_KEY")
            .stdin(Stdio::null());
        for wire in models::Wire::ALL {
            command.env_remove(wire.key_env()).env_remove(wire.url_env());
        }
        for name in models::network::VARIABLES {
            command.env_remove(name);
        }
        if let Some(model) = &self.model {
            command.env("ANTHROPIC_BASE_URL", model.base_url()).env("ANTHROPIC_API_KEY", "sk-scripted");
        }
        command
    }

    /// The same, where nothing is known but another wire's server and key. A base URL may be given with or
    /// without its version.
    pub(crate) fn regie_on(&self, wire: models::Wire, version: &str, args: &[&str]) -> Command {
        let mut command = self.regie(args);
        for wire in models::Wire::ALL {
            command.env_remove(wire.key_env()).env_remove(wire.url_env());
        }
        if wire != models::Wire::Chat {
            command.env(wire.key_env(), "sk-scripted");
        }
        let url = self.model.as_ref().map(Server::base_url).unwrap_or_default();
        command.env(wire.url_env(), format!("{url}{version}"));
        command
    }

    /// Its exit code, stdout and stderr.
    pub(crate) fn ask(&self, args: &[&str]) -> Said {
        finish(self.regie(args))
    }

    /// The model's server is gone.
    pub(crate) fn lose_model(&mut self) {
        self.model = None;
    }

    /// The requests that the model was sent so far.
    pub(crate) fn asked(&self) -> Vec<Value> {
        let served = self.model.as_ref().map(Server::served).unwrap_or_default();
        served.iter().map(|served| serde_json::from_slice(&served.body).unwrap()).collect()
    }

    /// The batches that the model was sent so far.
    pub(crate) fn queued(&self) -> Vec<script::Queued> {
        self.model.as_ref().map(Server::queued).unwrap_or_default()
    }

    /// How many requests the model turned away because of its limits.
    pub(crate) fn limited(&self) -> usize {
        self.model.as_ref().map_or(0, Server::limited)
    }

    /// The same as the bytes that came.
    pub(crate) fn sent(&self) -> Vec<String> {
        let served = self.model.as_ref().map(Server::served).unwrap_or_default();
        served.iter().map(|served| String::from_utf8(served.body.to_vec()).unwrap()).collect()
    }

    /// The events of a run.
    pub(crate) fn events(&self, run: &str) -> Vec<Value> {
        self.ask(&["log", run, "--json"]).lines()
    }

    /// Waits until a run has ended, and gives its last event and its row.
    #[track_caller]
    pub(crate) fn ended(&self, run: &str) -> Ended {
        let log = self.ask(&["log", run, "--follow", "--json"]);
        let last = log.lines().last().cloned().unwrap_or_default();
        assert_eq!(last["fact"]["fact"], "ended", "{log:?}");
        let end = last["fact"]["end"].as_str().unwrap().to_owned();
        let row = self.ask(&["show", run, "--json"]);
        Ended { end, reason: last["content"].as_str().unwrap_or_default().to_owned(), shown: row.out }
    }

    /// Checks that the record holds and that nothing of this world is still at work.
    #[track_caller]
    pub(crate) fn is_whole(&self) {
        let audit = self.ask(&["audit", "verify"]);
        assert_eq!((audit.code, audit.out.contains("every link holds")), (Some(0), true), "{audit:?}");
        let open = self.ask(&["runs", "--open", "--json"]);
        assert_eq!(open.out, "[]\n", "{open:?}");
    }

    /// The workspace of a run.
    pub(crate) fn workspace(&self, run: &str) -> PathBuf {
        self.home().join("work").join(run).join("tree")
    }

    /// The process id of the daemon.
    pub(crate) fn daemon(&self) -> Option<rustix::process::Pid> {
        let text = std::fs::read_to_string(self.home().join("daemon.lock")).ok()?;
        rustix::process::Pid::from_raw(text.trim().parse().ok()?)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.end_all();
    }
}

impl World {
    /// Ends what the world has started: the daemon, and the runners that would outlive it.
    pub(crate) fn end_all(&self) {
        let home = self.home();
        let home = home.as_os_str().as_encoded_bytes();
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let started = processes.filter(|process| {
            std::fs::read(process.path().join("cmdline"))
                .is_ok_and(|line| line.windows(home.len()).any(|window| window == home))
        });
        let pids = started.filter_map(|process| process.file_name().to_str()?.parse().ok());
        for pid in pids.filter_map(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) end: String,
    pub(crate) reason: String,
    /// What `regie show --json` says of it.
    pub(crate) shown: String,
}

/// Runs a command to its end, which must come.
#[track_caller]
pub(crate) fn finish(mut command: Command) -> Said {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    let (sender, receiver) = mpsc::channel();
    let waiting = std::thread::spawn(move || sender.send(child.wait_with_output()));
    let Ok(output) = receiver.recv_timeout(PATIENCE) else {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        panic!("it hangs: {:?}", command.get_args().collect::<Vec<_>>());
    };
    waiting.join().unwrap().unwrap();
    Said::of(output.unwrap())
}

/// Waits until something is so. What it waits for has no event of its own.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The processes that are alive with this text in their command line.
pub(crate) fn alive(mark: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| {
        let line = std::fs::read(process.path().join("cmdline")).ok()?;
        let stat = std::fs::read_to_string(process.path().join("stat")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let is_dead = stat.contains(") Z ") || stat.contains(") X ");
        (line.contains(mark) && !is_dead).then(|| format!("{} {line}", process.path().display()))
    });
    lines.collect()
}

#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// The data without the breaks that a width puts into it.
    pub(crate) fn flat(&self) -> String {
        self.out.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// One JSON document.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// JSON lines.
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}
