//! Where the strings of a JSON document are, and which of them a stream tells piece by piece.
//!
//! Places and no copies: what is masked is masked where it stands. Nothing here knows a vendor: two
//! pieces belong together when they stand at the same place of their events, and everything in the events
//! that is an index is the same.

use std::collections::HashMap;
use std::ops::Range;

use serde::de::IgnoredAny;
use serde_json::Value;

/// A string of a document.
pub(super) struct Found {
    /// Between its quotes.
    pub(super) at: Range<usize>,
    /// The names and numbers that lead to it; `None` for the name of a field.
    pub(super) path: Option<String>,
}

/// The texts of a stream of events.
pub(super) struct Stream {
    /// The pieces of each text, in order.
    pub(super) texts: Vec<Vec<Range<usize>>>,
    /// Lines that hold no document.
    pub(super) others: Vec<Range<usize>>,
}

enum Frame {
    Array(usize),
    Object { name: String, is_named: bool },
}

/// The strings of a document; `None` when it is no JSON.
pub(super) fn of_json(bytes: &[u8]) -> Option<Vec<Found>> {
    serde_json::from_slice::<IgnoredAny>(bytes).ok()?;
    let mut found = Vec::new();
    let mut frames: Vec<Frame> = Vec::new();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                let inner = at + 1..end_of_string(bytes, at + 1);
                at = inner.end;
                let text =
                    || String::from_utf8_lossy(bytes.get(inner.clone()).unwrap_or_default()).into_owned();
                let path = match frames.last_mut() {
                    Some(Frame::Object { name, is_named: is_named @ false }) => {
                        *name = text();
                        *is_named = true;
                        None
                    }
                    _ => Some(path(&frames)),
                };
                found.push(Found { at: inner, path });
            }
            b'{' => frames.push(Frame::Object { name: String::new(), is_named: false }),
            b'[' => frames.push(Frame::Array(0)),
            b'}' | b']' => {
                frames.pop();
            }
            b',' => match frames.last_mut() {
                Some(Frame::Array(index)) => *index += 1,
                Some(Frame::Object { is_named, .. }) => *is_named = false,
                None => {}
            },
            _ => {}
        }
        at += 1;
    }
    Some(found)
}

/// The texts of the body of an answer; `None` when it has no event.
pub(super) fn of_stream(bytes: &[u8]) -> Option<Stream> {
    let mut texts: Vec<Vec<Range<usize>>> = Vec::new();
    let mut known: HashMap<(String, String), usize> = HashMap::new();
    let mut others = Vec::new();
    let mut has_events = false;
    let mut begin = 0;
    while begin < bytes.len() {
        let length = bytes.get(begin..)?.iter().position(|b| matches!(b, b'\n' | b'\r'));
        let end = length.map_or(bytes.len(), |length| begin + length);
        let line = bytes.get(begin..end)?;
        let data = begin + line.strip_prefix(b"data:").map_or(0, |_| 5);
        let document = (data > begin).then(|| bytes.get(data..end)).flatten();
        match document.and_then(|document| Some((of_json(document)?, indexes(document)))) {
            Some((strings, indexes)) => {
                has_events = true;
                for Found { at, path } in strings {
                    let at = data + at.start..data + at.end;
                    let Some(path) = path else {
                        texts.push(vec![at]);
                        continue;
                    };
                    let text = *known.entry((path, indexes.clone())).or_insert(texts.len());
                    match texts.get_mut(text) {
                        Some(pieces) => pieces.push(at),
                        None => texts.push(vec![at]),
                    }
                }
            }
            None => others.push(begin..end),
        }
        begin = end + 1;
    }
    has_events.then_some(Stream { texts, others })
}

/// Everything in a document that counts something.
fn indexes(document: &[u8]) -> String {
    fn gather(value: &Value, path: &str, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    if name.ends_with("index") && value.is_number() {
                        found.push(format!("{path}.{name}={value}"));
                    }
                    gather(value, &format!("{path}.{name}"), found);
                }
            }
            Value::Array(items) => {
                for (at, value) in items.iter().enumerate() {
                    gather(value, &format!("{path}.{at}"), found);
                }
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    if let Ok(value) = serde_json::from_slice(document) {
        gather(&value, "", &mut found);
    }
    found.sort();
    found.join(" ")
}

fn end_of_string(bytes: &[u8], mut at: usize) -> usize {
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn path(frames: &[Frame]) -> String {
    let mut path = String::new();
    for frame in frames {
        match frame {
            Frame::Array(index) => path.push_str(&format!(".{index}")),
            Frame::Object { name, .. } => {
                path.push('.');
                path.push_str(name);
            }
        }
    }
    path
}
