//! A request as the bytes of the chat completions wire.
//!
//! Contents are plain text: many chat templates take nothing else. Neighbouring texts of the user
//! become one message, because many templates want the roles to alternate. A tool's message takes no image,
//! so the images of its results come in the user's message behind them.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::block::{Origin, View};
use crate::compose::{Error, NO_CONTENT, Rules, check, groups, result_text};
use crate::wire::bare;
use crate::{Effort, Message, RawJson, Request, Role, ToolSpec, image};

const RULES: Rules = Rules { tool_name: 64, origin: Origin::Chat };

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u32,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    messages: Vec<Turn<'a>>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a RawJson,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Turn<'a> {
    System {
        content: &'a str,
    },
    User {
        content: Content,
    },
    Assistant {
        content: String,
        /// Reasoning, under the name that the server gave it.
        #[serde(flatten)]
        reasoning: BTreeMap<String, String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<&'a RawJson>,
    },
    Tool {
        tool_call_id: &'a str,
        content: String,
    },
}

/// What the user says: a text, or texts and images.
#[derive(Serialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part {
    Text { text: String },
    ImageUrl { image_url: Url },
}

#[derive(Serialize)]
struct Url {
    url: String,
}

impl Content {
    fn new(texts: &[&str], mut images: Vec<Part>) -> Self {
        let text = texts.join("\n\n");
        if images.is_empty() {
            return Self::Text(text);
        }
        if !text.is_empty() {
            images.push(Part::Text { text });
        }
        Self::Parts(images)
    }
}

/// A block of reasoning as this adapter keeps it.
#[derive(Serialize, Deserialize)]
pub(super) struct Reasoning {
    pub r#type: String,
    pub field: String,
    pub text: String,
}

pub(crate) fn body(request: &Request) -> Result<Bytes, Error> {
    check(request, &RULES)?;
    let body = Body {
        model: bare(&request.model),
        max_tokens: request.max_tokens,
        stream: true,
        stream_options: StreamOptions { include_usage: true },
        reasoning_effort: request.effort.map(scale),
        tools: request.tools.iter().map(tool).collect(),
        messages: messages(request)?,
    };
    serde_json::to_vec(&body).map(Bytes::from).map_err(Error::Encode)
}

fn tool(spec: &ToolSpec) -> Tool<'_> {
    let function =
        Function { name: &spec.name, description: &spec.description, parameters: &spec.input_schema };
    Tool { r#type: "function", function }
}

/// Three steps are all that these servers know.
pub(crate) const fn scale(effort: Effort) -> &'static str {
    match effort {
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High | Effort::Xhigh | Effort::Max => "high",
    }
}

fn messages(request: &Request) -> Result<Vec<Turn<'_>>, Error> {
    let mut turns = Vec::new();
    if !request.system.trim().is_empty() {
        turns.push(Turn::System { content: &request.system });
    }
    let mut at = 0;
    for (role, group) in groups(&request.messages) {
        match role {
            Role::Assistant => turns.push(said(group)?),
            Role::User => asked(group, at, request, &mut turns)?,
        }
        at += group.len();
    }
    Ok(turns)
}

fn said<'a>(messages: &'a [Message]) -> Result<Turn<'a>, Error> {
    let mut texts = Vec::new();
    let mut reasoning = BTreeMap::<String, String>::new();
    let mut tool_calls = Vec::new();
    for block in messages.iter().flat_map(|message| &message.blocks) {
        match block.view() {
            View::Text { text } if !block.is_blank() => texts.push(text.as_str()),
            View::Thinking { .. } => {
                let Reasoning { field, text, .. } = block.raw().decode().map_err(Error::Encode)?;
                reasoning.entry(field).or_default().push_str(&text);
            }
            View::ToolUse { .. } => tool_calls.push(block.raw()),
            _ => {}
        }
    }
    let mut content = texts.join("\n\n");
    if content.is_empty() && tool_calls.is_empty() {
        content = NO_CONTENT.to_owned();
    }
    Ok(Turn::Assistant { content, reasoning, tool_calls })
}

/// Results first, each a message of its own, then all that is said as one.
fn asked<'a>(
    messages: &'a [Message],
    at: usize,
    request: &Request,
    turns: &mut Vec<Turn<'a>>,
) -> Result<(), Error> {
    let before = turns.len();
    let (mut texts, mut images) = (Vec::new(), Vec::new());
    for (at, message) in (at..).zip(messages) {
        for block in &message.blocks {
            match block.view() {
                View::ToolResult { tool_use_id: tool_call_id, content, is_error } => {
                    for url in image::urls(content.as_ref()) {
                        images.push(Part::Text { text: format!("The image that call {tool_call_id} gave:") });
                        images.push(Part::ImageUrl { image_url: Url { url } });
                    }
                    let content = result_text(content.as_ref(), *is_error);
                    turns.push(Turn::Tool { tool_call_id, content });
                }
                View::Text { .. } if block.is_blank() => {}
                View::Text { text } => texts.push(text.as_str()),
                _ => {
                    let (kind, model) = (block.kind(), request.model.clone());
                    return Err(Error::Unsendable { at, kind, model });
                }
            }
        }
    }
    if texts.is_empty() && turns.len() == before {
        texts.push(NO_CONTENT);
    }
    if !texts.is_empty() || !images.is_empty() {
        turns.push(Turn::User { content: Content::new(&texts, images) });
    }
    Ok(())
}
