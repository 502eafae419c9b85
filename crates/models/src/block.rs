//! One content block of a conversation: the vendor's raw JSON beside a thin typed view.
//!
//! The raw form is what goes back to the vendor; the view is what Regie reads. A tool call whose
//! input cannot be trusted keeps its block and carries an [`InputError`]: it is never executed
//! and is answered with an error result.

use serde::{Deserialize, Serialize};

use crate::RawJson;

/// A content block. Serializes as `{"raw": …, "input_error": …}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Block {
    raw: RawJson,
    view: View,
    input_error: Option<InputError>,
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
        let view = view(&raw)?;
        Ok(Self { raw, view, input_error: None })
    }

    /// A text block.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        let raw = format!(r#"{{"type":"text","text":{}}}"#, RawJson::string(&text).as_str());
        Self { raw: RawJson::known(raw), view: View::Text { text }, input_error: None }
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
        Self { raw: RawJson::known(raw), view, input_error: None }
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

    pub(crate) fn with_input_error(mut self, error: InputError) -> Self {
        self.input_error = Some(error);
        self
    }
}

fn view(raw: &RawJson) -> Result<View, serde_json::Error> {
    #[derive(Deserialize)]
    struct Kind {
        r#type: String,
    }
    #[derive(Deserialize)]
    struct Text {
        text: String,
    }
    #[derive(Deserialize)]
    struct Thinking {
        #[serde(default)]
        thinking: String,
    }
    #[derive(Deserialize)]
    struct ToolUse {
        id: String,
        name: String,
        input: RawJson,
    }
    #[derive(Deserialize)]
    struct ToolResult {
        tool_use_id: String,
        #[serde(default)]
        content: Option<RawJson>,
        #[serde(default)]
        is_error: Option<bool>,
    }
    let Kind { r#type: kind } = raw.decode()?;
    Ok(match kind.as_str() {
        "text" => View::Text { text: raw.decode::<Text>()?.text },
        "thinking" => View::Thinking { text: raw.decode::<Thinking>()?.thinking },
        "redacted_thinking" => View::Thinking { text: String::new() },
        "tool_use" => {
            let ToolUse { id, name, input } = raw.decode()?;
            View::ToolUse { id, name, input }
        }
        "tool_result" => {
            let ToolResult { tool_use_id, content, is_error } = raw.decode()?;
            View::ToolResult { tool_use_id, content, is_error: is_error.unwrap_or(false) }
        }
        _ => View::Other { kind },
    })
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
        Ok(Self { input_error: stored.input_error, ..block })
    }
}
