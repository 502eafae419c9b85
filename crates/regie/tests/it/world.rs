//! A home, a repository with a bug, and a model that mends it; all gone at the end.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use testkit::script::{self, Options, Server};

/// A model that runs the tests, mends the sum, and runs them again.
pub(crate) const MEND: &str = include_str!("mend.toml");

pub(crate) struct World {
    scratch: tempfile::TempDir,
    runtime: tokio::runtime::Runtime,
    model: Option<Server>,
}

impl World {
    /// A world without a model.
    pub(crate) fn empty() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let world = Self { scratch: tempfile::tempdir().unwrap(), runtime, model: None };
        std::fs::create_dir(world.project()).unwrap();
        world
    }

    /// A world with a repository whose check fails, and a scripted model.
    pub(crate) fn new(scenario: &str) -> Self {
        let mut world = Self::empty();
        let scenarios = script::parse(scenario).unwrap();
        let model = world.runtime.block_on(Server::start(scenarios, Options::default())).unwrap();
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
        let mut command = Command::new(env!("CARGO_BIN_EXE_regie"));
        command
            .args(args)
            .current_dir(self.project())
            .env("REGIE_HOME", self.home())
            .env_remove("ANTHROPIC_AUTH_TOKEN")
            .env_remove("ANTHROPIC_API_KEY")
            .stdin(Stdio::null());
        if let Some(model) = &self.model {
            command.env("ANTHROPIC_BASE_URL", model.base_url()).env("ANTHROPIC_API_KEY", "sk-scripted");
        }
        command
    }

    /// Its exit code, stdout and stderr.
    pub(crate) fn ask(&self, args: &[&str]) -> Said {
        Said::of(self.regie(args).output().unwrap())
    }

    /// The process id of the daemon.
    pub(crate) fn daemon(&self) -> Option<rustix::process::Pid> {
        let text = std::fs::read_to_string(self.home().join("daemon.lock")).ok()?;
        rustix::process::Pid::from_raw(text.trim().parse().ok()?)
    }
}

impl Drop for World {
    /// Ends what the world has started: the daemon, and the runners that would outlive it.
    fn drop(&mut self) {
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

    /// One JSON document.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// JSON lines.
    pub(crate) fn lines(&self) -> Vec<serde_json::Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}
