//! The same missions on each of the three wires, and what goes wrong between a model's name and its key.

use std::os::unix::fs::DirBuilderExt as _;

use models::Wire;
use serde_json::Value;
use testkit::script::Options;

use crate::world::{MEND, Said, World, finish};

const RUN: [&str; 5] = ["run", "Make the check pass", "--done", "sh check.sh", "--yes"];

fn model(wire: Wire, name: &str) -> String {
    match wire {
        Wire::Messages => name.to_owned(),
        Wire::Responses => format!("openai/{name}"),
        Wire::Chat => format!("local/{name}"),
    }
}

fn run(world: &World, wire: Wire, version: &str, name: &str) -> Said {
    let model = model(wire, name);
    finish(world.regie_on(wire, version, &[&RUN[..], &["--model", &model]].concat()))
}

/// Whether a request is one of this wire.
fn is_of(request: &Value, wire: Wire) -> bool {
    match wire {
        Wire::Messages => request["system"].is_array(),
        Wire::Responses => request["input"].is_array() && request["store"] == false,
        Wire::Chat => request["messages"][0]["role"] == "system",
    }
}

#[test]
fn a_whole_mission_on_each_wire_with_a_base_url_of_either_form() {
    for wire in Wire::ALL {
        for version in ["", "/v1"] {
            let world = World::new(MEND);
            let said = run(&world, wire, version, "scripted");
            assert_eq!(said.code, Some(0), "{wire:?}: {said:?}");
            let mended = std::fs::read_to_string(world.project().join("sum.sh")).unwrap();
            assert_eq!(mended, "echo $(($1 + $2))\n", "{wire:?}");
            let asked = world.asked();
            assert_eq!(asked.len(), 4, "{wire:?}");
            assert!(asked.iter().all(|request| is_of(request, wire)), "{wire:?}: {asked:?}");
            assert!(asked.iter().all(|request| request["model"] == "scripted"), "{wire:?}");
            let events = world.events("last");
            assert!(!said.out.contains("sk-scripted") && !format!("{events:?}").contains("sk-scripted"));
            world.is_whole();
        }
    }
}

#[test]
fn the_other_wires_outlive_three_compactions() {
    for wire in [Wire::Responses, Wire::Chat] {
        let world = World::new(include_str!("compact.toml"));
        let said = run(&world, wire, "", "scripted-small");
        assert_eq!(said.code, Some(0), "{wire:?}: {said:?}");
        let asked = world.asked();
        assert_eq!(asked.len(), 9 + 3, "{wire:?}");
        let last = asked.last().unwrap().to_string();
        assert!(last.contains("THIRD SUMMARY") && last.contains("Make the check pass"), "{wire:?}: {last}");
        world.is_whole();
    }
}

#[test]
fn a_stream_that_breaks_is_asked_for_again_on_each_wire() {
    for wire in Wire::ALL {
        for kind in ["cut", "truncated", "garbage", "error"] {
            let fault = format!("[[turn.fault]]\nkind = \"{kind}\"\nafter_events = 3\n\n[[turn.call]]");
            let world = World::new(&MEND.replacen("[[turn.call]]", &fault, 1));
            let said = run(&world, wire, "", "scripted");
            assert_eq!(said.code, Some(0), "{wire:?} {kind}: {said:?}");
            assert_eq!(world.asked().len(), 5, "{wire:?} {kind}");
        }
    }
}

#[test]
fn a_local_server_may_be_named_in_the_installation() {
    let world = World::new(MEND);
    let command = world.regie_on(Wire::Chat, "/v1", &[&RUN[..], &["--model", "local/scripted"]].concat());
    let url = command.get_envs().find(|(name, _)| *name == Wire::Chat.url_env()).unwrap().1.unwrap();
    std::fs::DirBuilder::new().mode(0o700).create(world.home()).unwrap();
    let text =
        format!("[local]\nbase_url = \"{}\"\n\n[mission]\nmodel = \"local/scripted\"\n", url.display());
    std::fs::write(world.home().join("config.toml"), text).unwrap();
    let mut command = world.regie(&RUN);
    command.env_remove("ANTHROPIC_API_KEY").env_remove("ANTHROPIC_BASE_URL");
    let said = finish(command);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(world.asked().iter().all(|request| is_of(request, Wire::Chat)));
    let explained = world.ask(&["config", "explain"]);
    assert!(explained.out.contains("local.base_url"), "{}", explained.out);
}

#[test]
fn a_repository_cannot_say_where_the_model_is() {
    let world = World::new(MEND);
    std::fs::write(world.project().join("regie.toml"), "[local]\nbase_url = \"http://127.0.0.1:1\"\n")
        .unwrap();
    let said = run(&world, Wire::Chat, "", "scripted");
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("local.base_url") && world.asked().is_empty(), "{}", said.err);
}

#[test]
fn a_key_of_the_wrong_vendor_or_none_is_one_clear_line() {
    let world = World::new(MEND);
    for (name, key, model, line) in [
        (
            "OPENAI_API_KEY",
            "sk-ant-api03-x",
            "gpt-6-luna",
            "OPENAI_API_KEY holds a key that looks like one of Anthropic",
        ),
        (
            "ANTHROPIC_API_KEY",
            "sk-proj-x",
            "claude-haiku-5-5",
            "ANTHROPIC_API_KEY holds a key that looks like one of OpenAI",
        ),
        ("ANTHROPIC_API_KEY", "sk-ant-x", "gpt-6-luna", "no key for OpenAI"),
    ] {
        let mut command = world.regie(&[&RUN[..], &["--model", model]].concat());
        command.env_remove("ANTHROPIC_BASE_URL").env_remove("ANTHROPIC_API_KEY").env(name, key);
        let said = finish(command);
        assert_eq!(said.code, Some(1), "{said:?}");
        let lines: Vec<&str> = said.err.lines().collect();
        assert_eq!(lines.len(), 2, "{said:?}");
        assert!(lines[0].starts_with(&format!("error: {line}")), "{said:?}");
        assert!(lines[1].starts_with("hint: set "), "{said:?}");
        assert!(!said.err.contains(key), "{said:?}");
    }
    assert!(world.asked().is_empty());
}

#[test]
fn a_key_that_is_refused_parks_the_run_until_a_right_one_comes() {
    let world = World::with(MEND, Options { key: Some("sk-right".into()), ..Options::default() });
    let said = run(&world, Wire::Responses, "", "scripted");
    assert!(said.err.contains("check OPENAI_API_KEY"), "{said:?}");
    let mut command = world.regie_on(Wire::Responses, "", &["resume", "last"]);
    command.env("OPENAI_API_KEY", "sk-right");
    let resumed = finish(command);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    assert_eq!(world.ended("last").end, "done");
    world.is_whole();
}
