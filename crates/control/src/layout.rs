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
}
