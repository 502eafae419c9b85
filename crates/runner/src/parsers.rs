//! What reads the words of models, jails and earlier runners, shown to fuzzers alone.

use std::path::Path;

use domain::{Digest, Effect, RunId, StepKind, StepNo};

use crate::call::{Call, Input};
use crate::tool::{self, picture};
use crate::wire::{self, Spooled, Work};

/// What of an answer of a jail is kept.
#[derive(Debug)]
pub struct Kept {
    /// What the model is told.
    pub text: String,
    /// The file that the agent then knows.
    pub path: Option<String>,
    /// The instructions that it is told.
    pub instructions: Option<String>,
    /// The bytes of an image.
    pub image: Option<Vec<u8>>,
}

/// Reads what a file tool in a jail has answered; `None` when it is no answer.
#[must_use]
pub fn answer(bytes: &[u8]) -> Option<Kept> {
    let answer = tool::Answer::received(bytes).ok()?;
    let image = answer.image.as_deref().and_then(picture::received);
    Some(Kept {
        text: answer.text,
        path: answer.seen.map(|seen| seen.path),
        instructions: answer.instructions.map(|told| told.text),
        image: image.map(|(bytes, _)| bytes),
    })
}

/// Reads what a model asks a tool for. The error is for the model.
///
/// # Errors
/// When the tool cannot be asked that.
pub fn call(tool: &str, request: &str) -> Result<(), String> {
    parse(StepKind::ToolCall, tool, request).map(drop)
}

/// Reads the command of a verdict.
///
/// # Errors
/// When it is none.
pub fn verdict(request: &str) -> Result<(), String> {
    parse(StepKind::Verdict, "verdict", request).map(drop)
}

/// What a file tool that only looks says of a workspace, without a jail around it; `None` for any other tool.
#[must_use]
pub fn look(root: &Path, outputs: &Path, withheld: &[String], tool: &str, input: &str) -> Option<String> {
    let request = format!("{{\"tool\":{tool:?},\"input\":{input}}}");
    let Ok(Call::File(input)) = parse(StepKind::ToolCall, tool, &request) else { return None };
    if !matches!(input, Input::Read(_) | Input::List(_) | Input::Search(_)) {
        return None;
    }
    let request = tool::Request {
        root: root.to_owned(),
        outputs: outputs.to_owned(),
        input,
        seen: Default::default(),
        told: Default::default(),
        withheld: withheld.to_vec(),
    };
    Some(tool::run(&request).text)
}

/// A result of the spool, read and written again; `None` when it is none.
#[must_use]
pub fn spooled(bytes: &[u8]) -> Option<Vec<u8>> {
    let spooled: Spooled = serde_json::from_slice(bytes).ok()?;
    serde_json::to_vec(&spooled).ok()
}

/// A line of daemon and runner, read and written again; `None` when it is none.
#[must_use]
pub fn line(bytes: &[u8]) -> Option<Vec<u8>> {
    if let Ok(request) = serde_json::from_slice::<wire::Request>(bytes) {
        return serde_json::to_vec(&request).ok();
    }
    let answer = serde_json::from_slice::<wire::Answer>(bytes).ok()?;
    serde_json::to_vec(&answer).ok()
}

fn parse(kind: StepKind, tool: &str, request: &str) -> Result<Call, String> {
    Call::parse(&Work {
        run: RunId::new(1, [7; 10]),
        step: StepNo(1),
        attempt: 1,
        key: Digest::of(b"key"),
        fence: 1,
        kind,
        effect: Effect::Read,
        tool: tool.to_owned(),
        request: request.to_owned(),
        timeout: 1,
    })
}
