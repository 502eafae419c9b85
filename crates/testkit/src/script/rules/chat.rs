//! The rules of the chat completions wire: what it answers with a 400.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// Why a server would refuse this request; `None` when it would not.
pub(in crate::script) fn objection(request: &Value) -> Option<String> {
    check(request).err()
}

/// The conversation without system messages; results of tools are the user's.
pub(in crate::script) fn conversation(request: &Value) -> Value {
    let mut conversation: Vec<Value> = Vec::new();
    for message in messages(request) {
        let (role, block) = match role(message) {
            "system" | "developer" => continue,
            "tool" => {
                let (id, content) = (&message["tool_call_id"], &message["content"]);
                ("user", json!({ "type": "tool_result", "tool_use_id": id, "content": content }))
            }
            "user" => ("user", json!({ "type": "text", "text": text(&message["content"]) })),
            _ => ("assistant", message.clone()),
        };
        match conversation.last_mut().filter(|last| role == "user" && last["role"] == "user") {
            Some(last) => {
                if let Some(content) = last["content"].as_array_mut() {
                    content.push(block);
                }
            }
            None => conversation.push(json!({ "role": role, "content": [block] })),
        }
    }
    json!({ "model": request["model"], "messages": conversation })
}

fn check(request: &Value) -> Result<(), String> {
    if request["model"].as_str().is_none_or(str::is_empty) {
        return Err("you must provide a model parameter".to_owned());
    }
    if messages(request).is_empty() {
        return Err("[] is too short - 'messages'".to_owned());
    }
    let mut open: BTreeSet<&str> = BTreeSet::new();
    let mut last = "";
    for (place, message) in messages(request).iter().enumerate() {
        let role = role(message);
        if role != "tool" && !open.is_empty() {
            return Err(unanswered(&open));
        }
        match role {
            "system" | "developer" if place == 0 => {}
            // As strict as the strictest chat templates.
            "user" if last == "user" => {
                return Err("conversation roles must alternate user/assistant".to_owned());
            }
            "user" if text(&message["content"]).trim().is_empty() => {
                return Err(format!("messages[{place}]: content must not be empty"));
            }
            "user" => {
                for part in message["content"].as_array().into_iter().flatten() {
                    match part["type"].as_str() {
                        Some("text") if part["text"].is_string() => {}
                        Some("image_url") => super::images::url(&part["image_url"]["url"])?,
                        _ => return Err(format!("messages[{place}]: unsupported content part type")),
                    }
                }
            }
            "assistant" => check_said(place, message, &mut open)?,
            "tool" => {
                let id = message["tool_call_id"].as_str().unwrap_or_default();
                if !open.remove(id) {
                    return Err("messages with role 'tool' must be a response to a preceding message with \
                                'tool_calls'."
                        .to_owned());
                }
                if !message["content"].is_string() {
                    return Err(format!("messages[{place}]: content must be a string"));
                }
            }
            other => return Err(format!("messages[{place}]: unknown role '{other}'")),
        }
        last = role;
    }
    match open.is_empty() {
        true => Ok(()),
        false => Err(unanswered(&open)),
    }
}

fn check_said<'a>(place: usize, message: &'a Value, open: &mut BTreeSet<&'a str>) -> Result<(), String> {
    let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
    if calls.is_empty() && message["content"].as_str().is_none_or(str::is_empty) {
        return Err(format!("messages[{place}]: assistant message must have either content or tool_calls"));
    }
    for call in calls {
        let id = call["id"].as_str().unwrap_or_default();
        if id.is_empty() || !open.insert(id) {
            return Err(format!("messages[{place}]: tool call ids must be unique"));
        }
        let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
        let is_object = serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object());
        if call["function"]["name"].as_str().is_none_or(str::is_empty) || !is_object {
            return Err(format!("messages[{place}]: failed to parse tool call arguments as JSON"));
        }
    }
    Ok(())
}

fn unanswered(open: &BTreeSet<&str>) -> String {
    let ids: Vec<&str> = open.iter().copied().collect();
    format!(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each \
         'tool_call_id'. The following tool_call_ids did not have response messages: {}",
        ids.join(", ")
    )
}

fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

fn messages(request: &Value) -> &[Value] {
    request["messages"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn role(message: &Value) -> &str {
    message["role"].as_str().unwrap_or_default()
}
