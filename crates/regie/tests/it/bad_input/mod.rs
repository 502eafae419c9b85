//! Whatever is wrong with what Regie is given, there is a clear line or a result that the model can act
//! on, the record stays valid, and nothing hangs. One test for each line.

mod budget;
mod clock;
mod complaints;
mod daemons;
mod delivery;
mod disk;
mod locale;
mod missions;
mod model;
mod moved;
mod orders;
mod repository;
#[cfg(target_os = "linux")]
mod sandbox;
mod say;
mod tools;
mod vendor;

use serde_json::Value;

use crate::world::{Said, World};

/// A mission on the world's repository.
const RUN: [&str; 4] = ["run", "Make the check pass", "--done", "sh check.sh"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&RUN, more].concat()
}

/// Starts a mission and gives the id of its run.
#[track_caller]
fn start(world: &World, more: &[&str]) -> String {
    let said = world.ask(&with(&[more, &["--detach"]].concat()));
    assert_eq!(said.code, Some(0), "{said:?}");
    said.out.trim_end().to_owned()
}

/// Runs a mission that ends as done and is merged, whatever happens on the way.
#[track_caller]
fn mended(world: &World) -> Said {
    let said = world.ask(&with(&["--yes"]));
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(std::fs::read_to_string(world.project().join("sum.sh")).unwrap(), "echo $(($1 + $2))\n");
    world.is_whole();
    said
}

/// The tool results in the last message of a request: whether each is an error, and its text.
fn results(request: &Value) -> Vec<(bool, String)> {
    let last = request["messages"].as_array().and_then(|messages| messages.last());
    let blocks = last.and_then(|last| last["content"].as_array()).cloned().unwrap_or_default();
    let results = blocks.iter().filter(|block| block["type"] == "tool_result");
    results.map(|block| (block["is_error"] == true, text(&block["content"]))).collect()
}

/// The prose in the last message of a request.
fn told(request: &Value) -> String {
    let last = request["messages"].as_array().and_then(|messages| messages.last());
    last.map(|last| text(&last["content"])).unwrap_or_default()
}

/// The text of a message or of a result, in either form of the wire.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect(),
        _ => String::new(),
    }
}
