//! Where things lie under the home.

use std::path::PathBuf;

use domain::{ProjectId, RunId};

/// The directories of an installation.
#[derive(Debug, Clone)]
pub struct Layout {
    /// The home.
    pub home: PathBuf,
    /// Git dirs, one a project, outside every workspace.
    pub trees: PathBuf,
    /// Workspaces, one a run.
    pub work: PathBuf,
    /// Results that runners have written down, one directory a run.
    pub spool: PathBuf,
}

impl Layout {
    /// The git dir of a project.
    pub fn tree(&self, project: ProjectId) -> PathBuf {
        self.trees.join(format!("{project}.git"))
    }

    /// What the tools of a project keep for the next time.
    pub fn cache(&self, project: ProjectId) -> PathBuf {
        self.home.join("cache").join(project.to_string())
    }

    /// The files of a run.
    pub fn workspace(&self, run: RunId) -> PathBuf {
        self.work.join(run.to_string()).join("tree")
    }

    /// Everything that is kept for a run besides its events: its files, their index, their lock.
    pub fn room(&self, run: RunId) -> PathBuf {
        self.work.join(run.to_string())
    }

    /// Where a project's caches lie, one directory each.
    pub fn caches(&self) -> PathBuf {
        self.home.join("cache")
    }

    /// What a runner has written down of a run.
    pub fn spooled(&self, run: RunId) -> PathBuf {
        self.spool.join(run.to_string())
    }
}
