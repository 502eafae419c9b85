//! What one runner is told when it is started, and never again.

use std::ffi::OsString;
use std::path::PathBuf;

use domain::{Millis, RunId};
use serde::{Deserialize, Serialize};

/// The first argument by which a binary knows that it is to be a runner; the second is the
/// [`Config`] as JSON.
pub const SERVE_ARG: &str = "__runner";

/// Set to anything, it makes a runner behave as on a machine that cannot hold a jail: posture `Deny`
/// refuses, posture `Ask` degrades. It never loosens anything, so it is safe to leave in.
pub const NO_JAIL_ENV: &str = "REGIE_TEST_NO_JAIL";

/// Holds [`Config::given`] as JSON in a runner's own environment.
pub const GIVEN_ENV: &str = "REGIE_GIVEN";

/// Variables whose values are shown to nobody but the commands that get them.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Given(pub Vec<(String, String)>);

impl std::fmt::Debug for Given {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// The git dir that commands see as `.git` of the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Git {
    /// The git dir itself, which commands write to: nothing in it is trusted.
    pub dir: PathBuf,
    /// What the host gives, which commands only read: `objects`, `head`, `gitconfig`.
    pub given: PathBuf,
    /// Where it is noted which `head` the git dir knows of.
    pub told: PathBuf,
}

/// A runner serves one run, in one workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The run.
    pub run: RunId,
    /// The run's spool directory; created for the owner alone.
    pub spool: PathBuf,
    /// The run's workspace, which steps see as `/workspace`.
    pub workspace: PathBuf,
    /// The binary that becomes runner, launcher and file tool: one that calls [`crate::dispatch()`].
    pub program: PathBuf,
    /// What happens on a machine that cannot hold a jail.
    pub posture: sandbox::Posture,
    /// What steps see beside the system and the workspace, such as a repository's objects.
    pub mounts: Vec<sandbox::Mount>,
    /// What a setup sees in place of the mounts with the same targets: it may fill what other steps only
    /// read.
    #[serde(default)]
    pub setup_mounts: Vec<sandbox::Mount>,
    /// Added to the environment of a setup; never a secret.
    #[serde(default)]
    pub setup_env: Vec<(String, String)>,
    /// Added to the clean environment of each step; never a secret.
    pub env: Vec<(String, String)>,
    /// Added to the environment of commands on top of that, and possibly secret: a runner gets it by its own
    /// environment, as arguments can be read by every user of the machine.
    #[serde(skip)]
    pub given: Given,
    /// The git of the commands; without one they have none.
    #[serde(default)]
    pub git: Option<Git>,
    /// Files of the workspace, relative to it, that commands may read and file tools refuse: they hold
    /// values of the owner's environment.
    #[serde(default)]
    pub withheld: Vec<String>,
    /// The files of the workspace that steps may read and write, by the run's lease.
    #[serde(default)]
    pub paths: domain::Grants,
    /// What runs beside the commands, in the order in which it is waited for.
    #[serde(default)]
    pub services: Vec<domain::Service>,
    /// What one step may use up.
    pub limits: sandbox::Limits,
    /// How long a runner stays without a daemon and without work, in milliseconds.
    pub idle: Millis,
}

impl Config {
    /// A runner with posture `Deny`, default limits and 15 minutes of patience.
    pub fn new(
        run: RunId,
        spool: impl Into<PathBuf>,
        workspace: impl Into<PathBuf>,
        program: impl Into<PathBuf>,
    ) -> Self {
        Self {
            run,
            spool: spool.into(),
            workspace: workspace.into(),
            program: program.into(),
            posture: sandbox::Posture::Deny,
            mounts: Vec::new(),
            setup_mounts: Vec::new(),
            setup_env: Vec::new(),
            env: Vec::new(),
            given: Given::default(),
            git: None,
            withheld: Vec::new(),
            paths: domain::Grants::default(),
            services: Vec::new(),
            limits: sandbox::Limits::default(),
            idle: 15 * 60 * 1000,
        }
    }

    /// [`Config::given`] for a runner's own environment.
    pub(crate) fn given_env(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(&self.given)
    }

    /// Takes [`Config::given`] from this process's environment, where a daemon put it.
    pub(crate) fn take_given(&mut self) -> Result<(), serde_json::Error> {
        if let Ok(text) = std::env::var(GIVEN_ENV) {
            self.given = serde_json::from_str(&text)?;
        }
        Ok(())
    }

    /// The arguments that make [`Config::program`] this runner.
    pub(crate) fn args(&self) -> Result<[OsString; 2], serde_json::Error> {
        Ok([SERVE_ARG.into(), serde_json::to_string(self)?.into()])
    }
}
