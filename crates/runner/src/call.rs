//! A step's request, checked before anything starts.
//!
//! Requests come from a model: whatever is wrong with one is told in words that the model can act
//! on, and is the step's result, not an error of Regie.

use domain::StepKind;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{spec, wire};

/// What a step asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Call {
    /// A file tool, which runs as Regie's own binary inside the jail.
    File(Input),
    /// A shell command.
    Shell(Shell),
    /// The command that sets the project up, with the machine's network.
    Setup(Shell),
}

/// The checked input of a file tool, as it is handed into the jail.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "tool", content = "input", rename_all = "snake_case")]
pub(crate) enum Input {
    Read(Read),
    List(List),
    Search(Search),
    Edit(Edit),
    Write(Write),
}

impl Input {
    /// The path that it names.
    pub(crate) fn path(&self) -> Option<&str> {
        match self {
            Self::Read(Read { path, .. })
            | Self::Edit(Edit { path, .. })
            | Self::Write(Write { path, .. }) => Some(path),
            Self::List(List { path, .. }) | Self::Search(Search { path, .. }) => path.as_deref(),
        }
    }
}

/// Input of `read`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Read {
    pub(crate) path: String,
    pub(crate) offset: Option<u64>,
    pub(crate) limit: Option<u64>,
}

/// Input of `list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct List {
    pub(crate) path: Option<String>,
    pub(crate) depth: Option<u64>,
}

/// Input of `search`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Search {
    pub(crate) pattern: String,
    pub(crate) path: Option<String>,
    pub(crate) glob: Option<String>,
    pub(crate) ignore_case: Option<bool>,
}

/// Input of `edit`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Edit {
    pub(crate) path: String,
    pub(crate) old: String,
    pub(crate) new: String,
    pub(crate) replace_all: Option<bool>,
}

/// Input of `write`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Write {
    pub(crate) path: String,
    pub(crate) content: String,
}

/// Input of `shell`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shell {
    pub(crate) command: String,
    pub(crate) timeout_seconds: Option<u64>,
}

/// Input of the setup. Where the command comes from is for the owner's eyes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Setup {
    command: String,
    #[serde(rename = "from")]
    _from: String,
    #[serde(rename = "sees")]
    _sees: Vec<String>,
}

/// The request of a tool call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolRequest {
    tool: String,
    input: serde_json::Value,
}

/// The request of a verdict.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VerdictRequest {
    command: String,
}

impl Call {
    /// Reads the request of a step. The error is for the model.
    pub(crate) fn parse(work: &wire::Work) -> Result<Self, String> {
        let unreadable = |error: serde_json::Error| format!("the request is not what a step needs: {error}");
        if work.kind == StepKind::Verdict {
            let request: VerdictRequest = serde_json::from_str(&work.request).map_err(unreadable)?;
            let shell = Shell { command: request.command, timeout_seconds: None };
            return shell.check().map(Self::Shell);
        }
        let request: ToolRequest = serde_json::from_str(&work.request).map_err(unreadable)?;
        let (name, input) = (request.tool.as_str(), request.input);
        // What was authorised is what is done.
        if name != work.tool {
            return Err(format!(
                "the request names the tool `{name}`, but the step is one of `{}`",
                work.tool
            ));
        }
        Ok(Self::File(match name {
            "read" => Input::Read(take::<Read>(name, input)?.check()?),
            "list" => Input::List(take::<List>(name, input)?.check()?),
            "search" => Input::Search(take(name, input)?),
            "edit" => Input::Edit(take::<Edit>(name, input)?.check()?),
            "write" => Input::Write(take(name, input)?),
            "shell" => return take::<Shell>(name, input)?.check().map(Self::Shell),
            spec::SETUP => {
                let Setup { command, .. } = take(name, input)?;
                return Shell { command, timeout_seconds: None }.check().map(Self::Setup);
            }
            _ => {
                return Err(format!("there is no tool `{name}`; the tools are {}", spec::NAMES.join(", ")));
            }
        }))
    }
}

/// The typed input; tells what the tool wants when it is something else.
fn take<T: DeserializeOwned>(name: &str, input: serde_json::Value) -> Result<T, String> {
    serde_json::from_value(input).map_err(|error| {
        let schema = spec::builtin().into_iter().find(|tool| tool.name == name).map(|tool| tool.input_schema);
        format!(
            "the input of `{name}` is wrong: {error}; send an object of this schema: {}",
            schema.unwrap_or_default()
        )
    })
}

impl Read {
    fn check(self) -> Result<Self, String> {
        if self.offset == Some(0) || self.limit == Some(0) {
            return Err("`offset` and `limit` of `read` count from 1".into());
        }
        Ok(self)
    }
}

impl List {
    fn check(self) -> Result<Self, String> {
        match self.depth {
            Some(depth) if !(1..=16).contains(&depth) => {
                Err("`depth` of `list` must be between 1 and 16".into())
            }
            _ => Ok(self),
        }
    }
}

impl Edit {
    fn check(self) -> Result<Self, String> {
        if self.old.is_empty() {
            return Err("`old` of `edit` is empty; give the text to replace, or use `write`".into());
        }
        if self.old == self.new {
            return Err("`old` and `new` of `edit` are the same, so there is nothing to change".into());
        }
        Ok(self)
    }
}

impl Shell {
    fn check(self) -> Result<Self, String> {
        if self.command.trim().is_empty() {
            return Err("the command is empty; give a command line".into());
        }
        if self.command.contains('\0') {
            return Err("the command contains a NUL character, which no command line can".into());
        }
        if self.timeout_seconds.is_some_and(|seconds| !(1..=3600).contains(&seconds)) {
            return Err("`timeout_seconds` of `shell` must be between 1 and 3600".into());
        }
        Ok(self)
    }
}
