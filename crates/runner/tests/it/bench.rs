//! A home with one run, its executor, and what the executor said.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use domain::{Digest, Effect, Outcome, RunId, StepKind, StepNo};
use kernel::Input;
use kernel::port::{ArtifactError, Artifacts, Executor as _, Finished, Inbox, Status, Work};
use runner::{Config, RunnerExecutor, ToolOutput};
use serde_json::{Value, json};

/// Nothing here takes that long; it only keeps a broken test from hanging.
const PATIENCE: Duration = Duration::from_secs(90);

/// The runner under test; `REGIE_BIN` names a copy that another user may execute.
fn program() -> PathBuf {
    std::env::var_os("REGIE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_runner-alone").into()).into()
}

#[derive(Default)]
struct MemoryArtifacts(Mutex<HashMap<Digest, Vec<u8>>>);

impl Artifacts for MemoryArtifacts {
    fn put(&self, bytes: &[u8]) -> Result<Digest, ArtifactError> {
        let digest = Digest::of(bytes);
        self.0.lock().unwrap().insert(digest, bytes.to_vec());
        Ok(digest)
    }

    fn get(&self, digest: Digest) -> Result<Vec<u8>, ArtifactError> {
        self.0.lock().unwrap().get(&digest).cloned().ok_or(ArtifactError::Missing(digest))
    }

    fn find(&self, beginning: &str) -> Result<Vec<Digest>, ArtifactError> {
        let all = self.0.lock().unwrap();
        Ok(all.keys().filter(|digest| digest.to_string().starts_with(beginning)).copied().collect())
    }
}

struct Post(Mutex<Sender<Input>>);

impl Inbox for Post {
    fn send(&self, input: Input) {
        let _ = self.0.lock().unwrap().send(input);
    }
}

/// One daemon's view: dropping it is the daemon's death.
pub(crate) struct Daemon {
    executor: RunnerExecutor,
    inbox: Arc<Post>,
    inputs: Receiver<Input>,
    artifacts: Arc<MemoryArtifacts>,
    _runtime: tokio::runtime::Runtime,
}

pub(crate) struct Bench {
    pub(crate) home: tempfile::TempDir,
    pub(crate) config: Config,
    daemon: Option<Daemon>,
    pub(crate) fence: u64,
    next: u64,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::below(Path::new("h"))
    }

    /// A bench whose home lies at `deep` below its temporary directory.
    pub(crate) fn below(deep: &Path) -> Self {
        let home = tempfile::tempdir().unwrap();
        let run = RunId::new(1, [7; 10]);
        let workspace = home.path().join(deep).join("work");
        std::fs::create_dir_all(&workspace).unwrap();
        let spool = home.path().join(deep).join("spool").join(run.to_string());
        let mut config = Config::new(run, spool, workspace, program());
        config.idle = 60_000;
        let mut bench = Self { home, config, daemon: None, fence: 1, next: 1 };
        bench.restart_daemon();
        bench
    }

    pub(crate) fn restart_daemon(&mut self) {
        self.daemon = None;
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (sender, inputs) = channel();
        let artifacts = Arc::new(MemoryArtifacts::default());
        let config = self.config.clone();
        let configs = Arc::new(move |_: RunId| Ok(config.clone()));
        let executor = RunnerExecutor::new(configs, artifacts.clone(), runtime.handle().clone());
        let inbox = Arc::new(Post(Mutex::new(sender)));
        self.daemon = Some(Daemon { executor, inbox, inputs, artifacts, _runtime: runtime });
    }

    pub(crate) fn daemon(&self) -> &Daemon {
        self.daemon.as_ref().unwrap()
    }

    pub(crate) fn stop_daemon(&mut self) {
        self.daemon = None;
    }

    pub(crate) fn executor(&self) -> &RunnerExecutor {
        &self.daemon().executor
    }

    /// Starts a runner by hand, with more in its environment than a daemon would give it.
    pub(crate) fn serve_with(&self, name: &str, value: &str) {
        self.serve_through(&["env", &format!("{name}={value}")]);
    }

    /// Starts a runner by hand, through a command that executes its further arguments.
    pub(crate) fn serve_through(&self, words: &[&str]) {
        use std::io::BufRead as _;
        #[expect(clippy::disallowed_methods, reason = "a test's own runner")]
        let mut command = std::process::Command::new(words[0]);
        let config = serde_json::to_string(&self.config).unwrap();
        command.args(&words[1..]).arg(&self.config.program).args([runner::config::SERVE_ARG, &config]);
        let mut child =
            command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        std::thread::spawn(move || child.wait());
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.config.workspace.join(name)
    }

    pub(crate) fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// The work of the next step.
    pub(crate) fn work(&mut self, tool: &str, input: Value) -> Work {
        let request = json!({"tool": tool, "input": input}).to_string();
        let looks = ["read", "list", "search"].contains(&tool);
        let effect = if looks { Effect::Read } else { Effect::WorkspaceWrite };
        self.work_of(StepKind::ToolCall, effect, tool, &request)
    }

    pub(crate) fn work_of(&mut self, kind: StepKind, effect: Effect, tool: &str, request: &str) -> Work {
        let (run, step) = (self.config.run, StepNo(self.next));
        self.next += 1;
        Work {
            run,
            step,
            attempt: 1,
            key: Work::key_of(run, step),
            fence: self.fence,
            kind,
            effect,
            tool: tool.into(),
            request: Bytes::copy_from_slice(request.as_bytes()),
            timeout: 60_000,
        }
    }

    pub(crate) fn start(&self, work: &Work) {
        self.executor().start(work.clone(), self.daemon().inbox.clone());
    }

    pub(crate) fn status(&self, work: &Work) -> Status {
        self.executor().status(work.clone(), self.daemon().inbox.clone());
        match self.next() {
            Input::Status(step, status) if step == work.step => status,
            other => panic!("no status: {other:?}"),
        }
    }

    pub(crate) fn kill(&self, work: &Work) {
        self.executor().kill(work.clone(), self.daemon().inbox.clone());
    }

    pub(crate) fn next(&self) -> Input {
        self.daemon().inputs.recv_timeout(PATIENCE).expect("an answer of the executor")
    }

    pub(crate) fn finished(&self, work: &Work) -> Finished {
        match self.next() {
            Input::Finished(step, attempt, finished) if (step, attempt) == (work.step, work.attempt) => {
                finished
            }
            other => panic!("not finished: {other:?}; {}", self.log()),
        }
    }

    pub(crate) fn run(&self, work: &Work) -> (Outcome, ToolOutput) {
        self.start(work);
        let finished = self.finished(work);
        (finished.outcome, output(&finished))
    }

    /// Calls a tool in a step of its own.
    pub(crate) fn call(&mut self, tool: &str, input: Value) -> (Outcome, ToolOutput) {
        let work = self.work(tool, input);
        self.run(&work)
    }

    /// Calls a tool that succeeds, and gives its text.
    pub(crate) fn good(&mut self, tool: &str, input: Value) -> String {
        let (outcome, output) = self.call(tool, input);
        assert_eq!((outcome, output.is_error), (Outcome::Succeeded, false), "{}", output.text);
        output.text
    }

    /// Calls a tool that fails, and gives its text.
    pub(crate) fn bad(&mut self, tool: &str, input: Value) -> String {
        let (outcome, output) = self.call(tool, input);
        assert_eq!((outcome, output.is_error), (Outcome::Failed, true), "{}", output.text);
        output.text
    }

    pub(crate) fn artifact(&self, digest: Digest) -> Vec<u8> {
        self.daemon().artifacts.get(digest).unwrap()
    }

    pub(crate) fn spool_file(&self, name: &str) -> PathBuf {
        self.config.spool.join(name)
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.spool_file("runner.log")).unwrap_or_default()
    }

    pub(crate) fn runner_pid(&self) -> Option<i32> {
        std::fs::read_to_string(self.spool_file("lock")).ok()?.parse().ok()
    }

    /// Ends all runners of the home as a daemon does at its end.
    pub(crate) fn end(&self) {
        let daemon = self.daemon();
        daemon._runtime.block_on(daemon.executor.end(self.config.spool.parent().unwrap()));
        // A runner's command line names its spool.
        assert_gone(self.config.spool.to_str().unwrap());
    }

    /// Ends the runner as a power cut would.
    pub(crate) fn kill_runner(&self) {
        if let Some(pid) = self.runner_pid().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.daemon = None;
        self.kill_runner();
    }
}

pub(crate) fn output(finished: &Finished) -> ToolOutput {
    serde_json::from_slice(&finished.payload.0).unwrap()
}

/// Waits until something is so. What it waits for has no event of its own.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Checks that no process with this text in its command line is alive.
#[track_caller]
pub(crate) fn assert_gone(mark: &str) {
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(line) = std::fs::read(entry.path().join("cmdline")) else { continue };
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let is_dead = stat.is_empty() || stat.contains(") Z ") || stat.contains(") X ");
        assert!(is_dead || !line.contains(mark), "alive: {stat} {line}");
    }
}
