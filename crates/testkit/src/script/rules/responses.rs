//! The rules of the Responses wire: what it answers with a 400.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::script::wire::signature;

/// Why the vendor would refuse this request; `None` when it would not.
pub(in crate::script) fn objection(request: &Value) -> Option<String> {
    check(request).err()
}

/// The items as messages: neighbouring ones of the model are one turn.
pub(in crate::script) fn conversation(request: &Value) -> Value {
    let mut messages: Vec<Value> = Vec::new();
    let mut push =
        |role: &str, blocks: Vec<Value>| match messages.last_mut().filter(|last| last["role"] == role) {
            Some(last) => {
                if let Some(content) = last["content"].as_array_mut() {
                    content.extend(blocks);
                }
            }
            None => messages.push(json!({ "role": role, "content": blocks })),
        };
    if let Some(text) = request["input"].as_str() {
        push("user", vec![json!({ "type": "text", "text": text })]);
    }
    for item in items(request) {
        match (kind(item), item["role"].as_str()) {
            ("message", Some("system" | "developer")) => {}
            ("message", role) => push(role.unwrap_or("user"), texts(&item["content"])),
            ("function_call_output", _) => {
                let (id, output) = (&item["call_id"], &item["output"]);
                let content = match output.as_array() {
                    Some(_) => Value::from(texts(output)),
                    None => output.clone(),
                };
                push("user", vec![json!({ "type": "tool_result", "tool_use_id": id, "content": content })]);
            }
            _ => push("assistant", vec![item.clone()]),
        }
    }
    json!({ "model": request["model"], "messages": messages })
}

fn check(request: &Value) -> Result<(), String> {
    if request["model"].as_str().is_none_or(str::is_empty) {
        return Err("Missing required parameter: 'model'.".to_owned());
    }
    super::extras::responses(request)?;
    if request["input"].is_string() {
        return Ok(());
    }
    if items(request).is_empty() {
        return Err("Missing required parameter: 'input'.".to_owned());
    }
    let model = request["model"].as_str().unwrap_or_default();
    let mut calls: BTreeSet<&str> = BTreeSet::new();
    let mut open: BTreeSet<&str> = BTreeSet::new();
    for (place, item) in items(request).iter().enumerate() {
        let id = item["call_id"].as_str().unwrap_or_default();
        match kind(item) {
            "" => return Err(format!("Missing required parameter: 'input[{place}].type'.")),
            "function_call" => {
                if item["name"].as_str().is_none_or(str::is_empty) || !item["arguments"].is_string() {
                    return Err(format!("Invalid type for 'input[{place}].arguments': expected a string."));
                }
                if id.is_empty() || !calls.insert(id) {
                    return Err(format!("Duplicate or missing 'input[{place}].call_id'."));
                }
                open.insert(id);
            }
            "function_call_output" if !open.remove(id) => {
                return Err(format!("No tool call found for function call output with call_id {id}."));
            }
            "function_call_output" => {
                for part in item["output"].as_array().into_iter().flatten() {
                    match kind(part) {
                        "input_text" if part["text"].is_string() => {}
                        "input_image" => super::images::url(&part["image_url"])?,
                        _ => return Err(format!("Invalid value: 'input[{place}].output'.")),
                    }
                }
            }
            "reasoning" => check_reasoning(item, request, model)?,
            "message" if item["role"] == "user" && !open.is_empty() => {
                return Err(unanswered(&open));
            }
            "message" if texts(&item["content"]).is_empty() => {
                return Err(format!("Invalid 'input[{place}].content': empty array."));
            }
            "thinking" | "redacted_thinking" | "tool_use" | "tool_result" | "function" => {
                return Err(format!("Invalid value: '{}'. Supported values are: …", kind(item)));
            }
            _ => {}
        }
    }
    match open.is_empty() {
        true => Ok(()),
        false => Err(unanswered(&open)),
    }
}

/// Nothing is stored, so reasoning comes sealed, and sealed for the model that made it.
fn check_reasoning(item: &Value, request: &Value, model: &str) -> Result<(), String> {
    let id = item["id"].as_str().unwrap_or_default();
    let Some(sealed) = item["encrypted_content"].as_str().filter(|sealed| !sealed.is_empty()) else {
        return match request["store"] == false {
            true => Err(format!(
                "Item with id '{id}' not found. Items are not persisted when `store` is set to false."
            )),
            false => Ok(()),
        };
    };
    let summary = item["summary"][0]["text"].as_str().unwrap_or_default();
    match sealed.starts_with("sig_") && sealed != signature(model, summary) {
        true => Err(format!("The encrypted content for item {id} could not be verified.")),
        false => Ok(()),
    }
}

fn unanswered(open: &BTreeSet<&str>) -> String {
    let ids: Vec<&str> = open.iter().copied().collect();
    format!("No tool output found for function call {}.", ids.join(", "))
}

fn texts(content: &Value) -> Vec<Value> {
    let of = |text: &Value| json!({ "type": "text", "text": text });
    match content {
        Value::String(_) => vec![of(content)],
        Value::Array(parts) => parts
            .iter()
            .map(|part| if part["text"].is_string() { of(&part["text"]) } else { part.clone() })
            .collect(),
        _ => Vec::new(),
    }
}

fn items(request: &Value) -> &[Value] {
    request["input"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// An item with a role and no type is a message.
fn kind(item: &Value) -> &str {
    let implied = if item["role"].is_string() { "message" } else { "" };
    item["type"].as_str().unwrap_or(implied)
}
