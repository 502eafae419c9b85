//! The file tools, as they run inside the jail.
//!
//! This process is the jail's launcher itself on hostile ground, which executes nothing from there on: what
//! it may touch is held by the jail, and what it answers is untrusted. It takes one request on standard input and gives one answer on
//! standard output.

mod change;
mod instructions;
mod look;
pub(crate) mod picture;
mod place;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;

use domain::Digest;
use serde::{Deserialize, Serialize};

use crate::call::Input;
use crate::output::Instructions;
use crate::spool::SeenFiles;
use crate::wire::Seen;
use place::Ground;

/// What the arguments of a file tool begin with.
pub(crate) const NAME: &str = "tool";

/// How much text one answer holds, in bytes.
const LONGEST: usize = 48 << 10;
/// How much text one page of `read` holds, in bytes: about 3,000 tokens.
const PAGE: usize = crate::output::SHOWN;
/// The largest file that is read or changed, in bytes.
const LARGEST: u64 = 32 << 20;

/// What a file tool is asked.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    /// Where the workspace is.
    pub(crate) root: PathBuf,
    /// Where the long outputs of earlier steps are, which may be looked at too.
    pub(crate) outputs: PathBuf,
    /// What to do.
    pub(crate) input: Input,
    /// What the agent knows of files.
    pub(crate) seen: SeenFiles,
    /// The instruction files that the agent was told already.
    pub(crate) told: BTreeSet<String>,
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
    /// The instructions that come with the file.
    pub(crate) instructions: Option<Instructions>,
    /// The bytes of an image, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) image: Option<String>,
}

impl Answer {
    fn plain(text: String) -> Self {
        Self { text, is_error: false, seen: None, instructions: None, image: None }
    }

    fn seen(text: String, path: String, content: &[u8]) -> Self {
        let seen = Seen { path, digest: Digest::of(content) };
        Self { text, is_error: false, seen: Some(seen), instructions: None, image: None }
    }

    pub(crate) fn error(text: String) -> Self {
        Self { is_error: true, ..Self::plain(text) }
    }
}

/// What a launcher becomes: says all that there is to say in its answer. Its exit code is 0 when that got out.
pub(crate) fn tool_main(_: &[OsString]) -> i32 {
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
    i32::from(written.is_err())
}

fn run(request: &Request) -> Answer {
    let root = &request.root;
    if let Err(refusal) = place::refuse(root, request.input.path(), &request.withheld) {
        return Answer::error(refusal);
    }
    let ground = Ground { root, outputs: &request.outputs };
    let done = match &request.input {
        Input::Read(input) => look::read(ground, input),
        Input::List(input) => look::list(ground, input),
        Input::Search(input) => look::search(ground, input, &request.withheld),
        Input::Edit(input) => change::edit(root, input, &request.seen),
        Input::Write(input) => change::write(root, input, &request.seen),
    };
    let mut answer = done.unwrap_or_else(Answer::error);
    if let Some(seen) = &answer.seen {
        answer.instructions = instructions::nearest(root, &seen.path, &request.told);
    }
    answer
}
