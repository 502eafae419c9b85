//! A scripted turn on the Responses wire.

use serde_json::{Value, json};

use super::{Asked, call_id, frame, input_of, pieces, short, signature, usage};
use crate::script::scenario::Turn;

/// The error body of a status.
pub(super) fn error_body(status: u16, message: &str) -> Value {
    let (kind, code) = match status {
        401 => ("invalid_request_error", Some("invalid_api_key")),
        404 => ("invalid_request_error", Some("model_not_found")),
        429 => ("requests", Some("rate_limit_exceeded")),
        400..=499 => ("invalid_request_error", None),
        _ => ("server_error", None),
    };
    json!({ "error": { "message": message, "type": kind, "param": null, "code": code } })
}

/// An error inside the stream.
pub(super) fn error_event(kind: &str, message: &str) -> String {
    let error =
        json!({ "type": "error", "code": kind, "message": message, "param": null, "sequence_number": 0 });
    frame("error", &error)
}

/// The turn as one response.
pub(super) fn message(turn: &Turn, asked: &Asked<'_>) -> Value {
    let output: Vec<Value> = items(turn, asked).into_iter().map(|item| item.whole).collect();
    response(turn, asked, status(turn).0, output)
}

/// An item of the output: as it begins, what writes it, and whole.
struct Item {
    start: Value,
    grows: Vec<(&'static str, String)>,
    whole: Value,
}

fn items(turn: &Turn, asked: &Asked<'_>) -> Vec<Item> {
    let mut items = Vec::new();
    for raw in &turn.raw {
        let whole: Value = serde_json::from_str(raw).unwrap_or_default();
        items.push(Item { start: whole.clone(), grows: Vec::new(), whole });
    }
    if let Some(thinking) = &turn.thinking {
        let id = format!("rs_{}", short(asked, "reasoning"));
        let start = json!({ "type": "reasoning", "id": id, "summary": [] });
        let mut whole = start.clone();
        if !thinking.is_empty() {
            whole["summary"] = json!([{ "type": "summary_text", "text": thinking }]);
        }
        // Only who asks for it gets it.
        let includes = asked.request["include"].as_array();
        if includes.is_some_and(|all| all.iter().any(|one| one == "reasoning.encrypted_content")) {
            let sealed = turn.signature.clone().unwrap_or_else(|| signature(asked.model, thinking));
            whole["encrypted_content"] = Value::from(sealed);
        }
        items.push(Item {
            start,
            grows: vec![("response.reasoning_summary_text.delta", thinking.clone())],
            whole,
        });
    }
    if let Some(text) = &turn.text {
        let id = format!("msg_{}", short(asked, "message"));
        let (part, delta) = match turn.stop_reason() {
            "refusal" => (json!({ "type": "refusal", "refusal": text }), "response.refusal.delta"),
            _ => {
                let part = json!({ "type": "output_text", "text": text, "annotations": [] });
                (part, "response.output_text.delta")
            }
        };
        let of = |status: &str, content: Value| json!({ "type": "message", "id": id, "role": "assistant", "status": status, "content": content });
        items.push(Item {
            start: of("in_progress", json!([])),
            grows: vec![(delta, text.clone())],
            whole: of("completed", json!([part])),
        });
    }
    for (place, call) in turn.calls.iter().enumerate() {
        let (id, call_id) =
            (format!("fc_{}", short(asked, &format!("item {place}"))), call_id(call, asked, place, "call"));
        let of = |status: &str, arguments: &str| {
            json!({
                "type": "function_call", "id": id, "call_id": call_id, "name": call.name,
                "arguments": arguments, "status": status,
            })
        };
        let arguments = input_of(call);
        items.push(Item {
            start: of("in_progress", ""),
            whole: of("completed", &arguments),
            grows: vec![("response.function_call_arguments.delta", arguments)],
        });
    }
    items
}

pub(super) fn events(turn: &Turn, asked: &Asked<'_>) -> Vec<String> {
    let mut frames = Vec::new();
    let send = |frames: &mut Vec<String>, kind: &str, mut event: Value| {
        event["type"] = Value::from(kind);
        event["sequence_number"] = Value::from(frames.len());
        frames.push(frame(kind, &event));
    };
    let begun = response(turn, asked, "in_progress", Vec::new());
    send(&mut frames, "response.created", json!({ "response": begun }));
    send(&mut frames, "response.in_progress", json!({ "response": begun }));
    let mut output = Vec::new();
    for (index, item) in items(turn, asked).into_iter().enumerate() {
        send(&mut frames, "response.output_item.added", json!({ "output_index": index, "item": item.start }));
        if turn.ping {
            frames.push(": ping\n\n".to_owned());
            send(&mut frames, "keepalive", json!({}));
        }
        if turn.unknown {
            send(&mut frames, "response.sparkle", json!({ "output_index": "x" }));
            frames.push("event: future\ndata: {\"news\":true}\n\n: a comment\n\n".to_owned());
        }
        let whole = item.whole;
        for (kind, text) in item.grows {
            let place = |more: Value| placed(index, &whole, more);
            for (kind, event) in around(kind, &text, false) {
                send(&mut frames, kind, place(event));
            }
            for piece in pieces(&text) {
                send(&mut frames, kind, place(json!({ "delta": piece, "logprobs": [] })));
            }
            for (kind, event) in around(kind, &text, true) {
                send(&mut frames, kind, place(event));
            }
        }
        send(&mut frames, "response.output_item.done", json!({ "output_index": index, "item": whole }));
        output.push(whole);
    }
    let (status, _) = status(turn);
    let last = format!("response.{status}");
    send(&mut frames, &last, json!({ "response": response(turn, asked, status, output) }));
    frames
}

/// The events that open or close what a delta of this kind writes.
fn around(delta: &str, text: &str, done: bool) -> Vec<(&'static str, Value)> {
    let now = if done { text } else { "" };
    match (delta, done) {
        ("response.function_call_arguments.delta", true) => {
            vec![("response.function_call_arguments.done", json!({ "arguments": text }))]
        }
        ("response.reasoning_summary_text.delta", _) if text.is_empty() => Vec::new(),
        ("response.reasoning_summary_text.delta", _) => {
            let part = json!({ "part": { "type": "summary_text", "text": now } });
            match done {
                false => vec![("response.reasoning_summary_part.added", part)],
                true => vec![
                    ("response.reasoning_summary_text.done", json!({ "text": text })),
                    ("response.reasoning_summary_part.done", part),
                ],
            }
        }
        ("response.output_text.delta" | "response.refusal.delta", _) => {
            let is_refusal = delta == "response.refusal.delta";
            let part = match is_refusal {
                true => json!({ "part": { "type": "refusal", "refusal": now } }),
                false => json!({ "part": { "type": "output_text", "text": now, "annotations": [] } }),
            };
            match (done, is_refusal) {
                (false, _) => vec![("response.content_part.added", part)],
                (true, true) => vec![
                    ("response.refusal.done", json!({ "refusal": text })),
                    ("response.content_part.done", part),
                ],
                (true, false) => vec![
                    ("response.output_text.done", json!({ "text": text, "logprobs": [] })),
                    ("response.content_part.done", part),
                ],
            }
        }
        _ => Vec::new(),
    }
}

/// An event with its place in the output.
fn placed(index: usize, item: &Value, mut event: Value) -> Value {
    event["output_index"] = Value::from(index);
    event["item_id"] = item["id"].clone();
    match item["type"].as_str() {
        Some("message") => event["content_index"] = Value::from(0),
        Some("reasoning") => event["summary_index"] = Value::from(0),
        _ => {}
    }
    event
}

/// The status of a response and why it is incomplete.
fn status(turn: &Turn) -> (&'static str, Option<&str>) {
    match turn.stop_reason() {
        "end_turn" | "tool_use" => ("completed", None),
        "refusal" if turn.text.is_some() => ("completed", None),
        "refusal" => ("incomplete", Some("content_filter")),
        "max_tokens" => ("incomplete", Some("max_output_tokens")),
        other => ("incomplete", Some(other)),
    }
}

fn response(turn: &Turn, asked: &Asked<'_>, status: &str, output: Vec<Value>) -> Value {
    let usage = usage(turn, asked);
    let input = usage.input + usage.cache_read + usage.cache_write;
    let details = match status {
        "incomplete" => json!({ "reason": self::status(turn).1 }),
        _ => Value::Null,
    };
    let tokens = match status {
        "in_progress" => Value::Null,
        _ => json!({
            "input_tokens": input,
            "input_tokens_details": { "cached_tokens": usage.cache_read },
            "output_tokens": usage.output,
            "output_tokens_details": { "reasoning_tokens": 0 },
            "total_tokens": input + usage.output,
        }),
    };
    json!({
        "id": format!("resp_{}", short(asked, "response")),
        "object": "response",
        "created_at": 1_790_000_000,
        "status": status,
        "error": null,
        "incomplete_details": details,
        "instructions": asked.request["instructions"],
        "metadata": {},
        "model": asked.model,
        "output": output,
        "parallel_tool_calls": true,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": tokens,
    })
}
