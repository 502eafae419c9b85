//! A mission: goal, project, caps and definition of done.

use serde::{Deserialize, Serialize};

use crate::budget::Caps;
use crate::digest::Digest;
use crate::id::{MissionId, ProjectId};
use crate::terms::Terms;
use crate::time::Millis;

/// One criterion of the definition of done. Criteria are frozen at the start: only whether they pass
/// changes afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Criterion {
    /// A command that must exit with 0, run in the jail in the project's root.
    Command {
        /// The shell line.
        command: String,
    },
}

/// What a project's setup makes of a fresh checkout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// The hash of all that it depends on.
    pub hash: Digest,
    /// The command that sets it up.
    pub setup: String,
    /// Where the command comes from, as `regie.toml:3`.
    pub from: String,
    /// Variables of the owner's environment that the setup is given, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sees: Vec<String>,
    /// Whether it was kept from an earlier run and is in the workspace already.
    pub kept: bool,
}

/// Something that runs beside the commands of a run, such as a test database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// Its name, which is that of its log too.
    pub name: String,
    /// The shell line that runs it in the foreground.
    pub command: String,
    /// A shell line that exits with 0 once it can be used; without one it can be at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// How long that is waited for, in milliseconds.
    pub ready_timeout: Millis,
}

impl Service {
    /// How long a service is waited for when nothing is said, in milliseconds.
    pub const READY_TIMEOUT: Millis = 60_000;

    /// Whether a text can be a service's name: up to 32 letters, digits, `_` and `-`, and so a file's too.
    pub fn is_name(text: &str) -> bool {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        (1..=32).contains(&text.len()) && text.chars().all(fits)
    }
}

/// What a run was started for: the payload of its first event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mission {
    /// The mission's key.
    pub id: MissionId,
    /// The owner's words.
    pub goal: String,
    /// The project's key.
    pub project: ProjectId,
    /// The root of the owner's repository, as shown to the owner.
    pub repository: String,
    /// The owner's branch that the run started from and merges back to.
    pub line: String,
    /// The commit that the run started from.
    pub base: String,
    /// What must hold before the mission may end as done.
    pub done: Vec<Criterion>,
    /// The bounds.
    pub caps: Caps,
    /// The model of the main loop.
    pub model: String,
    /// The system prompt, kept as an artifact.
    pub system: Digest,
    /// The tool list, kept as an artifact.
    pub tools: Digest,
    /// Whether the owner approved in advance the merge of a proposal whose criteria pass (`--yes`).
    pub approve_merge: bool,
    /// Whether steps may run where the operating system cannot jail them, with a warning.
    #[serde(default)]
    pub allow_unjailed: bool,
    /// The owner's uncommitted changes that `base` holds, by their paths (`--dirty`): a merge brings
    /// them along.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncommitted: Vec<String>,
    /// Files of the owner's environment in the workspace that commands may read and file tools refuse.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withheld: Vec<String>,
    /// The environment that the project's setup makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
    /// What runs beside the commands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<Service>,
    /// What was known of the model; absent in missions of an earlier Regie, which went by its built-in table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terms: Option<Terms>,
}
