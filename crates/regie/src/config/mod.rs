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
//! | `env` | variables of the steps' environment |
//! | `services` | what runs beside the commands |
//! | `roles` | which model does what |
//! | `file` | reading a file, with the line of everything |
//! | `owner` | addresses, ages and sizes, which only the owner gives |
//! | `merge` | which of several values holds |
//! | `explain` | `regie config explain` |

pub(crate) mod env;
mod error;
pub(crate) mod explain;
mod file;
mod key;
mod merge;
mod owner;
mod roles;
mod services;
mod value;

use std::path::{Path, PathBuf};

pub(crate) use error::Error;
pub(crate) use file::PROJECT_FILE;
pub(crate) use key::{KEYS, Key, Level};
pub(crate) use merge::{Config, Flags, Given, Origin};
pub(crate) use owner::{age, shown as address_shown};
pub(crate) use value::{Value, dollars, effort, span};

use crate::home::Home;

/// Reads what holds for a mission on `project`, a directory in a repository.
///
/// # Errors
/// The first thing in a file or the environment that makes no sense, with its place.
pub(crate) fn load(home: &Home, project: &Path, flags: Flags) -> Result<Config, Error> {
    let env = |name: &str| std::env::var(name).ok();
    Config::read(&installation_file(home), project_file(project).as_deref(), &env, flags)
}

/// What steps of a mission on the repository at `root` are given, read anew for each runner: values are
/// put on record nowhere.
///
/// # Errors
/// The first thing in a file that makes no sense, with its place.
pub(crate) fn of_steps(home: &Home, root: &Path) -> Result<Config, Error> {
    Config::of_steps(&installation_file(home), &root.join(PROJECT_FILE))
}

/// What all missions of one UTC day may cost together, in nanodollars, as the installation has it.
///
/// # Errors
/// What makes no sense in the installation's file.
pub(crate) fn day_cap(home: &Home) -> Result<u64, Error> {
    let config = of_installation(home)?;
    Ok(config.amount(Key::DayMaxDollars))
}

/// The base URL of the owner's own model server, as the installation has it.
///
/// # Errors
/// What makes no sense in the installation's file.
pub(crate) fn local_url(home: &Home) -> Result<Option<String>, Error> {
    Ok(of_installation(home)?.text(Key::LocalUrl))
}

/// What the installation's file alone says: what is the owner's only, and needs no project.
///
/// # Errors
/// What makes no sense in it.
pub(crate) fn of_installation(home: &Home) -> Result<Config, Error> {
    Config::read(&installation_file(home), None, &|_| None, Flags::default())
}

/// What a delivery may do in the owner's name, as the installation has it.
///
/// # Errors
/// What makes no sense in the installation's file.
pub(crate) fn manners(home: &Home) -> Result<store::Manners, Error> {
    let config = of_installation(home)?;
    Ok(store::Manners { sign: config.is_on(Key::DeliverySign), hooks: config.is_on(Key::DeliveryHooks) })
}

/// What of a proposal is allowed, asked and denied at the export gate, as the installation has it.
///
/// # Errors
/// What makes no sense in the installation's file.
pub(crate) fn export(home: &Home) -> Result<trust::export::Rules, Error> {
    let config = of_installation(home)?;
    let names = |key| config.names(key);
    let rules = trust::export::Rules::parse(
        &names(Key::ExportAllow),
        &names(Key::ExportAsk),
        &names(Key::ExportDeny),
    );
    // Each entry was read before: together they can only be too many, and what is too much is denied.
    Ok(rules.unwrap_or_else(|_| trust::export::Rules::closed()))
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
    store::owner::root(directory).map(Path::to_owned)
}
