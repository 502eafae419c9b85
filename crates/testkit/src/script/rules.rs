//! The vendors' rules on a request's form: what they answer with a 400, so does the script. Here those of
//! the Messages wire, whose form of a conversation the others are brought into.

pub(super) mod chat;
mod extras;
pub(super) mod images;
pub(super) mod responses;

use std::collections::BTreeSet;

use serde_json::Value;

use super::wire::signature;

/// Why the vendor would refuse this request; `None` when it would not.
pub(super) fn objection(request: &Value) -> Option<String> {
    check(request).err()
}

/// How a request for a summary begins its last block, and how a summary begins.
const COMPACT: &str = "Regie compacts this conversation";
const COMPACTED: &str = "[Compacted by Regie; turns before: ";

/// The place in the scenario: the assistant messages so far, and the turns that a summary stands for.
pub(super) fn turn_of(request: &Value) -> usize {
    let said = messages(request).iter().filter(|message| role(message) == "assistant").count();
    said + compacted(request).0
}

/// Which summary is asked for, from 0; `None` when the request is for a turn.
pub(super) fn compaction_of(request: &Value) -> Option<usize> {
    let last = messages(request).last().filter(|message| role(message) == "user")?;
    let block = last["content"].as_array()?.last()?;
    let text = block["text"].as_str()?;
    // Where texts become one, it is a paragraph of its own.
    let asks = text.starts_with(COMPACT) || text.contains(&format!("\n\n{COMPACT}"));
    asks.then(|| compacted(request).1)
}

/// The turns before the summary that the conversation begins with, and the compactions so far.
fn compacted(request: &Value) -> (usize, usize) {
    let first = first_user_text(request);
    let Some((_, rest)) = first.split_once(COMPACTED) else { return (0, 0) };
    let numbers = rest.split_once(']').map(|(head, _)| head.split_once("; compactions: "));
    let Some(Some((turns, compactions))) = numbers else { return (0, 0) };
    (turns.parse().unwrap_or(0), compactions.parse().unwrap_or(0))
}

/// What the first user message says.
pub(super) fn first_user_text(request: &Value) -> String {
    messages(request).iter().find(|message| role(message) == "user").map(text_of).unwrap_or_default()
}

/// What all user messages say, tool results included.
pub(super) fn all_user_texts(request: &Value) -> String {
    let users = messages(request).iter().filter(|message| role(message) == "user");
    users.map(text_of).collect::<Vec<_>>().join("\n")
}

/// What the last user message says, tool results included.
pub(super) fn last_user_text(request: &Value) -> String {
    let mut users = messages(request).iter().rev().filter(|message| role(message) == "user");
    users.next().map(text_of).unwrap_or_default()
}

fn check(request: &Value) -> Result<(), String> {
    if request["model"].as_str().is_none_or(str::is_empty) {
        return Err("model: field required".to_owned());
    }
    if request["max_tokens"].as_u64().is_none_or(|max| max == 0) {
        return Err("max_tokens: must be 1 or more".to_owned());
    }
    let messages = messages(request);
    if messages.first().map(role) != Some("user") {
        return Err("messages: first message must use the \"user\" role".to_owned());
    }
    if count_marks(request) > 4 {
        return Err("A maximum of 4 blocks with cache_control may be provided".to_owned());
    }
    extras::messages(request)?;
    let model = request["model"].as_str().unwrap_or_default();
    let mut open: BTreeSet<&str> = BTreeSet::new();
    let mut last_role = "user";
    for (place, message) in messages.iter().enumerate() {
        let role = role(message);
        if role == "assistant" && last_role == "user" && !open.is_empty() {
            return Err(unanswered(place, &open));
        }
        last_role = role;
        check_content(place, message, model)?;
        check_calls(place, message, &mut open)?;
    }
    match open.is_empty() {
        true => Ok(()),
        false => Err(unanswered(messages.len(), &open)),
    }
}

fn check_content(place: usize, message: &Value, model: &str) -> Result<(), String> {
    let blocks = match &message["content"] {
        Value::String(text) if text.trim().is_empty() => {
            return Err(format!("messages.{place}: user messages must have non-empty content"));
        }
        Value::String(_) => return Ok(()),
        Value::Array(blocks) if !blocks.is_empty() => blocks,
        _ => return Err(format!("messages.{place}: all messages must have non-empty content")),
    };
    for (at, block) in blocks.iter().enumerate() {
        let here = format!("messages.{place}.content.{at}");
        match kind(block) {
            "" => return Err(format!("{here}.type: field required")),
            "text" if is_blank(&block["text"]) => {
                return Err(format!("{here}: text content blocks must be non-empty"));
            }
            "tool_use" if !block["input"].is_object() => {
                return Err(format!("{here}.tool_use.input: Input should be a valid dictionary"));
            }
            "tool_result" if is_empty_result(&block["content"]) => {
                return Err(format!("{here}.tool_result: content must be non-empty"));
            }
            "tool_result" => {
                for (place, part) in block["content"].as_array().into_iter().flatten().enumerate() {
                    if kind(part) == "image" {
                        images::block(&format!("{here}.tool_result.content.{place}"), part)?;
                    }
                }
            }
            "image" => images::block(&here, block)?,
            "thinking" => check_signature(&here, block, model)?,
            _ => {}
        }
    }
    Ok(())
}

/// Signatures are bound to the model and to the text; foreign ones (of `signature` in a turn)
/// only have to be there.
fn check_signature(here: &str, block: &Value, model: &str) -> Result<(), String> {
    let thinking = block["thinking"].as_str().unwrap_or_default();
    match block["signature"].as_str() {
        None | Some("") => Err(format!("{here}.thinking.signature: Field required")),
        Some(sent) if sent.starts_with("sig_") && sent != signature(model, thinking) => {
            Err(format!("{here}: Invalid `signature` in `thinking` block"))
        }
        Some(_) => Ok(()),
    }
}

/// Every call is answered once, in the next message, before any other block there.
fn check_calls<'a>(place: usize, message: &'a Value, open: &mut BTreeSet<&'a str>) -> Result<(), String> {
    let mut other_seen = false;
    for block in message["content"].as_array().into_iter().flatten() {
        match (role(message), kind(block)) {
            ("assistant", "tool_use") => {
                let id = block["id"].as_str().unwrap_or_default();
                if id.is_empty() || !open.insert(id) {
                    return Err(format!("messages.{place}: `tool_use` ids must be unique"));
                }
            }
            ("user", "tool_result") => {
                let id = block["tool_use_id"].as_str().unwrap_or_default();
                if other_seen {
                    return Err(format!("messages.{place}: `tool_result` blocks must come first"));
                }
                if !open.remove(id) {
                    return Err(format!(
                        "messages.{place}: unexpected `tool_use_id` found in `tool_result` blocks: {id}"
                    ));
                }
            }
            ("user", _) => other_seen = true,
            _ => {}
        }
    }
    match role(message) == "user" && !open.is_empty() {
        true => Err(unanswered(place, open)),
        false => Ok(()),
    }
}

fn unanswered(place: usize, open: &BTreeSet<&str>) -> String {
    let ids: Vec<&str> = open.iter().copied().collect();
    format!(
        "messages.{place}: `tool_use` ids were found without `tool_result` blocks immediately after: {}",
        ids.join(", ")
    )
}

fn count_marks(value: &Value) -> usize {
    match value {
        Value::Object(fields) => fields
            .iter()
            // What a model wrote as a tool's input is no mark.
            .filter(|(name, _)| *name != "input" && *name != "input_schema")
            .map(|(name, inner)| usize::from(name == "cache_control") + count_marks(inner))
            .sum(),
        Value::Array(items) => items.iter().map(count_marks).sum(),
        _ => 0,
    }
}

fn is_empty_result(content: &Value) -> bool {
    match content {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(blocks) => {
            blocks.is_empty() || blocks.iter().any(|block| kind(block) == "text" && is_blank(&block["text"]))
        }
        _ => false,
    }
}

fn is_blank(text: &Value) -> bool {
    text.as_str().is_none_or(|text| text.trim().is_empty())
}

fn messages(request: &Value) -> &[Value] {
    request["messages"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn role(message: &Value) -> &str {
    message["role"].as_str().unwrap_or_default()
}

fn kind(block: &Value) -> &str {
    block["type"].as_str().unwrap_or_default()
}

fn text_of(message: &Value) -> String {
    fn walk(content: &Value, into: &mut Vec<String>) {
        match content {
            Value::String(text) => into.push(text.clone()),
            Value::Array(blocks) => {
                for block in blocks {
                    walk(&block["text"], into);
                    walk(&block["content"], into);
                }
            }
            _ => {}
        }
    }
    let mut texts = Vec::new();
    walk(&message["content"], &mut texts);
    texts.join("\n")
}
