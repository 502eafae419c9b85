//! A prompt cache as vendors keep one, so that a test can see what a request would have found in it.
//!
//! On the Messages wire a prefix is written at each mark (`cache_control`) and found again from a mark, at
//! most twenty blocks back. On the other two every prefix of whole items is written and found, on the
//! Responses wire among the requests of the same `prompt_cache_key`. Time plays no part: nothing expires.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use super::scenario::Usage;
use super::wire::{Wire, sha256};

/// How many blocks before a mark are looked at.
const LOOKBACK: usize = 20;
/// How many bytes make a token.
const TOKEN: usize = 4;

/// The prefixes that were asked for so far.
#[derive(Debug, Default)]
pub(super) struct Cache {
    seen: Mutex<HashSet<String>>,
}

/// A piece of a request that a prefix may end with.
struct Piece {
    text: String,
    is_mark: bool,
}

/// A prefix: what it is known by, and how many bytes it has.
struct Prefix {
    digest: String,
    bytes: usize,
    is_mark: bool,
}

impl Cache {
    /// What of this request is read from the cache, and what is written; `output` is left at zero.
    pub(super) fn ask(&self, wire: Wire, request: &Value) -> Usage {
        let mut digest = sha256(seed(wire, request).as_bytes());
        let mut bytes = 0;
        let mut prefixes = Vec::new();
        for Piece { text, is_mark } in pieces(wire, request) {
            digest = sha256(format!("{digest}\n{text}").as_bytes());
            bytes += text.len();
            prefixes.push(Prefix { digest: digest.clone(), bytes, is_mark });
        }
        let tokens = |bytes: usize| u64::try_from(bytes / TOKEN).unwrap_or(u64::MAX);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let read = found(wire, &prefixes, &seen);
        let marked = prefixes.iter().rev().find(|prefix| prefix.is_mark).map_or(0, |prefix| prefix.bytes);
        seen.extend(prefixes.into_iter().filter(|prefix| prefix.is_mark).map(|prefix| prefix.digest));
        let write = if wire == Wire::Messages { tokens(marked).saturating_sub(tokens(read)) } else { 0 };
        let (all, read) = (tokens(bytes), tokens(read));
        Usage { input: all - read - write.min(all - read), output: 0, cache_read: read, cache_write: write }
    }
}

/// The bytes of the longest prefix that is there.
fn found(wire: Wire, prefixes: &[Prefix], seen: &HashSet<String>) -> usize {
    let lookback = if wire == Wire::Messages { LOOKBACK } else { usize::MAX };
    let marks = prefixes.iter().enumerate().rev().filter(|(_, prefix)| prefix.is_mark);
    let from = |mark: usize| prefixes.iter().take(mark + 1).rev().take(lookback);
    let hits = marks.filter_map(|(mark, _)| from(mark).find(|prefix| seen.contains(&prefix.digest)));
    hits.map(|prefix| prefix.bytes).max().unwrap_or(0)
}

/// What the cache of a request is apart by.
fn seed(wire: Wire, request: &Value) -> String {
    let key = if wire == Wire::Responses { &request["prompt_cache_key"] } else { &Value::Null };
    format!("{} {key}", request["model"])
}

fn pieces(wire: Wire, request: &Value) -> Vec<Piece> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut pieces: Vec<Piece> =
        list(&request["tools"]).into_iter().map(|tool| piece(wire, "", tool)).collect();
    match wire {
        Wire::Messages => {
            pieces.extend(list(&request["system"]).into_iter().map(|block| piece(wire, "system", block)));
            // Another way of thinking is another conversation.
            pieces.push(Piece { text: request["thinking"].to_string(), is_mark: false });
            for message in list(&request["messages"]) {
                let role = message["role"].as_str().unwrap_or_default();
                pieces.extend(list(&message["content"]).into_iter().map(|block| piece(wire, role, block)));
            }
        }
        Wire::Responses => {
            pieces.push(piece(wire, "", request["instructions"].clone()));
            pieces.extend(list(&request["input"]).into_iter().map(|item| piece(wire, "", item)));
        }
        Wire::Chat => {
            pieces.extend(list(&request["messages"]).into_iter().map(|message| piece(wire, "", message)));
        }
    }
    pieces
}

fn piece(wire: Wire, role: &str, mut block: Value) -> Piece {
    let mark = block.as_object_mut().and_then(|fields| fields.remove("cache_control"));
    Piece { text: format!("{role}{block}"), is_mark: wire != Wire::Messages || mark.is_some() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(blocks: usize, marks: &[usize]) -> Value {
        let block = |place: usize| match marks.contains(&place) {
            true => json!({"type": "text", "text": "x".repeat(400), "cache_control": {"type": "ephemeral"}}),
            false => json!({"type": "text", "text": "x".repeat(400)}),
        };
        let content: Vec<Value> = (0..blocks).map(block).collect();
        json!({"model": "m", "messages": [{"role": "user", "content": content}]})
    }

    #[test]
    fn a_prefix_is_found_from_a_mark_and_not_more_than_twenty_blocks_back() {
        let read = |marks: &[usize], blocks: usize| {
            let cache = Cache::default();
            assert_eq!(cache.ask(Wire::Messages, &request(10, &[9])).cache_read, 0);
            cache.ask(Wire::Messages, &request(blocks, marks)).cache_read > 0
        };
        assert!(read(&[28], 29));
        assert!(!read(&[29], 30), "too far back");
        assert!(read(&[29, 9], 30), "the older mark finds it");
        assert!(!read(&[], 30), "without a mark nothing is looked for");
        assert!(!read(&[8], 30), "what was written lies behind it");
    }

    #[test]
    fn another_key_is_another_cache() {
        let request =
            |key: &str| json!({"model": "m", "prompt_cache_key": key, "input": [{"a": "b".repeat(99)}]});
        let cache = Cache::default();
        assert_eq!(cache.ask(Wire::Responses, &request("k")).cache_read, 0);
        assert_eq!(cache.ask(Wire::Responses, &request("l")).cache_read, 0);
        let again = cache.ask(Wire::Responses, &request("k"));
        assert!(again.cache_read > 0 && again.cache_write == 0);
    }
}
