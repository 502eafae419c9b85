//! `regie config`: the configuration, looked at.

use std::path::Path;

use super::Context;
use crate::config::{self, Flags};
use crate::failure::{Exit, Failure};
use crate::{args, screen};

pub(super) fn run(context: &Context, args: args::Config) -> Result<Exit, Failure> {
    let args::Config::Explain { project } = args;
    let project = place(&project)?;
    let config = config::load(&context.home, &project, Flags::default())?;
    if config::project_root(&project).is_none() {
        screen::warning(&format!("{} is in no Git repository: it has no regie.toml", project.display()))?;
    }
    config::explain::show(&config, config::project_root(&project).as_deref(), context.json)
}

/// A directory that is there, by its real path.
pub(crate) fn place(project: &Path) -> Result<std::path::PathBuf, Failure> {
    std::fs::canonicalize(project).map_err(|error| {
        Failure::new(format!("the project {} cannot be found: {error}", project.display()))
            .hint("name a directory in a Git repository with --project")
    })
}
