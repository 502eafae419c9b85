//! The file tools, as they run inside the jail.
//!
//! This process is Regie's own binary on hostile ground: what it may touch is held by the jail, and
//! what it answers is untrusted. It takes one request on standard input and gives one answer on
//! standard output.

mod change;
mod look;
mod place;

use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use domain::Digest;
use serde::{Deserialize, Serialize};

use crate::call::Input;
use crate::spool::SeenFiles;
use crate::wire::Seen;

/// How much text one answer holds, in bytes.
const LONGEST: usize = 48 << 10;
/// The largest file that is read or changed, in bytes.
const LARGEST: u64 = 32 << 20;

/// What a file tool is asked.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    /// Where the workspace is.
    pub(crate) root: PathBuf,
    /// What to do.
    pub(crate) input: Input,
    /// What the agent knows of files.
    pub(crate) seen: SeenFiles,
    /// Files that are not shown to a model.
    pub(crate) withheld: Vec<String>,
}

/// What a file tool answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// For the model.
    pub(crate) text: String,
    /// Whether it did not do what it was asked.
    pub(crate) is_error: bool,
    /// What the agent knows now.
    pub(crate) seen: Option<Seen>,
}

impl Answer {
    fn plain(text: String) -> Self {
        Self { text, is_error: false, seen: None }
    }

    fn seen(text: String, path: String, content: &[u8]) -> Self {
        Self { text, is_error: false, seen: Some(Seen { path, digest: Digest::of(content) }) }
    }

    fn error(text: String) -> Self {
        Self { text, is_error: true, seen: None }
    }
}

/// The main of the hidden subcommand [`crate::config::TOOL_ARG`].
pub(crate) fn tool_main() -> ExitCode {
    let mut text = Vec::new();
    let request = std::io::stdin()
        .read_to_end(&mut text)
        .map_err(|error| error.to_string())
        .and_then(|_| serde_json::from_slice::<Request>(&text).map_err(|error| error.to_string()));
    let answer = match request {
        Ok(request) => run(&request),
        Err(error) => Answer::error(format!("the tool cannot read its request: {error}")),
    };
    let written = serde_json::to_vec(&answer)
        .map_err(std::io::Error::from)
        .and_then(|body| std::io::stdout().write_all(&body));
    if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run(request: &Request) -> Answer {
    let root = &request.root;
    if let Err(refusal) = place::refuse(root, request.input.path(), &request.withheld) {
        return Answer::error(refusal);
    }
    let done = match &request.input {
        Input::Read(input) => look::read(root, input),
        Input::List(input) => look::list(root, input),
        Input::Search(input) => look::search(root, input, &request.withheld),
        Input::Edit(input) => change::edit(root, input, &request.seen),
        Input::Write(input) => change::write(root, input, &request.seen),
    };
    done.unwrap_or_else(Answer::error)
}
