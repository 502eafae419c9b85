//! The events of one stream, folded into one answer whose blocks are the vendor's own.
//!
//! Fields of a block that no delta touches keep their raw text. Unknown events and deltas are
//! passed over: the vendor adds new ones, and they never end a stream.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::block::{InputError, Origin, View};
use crate::http::{self, Fault};
use crate::json::{Fields, Glance, Text};
use crate::{Block, Delta, RawJson, Response, Stop, Usage};

/// The answer so far.
#[derive(Debug, Default)]
pub(crate) struct Fold {
    model: Option<String>,
    open: Vec<Open>,
    usage: Usage,
    stop: Option<Stop>,
    ended: bool,
}

/// A block that is being written.
#[derive(Debug)]
struct Open {
    index: u64,
    kind: String,
    fields: Fields,
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    input: String,
    citations: Vec<RawJson>,
    closed: bool,
}

/// What there is to see of any event without reading it whole.
#[derive(Default, Deserialize)]
struct Event<'a> {
    #[serde(borrow, default)]
    r#type: Option<Text<'a>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    delta: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Start {
    message: StartMessage,
}

#[derive(Deserialize)]
struct StartMessage {
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    usage: Option<Tokens>,
}

#[derive(Deserialize)]
struct BlockStart {
    index: u64,
    content_block: Fields,
}

#[derive(Deserialize)]
struct BlockStop {
    index: u64,
}

#[derive(Deserialize)]
struct MessageDelta {
    #[serde(default)]
    delta: Fields,
    #[serde(default)]
    usage: Option<Tokens>,
}

/// Each number is the total so far, not an increment; an absent one leaves what was known.
#[derive(Deserialize)]
struct Tokens {
    #[serde(default)]
    input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens: Option<u64>,
    #[serde(default)]
    cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    cache_creation_input_tokens: Option<u64>,
}

impl http::Fold for Fold {
    const ORIGIN: Origin = Origin::Messages;

    fn take(
        &mut self,
        name: Option<&str>,
        data: &str,
        on_delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<(), Fault> {
        let (kind, event) = opened(name, data)?;
        match kind.as_ref() {
            "message_start" => {
                let Start { message } = decode("message_start", data)?;
                self.model = message.model;
                self.count(message.usage);
            }
            "content_block_start" => self.start(decode("content_block_start", data)?, on_delta)?,
            "content_block_delta" => self.grow(&event, on_delta)?,
            "content_block_stop" => {
                let BlockStop { index } = decode("content_block_stop", data)?;
                self.block(index)?.closed = true;
            }
            "message_delta" => {
                let MessageDelta { delta, usage } = decode("message_delta", data)?;
                if let Some(stop) = delta.text("stop_reason") {
                    self.stop = Some(Stop::from(stop));
                }
                self.count(usage);
            }
            "message_stop" => self.ended = true,
            "error" => return Err(Fault::Vendor(data.to_owned())),
            // `ping`, and whatever the vendor invents.
            _ => {}
        }
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.ended
    }

    fn is_whole(&self) -> bool {
        self.ended || (self.stop.is_some() && self.open.iter().all(|block| block.closed))
    }

    fn usage(&self) -> Usage {
        self.usage
    }

    fn finish(mut self, asked: String) -> Result<Response, Fault> {
        let stop = self.stop.unwrap_or(Stop::Other(String::new()));
        // Vendors number blocks in order; what counts is where each one belongs.
        self.open.sort_by_key(|block| block.index);
        let last = self.open.len().saturating_sub(1);
        let mut blocks = Vec::with_capacity(self.open.len());
        for (place, open) in self.open.into_iter().enumerate() {
            let cut =
                !open.closed || (place == last && matches!(stop, Stop::MaxTokens | Stop::ContextExceeded));
            blocks.push(open.close(&stop, cut)?);
        }
        Ok(Response::folded(blocks, stop, self.usage, asked, self.model))
    }
}

impl Fold {
    fn start(&mut self, event: BlockStart, on_delta: &mut (dyn FnMut(Delta) + Send)) -> Result<(), Fault> {
        let BlockStart { index, content_block: fields } = event;
        if self.open.iter().any(|block| block.index == index) {
            return Err(Fault::Malformed(format!("block {index} begins twice")));
        }
        let kind =
            fields.text("type").ok_or_else(|| Fault::Malformed(format!("block {index} has no type")))?;
        if kind == "tool_use" {
            on_delta(Delta::ToolUse { name: fields.text("name").unwrap_or_default() });
        }
        self.open.push(Open {
            index,
            kind,
            fields,
            text: None,
            thinking: None,
            signature: None,
            input: String::new(),
            citations: Vec::new(),
            closed: false,
        });
        Ok(())
    }

    fn grow(&mut self, event: &Event<'_>, on_delta: &mut (dyn FnMut(Delta) + Send)) -> Result<(), Fault> {
        let index = event.index.and_then(|raw| serde_json::from_str::<u64>(raw.get()).ok());
        let (Some(index), Some(delta)) = (index, event.delta.and_then(Glance::of)) else {
            return Err(lacking("content_block_delta"));
        };
        let block = self.block(index)?;
        let kind = delta.text("type").unwrap_or_default();
        let piece = |field: &str| {
            delta
                .text(field)
                .ok_or_else(|| Fault::Malformed(format!("a {kind} of block {index} has no {field}")))
        };
        match kind.as_ref() {
            "text_delta" => {
                let piece = piece("text")?;
                block.grow_text(&piece);
                on_delta(Delta::Text(piece.into_owned()));
            }
            "thinking_delta" => {
                let piece = piece("thinking")?;
                grow(&mut block.thinking, &block.fields, "thinking", &piece);
                on_delta(Delta::Thinking(piece.into_owned()));
            }
            "signature_delta" => {
                grow(&mut block.signature, &block.fields, "signature", &piece("signature")?);
            }
            // A tool without arguments may stream null.
            "input_json_delta" => block.input.push_str(&piece("partial_json").unwrap_or_default()),
            "citations_delta" => block.citations.extend(delta.get("citation").map(RawJson::from)),
            _ => tracing::debug!(%kind, "unknown delta is passed over"),
        }
        Ok(())
    }

    fn block(&mut self, index: u64) -> Result<&mut Open, Fault> {
        self.open
            .iter_mut()
            .find(|block| block.index == index && !block.closed)
            .ok_or_else(|| Fault::Malformed(format!("block {index} is not open")))
    }

    fn count(&mut self, tokens: Option<Tokens>) {
        let Some(tokens) = tokens else { return };
        let set = |known: &mut u64, now: Option<u64>| *known = now.unwrap_or(*known);
        set(&mut self.usage.input, tokens.input_tokens);
        set(&mut self.usage.output, tokens.output_tokens);
        set(&mut self.usage.cache_read, tokens.cache_read_input_tokens);
        set(&mut self.usage.cache_write, tokens.cache_creation_input_tokens);
    }
}

impl Open {
    fn grow_text(&mut self, piece: &str) {
        grow(&mut self.text, &self.fields, "text", piece);
    }

    /// The block as the vendor meant it. `cut` says that it may be incomplete.
    fn close(mut self, stop: &Stop, cut: bool) -> Result<Block, Fault> {
        let grown = [("text", &self.text), ("thinking", &self.thinking), ("signature", &self.signature)];
        for (name, value) in grown {
            if let Some(value) = value {
                self.fields.set(name, RawJson::string(value));
            }
        }
        if !self.citations.is_empty() {
            let mut all: Vec<RawJson> =
                self.fields.get("citations").and_then(|old| old.decode().ok()).unwrap_or_default();
            all.append(&mut self.citations);
            if let Ok(all) = RawJson::encode(&all) {
                self.fields.set("citations", all);
            }
        }
        let mut error = None;
        if matches!(self.kind.as_str(), "tool_use" | "server_tool_use") {
            error = self.close_input();
        }
        let block = Block::from_raw(self.fields.to_raw())
            .map_err(|_| Fault::Malformed(format!("block {} lacks a field", self.index)))?;
        if !matches!(block.view(), View::ToolUse { .. }) {
            return Ok(block);
        }
        let error = match (stop, cut) {
            (Stop::Refusal, _) => Some(InputError::Refused),
            (_, true) => Some(InputError::Truncated(self.input)),
            (_, false) => error,
        };
        Ok(match error {
            Some(error) => block.with_input_error(error),
            None => block,
        })
    }

    /// Puts the streamed input in place. What is no JSON object is wrapped in one, as the
    /// vendor asks, because it refuses to take anything else back.
    fn close_input(&mut self) -> Option<InputError> {
        let written = self.input.trim();
        if written.is_empty() || written == "null" {
            let given = self.fields.get("input").is_some_and(RawJson::is_object);
            if !given {
                self.fields.set("input", RawJson::known("{}".to_owned()));
            }
            return None;
        }
        match RawJson::parse(written) {
            Ok(input) if input.is_object() && input.is_readable() => {
                self.fields.set("input", input);
                None
            }
            _ => {
                let text = RawJson::string(&self.input);
                let wrapped = format!(r#"{{"INVALID_JSON":{}}}"#, text.as_str());
                self.fields.set("input", RawJson::known(wrapped));
                Some(InputError::Unreadable(self.input.clone()))
            }
        }
    }
}

/// Appends to a text that begins as the block's own field.
fn grow(so_far: &mut Option<String>, fields: &Fields, name: &str, piece: &str) {
    so_far.get_or_insert_with(|| fields.text(name).unwrap_or_default()).push_str(piece);
}

/// An event and its kind: what its data says, or else its name. Data that no known event has is
/// passed over with its name.
fn opened<'a>(name: Option<&'a str>, data: &'a str) -> Result<(Cow<'a, str>, Event<'a>), Fault> {
    let known =
        |name: &str| name.starts_with("message") || name.starts_with("content_block") || name == "error";
    match serde_json::from_str::<Event<'_>>(data) {
        Ok(mut event) => {
            let kind = match (event.r#type.take(), event.error) {
                (Some(Text(kind)), _) => kind,
                (None, Some(_)) => "error".into(),
                (None, None) => name.unwrap_or_default().into(),
            };
            Ok((kind, event))
        }
        Err(_) => match name {
            Some("error") => Ok(("error".into(), Event::default())),
            Some(name) if !known(name) => Ok((name.into(), Event::default())),
            _ => Err(Fault::Malformed(format!("a {} event is not JSON", name.unwrap_or("nameless")))),
        },
    }
}

fn decode<'a, T: Deserialize<'a>>(kind: &str, data: &'a str) -> Result<T, Fault> {
    serde_json::from_str(data).map_err(|_| lacking(kind))
}

fn lacking(kind: &str) -> Fault {
    Fault::Malformed(format!("a {kind} event lacks a field"))
}

#[cfg(test)]
mod tests {
    use http::Fold as _;
    use proptest::prelude::*;

    use super::*;

    /// Events as a vendor with a fever might send them.
    fn event() -> impl Strategy<Value = String> {
        let kind = prop::sample::select(vec![
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
            "error",
            "ping",
        ]);
        let block = prop::sample::select(vec![
            r#"{"type":"text","text":"a"}"#,
            r#"{"type":"tool_use","id":"i","name":"n","input":{}}"#,
            r#"{"type":"thinking"}"#,
            r#"{"type":"tool_use"}"#,
            r#"{"type":7}"#,
            "null",
        ]);
        let delta = prop::sample::select(vec![
            r#"{"type":"text_delta","text":"é"}"#,
            r#"{"type":"text_delta","text":null}"#,
            r#"{"type":"input_json_delta","partial_json":"{\"a\":"}"#,
            r#"{"type":"signature_delta","signature":"s"}"#,
            r#"{"stop_reason":"max_tokens"}"#,
            r#"{"stop_reason":[]}"#,
        ]);
        (kind, 0..3_u8, block, delta).prop_map(|(kind, index, block, delta)| {
            format!(
                r#"{{"type":"{kind}","index":{index},"content_block":{block},"delta":{delta},"message":{{}}}}"#
            )
        })
    }

    proptest! {
        #[test]
        fn no_order_of_events_panics_and_every_answer_can_be_journaled(
            events in prop::collection::vec(event(), 0..24)
        ) {
            let mut fold = Fold::default();
            for event in events {
                let _ = fold.take(None, &event, &mut |_| {});
            }
            if let Ok(response) = fold.finish("asked".to_owned()) {
                let bytes = serde_json::to_vec(&response).unwrap();
                let again: Response = serde_json::from_slice(&bytes).unwrap();
                prop_assert_eq!(again, response);
            }
        }

        #[test]
        fn no_data_panics(data in "\\PC{0,60}") {
            let _ = Fold::default().take(None, &data, &mut |_| {});
            let _ = Fold::default().take(Some("error"), &data, &mut |_| {});
        }
    }
}
