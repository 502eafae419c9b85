//! A scripted turn on the Messages wire: events of a stream, or one message.

use serde_json::{Value, json};

use super::{Asked, call_id, frame, input_of, pieces, short, signature, usage};
use crate::script::scenario::{Turn, Usage};

/// The error body of a status or of an error event.
pub(super) fn error_body(kind: &str, message: &str) -> Value {
    json!({ "type": "error", "error": { "type": kind, "message": message } })
}

/// The error type that goes with a status.
pub(super) fn error_kind(status: u16) -> &'static str {
    match status {
        400 | 422 => "invalid_request_error",
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    }
}

/// The turn as one message.
pub(super) fn message(turn: &Turn, asked: &Asked<'_>) -> Value {
    let content: Vec<Value> = parts(turn, asked).into_iter().map(Part::whole).collect();
    let usage = usage(turn, asked);
    json!({
        "id": message_id(asked),
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": content,
        "stop_reason": turn.stop_reason(),
        "stop_sequence": null,
        "usage": tokens(&usage, usage.output),
    })
}

/// A content block and the deltas that write it.
struct Part {
    /// The block as it begins.
    start: Value,
    /// Type and field of the deltas, and the whole text.
    grows: Vec<(&'static str, &'static str, String)>,
}

impl Part {
    /// The block when it is written.
    fn whole(self) -> Value {
        let mut block = self.start;
        for (kind, field, text) in self.grows {
            match kind {
                "input_json_delta" => {
                    let input = serde_json::from_str(&text).ok().filter(Value::is_object);
                    block["input"] = input.unwrap_or_else(|| match text.is_empty() {
                        true => json!({}),
                        false => json!({ "INVALID_JSON": text }),
                    });
                }
                _ => block[field] = Value::from(text),
            }
        }
        block
    }
}

fn parts(turn: &Turn, asked: &Asked<'_>) -> Vec<Part> {
    let mut parts = Vec::new();
    for raw in &turn.raw {
        let start = serde_json::from_str(raw).unwrap_or_default();
        parts.push(Part { start, grows: Vec::new() });
    }
    if let Some(thinking) = &turn.thinking {
        let signed = turn.signature.clone().unwrap_or_else(|| signature(asked.model, thinking));
        parts.push(Part {
            start: json!({ "type": "thinking", "thinking": "", "signature": "" }),
            grows: vec![
                ("thinking_delta", "thinking", thinking.clone()),
                ("signature_delta", "signature", signed),
            ],
        });
    }
    if let Some(text) = &turn.text {
        parts.push(Part {
            start: json!({ "type": "text", "text": "" }),
            grows: vec![("text_delta", "text", text.clone())],
        });
    }
    for (place, call) in turn.calls.iter().enumerate() {
        let id = call_id(call, asked, place, "toolu");
        parts.push(Part {
            start: json!({ "type": "tool_use", "id": id, "name": call.name, "input": {} }),
            grows: vec![("input_json_delta", "partial_json", input_of(call))],
        });
    }
    parts
}

pub(super) fn events(turn: &Turn, asked: &Asked<'_>) -> Vec<String> {
    let usage = usage(turn, asked);
    let mut frames = vec![frame(
        "message_start",
        &json!({
            "type": "message_start",
            "message": {
                "id": message_id(asked),
                "type": "message",
                "role": "assistant",
                "model": asked.model,
                "content": [],
                "stop_reason": null,
                "stop_sequence": null,
                "usage": tokens(&usage, usage.output.min(1)),
            },
        }),
    )];
    for (index, part) in parts(turn, asked).into_iter().enumerate() {
        let start = json!({ "type": "content_block_start", "index": index, "content_block": part.start });
        frames.push(frame("content_block_start", &start));
        if turn.ping {
            frames.push(frame("ping", &json!({ "type": "ping" })));
        }
        if turn.unknown {
            frames.push(frame("content_sparkle", &json!({ "type": "content_sparkle", "index": "x" })));
            frames.push("event: future\ndata: {\"news\":true}\n\n: a comment\n\n".to_owned());
        }
        for (kind, field, text) in part.grows {
            for piece in grown(kind, &text) {
                let delta = json!({ "type": kind, field: piece });
                let event = json!({ "type": "content_block_delta", "index": index, "delta": delta });
                frames.push(frame("content_block_delta", &event));
            }
        }
        frames.push(frame("content_block_stop", &json!({ "type": "content_block_stop", "index": index })));
    }
    let delta = json!({ "stop_reason": turn.stop_reason(), "stop_sequence": null });
    let end = json!({ "type": "message_delta", "delta": delta, "usage": tokens(&usage, usage.output) });
    frames.push(frame("message_delta", &end));
    frames.push(frame("message_stop", &json!({ "type": "message_stop" })));
    frames
}

/// Signatures come whole, as from the vendor; the rest in pieces; nothing as no piece, but for
/// a tool without arguments, which streams an empty text.
fn grown(kind: &str, text: &str) -> Vec<String> {
    if kind == "signature_delta" || (text.is_empty() && kind == "input_json_delta") {
        return vec![text.to_owned()];
    }
    pieces(text)
}

fn tokens(usage: &Usage, output: u64) -> Value {
    json!({
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": output,
    })
}

fn message_id(asked: &Asked<'_>) -> String {
    format!("msg_{}", short(asked, "message"))
}
