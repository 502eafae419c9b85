//! Environments that a project's setup made: kept beside the project's caches, under the hash of all
//! that they depend on, and brought into the workspace of a later run.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use domain::{Digest, Environment, ProjectId};
use runner::environment;
use runner::toolchains::{self, Cache, Machine, Toolchains};
use store::Workspace;

use crate::api;
use crate::layout::Layout;
use crate::view;

/// How many environments of a project are kept.
const KEPT: usize = 3;
/// Its time says when an environment was last used.
const USED: &str = "used";

/// Environments are kept, brought and removed one at a time, so that none goes away while it is copied.
static TURN: Mutex<()> = Mutex::new(());

/// The environment of a new run, brought into its fresh workspace when it was kept.
pub(crate) fn prepare(
    layout: &Layout,
    project: ProjectId,
    workspace: &Workspace,
    setup: &api::Setup,
) -> Result<Environment, store::Error> {
    let hash =
        environment::hash(&setup.command, &setup.variables, workspace.dir(), &toolchains(layout, project));
    let kept = bring(&place(layout, project, hash), workspace)?;
    let api::Setup { command, from, sees, .. } = setup.clone();
    Ok(Environment { hash, setup: command, from, sees, kept })
}

impl From<&Environment> for api::Environment {
    fn from(environment: &Environment) -> Self {
        Self { hash: environment.hash.to_string(), kept: environment.kept }
    }
}

/// The environment of another run, brought into the workspace of one that goes on from it; `None` when it
/// is not kept.
pub(crate) fn again(
    layout: &Layout,
    project: ProjectId,
    workspace: &Workspace,
    environment: Environment,
) -> Result<Option<Environment>, store::Error> {
    let kept = bring(&place(layout, project, environment.hash), workspace)?;
    Ok(kept.then_some(Environment { kept, ..environment }))
}

/// Keeps what a setup made, and lets go of what was not used for longest. Says why it could not.
pub(crate) fn keep(
    layout: &Layout,
    project: ProjectId,
    hash: Digest,
    workspace: &Workspace,
) -> Result<(), String> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = place(layout, project, hash);
    let made = dir.parent().map_or(Ok(()), fs::create_dir_all);
    made.map_err(|error| format!("{} cannot be made: {error}", dir.display()))?;
    workspace.keep(&dir).map_err(|error| view::with_causes(&error))?;
    touch(&dir);
    prune(&dir);
    Ok(())
}

/// The toolchains that steps of a project see.
fn toolchains(layout: &Layout, project: ProjectId) -> Toolchains {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    let cache = Cache::new(layout.cache(project));
    home.map(|home| toolchains::find(Path::new(&home), &cache, &Machine)).unwrap_or_default()
}

fn place(layout: &Layout, project: ProjectId, hash: Digest) -> PathBuf {
    layout.cache(project).join("environments").join(hash.to_string())
}

fn bring(dir: &Path, workspace: &Workspace) -> Result<bool, store::Error> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if !dir.is_dir() {
        return Ok(false);
    }
    match workspace.bring(dir) {
        Ok(()) => {
            touch(dir);
            Ok(true)
        }
        Err(error) => {
            tracing::warn!(dir = %dir.display(), error = %view::with_causes(&error), "a kept environment is of no use");
            workspace.clean()?;
            // It would fail again: it is made anew.
            remove(dir);
            Ok(false)
        }
    }
}

fn touch(dir: &Path) {
    if let Err(error) = fs::write(dir.join(USED), "") {
        tracing::warn!(dir = %dir.display(), %error, "the use of an environment is not noted");
    }
}

/// Removes all but the environments that were used last.
fn prune(newest: &Path) {
    let entries = newest.parent().map(fs::read_dir).into_iter().flatten().flatten().flatten();
    let mut found: Vec<(SystemTime, PathBuf)> = entries
        .map(|entry| {
            let used = entry.path().join(USED).metadata().and_then(|meta| meta.modified());
            (used.unwrap_or(SystemTime::UNIX_EPOCH), entry.path())
        })
        .filter(|(_, dir)| dir != newest)
        .collect();
    found.sort();
    let most = KEPT.saturating_sub(1);
    let excess = found.len().saturating_sub(most);
    for (_, dir) in found.into_iter().take(excess) {
        remove(&dir);
    }
}

fn remove(dir: &Path) {
    if let Err(error) = store::remove_all(dir) {
        tracing::warn!(dir = %dir.display(), %error, "an old environment is left behind");
    }
}
