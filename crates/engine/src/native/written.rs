//! Tool calls that a model writes as text instead of making them: small models do, and servers whose parser
//! does not know the model's form. Nothing of it is ever run. The model is told once; then the run ends, as
//! all it could go on with is more text.

use domain::run::End;
use models::Response;
use serde_json::Value;

use super::view::{Stage, View};
use crate::config::Toolbox;
use crate::prompt;

/// How models mark a call in their own templates.
const MARKS: [&str; 9] = [
    "<tool_call",
    "<|tool_call",
    "<function_call",
    "<function=",
    "<invoke name=",
    "<|python_tag|>",
    "[TOOL_CALLS]",
    "[TOOL_REQUEST]",
    "<tool_use",
];
/// How far behind a mark the tool's name may be, in bytes.
const NEAR: usize = 200;
/// The names that the fields of a call have.
const NAME: [&str; 3] = ["name", "tool", "function"];
const INPUT: [&str; 4] = ["arguments", "parameters", "input", "args"];

/// What is known of calls written as text.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// Whether this run looks for them: those of older drivers took every text for an answer.
    pub(super) watches: bool,
    /// Whether the answer before was one, and the model was told.
    is_told: bool,
}

impl View {
    /// Whether an answer without calls holds one as text, and what follows is settled.
    pub(super) fn takes_written(&mut self, seq: u64, response: &Response) -> bool {
        let found = self.written.watches.then(|| find(&response.text(), &self.config.toolbox)).flatten();
        let Some(tool) = found.map(str::to_owned) else {
            self.written.is_told = false;
            return false;
        };
        if !self.written.is_told || self.is_spoken_to() {
            self.written.is_told = true;
            self.say(seq, prompt::written_call(&tool));
            self.stage = Stage::Asking;
            return true;
        }
        let reason = format!(
            "the model writes calls of `{tool}` as text and makes none: it, or its server as it was started, cannot \
             call tools; use a model that can, or have the server read its calls (vLLM: --enable-auto-tool-choice \
             and --tool-call-parser, llama.cpp: --jinja); {}",
            self.kept()
        );
        self.finish(End::Blocked, reason);
        true
    }

    /// A call was made.
    pub(super) const fn calls_again(&mut self) {
        self.written.is_told = false;
    }
}

/// The tool that a text calls written as text. A text that only tells of calls names no tool in their form.
fn find<'a>(text: &str, toolbox: &'a Toolbox) -> Option<&'a str> {
    let known = |name: &str| toolbox.names().find(|tool| *tool == name);
    let marked = MARKS.iter().filter_map(|mark| text.split_once(mark)).find_map(|(_, rest)| {
        let near = prompt::cut(rest, NEAR);
        near.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-').find_map(known)
    });
    marked.or_else(|| {
        let whole = std::iter::once(text.trim());
        whole.chain(fenced(text)).find_map(|json| known(&called(json)?))
    })
}

/// The contents of the fenced blocks that say that they are JSON, or say nothing.
fn fenced(text: &str) -> impl Iterator<Item = &str> {
    text.split("```").skip(1).step_by(2).map(|block| {
        let block = block.strip_prefix("json").or_else(|| block.strip_prefix("tool_code")).unwrap_or(block);
        block.trim()
    })
}

/// The name in an object that has the form of a call.
fn called(json: &str) -> Option<String> {
    if !json.starts_with(['{', '[']) {
        return None;
    }
    let value: Value = serde_json::from_str(json).ok()?;
    let call = value.as_array().map_or(Some(&value), |calls| calls.first())?;
    let call = call.get("function").filter(|inner| inner.is_object()).unwrap_or(call);
    let fields = call.as_object()?;
    let has_input = INPUT.iter().any(|name| fields.contains_key(*name));
    let name = NAME.iter().find_map(|name| fields.get(*name)?.as_str())?;
    has_input.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: Option<&str>) {
        let toolbox = Toolbox::built_in().unwrap();
        assert_eq!(find(text, &toolbox), want, "{text}");
    }

    #[test]
    fn a_call_as_text_is_found_in_every_form() {
        for text in [
            "I look.\n<tool_call>\n{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}\n</tool_call>",
            "<tool_call>{\"arguments\":{\"command\":\"ls\"},\"name\":\"shell\"}",
            "<function=shell>\n<parameter=command>ls</parameter>\n</function>",
            "[TOOL_CALLS][{\"name\":\"shell\",\"arguments\":{}}]",
            "[TOOL_CALLS]shell[ARGS]{\"command\":\"ls\"}",
            "<|python_tag|>{\"name\":\"shell\",\"parameters\":{}}",
            "<function_calls>\n<invoke name=\"shell\">",
            "```json\n{\"name\": \"shell\", \"arguments\": {\"command\": \"ls\"}}\n```",
            "Now:\n```\n{\"tool\": \"shell\", \"input\": {}}\n```\nand so on",
            "{\"name\":\"shell\",\"parameters\":{\"command\":\"ls\"}}",
            "[{\"function\":{\"name\":\"shell\",\"arguments\":\"{}\"}}]",
        ] {
            check(text, Some("shell"));
        }
    }

    #[test]
    fn what_only_tells_of_calls_is_an_answer() {
        for text in [
            "",
            "I ran the shell, and read the file.",
            "The parser now takes `<tool_call>` as well.",
            "```json\n{\"name\": \"cart\", \"version\": \"1.0.0\"}\n```",
            "```json\n{\"name\": \"shell\"}\n```",
            "```json\n{\"name\": \"unknown\", \"arguments\": {}}\n```",
            "```sh\nshell {}\n```",
            "{\"name\"",
            "[]",
        ] {
            check(text, None);
        }
    }
}
