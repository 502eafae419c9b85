//! A request as the bytes of the Responses wire.
//!
//! Nothing is kept at the vendor (`store: false`), so reasoning comes and goes encrypted. Tools and
//! instructions first, input last: a longer conversation repeats the bytes of the shorter one.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Serialize;

use crate::block::{Origin, View};
use crate::compose::{Error, NO_CONTENT, Rules, check, groups, result_text};
use crate::extra::cache_key;
use crate::wire::bare;
use crate::{Block, Effort, Message, RawJson, Request, Role, ToolSpec, image};

const RULES: Rules = Rules { tool_name: 64, origin: Origin::Responses };

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_output_tokens: u32,
    stream: bool,
    store: bool,
    include: [&'static str; 1],
    parallel_tool_calls: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<&'a str>,
    input: Vec<Cow<'a, RawJson>>,
}

#[derive(Serialize)]
struct Reasoning {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'static str>,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a RawJson,
    strict: bool,
}

#[derive(Serialize)]
struct Said<'a> {
    r#type: &'static str,
    role: Role,
    content: Vec<Text<'a>>,
}

#[derive(Serialize)]
struct Text<'a> {
    r#type: &'static str,
    text: &'a str,
}

#[derive(Serialize)]
struct Output<'a> {
    r#type: &'static str,
    call_id: &'a str,
    output: Given,
}

/// What a tool gave: a text, or a text and images.
#[derive(Serialize)]
#[serde(untagged)]
enum Given {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part {
    InputText { text: String },
    InputImage { image_url: String },
}

impl Given {
    fn new(text: String, images: Vec<String>) -> Self {
        if images.is_empty() {
            return Self::Text(text);
        }
        let images = images.into_iter().map(|image_url| Part::InputImage { image_url });
        Self::Parts([Part::InputText { text }].into_iter().chain(images).collect())
    }
}

pub(crate) fn body(request: &Request) -> Result<Bytes, Error> {
    check(request, &RULES)?;
    let body = Body {
        model: bare(&request.model),
        max_output_tokens: request.max_tokens,
        stream: true,
        store: false,
        include: ["reasoning.encrypted_content"],
        parallel_tool_calls: true,
        prompt_cache_key: request.extras.cache_key.then(|| cache_key(request)),
        reasoning: reasoning(request),
        tools: request.tools.iter().map(tool).collect(),
        instructions: Some(request.system.as_str()).filter(|text| !text.trim().is_empty()),
        input: input(request)?,
    };
    serde_json::to_vec(&body).map(Bytes::from).map_err(Error::Encode)
}

fn reasoning(request: &Request) -> Option<Reasoning> {
    let effort = request.effort.map(scale);
    let summary = request.extras.reasoning.then_some("auto");
    (effort.is_some() || summary.is_some()).then_some(Reasoning { effort, summary })
}

fn tool(spec: &ToolSpec) -> Tool<'_> {
    Tool {
        r#type: "function",
        name: &spec.name,
        description: &spec.description,
        parameters: &spec.input_schema,
        strict: false,
    }
}

/// The vendor's scale ends one step earlier.
pub(crate) const fn scale(effort: Effort) -> &'static str {
    match effort {
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
        Effort::Xhigh | Effort::Max => "xhigh",
    }
}

fn input(request: &Request) -> Result<Vec<Cow<'_, RawJson>>, Error> {
    let mut items = Vec::new();
    let mut at = 0;
    for (role, group) in groups(&request.messages) {
        match role {
            Role::Assistant => said(group, &mut items)?,
            Role::User => asked(group, at, request, &mut items)?,
        }
        at += group.len();
    }
    Ok(items)
}

/// The model's items verbatim and in order, but for reasoning that the vendor keeps no copy of and
/// did not hand out: it would look for it by its id, and refuse the rest.
fn said<'a>(messages: &'a [Message], items: &mut Vec<Cow<'a, RawJson>>) -> Result<(), Error> {
    let before = items.len();
    for block in messages.iter().flat_map(|message| &message.blocks) {
        match (block.origin(), block.view()) {
            (Some(_), View::Thinking { .. }) if !is_portable(block) => {}
            (Some(_), _) => items.push(Cow::Borrowed(block.raw())),
            (None, View::Text { .. }) if block.is_blank() => {}
            (None, View::Text { text }) => items.push(Cow::Owned(message(Role::Assistant, vec![text])?)),
            (None, _) => items.push(Cow::Borrowed(block.raw())),
        }
    }
    if items.len() == before {
        items.push(Cow::Owned(message(Role::Assistant, vec![NO_CONTENT])?));
    }
    Ok(())
}

fn is_portable(block: &Block) -> bool {
    #[derive(serde::Deserialize)]
    struct Kept {
        #[serde(default)]
        encrypted_content: Option<String>,
        #[serde(default)]
        content: Option<Vec<RawJson>>,
    }
    block.raw().decode::<Kept>().is_ok_and(|kept| {
        kept.encrypted_content.is_some_and(|text| !text.is_empty())
            || kept.content.is_some_and(|content| !content.is_empty())
    })
}

/// Results first, each an item of its own, then all that is said as one message.
fn asked<'a>(
    messages: &'a [Message],
    at: usize,
    request: &Request,
    items: &mut Vec<Cow<'a, RawJson>>,
) -> Result<(), Error> {
    let before = items.len();
    let mut texts = Vec::new();
    for (at, message) in (at..).zip(messages) {
        for block in &message.blocks {
            match block.view() {
                View::ToolResult { tool_use_id: call_id, content, is_error } => {
                    let text = result_text(content.as_ref(), *is_error);
                    let output = Given::new(text, image::urls(content.as_ref()));
                    let item = Output { r#type: "function_call_output", call_id, output };
                    items.push(Cow::Owned(RawJson::encode(&item).map_err(Error::Encode)?));
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
    if texts.is_empty() && items.len() == before {
        texts.push(NO_CONTENT);
    }
    if !texts.is_empty() {
        items.push(Cow::Owned(message(Role::User, texts)?));
    }
    Ok(())
}

fn message(role: Role, texts: Vec<&str>) -> Result<RawJson, Error> {
    let kind = match role {
        Role::User => "input_text",
        Role::Assistant => "output_text",
    };
    let content = texts.into_iter().map(|text| Text { r#type: kind, text }).collect();
    RawJson::encode(&Said { r#type: "message", role, content }).map_err(Error::Encode)
}
