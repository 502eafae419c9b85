//! A request as the vendor's bytes.
//!
//! Order: tools, system, messages, so that each longer conversation repeats the bytes of the
//! shorter one. The exception is the cache mark, which moves with the end: the vendor ignores
//! it when it compares prefixes. Four marks at most: the last tool, the system text, and the
//! last block of the two newest user messages; the older of these two lets a turn of more than
//! twenty blocks still find its prefix in the cache.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Serialize;

use crate::block::{Origin, View};
use crate::compose::{Error, NO_CONTENT, NO_OUTPUT, Rules, check, groups};
use crate::json::Fields;
use crate::wire::bare;
use crate::{Block, Effort, Message, RawJson, Request, Role, ToolSpec};

const RULES: Rules = Rules { tool_name: 128, origin: Origin::Messages };

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u32,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<[System<'a>; 1]>,
    messages: Vec<Turn<'a>>,
}

/// The model decides whether and how long it thinks. Newer ones show nothing of it unless asked.
#[derive(Serialize)]
struct Thinking {
    r#type: &'static str,
    display: &'static str,
}

const ADAPTIVE: Thinking = Thinking { r#type: "adaptive", display: "summarized" };

#[derive(Serialize)]
struct OutputConfig {
    effort: Effort,
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a RawJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Mark>,
}

#[derive(Serialize)]
struct System<'a> {
    r#type: &'static str,
    text: &'a str,
    cache_control: Mark,
}

#[derive(Clone, Copy, Serialize)]
struct Mark {
    r#type: &'static str,
}

const MARK: Mark = Mark { r#type: "ephemeral" };

#[derive(Serialize)]
struct Turn<'a> {
    role: Role,
    content: Vec<Cow<'a, RawJson>>,
}

pub(crate) fn body(request: &Request) -> Result<Bytes, Error> {
    check(request, &RULES)?;
    let mut messages = turns(&request.messages);
    mark_newest(&mut messages);
    let system = Some(request.system.as_str()).filter(|text| !text.trim().is_empty());
    let body = Body {
        model: bare(&request.model),
        max_tokens: request.max_tokens,
        stream: true,
        thinking: request.extras.reasoning.then_some(ADAPTIVE),
        output_config: request.effort.map(|effort| OutputConfig { effort }),
        tools: tools(&request.tools),
        system: system.map(|text| [System { r#type: "text", text, cache_control: MARK }]),
        messages,
    };
    serde_json::to_vec(&body).map(Bytes::from).map_err(Error::Encode)
}

fn tools(specs: &[ToolSpec]) -> Vec<Tool<'_>> {
    let last = specs.len().saturating_sub(1);
    let tools = specs.iter().enumerate().map(|(place, spec)| Tool {
        name: &spec.name,
        description: &spec.description,
        input_schema: &spec.input_schema,
        cache_control: (place == last).then_some(MARK),
    });
    tools.collect()
}

/// Neighbouring user messages become one, tool results first; the model's stay as they are.
fn turns(messages: &[Message]) -> Vec<Turn<'_>> {
    let turns = groups(messages).map(|(role, group)| {
        let mut content = match role {
            Role::Assistant => said(group),
            Role::User => asked(group),
        };
        if content.is_empty() {
            content.push(Cow::Owned(Block::text(NO_CONTENT).raw().clone()));
        }
        Turn { role, content }
    });
    turns.collect()
}

/// The model's blocks verbatim and in order, but for blank text, which the vendor sends and
/// then refuses to take back.
fn said(messages: &[Message]) -> Vec<Cow<'_, RawJson>> {
    let blocks = messages.iter().flat_map(|message| &message.blocks);
    blocks.filter(|block| !block.is_blank()).map(|block| Cow::Borrowed(block.raw())).collect()
}

fn asked(messages: &[Message]) -> Vec<Cow<'_, RawJson>> {
    let blocks = || messages.iter().flat_map(|message| &message.blocks);
    let is_result = |block: &&Block| matches!(block.view(), View::ToolResult { .. });
    let results = blocks().filter(is_result).map(result);
    let others = blocks().filter(|block| !is_result(block) && !block.is_blank()).map(unmarked);
    results.chain(others).collect()
}

/// A tool result that the vendor takes: never empty, never with blank text inside.
fn result(block: &Block) -> Cow<'_, RawJson> {
    let View::ToolResult { content, .. } = block.view() else { return unmarked(block) };
    match content.as_ref().map(filled) {
        Some(Filled::AsIs) => unmarked(block),
        Some(Filled::With(content)) => with_content(block, content),
        None => with_content(block, RawJson::string(NO_OUTPUT)),
    }
}

enum Filled {
    AsIs,
    With(RawJson),
}

fn filled(content: &RawJson) -> Filled {
    if let Ok(text) = content.decode::<String>() {
        return match text.trim().is_empty() {
            true => Filled::With(RawJson::string(NO_OUTPUT)),
            false => Filled::AsIs,
        };
    }
    let Ok(inner) = content.decode::<Vec<RawJson>>() else {
        // Null, or a form that only the vendor can judge.
        return match content.as_str().trim() == "null" {
            true => Filled::With(RawJson::string(NO_OUTPUT)),
            false => Filled::AsIs,
        };
    };
    let all = inner.len();
    let blank = |raw: &RawJson| Block::from_raw(raw.clone()).is_ok_and(|block| block.is_blank());
    let kept: Vec<RawJson> = inner.into_iter().filter(|raw| !blank(raw)).collect();
    if kept.is_empty() {
        return Filled::With(RawJson::string(NO_OUTPUT));
    }
    if kept.len() == all {
        return Filled::AsIs;
    }
    RawJson::encode(&kept).map_or(Filled::AsIs, Filled::With)
}

fn with_content(block: &Block, content: RawJson) -> Cow<'_, RawJson> {
    let Ok(mut fields) = block.raw().decode::<Fields>() else { return unmarked(block) };
    fields.remove("cache_control");
    fields.set("content", content);
    Cow::Owned(fields.to_raw())
}

/// Marks are placed here alone, or there would be more than four.
fn unmarked(block: &Block) -> Cow<'_, RawJson> {
    if block.raw().as_str().contains("cache_control")
        && let Ok(mut fields) = block.raw().decode::<Fields>()
    {
        fields.remove("cache_control");
        return Cow::Owned(fields.to_raw());
    }
    Cow::Borrowed(block.raw())
}

fn mark_newest(turns: &mut [Turn<'_>]) {
    let newest = turns.iter_mut().rev().filter(|turn| turn.role == Role::User).take(2);
    for turn in newest {
        if let Some(last) = turn.content.last_mut()
            && let Some(head) = last.as_str().trim_end().strip_suffix('}')
        {
            let marked = format!(r#"{head},"cache_control":{{"type":"ephemeral"}}}}"#);
            *last = Cow::Owned(RawJson::known(marked));
        }
    }
}
