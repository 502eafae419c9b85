//! What holds for a request on every wire, and why one cannot be sent; found before anything is sent or
//! spent.

use std::collections::BTreeSet;

use crate::block::{Origin, View};
use crate::wire::bare;
use crate::{Block, Message, RawJson, Request, Role, ToolSpec};

/// A request that the vendor would refuse for its form.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing names the model.
    #[error("the request names no model; set one, for instance `{}`", crate::catalogue::DEFAULT_MODEL)]
    NoModel,
    /// `max_tokens` is zero.
    #[error("the request allows no output; set max_tokens to 1 or more")]
    NoOutput,
    /// There is no message.
    #[error("the conversation is empty; begin it with a user message")]
    NoMessages,
    /// The first message is the model's.
    #[error("the conversation begins with the model's own message; begin it with a user message")]
    FirstIsAssistant,
    /// A tool's name does not fit the vendor's pattern.
    #[error("the tool name `{name}` does not fit the wire; use 1 to {most} letters, digits, `_` or `-`")]
    ToolName {
        /// The name as given.
        name: String,
        /// The most letters that the wire takes.
        most: usize,
    },
    /// Two tools share a name.
    #[error("two tools are named `{name}`; give each its own name")]
    ToolTwice {
        /// The name.
        name: String,
    },
    /// A tool's schema is no object.
    #[error("the input schema of tool `{name}` is not a JSON object; give a schema of type object")]
    ToolSchema {
        /// The tool's name.
        name: String,
    },
    /// A tool call has no result in the next message.
    #[error(
        "message {at} calls tools but the call `{id}` has no result; append one, an error result if it was interrupted"
    )]
    Unanswered {
        /// Place of the calling message, from 0.
        at: usize,
        /// The call.
        id: String,
    },
    /// A result answers nothing that was asked in the message before.
    #[error(
        "message {at} has a result for `{id}`, which is not open there; answer each call once, in the next message"
    )]
    AnswersNothing {
        /// Place of the answering message, from 0.
        at: usize,
        /// The call that is named.
        id: String,
    },
    /// Signed reasoning of one model cannot be sent to another.
    #[error(
        "message {at} holds reasoning signed for `{made_by}`, which `{model}` cannot take; keep one model per run, or delegate"
    )]
    ForeignReasoning {
        /// Place of the message, from 0.
        at: usize,
        /// The model that made it.
        made_by: String,
        /// The model that is asked now.
        model: String,
    },
    /// An item of another vendor's wire: a conversation is never converted between vendors.
    #[error(
        "message {at} holds a `{kind}` of another vendor's wire, which `{model}` cannot take; keep one model per run, or delegate"
    )]
    ForeignBlock {
        /// Place of the message, from 0.
        at: usize,
        /// The other vendor's name of it.
        kind: String,
        /// The model that is asked now.
        model: String,
    },
    /// A kind of block that Regie cannot put on this wire.
    #[error("message {at} holds a `{kind}`, which Regie cannot send to `{model}`; give it as text")]
    Unsendable {
        /// Place of the message, from 0.
        at: usize,
        /// Its kind.
        kind: String,
        /// The model that is asked now.
        model: String,
    },
    /// The request could not be encoded.
    #[error("the request could not be encoded as JSON; this is a defect, please report it")]
    Encode(#[source] serde_json::Error),
}

/// Stands in where a vendor refuses an empty tool result.
pub(crate) const NO_OUTPUT: &str = "(no output)";
/// Stands in where a vendor refuses an empty message.
pub(crate) const NO_CONTENT: &str = "(no content)";

/// In what the wires differ.
pub(crate) struct Rules {
    /// The most letters of a tool's name.
    pub tool_name: usize,
    /// The wire whose items it takes back.
    pub origin: Origin,
}

/// Holds a request to what every vendor asks of its form.
pub(crate) fn check(request: &Request, rules: &Rules) -> Result<(), Error> {
    check_head(request)?;
    check_tools(&request.tools, rules.tool_name)?;
    check_answers(&request.messages)?;
    check_reasoning(request)?;
    check_origin(request, rules.origin)
}

/// The conversation as turns: each message of the model alone, neighbouring ones of the user together.
pub(crate) fn groups(messages: &[Message]) -> impl Iterator<Item = (Role, &[Message])> {
    messages
        .chunk_by(|one, next| one.role == Role::User && next.role == Role::User)
        .filter_map(|group| group.first().map(|first| (first.role, group)))
}

/// A tool's result as text, for wires that take nothing else and have no mark of failure.
pub(crate) fn result_text(content: Option<&RawJson>, is_error: bool) -> String {
    #[derive(serde::Deserialize)]
    struct Part {
        #[serde(default)]
        text: String,
    }
    let text = content.and_then(|content| {
        let parts = || content.decode::<Vec<Part>>().ok();
        let joined = |parts: Vec<Part>| {
            // An image is such a part without a text.
            let texts = parts.into_iter().map(|part| part.text).filter(|text| !text.is_empty());
            let texts: Vec<String> = texts.collect();
            texts.join("\n")
        };
        content.decode::<String>().ok().or_else(|| parts().map(joined))
    });
    let text = text.filter(|text| !text.trim().is_empty()).unwrap_or_else(|| NO_OUTPUT.to_owned());
    match is_error {
        true => format!("error: {text}"),
        false => text,
    }
}

fn check_head(request: &Request) -> Result<(), Error> {
    if request.model.trim().is_empty() {
        return Err(Error::NoModel);
    }
    if request.max_tokens == 0 {
        return Err(Error::NoOutput);
    }
    match request.messages.first().map(|message| message.role) {
        None => Err(Error::NoMessages),
        Some(Role::Assistant) => Err(Error::FirstIsAssistant),
        Some(Role::User) => Ok(()),
    }
}

fn check_tools(tools: &[ToolSpec], most: usize) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    for tool in tools {
        let name = tool.name.clone();
        let fits = tool.name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        if !fits || !(1..=most).contains(&name.len()) {
            return Err(Error::ToolName { name, most });
        }
        if !tool.input_schema.is_object() {
            return Err(Error::ToolSchema { name });
        }
        if !seen.insert(tool.name.as_str()) {
            return Err(Error::ToolTwice { name });
        }
    }
    Ok(())
}

/// Every call is answered exactly once by the user messages that follow it directly.
fn check_answers(messages: &[Message]) -> Result<(), Error> {
    let mut open: Vec<(usize, &str)> = Vec::new();
    let unanswered = |open: &[(usize, &str)]| match open.first() {
        Some((at, id)) => Err(Error::Unanswered { at: *at, id: (*id).to_owned() }),
        None => Ok(()),
    };
    let mut last = Role::User;
    for (at, message) in messages.iter().enumerate() {
        if message.role == Role::Assistant && last == Role::User {
            unanswered(&open)?;
        }
        last = message.role;
        for block in &message.blocks {
            match (message.role, block.view()) {
                (Role::Assistant, View::ToolUse { id, .. }) => open.push((at, id)),
                (_, View::ToolResult { tool_use_id, .. }) => {
                    match open.iter().position(|(_, id)| id == tool_use_id) {
                        Some(place) => drop(open.remove(place)),
                        None => {
                            return Err(Error::AnswersNothing { at, id: tool_use_id.clone() });
                        }
                    }
                }
                _ => {}
            }
        }
    }
    unanswered(&open)
}

/// A signature holds only for the model that made it.
fn check_reasoning(request: &Request) -> Result<(), Error> {
    for (at, message) in request.messages.iter().enumerate() {
        let Some(made_by) = &message.made_by else { continue };
        if bare(made_by) != bare(&request.model) && message.blocks.iter().any(Block::is_reasoning) {
            return Err(Error::ForeignReasoning {
                at,
                made_by: made_by.clone(),
                model: request.model.clone(),
            });
        }
    }
    Ok(())
}

/// A vendor's own items go back to nobody else.
fn check_origin(request: &Request, own: Origin) -> Result<(), Error> {
    for (at, message) in request.messages.iter().enumerate() {
        let foreign = |block: &&Block| block.origin().is_some_and(|origin| origin != own);
        if let Some(block) = message.blocks.iter().find(foreign) {
            return Err(Error::ForeignBlock { at, kind: block.kind(), model: request.model.clone() });
        }
    }
    Ok(())
}
