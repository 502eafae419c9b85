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

/// The longest path that an answer names, in bytes: the kernel takes none that is longer.
const LONGEST_PATH: usize = 4096;

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

    /// What a jail gave as its answer. Nothing in there is believed: what is longer than the tool ever makes it
    /// is left out, as it would be kept and told for the rest of the run.
    pub(crate) fn received(bytes: &[u8]) -> serde_json::Result<Self> {
        let mut answer: Self = serde_json::from_slice(bytes)?;
        let is_path = |path: &str| path.len() <= LONGEST_PATH && !path.contains('\0');
        answer.seen = answer.seen.filter(|seen| is_path(&seen.path));
        answer.instructions = answer
            .instructions
            .filter(|told| is_path(&told.path) && told.text.len() <= instructions::LONGEST + 128);
        Ok(answer)
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

pub(crate) fn run(request: &Request) -> Answer {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_jail_answers_is_held_to_the_bounds_of_the_tool() {
        let digest = Digest::of(b"x");
        let answer = |path: &str, told: &str| {
            let seen = Some(Seen { path: path.to_owned(), digest });
            let instructions = Some(Instructions { path: path.to_owned(), text: told.to_owned() });
            let answer = Answer { seen, instructions, ..Answer::plain("text".into()) };
            Answer::received(&serde_json::to_vec(&answer).unwrap()).unwrap()
        };
        let kept = answer("src/a", &"x".repeat(instructions::LONGEST));
        assert!(kept.seen.is_some() && kept.instructions.is_some());
        let long = answer(&"a/".repeat(4096), "rules");
        assert!(long.seen.is_none() && long.instructions.is_none() && long.text == "text");
        assert!(answer("a\0b", "rules").seen.is_none());
        let much = answer("src/a", &"x".repeat(1 << 20));
        assert!(much.seen.is_some() && much.instructions.is_none());
        for bytes in [&b""[..], b"null", b"[]", b"{\"text\":\"a\"}", b"\xff"] {
            assert!(Answer::received(bytes).is_err());
        }
    }
}
