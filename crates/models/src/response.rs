//! A model's whole answer, as it is journaled.

use serde::{Deserialize, Serialize};

use crate::block::{InputError, View};
use crate::{Block, RawJson};

/// One complete answer. Written as JSON, read back and written again, it is the same bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    /// The blocks in the vendor's order.
    pub blocks: Vec<Block>,
    /// Why the model stopped, as the vendor says. It may lie: decide on [`Response::calls`].
    pub stop: Stop,
    /// What the answer took.
    pub usage: Usage,
    /// What attempts took that were cut and made again, as far as the vendor had said.
    pub lost: Usage,
    /// The model that was asked for.
    pub asked: String,
    /// The model that the vendor says answered.
    pub model: String,
    /// The vendor's id of the request, for its support.
    pub request_id: Option<String>,
    /// How many attempts were made, this one included; from 1.
    pub attempts: u32,
}

/// Why a model stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Stop {
    /// It has said what it had to say.
    EndTurn,
    /// It waits for the results of its tool calls.
    ToolUse,
    /// The request's `max_tokens` are used up.
    MaxTokens,
    /// The vendor refuses to go on.
    Refusal,
    /// A long turn pauses: send the answer back unchanged to go on.
    PauseTurn,
    /// The model's window is full.
    ContextExceeded,
    /// A stop sequence of the request was met.
    StopSequence,
    /// Anything else, as the vendor wrote it; empty when it gave no reason.
    Other(String),
}

/// Tokens of one answer. The three kinds of input are disjoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens that neither came from nor went to the cache.
    pub input: u64,
    /// Output tokens, reasoning included.
    pub output: u64,
    /// Input tokens read from the cache.
    pub cache_read: u64,
    /// Input tokens written to the cache.
    pub cache_write: u64,
}

/// One tool call of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// The vendor's id; the result names it.
    pub id: &'a str,
    /// The tool's name as the model wrote it; may be unknown.
    pub name: &'a str,
    /// The input, or why the call must be answered with an error instead of run.
    pub input: Result<&'a RawJson, &'a InputError>,
}

impl Response {
    /// What one stream gave. Its request's id, and what other attempts took, are known to who made the call.
    pub(crate) fn folded(
        blocks: Vec<Block>,
        stop: Stop,
        usage: Usage,
        asked: String,
        model: Option<String>,
    ) -> Self {
        let model = model.unwrap_or_else(|| asked.clone());
        Self { blocks, stop, usage, lost: Usage::default(), asked, model, request_id: None, attempts: 1 }
    }

    /// The tool calls in order; each must be answered, whatever [`Response::stop`] says.
    pub fn calls(&self) -> impl Iterator<Item = Call<'_>> {
        self.blocks.iter().filter_map(|block| match block.view() {
            View::ToolUse { id, name, input } => {
                Some(Call { id, name, input: block.input_error().map_or(Ok(input), Err) })
            }
            _ => None,
        })
    }

    /// The prose of the answer, blocks joined by an empty line.
    #[must_use]
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self
            .blocks
            .iter()
            .filter_map(|block| match block.view() {
                View::Text { text } if !text.trim().is_empty() => Some(text.as_str()),
                _ => None,
            })
            .collect();
        texts.join("\n\n")
    }
}

impl Response {
    /// What can be read of its reasoning, blocks joined by an empty line.
    #[must_use]
    pub fn reasoning(&self) -> String {
        let texts = self.blocks.iter().filter_map(|block| match block.view() {
            View::Thinking { text } if !text.trim().is_empty() => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n\n")
    }
}

impl Usage {
    /// All input tokens, cached ones included.
    #[must_use]
    pub fn total_input(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }

    /// Adds another answer's tokens.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
        }
    }
}

impl From<String> for Stop {
    fn from(wire: String) -> Self {
        match wire.as_str() {
            "end_turn" => Self::EndTurn,
            "tool_use" => Self::ToolUse,
            "max_tokens" => Self::MaxTokens,
            "refusal" => Self::Refusal,
            "pause_turn" => Self::PauseTurn,
            "model_context_window_exceeded" => Self::ContextExceeded,
            "stop_sequence" => Self::StopSequence,
            _ => Self::Other(wire),
        }
    }
}

impl From<Stop> for String {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::EndTurn => "end_turn".to_owned(),
            Stop::ToolUse => "tool_use".to_owned(),
            Stop::MaxTokens => "max_tokens".to_owned(),
            Stop::Refusal => "refusal".to_owned(),
            Stop::PauseTurn => "pause_turn".to_owned(),
            Stop::ContextExceeded => "model_context_window_exceeded".to_owned(),
            Stop::StopSequence => "stop_sequence".to_owned(),
            Stop::Other(wire) => wire,
        }
    }
}
