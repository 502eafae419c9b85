//! The adapters against real HTTP: the scripted model server, and canned answers for what that server
//! never says. `suite` holds all wires to the same behaviour; `calls`, `compose` and `stream` are the
//! Messages wire's own, `responses` and `chat` those of the others. Numbers in names are those of the cases that adapters get wrong.
#![allow(clippy::unwrap_used, reason = "a test may panic; the lint knows test functions alone")]

mod batch;
mod calls;
mod canned;
mod catalogue;
mod chat;
mod compose;
mod config;
mod count;
mod extras;
mod images;
mod journal;
mod limits;
mod list;
mod network;
mod refused;
mod responses;
mod routing;
mod stream;
mod suite;
mod tape;

use std::sync::Arc;
use std::time::Duration;

use models::Adapter;
use models::{
    Block, Config, Credential, Delta, Message, Provider, RawJson, Request, Response, Secret, ToolSpec, Wire,
    call,
};

pub(crate) const KEY: &str = "sk-test-1234567890";

/// Waits short enough for a test, an idle timeout long enough for a busy machine.
pub(crate) fn config(base_url: &str) -> Config {
    Config {
        backoff: Duration::from_millis(1),
        max_backoff: Duration::from_millis(2),
        ..Config::new(Wire::Messages, Credential::Key(Secret::new(KEY)), base_url)
    }
}

pub(crate) fn anthropic(base_url: &str) -> Adapter {
    Adapter::new(config(base_url)).unwrap()
}

/// The adapter of a wire, and the name that it has for the scripted model.
pub(crate) fn provider(wire: Wire, base_url: &str) -> Arc<dyn Provider> {
    Adapter::connect(Config { wire, ..config(base_url) }).unwrap()
}

pub(crate) fn model(wire: Wire) -> &'static str {
    match wire {
        Wire::Messages => "scripted",
        Wire::Responses => "openai/scripted",
        Wire::Chat => "local/scripted",
    }
}

pub(crate) fn request_on(wire: Wire, messages: Vec<Message>) -> Request {
    Request { model: model(wire).to_owned(), ..request(messages) }
}

pub(crate) fn request(messages: Vec<Message>) -> Request {
    Request {
        model: "scripted".to_owned(),
        max_tokens: 4_000,
        system: "You mend bugs.".to_owned(),
        tools: vec![tool("read"), tool("shell")],
        messages,
        effort: None,
        extras: models::Extras::default(),
    }
}

pub(crate) fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: format!("The {name} tool."),
        input_schema: RawJson::parse(r#"{"type":"object","properties":{"b":{},"a":{}}}"#).unwrap(),
    }
}

pub(crate) fn say(text: &str) -> Message {
    Message::user(vec![Block::text(text)])
}

pub(crate) fn block(raw: &str) -> Block {
    Block::from_raw(RawJson::parse(raw).unwrap()).unwrap()
}

/// One call; what it gave and what the live view saw. What came over the wire gives the same again.
pub(crate) async fn ask(
    provider: &dyn Provider,
    request: &Request,
) -> (Result<Response, call::Error>, Vec<Delta>) {
    let mut seen = Vec::new();
    let body = provider.compose(request).unwrap();
    let mut on_delta = |delta| seen.push(delta);
    let kept = tape::Kept::default();
    let result = provider.call_tapped(body.clone(), &mut on_delta, &kept).await;
    tape::plays_the_same(provider, kept, body, &result).await;
    (result, seen)
}
