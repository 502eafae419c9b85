//! What a tool's owner declares of it: what a call does, what each argument decides, who speaks in its output.
//!
//! A declaration says only what the tool is. It knows neither the task nor what is attacked, and what it leaves out
//! is taken at its worst: an undeclared argument as a destination, an undeclared field as a stranger's text.

use std::collections::{BTreeMap, BTreeSet};

use domain::label::Labels;
use serde::{Deserialize, Serialize};

/// What a call of a tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Reads in the house.
    Read,
    /// Reads outside: whoever is asked learns that, and what the address carries.
    Fetch,
    /// Changes something of the house that can be changed back.
    Write,
    /// Removes something.
    Destroy,
    /// Tells somebody something.
    Send,
    /// Lets somebody see or do something.
    Grant,
    /// Obliges the owner to somebody: a payment, a booking.
    Commit,
    /// Changes who the owner is to a service: a password, an address.
    Account,
}

/// What an argument decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Whom or what the call reaches: recipients, addresses, accounts.
    Destination,
    /// Which existing thing it acts on.
    Target,
    /// What the new thing is called.
    Name,
    /// How much it costs.
    Amount,
    /// What becomes true of the owner's account.
    Setting,
    /// Text that is carried along.
    Content,
    /// A time, a count, a choice of a few: it can carry no message.
    Bounded,
    /// What is looked for.
    Key,
}

/// Who speaks in a field of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Voice {
    /// The tool itself: an id, a sum, a verified address. It is never a text of somebody's.
    System,
    /// The name of a thing of which the tool vouches that it exists, though somebody chose the letters.
    Handle,
    /// A known member of the house wrote it.
    Member,
    /// Anybody may have written it.
    External,
}

/// What a tool's owner declares of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// What a call does.
    pub act: Act,
    /// What each argument decides, by its path (`recipients`, `attachments.file_id`).
    #[serde(default)]
    pub arguments: BTreeMap<String, Role>,
    /// Who speaks in what it answers.
    #[serde(default)]
    pub output: Output,
}

/// Who speaks in what a tool answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// In plain values: a text, the items of a list, the values of a map.
    #[serde(default)]
    pub plain: Option<Voice>,
    /// In the keys of a map whose keys are data.
    #[serde(default)]
    pub keys: Option<Voice>,
    /// In fields of objects, by name.
    #[serde(default)]
    pub fields: BTreeMap<String, Voice>,
    /// The fields that name an object, so that the owner can have meant it.
    #[serde(default)]
    pub names: BTreeSet<String>,
    /// Whether the keys are compared with names alone, so that a stranger's text cannot make itself be found.
    #[serde(default)]
    pub by_name: bool,
    /// Whether the objects were made by the call itself.
    #[serde(default)]
    pub made: bool,
    /// What the whole is labelled, beside `external`, which follows from the voices.
    #[serde(default)]
    pub labels: Labels,
}

/// The declarations of all tools of a run, by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Manifest(BTreeMap<String, Tool>);

/// A declaration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// It is no TOML of this shape.
    #[error(
        "the tool manifest cannot be read: expected a table for each tool with `act`, `arguments` and `output`"
    )]
    Form(#[source] toml::de::Error),
    /// A field names objects and is declared to be somebody's free text.
    #[error("tool {tool}: `{field}` is in `names` and must be declared `system` or `handle` in `fields`")]
    Name {
        /// The tool.
        tool: String,
        /// The field.
        field: String,
    },
    /// A tool that is found by name has nothing to look for.
    #[error("tool {tool}: `by_name` needs an argument whose role is `key`")]
    Keyless {
        /// The tool.
        tool: String,
    },
    /// A tool that makes nothing says that it does.
    #[error("tool {tool}: `made` is for tools that act; this one only reads")]
    Made {
        /// The tool.
        tool: String,
    },
}

impl Manifest {
    /// Reads declarations.
    ///
    /// # Errors
    ///
    /// What is wrong, with the tool.
    pub fn from_toml(text: &str) -> Result<Self, Fault> {
        let manifest: Self = toml::from_str(text).map_err(Fault::Form)?;
        manifest.0.iter().try_for_each(|(name, tool)| tool.holds(name))?;
        Ok(manifest)
    }

    /// What is declared of a tool.
    #[must_use]
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        self.0.get(name)
    }
}

impl Tool {
    /// What an argument decides; what is not declared is a destination.
    #[must_use]
    pub fn role(&self, path: &str) -> Role {
        let whole = || path.split_once('.').and_then(|(first, _)| self.arguments.get(first));
        self.arguments.get(path).or_else(whole).copied().unwrap_or(Role::Destination)
    }

    fn holds(&self, name: &str) -> Result<(), Fault> {
        let tool = name.to_owned();
        let speaks_for_itself =
            |field: &&String| self.output.fields.get(*field).is_none_or(|voice| *voice > Voice::Handle);
        if let Some(field) = self.output.names.iter().find(speaks_for_itself) {
            return Err(Fault::Name { tool, field: field.clone() });
        }
        if self.output.by_name && !self.arguments.values().any(|role| *role == Role::Key) {
            return Err(Fault::Keyless { tool });
        }
        if self.output.made && matches!(self.act, Act::Read | Act::Fetch) {
            return Err(Fault::Made { tool });
        }
        Ok(())
    }
}
