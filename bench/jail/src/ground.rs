//! Where the measured programs work, and the jail that all of them are to hold.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use sandbox::{Access, LAUNCH_ARG, Launcher, Mount, Plan, Stdin};

/// Not in the temporary directory, where Codex's jail fails without a word.
pub(crate) struct Ground {
    dir: tempfile::TempDir,
    pub(crate) regie: PathBuf,
}

impl Ground {
    pub(crate) fn make(regie: &Path) -> Result<Self> {
        let regie = regie.canonicalize().with_context(|| format!("there is no {}", regie.display()))?;
        let cache = match std::env::var_os("XDG_CACHE_HOME") {
            Some(cache) => PathBuf::from(cache),
            None => PathBuf::from(std::env::var_os("HOME").context("there is no home")?).join(".cache"),
        };
        std::fs::create_dir_all(&cache)?;
        let dir = tempfile::Builder::new().prefix("regie-bench-jail-").tempdir_in(cache.canonicalize()?)?;
        for name in ["work", "home", "outputs", "spool"] {
            std::fs::create_dir(dir.path().join(name))?;
        }
        std::fs::write(dir.path().join("work/read.txt"), "one line of many\n".repeat(200))?;
        Ok(Self { dir, regie })
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts jails as the runner does.
    pub(crate) fn launcher(&self) -> Launcher {
        Launcher::at(&self.regie, vec![LAUNCH_ARG.into()])
    }

    /// What the runner's plan for a command holds: the system, the workspace, and the outputs of earlier steps.
    pub(crate) fn plan<const N: usize>(&self, argv: [&str; N]) -> Plan {
        let mut plan = Plan::new(self.at("work"), argv);
        let read =
            |source: PathBuf, target: &str| Mount { source, target: target.into(), access: Access::Read };
        plan.mounts.push(read(self.at("outputs"), "/outputs"));
        plan
    }

    /// One jail from its start to its end.
    pub(crate) fn jail(&self, launcher: &Launcher, plan: &Plan) -> Result<()> {
        let ended = launcher.spawn(plan, Stdin::Null)?.wait()?;
        if !ended.success() {
            bail!("the jailed program ended with {ended}");
        }
        Ok(())
    }

    /// A program with a home of its own and without output, to be started by this process.
    pub(crate) fn command(&self, words: &[OsString]) -> Result<Command> {
        let (program, rest) = words.split_first().context("there is no program")?;
        #[expect(clippy::disallowed_methods, reason = "the measured programs start here")]
        let mut command = Command::new(program);
        command
            .args(rest)
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", self.at("home"))
            .env("CODEX_HOME", self.at("home"))
            .env("LANG", "C.UTF-8")
            .current_dir(self.at("work"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Ok(command)
    }

    /// One program from its start to its end.
    pub(crate) fn run(&self, words: &[OsString]) -> Result<()> {
        let ended = self.command(words)?.status()?;
        if !ended.success() {
            bail!("{} ended with {ended}", words.first().unwrap_or(&OsString::new()).display());
        }
        Ok(())
    }
}
