//! Streams as the vendors write them: fields, order and sizes are those of their own; the words are made up.

use models::Wire;
use serde_json::{Value, json};

/// One stream: its events as they stand on the wire, and the data of each.
pub(crate) struct Stream {
    pub events: Vec<String>,
    pub data: Vec<String>,
}

impl Stream {
    /// A stream of so many deltas: two thirds are prose, the rest are arguments of two tool calls.
    pub(crate) fn of(wire: Wire, deltas: usize) -> Self {
        let mut stream = Self { events: Vec::new(), data: Vec::new() };
        let calls = deltas / 6;
        let prose: Vec<&str> = words(deltas - 2 * calls).collect();
        let arguments = arguments(calls);
        match wire {
            Wire::Messages => messages(&mut stream, &prose, &arguments),
            Wire::Responses => responses(&mut stream, &prose, &arguments),
            Wire::Chat => chat(&mut stream, &prose, &arguments),
        }
        stream
    }

    fn push(&mut self, name: Option<&str>, data: String) {
        self.events.push(match name {
            Some(name) => format!("event: {name}\ndata: {data}\n\n"),
            None => format!("data: {data}\n\n"),
        });
        self.data.push(data);
    }

    /// An event that is named after its type.
    fn typed(&mut self, event: Value) {
        let name = event["type"].as_str().unwrap_or_default().to_owned();
        self.push(Some(&name), event.to_string());
    }
}

/// What a model says, in pieces of one to four tokens.
fn words(count: usize) -> impl Iterator<Item = &'static str> {
    let said = [
        "The",
        " test",
        " fails because",
        " the total of the cart",
        " is",
        " computed from",
        " `price`",
        " alone",
        ", and",
        " `quantity`",
        " is never read",
        ".\n\n",
        "I will",
        " change",
        " the loop",
        " — it",
        " should",
        " say \"line",
        "Total",
        "(line)\"",
        " instead",
        ".",
        " Größe",
        " and",
        " so on",
    ];
    said.into_iter().cycle().take(count)
}

/// The arguments of a call that writes a file, in as many pieces.
fn arguments(pieces: usize) -> Vec<String> {
    let lines = [
        "export function ",
        "lineTotal",
        "(line) {\\n",
        "  return ",
        "line.price * ",
        "line.quantity",
        ";\\n}\\n\\n",
        "// ",
        "the \\\"sum\\\" of",
        " a cart",
        "\\n",
        "const x",
        " = [1, 2, 3]",
        ".map((n)",
        " => n * 2)",
        ";\\n",
    ];
    let inner = lines.into_iter().cycle().take(pieces.saturating_sub(2)).map(str::to_owned);
    let first = r#"{"path": "src/cart.js", "content": ""#.to_owned();
    std::iter::once(first).chain(inner).chain(["\"}".to_owned()]).collect()
}

const ID: &str = "0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6071";

fn messages(stream: &mut Stream, prose: &[&str], arguments: &[String]) {
    let usage = json!({"input_tokens": 2095, "cache_creation_input_tokens": 512, "cache_read_input_tokens": 18_000,
        "output_tokens": 3, "service_tier": "standard"});
    stream.typed(
        json!({"type": "message_start", "message": {"id": "msg_01XFDUDYJgAACzvnptvVoYEL", "type": "message",
        "role": "assistant", "model": "claude-sonnet-5-5", "content": [], "stop_reason": null,
        "stop_sequence": null, "usage": usage}}),
    );
    let start = |index: usize, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let delta =
        |index: usize, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let stop = |index: usize| json!({"type": "content_block_stop", "index": index});
    stream.typed(start(0, json!({"type": "text", "text": ""})));
    stream.typed(json!({"type": "ping"}));
    for text in prose {
        stream.typed(delta(0, json!({"type": "text_delta", "text": text})));
    }
    stream.typed(stop(0));
    for index in 1..=2 {
        let id = format!("toolu_01T1x1fJ34qAmk2tNTrN7Up{index}");
        stream.typed(start(index, json!({"type": "tool_use", "id": id, "name": "write", "input": {}})));
        for piece in arguments {
            stream.typed(delta(index, json!({"type": "input_json_delta", "partial_json": piece})));
        }
        stream.typed(stop(index));
    }
    stream
        .typed(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null},
        "usage": {"output_tokens": 12_345}}));
    stream.typed(json!({"type": "message_stop"}));
}

fn responses(stream: &mut Stream, prose: &[&str], arguments: &[String]) {
    let mut number = 0;
    let mut send = |mut event: Value| {
        event["sequence_number"] = json!(number);
        number += 1;
        stream.typed(event);
    };
    let whole = |status: &str, output: Value, usage: Value| {
        json!({"id": format!("resp_{ID}"), "object": "response", "created_at": 1_790_000_000, "status": status,
            "background": false, "error": null, "incomplete_details": null, "instructions": null,
            "max_output_tokens": 32_000, "model": "gpt-6.1-sol", "output": output, "parallel_tool_calls": true,
            "reasoning": {"effort": "medium", "summary": null}, "store": false, "temperature": 1.0,
            "text": {"format": {"type": "text"}}, "tool_choice": "auto", "tools": [], "top_p": 1.0,
            "truncation": "disabled", "usage": usage, "metadata": {}})
    };
    for kind in ["response.created", "response.in_progress"] {
        send(json!({"type": kind, "response": whole("in_progress", json!([]), Value::Null)}));
    }
    let (message, text) = (format!("msg_{ID}"), prose.concat());
    send(json!({"type": "response.output_item.added", "output_index": 0,
        "item": {"id": message, "type": "message", "status": "in_progress", "content": [], "role": "assistant"}}));
    let part = |text: &str| json!({"type": "output_text", "annotations": [], "logprobs": [], "text": text});
    send(
        json!({"type": "response.content_part.added", "item_id": message, "output_index": 0, "content_index": 0,
        "part": part("")}),
    );
    for (at, piece) in prose.iter().enumerate() {
        let obfuscation = ID.get(..at % 16).unwrap_or_default();
        send(
            json!({"type": "response.output_text.delta", "item_id": message, "output_index": 0, "content_index": 0,
            "delta": piece, "logprobs": [], "obfuscation": obfuscation}),
        );
    }
    send(
        json!({"type": "response.output_text.done", "item_id": message, "output_index": 0, "content_index": 0,
        "text": text, "logprobs": []}),
    );
    send(
        json!({"type": "response.content_part.done", "item_id": message, "output_index": 0, "content_index": 0,
        "part": part(&text)}),
    );
    let mut output =
        vec![json!({"id": message, "type": "message", "status": "completed", "content": [part(&text)],
        "role": "assistant"})];
    send(json!({"type": "response.output_item.done", "output_index": 0, "item": output[0]}));
    for index in 1..=2 {
        let call = |status: &str, arguments: &str| {
            json!({"id": format!("fc_{index}{ID}"), "type": "function_call", "status": status,
                "arguments": arguments, "call_id": format!("call_7xB3nQ2vR9kL5mP1wY8sT4u{index}"), "name": "write"})
        };
        let id = format!("fc_{index}{ID}");
        send(
            json!({"type": "response.output_item.added", "output_index": index, "item": call("in_progress", "")}),
        );
        for (at, piece) in arguments.iter().enumerate() {
            let obfuscation = ID.get(..at % 16).unwrap_or_default();
            send(
                json!({"type": "response.function_call_arguments.delta", "item_id": id, "output_index": index,
                "delta": piece, "obfuscation": obfuscation}),
            );
        }
        let all = arguments.concat();
        send(json!({"type": "response.function_call_arguments.done", "item_id": id, "output_index": index,
            "arguments": all}));
        output.push(call("completed", &all));
        send(json!({"type": "response.output_item.done", "output_index": index, "item": output[index]}));
    }
    let usage = json!({"input_tokens": 20_607, "input_tokens_details": {"cached_tokens": 18_000},
        "output_tokens": 12_345, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 32_952});
    send(json!({"type": "response.completed", "response": whole("completed", Value::Array(output), usage)}));
}

fn chat(stream: &mut Stream, prose: &[&str], arguments: &[String]) {
    let mut send = |delta: Value, finish: Value| {
        let chunk = json!({"id": "chatcmpl-8d9f9cbbc3e759a4394f5c4e", "object": "chat.completion.chunk",
            "created": 1_790_000_000, "model": "qwen3:14b", "system_fingerprint": "fp_ollama",
            "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]});
        stream.push(None, chunk.to_string());
    };
    send(json!({"role": "assistant", "content": ""}), Value::Null);
    for text in prose {
        send(json!({"content": text}), Value::Null);
    }
    for index in 0..2 {
        let function = json!({"name": "write", "arguments": ""});
        let id = format!("call_9zK4pW{index}");
        send(
            json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]}),
            Value::Null,
        );
        for piece in arguments {
            send(json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}), Value::Null);
        }
    }
    send(json!({}), json!("tool_calls"));
    let usage = json!({"prompt_tokens": 20_607, "completion_tokens": 12_345, "total_tokens": 32_952});
    let last = json!({"id": "chatcmpl-8d9f9cbbc3e759a4394f5c4e", "object": "chat.completion.chunk",
        "created": 1_790_000_000, "model": "qwen3:14b", "choices": [], "usage": usage});
    stream.push(None, last.to_string());
    stream.push(None, "[DONE]".to_owned());
}
