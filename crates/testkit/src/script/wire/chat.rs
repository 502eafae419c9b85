//! A scripted turn on the chat completions wire. It has no place for `raw`, which is left out.

use serde_json::{Value, json};

use super::{Asked, call_id, input_of, pieces, short, usage};
use crate::script::scenario::Turn;

/// An error inside the stream.
pub(super) fn error_chunk(kind: &str, message: &str) -> String {
    data(&json!({ "error": { "message": message, "type": kind, "code": null } }))
}

/// The turn as one completion.
pub(super) fn message(turn: &Turn, asked: &Asked<'_>) -> Value {
    let calls: Vec<Value> = (0..)
        .zip(&turn.calls)
        .map(|(place, call)| {
            json!({
                "id": call_id(call, asked, place, "call"),
                "type": "function",
                "function": { "name": call.name, "arguments": input_of(call) },
            })
        })
        .collect();
    let mut message = json!({ "role": "assistant", "content": turn.text });
    if let Some(thinking) = &turn.thinking {
        message["reasoning_content"] = Value::from(thinking.as_str());
    }
    if !calls.is_empty() {
        message["tool_calls"] = Value::from(calls);
    }
    json!({
        "id": id(asked),
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": asked.model,
        "choices": [{ "index": 0, "message": message, "finish_reason": finish(turn) }],
        "usage": tokens(turn, asked),
    })
}

pub(super) fn events(turn: &Turn, asked: &Asked<'_>) -> Vec<String> {
    let mut frames = vec![chunk(asked, &json!({ "role": "assistant", "content": "" }), None)];
    let sprinkle = |frames: &mut Vec<String>| {
        if turn.ping {
            frames.push(": ping\n\n".to_owned());
        }
        if turn.unknown {
            frames.push(data(&json!({ "news": true })));
            frames.push("event: future\ndata: nothing\n\n: a comment\n\n".to_owned());
        }
    };
    sprinkle(&mut frames);
    for (field, text) in [("reasoning_content", &turn.thinking), ("content", &turn.text)] {
        for piece in text.iter().flat_map(|text| pieces(text)) {
            frames.push(chunk(asked, &json!({ field: piece }), None));
        }
        sprinkle(&mut frames);
    }
    for (place, call) in turn.calls.iter().enumerate() {
        let begin = json!({
            "index": place,
            "id": call_id(call, asked, place, "call"),
            "type": "function",
            "function": { "name": call.name, "arguments": "" },
        });
        frames.push(chunk(asked, &json!({ "tool_calls": [begin] }), None));
        for piece in pieces(&input_of(call)) {
            let more = json!({ "index": place, "function": { "arguments": piece } });
            frames.push(chunk(asked, &json!({ "tool_calls": [more] }), None));
        }
    }
    frames.push(chunk(asked, &json!({}), Some(finish(turn))));
    if asked.request["stream_options"]["include_usage"] == true {
        let mut last = head(asked);
        last["choices"] = json!([]);
        last["usage"] = tokens(turn, asked);
        frames.push(data(&last));
    }
    frames.push("data: [DONE]\n\n".to_owned());
    frames
}

fn chunk(asked: &Asked<'_>, delta: &Value, finish: Option<&str>) -> String {
    let mut chunk = head(asked);
    chunk["choices"] = json!([{ "index": 0, "delta": delta, "finish_reason": finish }]);
    data(&chunk)
}

fn head(asked: &Asked<'_>) -> Value {
    json!({
        "id": id(asked),
        "object": "chat.completion.chunk",
        "created": 1_790_000_000,
        "model": asked.model,
    })
}

fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

fn finish(turn: &Turn) -> &str {
    match turn.stop_reason() {
        "end_turn" => "stop",
        "tool_use" => "tool_calls",
        "max_tokens" => "length",
        "refusal" => "content_filter",
        other => other,
    }
}

fn tokens(turn: &Turn, asked: &Asked<'_>) -> Value {
    let usage = usage(turn, asked);
    let prompt = usage.input + usage.cache_read + usage.cache_write;
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": usage.output,
        "total_tokens": prompt + usage.output,
        "prompt_tokens_details": { "cached_tokens": usage.cache_read },
    })
}

fn id(asked: &Asked<'_>) -> String {
    format!("chatcmpl-{}", short(asked, "completion"))
}
