//! The chunks of one chat stream, folded into one answer.
//!
//! Nothing is relied on that a server might leave out: `choices`, `delta`, the usage, a finish reason that
//! tells the truth, the last `[DONE]`. One of the last two must come, or the stream was cut.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::calls::Calls;
use super::compose::Reasoning;
use crate::block::Origin;
use crate::http::{self, Fault};
use crate::json::{self, Glance, Text};
use crate::{Block, Delta, RawJson, Response, Stop, Usage};

/// The names under which servers send reasoning.
const REASONING: [&str; 2] = ["reasoning_content", "reasoning"];

/// The answer so far.
#[derive(Debug, Default)]
pub(crate) struct Fold {
    model: Option<String>,
    /// The name that the server gives reasoning, and the reasoning.
    reasoning: Option<(&'static str, String)>,
    text: String,
    refusal: String,
    calls: Calls,
    usage: Usage,
    finish: Option<String>,
    done: bool,
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    model: Option<Text<'a>>,
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(default)]
    usage: Option<Tokens>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    object: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow, default)]
    delta: Option<Glance<'a>>,
    /// Some servers send the whole message at once.
    #[serde(borrow, default)]
    message: Option<Glance<'a>>,
    #[serde(default)]
    finish_reason: Option<String>,
}

/// Totals so far, and not increments; the cached ones are part of the prompt.
#[derive(Deserialize)]
struct Tokens {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    completion_tokens: Option<u64>,
    #[serde(default)]
    prompt_tokens_details: Option<Cached>,
}

#[derive(Deserialize)]
struct Cached {
    #[serde(default)]
    cached_tokens: Option<u64>,
}

impl http::Fold for Fold {
    const ORIGIN: Origin = Origin::Chat;

    fn take(
        &mut self,
        name: Option<&str>,
        data: &str,
        on_delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<(), Fault> {
        if data.trim() == "[DONE]" {
            self.done = true;
            return Ok(());
        }
        if name == Some("error") {
            return Err(Fault::Vendor(data.to_owned()));
        }
        let chunk: Chunk<'_> = match serde_json::from_str(data) {
            Ok(chunk) => chunk,
            // The wire's own chunks have no name: this is somebody's invention.
            Err(_) if name.is_some_and(|name| name != "message") => return Ok(()),
            Err(_) => return Err(Fault::Malformed("a chunk is not in the wire's form".to_owned())),
        };
        let is_error = chunk.object.is_some_and(|object| object.0 == "error") || chunk.error.is_some();
        if is_error {
            return Err(Fault::Vendor(data.to_owned()));
        }
        if let Some(Text(model)) = chunk.model
            && self.model.as_deref() != Some(model.as_ref())
        {
            self.model = Some(model.into_owned());
        }
        self.count(chunk.usage);
        // One choice was asked for.
        let Some(choice) = chunk.choices.into_iter().flatten().next() else { return Ok(()) };
        if let Some(delta) = choice.delta.or(choice.message) {
            self.grow(&delta, on_delta);
        }
        self.finish = choice.finish_reason.filter(|reason| !reason.is_empty()).or(self.finish.take());
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.done
    }

    fn is_whole(&self) -> bool {
        self.done || self.finish.is_some()
    }

    fn usage(&self) -> Usage {
        self.usage
    }

    fn finish(self, asked: String) -> Result<Response, Fault> {
        let mut stop = match self.finish.as_deref() {
            Some("tool_calls" | "function_call") => Stop::ToolUse,
            Some("length") => Stop::MaxTokens,
            Some("content_filter") => Stop::Refusal,
            // `stop` is said beside calls as well.
            Some("stop" | "eos" | "end_turn") | None => match self.calls.is_empty() {
                true => Stop::EndTurn,
                false => Stop::ToolUse,
            },
            // Gateways pass the words of the vendor behind them on.
            Some(other) => other.to_owned().into(),
        };
        if !self.refusal.is_empty() {
            stop = Stop::Refusal;
        }
        let mut blocks = Vec::new();
        if let Some((field, text)) = self.reasoning {
            let kept = Reasoning { r#type: "chat_reasoning".to_owned(), field: field.to_owned(), text };
            let lost = || Fault::Malformed("reasoning cannot be kept".to_owned());
            let raw = RawJson::encode(&kept).map_err(|_| lost())?;
            blocks.push(Block::from_raw(raw).map_err(|_| lost())?);
        }
        let text = self.text + &self.refusal;
        if !text.is_empty() {
            blocks.push(Block::text(text));
        }
        let cut = stop == Stop::MaxTokens;
        blocks.extend(self.calls.close(&stop, cut)?);
        Ok(Response::folded(blocks, stop, self.usage, asked, self.model))
    }
}

impl Fold {
    fn grow(&mut self, delta: &Glance<'_>, on_delta: &mut (dyn FnMut(Delta) + Send)) {
        let spoken = |name: &str| delta.get(name).map(prose).filter(|text| !text.is_empty());
        // A server may send the same text under both names; the first that it used counts.
        let field = self.reasoning.as_ref().map(|(field, _)| *field);
        let found = REASONING.into_iter().filter(|name| field.is_none_or(|field| field == *name));
        if let Some((name, piece)) = found.filter_map(|name| Some((name, spoken(name)?))).next() {
            self.reasoning.get_or_insert_with(|| (name, String::new())).1.push_str(&piece);
            on_delta(Delta::Thinking(piece));
        }
        if let Some(piece) = spoken("content") {
            self.text.push_str(&piece);
            on_delta(Delta::Text(piece));
        }
        if let Some(piece) = spoken("refusal") {
            self.refusal.push_str(&piece);
            on_delta(Delta::Text(piece));
        }
        let fragments = delta.get("tool_calls");
        let fragments = fragments.and_then(|raw| serde_json::from_str::<Vec<Glance<'_>>>(raw.get()).ok());
        for fragment in fragments.into_iter().flatten() {
            if let Some(name) = self.calls.take(&fragment) {
                on_delta(Delta::ToolUse { name });
            }
        }
    }

    fn count(&mut self, tokens: Option<Tokens>) {
        let Some(tokens) = tokens else { return };
        let cached = tokens.prompt_tokens_details.and_then(|details| details.cached_tokens);
        let known = self.usage;
        let prompt = tokens.prompt_tokens.unwrap_or(known.total_input());
        let cache_read = cached.unwrap_or(known.cache_read).min(prompt);
        self.usage = Usage {
            input: prompt - cache_read,
            output: tokens.completion_tokens.unwrap_or(known.output),
            cache_read,
            cache_write: 0,
        };
    }
}

/// Text, or the texts of a list of parts.
fn prose(raw: &RawValue) -> String {
    #[derive(Deserialize)]
    struct Part {
        #[serde(default)]
        text: String,
    }
    let parts = || serde_json::from_str::<Vec<Part>>(raw.get()).ok();
    let joined = |parts: Vec<Part>| parts.into_iter().map(|part| part.text).collect();
    json::text(raw).map(Cow::into_owned).or_else(|| parts().map(joined)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use http::Fold as _;
    use proptest::prelude::*;

    use super::*;

    fn chunk() -> impl Strategy<Value = String> {
        let delta = prop::sample::select(vec![
            r#"{"content":"é"}"#,
            r#"{"content":null,"reasoning_content":"hm"}"#,
            r#"{"content":[{"text":"a"},{}]}"#,
            r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"n","arguments":"{\"a\":"}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":null}}]}"#,
            r#"{"tool_calls":[{"function":{"name":"m","arguments":{"a":1}}}]}"#,
            r#"{"tool_calls":[{"index":"x","id":7}]}"#,
            r#"{"tool_calls":7}"#,
            "null",
        ]);
        let finish =
            prop::sample::select(vec!["null", "\"stop\"", "\"length\"", "\"tool_calls\"", "\"\"", "7"]);
        (delta, finish).prop_map(|(delta, finish)| {
            format!(r#"{{"choices":[{{"delta":{delta},"finish_reason":{finish}}}],"usage":{{"prompt_tokens":1}}}}"#)
        })
    }

    proptest! {
        #[test]
        fn no_order_of_chunks_panics_and_every_answer_can_be_journaled(
            chunks in prop::collection::vec(chunk(), 0..24)
        ) {
            let mut fold = Fold::default();
            for chunk in chunks {
                let _ = fold.take(None, &chunk, &mut |_| {});
            }
            if let Ok(response) = fold.finish("asked".to_owned()) {
                let bytes = serde_json::to_vec(&response).unwrap();
                let again: Response = serde_json::from_slice(&bytes).unwrap();
                prop_assert_eq!(&again, &response);
                let ids: Vec<&str> = response.calls().map(|call| call.id).collect();
                let distinct: std::collections::BTreeSet<&str> = ids.iter().copied().collect();
                prop_assert_eq!(distinct.len(), ids.len());
            }
        }

        #[test]
        fn no_data_panics(data in "\\PC{0,60}") {
            let _ = Fold::default().take(None, &data, &mut |_| {});
            let _ = Fold::default().take(Some("error"), &data, &mut |_| {});
        }
    }
}
