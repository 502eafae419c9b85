//! What a turn asks of a model: frozen tools, a system text, messages that are only appended to.

use domain::Effort;
use serde::{Deserialize, Serialize};

use crate::{Block, Extras, RawJson, Response};

/// One turn's request. Tools and system stay the same for a whole run and messages only grow,
/// so that the vendor's prompt cache holds.
#[derive(Clone, Debug)]
pub struct Request {
    /// The vendor's name of the model; fixed per run.
    pub model: String,
    /// The most tokens that the answer may have, reasoning included.
    pub max_tokens: u32,
    /// The system text; left out when blank.
    pub system: String,
    /// The tools in their frozen order.
    pub tools: Vec<ToolSpec>,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// How much work the model should put in; the vendor's default when `None`.
    pub effort: Option<Effort>,
    /// What is asked beyond the conversation.
    pub extras: Extras,
}

/// What a model is told of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Letters, digits, `_` and `-`, at most 128.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// The JSON schema of its input, byte-stable.
    pub input_schema: RawJson,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The owner, the house, or a tool's results.
    User,
    /// The model.
    Assistant,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub blocks: Vec<Block>,
    /// The model that was asked for when an assistant message was made: its signatures are
    /// bound to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_by: Option<String>,
}

impl Message {
    /// A message of the user's side.
    #[must_use]
    pub fn user(blocks: Vec<Block>) -> Self {
        Self { role: Role::User, blocks, made_by: None }
    }

    /// The model's answer, untouched.
    #[must_use]
    pub fn assistant(response: &Response) -> Self {
        Self { role: Role::Assistant, blocks: response.blocks.clone(), made_by: Some(response.asked.clone()) }
    }
}
