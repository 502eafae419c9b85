//! What Regie reads of a block, by its `type`. The kinds of the three wires have different names, so a
//! block needs no mark of the wire that it came from.

use serde::Deserialize;

use super::{InputError, Origin, View};
use crate::RawJson;

/// All that is read of a block.
pub(super) struct Read {
    pub view: View,
    pub origin: Option<Origin>,
    pub input_error: Option<InputError>,
}

#[derive(Deserialize)]
struct Kind {
    r#type: String,
}

#[derive(Deserialize)]
struct Text {
    text: String,
}

#[derive(Deserialize)]
struct Thinking {
    #[serde(default)]
    thinking: String,
}

#[derive(Deserialize)]
struct ToolUse {
    id: String,
    name: String,
    input: RawJson,
}

#[derive(Deserialize)]
struct ToolResult {
    tool_use_id: String,
    #[serde(default)]
    content: Option<RawJson>,
    #[serde(default)]
    is_error: Option<bool>,
}

/// A message of the Responses wire: text and refusals.
#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: Vec<Part>,
}

/// Reasoning of the Responses wire.
#[derive(Deserialize)]
struct Reasoning {
    #[serde(default)]
    summary: Vec<Part>,
}

#[derive(Deserialize)]
struct Part {
    #[serde(default)]
    text: String,
    #[serde(default)]
    refusal: String,
}

#[derive(Deserialize)]
struct FunctionCall {
    call_id: String,
    name: String,
    #[serde(default)]
    arguments: Option<RawJson>,
}

/// A tool call of the chat wire.
#[derive(Deserialize)]
struct ChatCall {
    id: String,
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    #[serde(default)]
    arguments: Option<RawJson>,
}

pub(super) fn kind(raw: &RawJson) -> String {
    raw.decode::<Kind>().map(|kind| kind.r#type).unwrap_or_default()
}

pub(super) fn read(raw: &RawJson) -> Result<Read, serde_json::Error> {
    let Kind { r#type: kind } = raw.decode()?;
    let of = |view, origin| Read { view, origin, input_error: None };
    Ok(match kind.as_str() {
        "text" => of(View::Text { text: raw.decode::<Text>()?.text }, None),
        "thinking" => of(View::Thinking { text: raw.decode::<Thinking>()?.thinking }, Some(Origin::Messages)),
        "redacted_thinking" => of(View::Thinking { text: String::new() }, Some(Origin::Messages)),
        "tool_use" => {
            let ToolUse { id, name, input } = raw.decode()?;
            of(View::ToolUse { id, name, input }, Some(Origin::Messages))
        }
        "tool_result" => {
            let ToolResult { tool_use_id, content, is_error } = raw.decode()?;
            of(View::ToolResult { tool_use_id, content, is_error: is_error.unwrap_or(false) }, None)
        }
        "message" => {
            let Message { content } = raw.decode()?;
            let said = content.iter().map(|part| format!("{}{}", part.text, part.refusal));
            of(View::Text { text: said.collect() }, Some(Origin::Responses))
        }
        "reasoning" => {
            let Reasoning { summary } = raw.decode()?;
            let texts: Vec<&str> = summary.iter().map(|part| part.text.as_str()).collect();
            of(View::Thinking { text: texts.join("\n\n") }, Some(Origin::Responses))
        }
        "function_call" => {
            let FunctionCall { call_id: id, name, arguments } = raw.decode()?;
            called(id, name, arguments.as_ref(), Origin::Responses)
        }
        "function" => {
            let ChatCall { id, function: Function { name, arguments } } = raw.decode()?;
            called(id, name, arguments.as_ref(), Origin::Chat)
        }
        "chat_reasoning" => of(View::Thinking { text: raw.decode::<Text>()?.text }, Some(Origin::Chat)),
        _ => of(View::Other { kind }, None),
    })
}

fn called(id: String, name: String, written: Option<&RawJson>, origin: Origin) -> Read {
    let (input, input_error) = match arguments(written) {
        Ok(input) => (input, None),
        Err(text) => (wrapped(&text), Some(InputError::Unreadable(text))),
    };
    Read { view: View::ToolUse { id, name, input }, origin: Some(origin), input_error }
}

/// The input of a call from its arguments: a text that holds an object, the object itself, or nothing.
/// `Err` is what the model wrote instead.
pub(crate) fn arguments(written: Option<&RawJson>) -> Result<RawJson, String> {
    let nothing = || Ok(RawJson::known("{}".to_owned()));
    let Some(raw) = written else { return nothing() };
    if raw.is_object() {
        return Ok(raw.clone());
    }
    let Ok(text) = raw.decode::<String>() else {
        return match raw.as_str().trim() == "null" {
            true => nothing(),
            false => Err(raw.as_str().to_owned()),
        };
    };
    let trimmed = text.trim();
    if trimmed.is_empty() || trimmed == "null" {
        return nothing();
    }
    match RawJson::parse(trimmed) {
        Ok(input) if input.is_object() && input.is_readable() => Ok(input),
        _ => Err(text),
    }
}

/// What stands for arguments that are no object: vendors and templates take nothing else back.
pub(crate) fn wrapped(text: &str) -> RawJson {
    RawJson::known(format!(r#"{{"INVALID_JSON":{}}}"#, RawJson::string(text).as_str()))
}
