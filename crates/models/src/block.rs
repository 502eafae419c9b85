//! One content block of a conversation: the vendor's raw JSON beside a thin typed view.
//!
//! The raw form is what goes back to the vendor; the view is what Regie reads. A tool call whose
//! input cannot be trusted keeps its block and carries an [`InputError`]: it is never executed
//! and is answered with an error result.

mod view;

use domain::Image;
use serde::{Deserialize, Serialize};

use crate::{RawJson, compose, image};
pub(crate) use view::{arguments, wrapped};

/// A content block. Serializes as `{"raw": …, "input_error": …}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Block {
    raw: RawJson,
    view: View,
    input_error: Option<InputError>,
    origin: Option<Origin>,
}

/// The wire that a block is of. What a driver composes is of none, and rendered by each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Messages,
    Responses,
    Chat,
}

/// What Regie reads of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum View {
    /// Prose.
    Text {
        /// The prose; may be empty.
        text: String,
    },
    /// Reasoning, open or redacted; the signature stays in the raw form.
    Thinking {
        /// The readable part; empty when the vendor withholds it.
        text: String,
    },
    /// The model asks for a tool.
    ToolUse {
        /// The vendor's id of the call.
        id: String,
        /// The tool's name as the model wrote it.
        name: String,
        /// The input as the model wrote it; an object.
        input: RawJson,
    },
    /// The answer to a tool call.
    ToolResult {
        /// The call that is answered.
        tool_use_id: String,
        /// Text or an array of blocks; absent when the tool said nothing.
        content: Option<RawJson>,
        /// Whether the tool failed.
        is_error: bool,
    },
    /// Any other kind (images, server tools, later inventions), kept raw.
    Other {
        /// The vendor's name of the kind.
        kind: String,
    },
}

/// Why the input of a tool call must not be executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case", tag = "why", content = "text")]
pub enum InputError {
    /// The input is no JSON object; holds what the model wrote.
    #[error(
        "the input of this tool call is not a valid JSON object, so the tool was not run; call it again with valid JSON"
    )]
    Unreadable(String),
    /// The answer was cut inside the call; holds what had arrived.
    #[error(
        "the answer ended before this tool call was complete, so the tool was not run; call it again, with a shorter input"
    )]
    Truncated(String),
    /// The vendor refused to go on, so its calls do not count.
    #[error("the answer ended in a refusal, so the tool was not run")]
    Refused,
}

/// A block that is not in the wire's form.
#[derive(Debug, thiserror::Error)]
#[error("a content block is not in the vendor's form; give a JSON object with the fields of its `type`")]
pub struct Error(#[from] serde_json::Error);

impl Block {
    /// Takes a block as the vendor's JSON, unchanged.
    ///
    /// # Errors
    /// When it is no object, has no `type`, or lacks a field of a type that Regie reads.
    pub fn from_raw(raw: RawJson) -> Result<Self, Error> {
        let view::Read { view, origin, input_error } = view::read(&raw)?;
        Ok(Self { raw, view, input_error, origin })
    }

    /// A text block.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        let raw = format!(r#"{{"type":"text","text":{}}}"#, RawJson::string(&text).as_str());
        Self { raw: RawJson::known(raw), view: View::Text { text }, input_error: None, origin: None }
    }

    /// The answer to a tool call. `Err` holds the text of a failure.
    #[must_use]
    pub fn tool_result(tool_use_id: impl Into<String>, outcome: Result<&str, &str>) -> Self {
        let tool_use_id = tool_use_id.into();
        let (text, is_error) = match outcome {
            Ok(text) => (text, false),
            Err(text) => (text, true),
        };
        let content = RawJson::string(text);
        let raw = format!(
            r#"{{"type":"tool_result","tool_use_id":{},"content":{}{}}}"#,
            RawJson::string(&tool_use_id).as_str(),
            content.as_str(),
            if is_error { r#","is_error":true"# } else { "" },
        );
        let view = View::ToolResult { tool_use_id, content: Some(content), is_error };
        Self { raw: RawJson::known(raw), view, input_error: None, origin: None }
    }

    /// The same answer to a tool call with an image beside its text; any other block as it is.
    #[must_use]
    pub fn showing(&self, shown: &Image, bytes: &[u8]) -> Self {
        let View::ToolResult { tool_use_id, content, is_error: false } = &self.view else {
            return self.clone();
        };
        let content = image::content(compose::result_text(content.as_ref(), false), shown, bytes);
        let id = RawJson::string(tool_use_id);
        let raw = format!(
            r#"{{"type":"tool_result","tool_use_id":{},"content":{}}}"#,
            id.as_str(),
            content.as_str()
        );
        let view =
            View::ToolResult { tool_use_id: tool_use_id.clone(), content: Some(content), is_error: false };
        Self { raw: RawJson::known(raw), view, input_error: None, origin: None }
    }

    /// The vendor's JSON.
    #[must_use]
    pub fn raw(&self) -> &RawJson {
        &self.raw
    }

    /// What Regie reads of it.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Why this tool call must not be executed, if so.
    #[must_use]
    pub fn input_error(&self) -> Option<&InputError> {
        self.input_error.as_ref()
    }

    /// Whether the block is signed or redacted reasoning, bound to the model that made it.
    #[must_use]
    pub fn is_reasoning(&self) -> bool {
        matches!(self.view, View::Thinking { .. })
    }

    /// Whether it is text that says nothing.
    pub(crate) fn is_blank(&self) -> bool {
        matches!(&self.view, View::Text { text } if text.trim().is_empty())
    }

    /// The wire that it is of, where its kind says so.
    pub(crate) fn origin(&self) -> Option<Origin> {
        self.origin
    }

    /// Its `type`.
    pub(crate) fn kind(&self) -> String {
        view::kind(&self.raw)
    }

    pub(crate) fn with_input_error(mut self, error: InputError) -> Self {
        self.input_error = Some(error);
        self
    }
}

/// The journaled form.
#[derive(Clone, Serialize, Deserialize)]
struct Stored {
    raw: RawJson,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    input_error: Option<InputError>,
}

impl From<Block> for Stored {
    fn from(block: Block) -> Self {
        Self { raw: block.raw, input_error: block.input_error }
    }
}

impl TryFrom<Stored> for Block {
    type Error = Error;

    fn try_from(stored: Stored) -> Result<Self, Error> {
        let block = Self::from_raw(stored.raw)?;
        Ok(Self { input_error: stored.input_error.or(block.input_error), ..block })
    }
}
