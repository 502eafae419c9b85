//! The events of one stream of the Responses wire, folded into one answer.
//!
//! An item is taken whole, as the vendor wrote it when it was done; what arrives before serves the live
//! view. Unknown events are passed over.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::block::{InputError, Origin, View, arguments, wrapped};
use crate::http::{self, Fault};
use crate::json::{self, Fields, Text};
use crate::{Block, Delta, RawJson, Response, Stop, Usage};

/// The answer so far.
#[derive(Debug, Default)]
pub(crate) struct Fold {
    model: Option<String>,
    items: BTreeMap<u64, Item>,
    usage: Usage,
    end: Option<End>,
}

/// An item of the output.
#[derive(Debug)]
struct Item {
    raw: RawJson,
    /// Arguments or text as far as they came.
    grown: String,
    done: bool,
}

/// How the vendor says that it ended.
#[derive(Debug)]
enum End {
    Completed,
    Incomplete(String),
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default)]
    r#type: Option<Text<'a>>,
    #[serde(default)]
    output_index: Option<u64>,
    #[serde(borrow, default)]
    item: Option<&'a RawValue>,
    #[serde(borrow, default)]
    delta: Option<&'a RawValue>,
    #[serde(default)]
    response: Option<Whole>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// The response object that some events carry.
#[derive(Deserialize)]
struct Whole {
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    output: Option<Vec<RawJson>>,
    #[serde(default)]
    usage: Option<Tokens>,
    #[serde(default)]
    incomplete_details: Option<Details>,
    #[serde(default)]
    error: Option<RawJson>,
}

#[derive(Deserialize)]
struct Details {
    #[serde(default)]
    reason: Option<String>,
}

/// Totals; the cached ones are part of the input.
#[derive(Deserialize)]
struct Tokens {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    #[serde(default)]
    input_tokens_details: Option<Cached>,
}

#[derive(Deserialize)]
struct Cached {
    #[serde(default)]
    cached_tokens: Option<u64>,
}

impl http::Fold for Fold {
    const ORIGIN: Origin = Origin::Responses;

    fn take(
        &mut self,
        name: Option<&str>,
        data: &str,
        on_delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<(), Fault> {
        if data.trim() == "[DONE]" {
            return Ok(());
        }
        let mut event = match serde_json::from_str::<Event<'_>>(data) {
            Ok(event) => event,
            Err(_) if name == Some("error") => return Err(Fault::Vendor(data.to_owned())),
            Err(_) if name.is_some_and(|name| !is_known(name)) => return Ok(()),
            Err(_) => {
                let kind = name.unwrap_or("nameless");
                return Err(Fault::Malformed(format!("a {kind} event is not in the wire's form")));
            }
        };
        let kind = event.r#type.take().map_or_else(|| name.unwrap_or_default().into(), |kind| kind.0);
        match kind.as_ref() {
            "response.created" | "response.in_progress" => {
                if let Some(whole) = event.response {
                    self.note(&whole);
                }
            }
            "response.output_item.added" => self.begin(event, on_delta)?,
            "response.output_item.done" => self.complete(event)?,
            "response.output_text.delta" | "response.refusal.delta" => {
                on_delta(Delta::Text(self.grow(&event)));
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                on_delta(Delta::Thinking(piece(&event)));
            }
            "response.function_call_arguments.delta" => drop(self.grow(&event)),
            "response.completed" | "response.incomplete" => self.end(&kind, event)?,
            "response.failed" => return Err(Fault::Vendor(failure(event))),
            "error" => return Err(Fault::Vendor(data.to_owned())),
            "" if event.error.is_some() => return Err(Fault::Vendor(data.to_owned())),
            _ => {}
        }
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    fn is_whole(&self) -> bool {
        self.end.is_some()
    }

    fn usage(&self) -> Usage {
        self.usage
    }

    fn finish(self, asked: String) -> Result<Response, Fault> {
        let cut = match &self.end {
            Some(End::Completed) => None,
            Some(End::Incomplete(reason)) => Some(reason.as_str()),
            None => Some(""),
        };
        let mut stop = match cut {
            None => Stop::EndTurn,
            Some("max_output_tokens") => Stop::MaxTokens,
            Some("content_filter") => Stop::Refusal,
            Some(other) => other.to_owned().into(),
        };
        if self.items.values().any(|item| is_refusal(&item.raw)) {
            stop = Stop::Refusal;
        }
        let last = self.items.len().saturating_sub(1);
        let mut blocks = Vec::with_capacity(self.items.len());
        for (place, item) in self.items.into_values().enumerate() {
            let is_cut = !item.done || (place == last && cut.is_some());
            blocks.extend(item.close(&stop, is_cut)?);
        }
        let calls = blocks.iter().any(|block| matches!(block.view(), View::ToolUse { .. }));
        if calls && stop == Stop::EndTurn {
            stop = Stop::ToolUse;
        }
        Ok(Response::folded(blocks, stop, self.usage, asked, self.model))
    }
}

impl Fold {
    fn begin(&mut self, event: Event<'_>, on_delta: &mut (dyn FnMut(Delta) + Send)) -> Result<(), Fault> {
        let (index, raw) = placed(event)?;
        #[derive(Deserialize)]
        struct Call {
            r#type: String,
            name: String,
        }
        if let Ok(call) = raw.decode::<Call>()
            && call.r#type == "function_call"
        {
            on_delta(Delta::ToolUse { name: call.name });
        }
        self.items.entry(index).or_insert(Item { raw, grown: String::new(), done: false });
        Ok(())
    }

    fn complete(&mut self, event: Event<'_>) -> Result<(), Fault> {
        let (index, raw) = placed(event)?;
        let done = !is_incomplete(&raw);
        self.items.insert(index, Item { raw, grown: String::new(), done });
        Ok(())
    }

    fn grow(&mut self, event: &Event<'_>) -> String {
        let piece = piece(event);
        if let Some(item) = event.output_index.and_then(|index| self.items.get_mut(&index)) {
            item.grown.push_str(&piece);
        }
        piece
    }

    /// The last event; its items stand in for those that had no event of their own.
    fn end(&mut self, kind: &str, event: Event<'_>) -> Result<(), Fault> {
        let Some(whole) = event.response else {
            return Err(Fault::Malformed(format!("a {kind} event has no response")));
        };
        self.note(&whole);
        for (index, raw) in (0..).zip(whole.output.unwrap_or_default()) {
            let is_done = self.items.get(&index).is_some_and(|item| item.done);
            if !is_done {
                let done = !is_incomplete(&raw);
                self.items.insert(index, Item { raw, grown: String::new(), done });
            }
        }
        let reason = whole.incomplete_details.and_then(|details| details.reason).unwrap_or_default();
        self.end = Some(match kind {
            "response.completed" => End::Completed,
            _ => End::Incomplete(reason),
        });
        Ok(())
    }

    fn note(&mut self, whole: &Whole) {
        self.model = whole.model.clone().or(self.model.take());
        if let Some(tokens) = &whole.usage {
            let cached = tokens.input_tokens_details.as_ref().and_then(|details| details.cached_tokens);
            let cached = cached.unwrap_or(0).min(tokens.input_tokens);
            self.usage = Usage {
                input: tokens.input_tokens - cached,
                output: tokens.output_tokens,
                cache_read: cached,
                cache_write: 0,
            };
        }
    }
}

impl Item {
    /// The item as it goes back; `None` for one that never said anything. `cut` says that it may be
    /// incomplete.
    fn close(self, stop: &Stop, cut: bool) -> Result<Option<Block>, Fault> {
        let malformed = |_| Fault::Malformed("an output item lacks a field of its type".to_owned());
        let kind = text(&self.raw, "type");
        if kind == "reasoning" && !self.done {
            // Half a reasoning has no use, and the vendor would not take it back.
            return Ok(None);
        }
        if kind == "message" && !self.done && self.raw_is_empty() {
            let said = Some(self.grown).filter(|text| !text.trim().is_empty());
            return Ok(said.map(Block::text));
        }
        if kind != "function_call" {
            return Block::from_raw(self.raw).map(Some).map_err(malformed);
        }
        let mut fields = self
            .raw
            .decode::<Fields>()
            .map_err(|_| Fault::Malformed("an output item is no object".to_owned()))?;
        if !self.grown.is_empty() && text(&self.raw, "arguments").is_empty() {
            fields.set("arguments", RawJson::string(&self.grown));
        }
        let written = fields.text("arguments").unwrap_or_default();
        let unreadable = arguments(fields.get("arguments")).err();
        if let Some(wrong) = &unreadable {
            fields.set("arguments", RawJson::string(wrapped(wrong).as_str()));
        }
        let raw = if self.done && unreadable.is_none() { self.raw } else { fields.to_raw() };
        let block = Block::from_raw(raw).map_err(malformed)?;
        let error = match (stop, cut) {
            (Stop::Refusal, _) => Some(InputError::Refused),
            (_, true) => Some(InputError::Truncated(written)),
            (_, false) => unreadable.map(InputError::Unreadable),
        };
        Ok(Some(match error {
            Some(error) => block.with_input_error(error),
            None => block,
        }))
    }

    fn raw_is_empty(&self) -> bool {
        #[derive(Deserialize)]
        struct Content {
            #[serde(default)]
            content: Vec<RawJson>,
        }
        self.raw.decode::<Content>().is_ok_and(|item| item.content.is_empty())
    }
}

fn placed(event: Event<'_>) -> Result<(u64, RawJson), Fault> {
    match (event.output_index, event.item.map(RawJson::from)) {
        (Some(index), Some(item)) if item.is_object() => Ok((index, item)),
        _ => Err(Fault::Malformed("an output item has no place or is no object".to_owned())),
    }
}

fn piece(event: &Event<'_>) -> String {
    event.delta.and_then(json::text).unwrap_or_default().into_owned()
}

fn text(raw: &RawJson, name: &str) -> String {
    raw.decode::<Fields>().ok().and_then(|fields| fields.text(name)).unwrap_or_default()
}

fn is_incomplete(raw: &RawJson) -> bool {
    text(raw, "status") == "incomplete"
}

fn is_refusal(raw: &RawJson) -> bool {
    #[derive(Deserialize)]
    struct Message {
        r#type: String,
        content: Vec<Part>,
    }
    #[derive(Deserialize)]
    struct Part {
        r#type: String,
    }
    raw.decode::<Message>().is_ok_and(|message| {
        message.r#type == "message" && message.content.iter().any(|part| part.r#type == "refusal")
    })
}

/// What a failed response says, in the form of an error body.
fn failure(event: Event<'_>) -> String {
    let inner = event.response.and_then(|whole| whole.error);
    let error = inner.as_ref().map(RawJson::as_str).or(event.error.map(RawValue::get)).unwrap_or("{}");
    format!(r#"{{"error":{error}}}"#)
}

fn is_known(name: &str) -> bool {
    let known = ["response.output_", "response.function_call", "response.refusal", "response.reasoning"];
    let ends = ["response.created", "response.completed", "response.incomplete", "response.failed"];
    known.iter().any(|head| name.starts_with(head)) || ends.contains(&name)
}

#[cfg(test)]
mod tests {
    use http::Fold as _;
    use proptest::prelude::*;

    use super::*;

    fn event() -> impl Strategy<Value = String> {
        let kind = prop::sample::select(vec![
            "response.created",
            "response.output_item.added",
            "response.output_item.done",
            "response.function_call_arguments.delta",
            "response.output_text.delta",
            "response.completed",
            "response.incomplete",
            "response.failed",
            "error",
        ]);
        let item = prop::sample::select(vec![
            r#"{"type":"message","content":[{"type":"output_text","text":"a"}]}"#,
            r#"{"type":"message","content":[{"type":"refusal","refusal":"no"}]}"#,
            r#"{"type":"message","content":7}"#,
            r#"{"type":"function_call","call_id":"c","name":"n","arguments":"{\"a\":"}"#,
            r#"{"type":"function_call","call_id":"c","name":"n","arguments":null}"#,
            r#"{"type":"function_call"}"#,
            r#"{"type":"reasoning","summary":[],"encrypted_content":"x"}"#,
            r#"{"type":7}"#,
            "null",
        ]);
        (kind, 0..3_u8, item, 0..2_u8).prop_map(|(kind, index, item, whole)| {
            let output = if whole == 1 { item } else { "{}" };
            format!(
                r#"{{"type":"{kind}","output_index":{index},"item":{item},"delta":"{{","response":{{"output":[{output}]}}}}"#
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
