//! Configuration: one `regie.toml` per project, one `config.toml` per installation, the environment
//! and the options of a command; each value with where it comes from.
//!
//! A `regie.toml` is part of a repository, and so perhaps the work of a stranger or of an agent: it
//! gives criteria and lowers caps, and never raises one above what the owner has set. Only the
//! installation's file, the environment and options are the owner's own words.
//!
//! | module | what lives there |
//! |---|---|
//! | `key` | the keys: what each means, where it may stand |
//! | `value` | values as people write and read them |
//! | `file` | reading a file, with the line of everything |
//! | `merge` | which of several values holds |
//! | `explain` | `regie config explain` |

mod error;
pub(crate) mod explain;
mod file;
mod key;
mod merge;
mod value;

use std::path::{Path, PathBuf};

pub(crate) use error::Error;
pub(crate) use file::PROJECT_FILE;
pub(crate) use key::{KEYS, Key, Level};
pub(crate) use merge::{Config, Flags, Origin};
pub(crate) use value::{Value, dollars, span};

use crate::home::Home;

/// Reads what holds for a mission on `project`, a directory in a repository.
///
/// # Errors
/// The first thing in a file or the environment that makes no sense, with its place.
pub(crate) fn load(home: &Home, project: &Path, flags: Flags) -> Result<Config, Error> {
    let env = |name: &str| std::env::var(name).ok();
    Config::read(&installation_file(home), project_file(project).as_deref(), &env, flags)
}

/// What all missions of one UTC day may cost together, in nanodollars, as the installation has it.
///
/// # Errors
/// What makes no sense in the installation's file.
pub(crate) fn day_cap(home: &Home) -> Result<u64, Error> {
    let config = Config::read(&installation_file(home), None, &|_| None, Flags::default())?;
    Ok(config.amount(Key::DayMaxDollars))
}

/// The base URL of the owner's own model server, as the installation has it.
///
/// # Errors
/// What makes no sense in the installation's file.
pub(crate) fn local_url(home: &Home) -> Result<Option<String>, Error> {
    let config = Config::read(&installation_file(home), None, &|_| None, Flags::default())?;
    Ok(config.text(Key::LocalUrl))
}

/// The installation's file.
pub(crate) fn installation_file(home: &Home) -> PathBuf {
    home.root().join("config.toml")
}

/// The file of the project that a directory belongs to: at the root of its repository. `None` where
/// there is no repository.
pub(crate) fn project_file(directory: &Path) -> Option<PathBuf> {
    project_root(directory).map(|root| root.join(PROJECT_FILE))
}

/// The root of the repository that a directory lies in, found without asking git.
pub(crate) fn project_root(directory: &Path) -> Option<PathBuf> {
    directory.ancestors().find(|path| path.join(".git").exists()).map(Path::to_owned)
}
