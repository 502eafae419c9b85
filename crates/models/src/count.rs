//! How many tokens a request has: asked of whoever knows best, and always said how it was found out. What
//! fails falls back to the next way; it never fails who asks.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Wire;
use crate::json::Fields;

/// Tokens, and how they were counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// Tokens of input.
    pub tokens: u64,
    /// How that is known.
    pub how: How,
}

/// How tokens were counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// By whoever serves the model: all that it sees.
    Vendor,
    /// The texts, by the model's tokenizer or its family's: what the vendor puts around them is guessed.
    Tokenizer,
    /// By the size: a token for four bytes.
    Estimate,
}

impl How {
    /// For people.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Vendor => "counted by the vendor",
            Self::Tokenizer => "counted with a tokenizer",
            Self::Estimate => "estimated from its size",
        }
    }
}

/// Bytes of a text for a token, about.
const BYTES_A_TOKEN: usize = 4;
/// Tokens that a vendor puts around a message or a tool.
const AROUND: usize = 4;
/// A tokenizer is given no more bytes at once: over a text without spaces its time grows with the square.
const PIECE: usize = 2 << 10;

/// Estimates a composed request from its size.
#[must_use]
pub fn estimate(body: &[u8]) -> Count {
    let tokens = u64::try_from(body.len().div_ceil(BYTES_A_TOKEN)).unwrap_or(u64::MAX);
    Count { tokens, how: How::Estimate }
}

/// Counts a composed request without asking anybody: what is for OpenAI's models with their tokenizer.
pub async fn offline(wire: Wire, body: &Bytes) -> Count {
    if wire != Wire::Responses {
        return estimate(body);
    }
    let request = body.clone();
    match tokio::task::spawn_blocking(move || tokenized(&request)).await {
        Ok(Some(tokens)) => Count { tokens, how: How::Tokenizer },
        Ok(None) | Err(_) => estimate(body),
    }
}

/// The fields of a request that the vendor's counter takes, as they stand.
pub(crate) fn countable(wire: Wire, body: &[u8]) -> Option<Fields> {
    let known: &[&str] = match wire {
        Wire::Messages => {
            &["model", "output_config", "tools", "tool_choice", "system", "thinking", "messages"]
        }
        Wire::Responses => &[
            "model",
            "parallel_tool_calls",
            "reasoning",
            "text",
            "tools",
            "tool_choice",
            "instructions",
            "input",
        ],
        Wire::Chat => &["model", "tools", "messages"],
    };
    let mut fields: Fields = serde_json::from_slice(body).ok()?;
    fields.keep(known);
    Some(fields)
}

/// The texts of a chat, for servers that count nothing but text.
pub(crate) fn plain(body: &[u8]) -> Option<String> {
    let request: Value = serde_json::from_slice(body).ok()?;
    let mut all = Vec::new();
    texts(&request["messages"], &mut all);
    let tools = request["tools"].as_array().into_iter().flatten().map(Value::to_string);
    Some(all.into_iter().map(str::to_owned).chain(tools).collect::<Vec<_>>().join("\n"))
}

/// Tokens of a request of the Responses wire, by the tokenizer of the vendor's newer models. It is made
/// anew each time: it is rarely needed, and big.
fn tokenized(body: &[u8]) -> Option<u64> {
    let request: Value = serde_json::from_slice(body).ok()?;
    let tokenizer = tiktoken_rs::o200k_base().ok()?;
    let count = |text: &str| -> usize {
        pieces(text).map(|piece| tokenizer.count_ordinary(piece)).fold(0, usize::saturating_add)
    };
    let mut all = vec![request["instructions"].as_str().unwrap_or_default()];
    texts(&request["input"], &mut all);
    let tools: Vec<String> =
        request["tools"].as_array().into_iter().flatten().map(Value::to_string).collect();
    let items = request["input"].as_array().map_or(1, Vec::len) + tools.len();
    let tokens = all.into_iter().chain(tools.iter().map(String::as_str)).map(count);
    let tokens = tokens.fold(items.saturating_mul(AROUND), usize::saturating_add);
    u64::try_from(tokens).ok()
}

/// All texts of a value; not the names of its fields. What is encrypted is reasoning, which the vendor counts
/// by what it was.
fn texts<'a>(value: &'a Value, into: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => into.push(text),
        Value::Array(items) => items.iter().for_each(|item| texts(item, into)),
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| !matches!(name.as_str(), "type" | "role" | "id" | "call_id" | "status"))
            .for_each(|(_, inner)| texts(inner, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The text in pieces, none longer than [`PIECE`].
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut end = rest.len().min(PIECE);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (piece, after) = rest.split_at(end);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_whole_characters_and_nothing_is_lost() {
        let text = "漢字 and spaces ".repeat(3_000);
        assert!(pieces(&text).all(|piece| piece.len() <= PIECE) && pieces(&text).count() > 5);
        assert_eq!(pieces(&text).collect::<String>(), text);
        assert_eq!(pieces("").count(), 0);
    }

    #[test]
    fn a_tokenizer_counts_texts_and_outlives_what_has_no_spaces() {
        let body = |text: &str| {
            let input = serde_json::json!([{ "type": "message", "role": "user", "content": [
                { "type": "input_text", "text": text } ] }]);
            serde_json::json!({ "model": "m", "instructions": "hello world", "input": input }).to_string()
        };
        // "hello world" is two tokens, and so it is twice; four more around the message.
        assert_eq!(tokenized(body("hello world").as_bytes()), Some(8));
        let long = "a".repeat(30_000) + &" ".repeat(30_000) + &"\u{300}".repeat(8_000);
        assert!(tokenized(body(&long).as_bytes()).unwrap() > 3_000);
        assert_eq!(tokenized(b"no json"), None);
    }

    #[test]
    fn an_estimate_says_that_it_is_one() {
        assert_eq!(estimate(b"12345"), Count { tokens: 2, how: How::Estimate });
        assert_eq!(serde_json::to_string(&estimate(b"")).unwrap(), r#"{"tokens":0,"how":"estimate"}"#);
    }
}
