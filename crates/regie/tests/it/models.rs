//! The catalogue in the hands of an owner: what is listed, what is checked, and what a mission makes of it.

use models::Wire;
use testkit::script::Options;

use crate::world::{MEND, World, finish};

const RUN: [&str; 5] = ["run", "Make the check pass", "--done", "sh check.sh", "--yes"];

/// What every wire needs to work: an answer with reasoning that calls the tool, and one to its result.
const CHECKED: &str = r#"
[[turn]]
thinking = "I add."
[[turn.call]]
name = "add"
input = { a = 2, b = 3 }

[[turn]]
text = "It gave 5."
expect = ["5"]
"#;

fn name(wire: Wire, name: &str) -> String {
    match wire {
        Wire::Messages => name.to_owned(),
        Wire::Responses => format!("openai/{name}"),
        Wire::Chat => format!("local/{name}"),
    }
}

#[test]
fn the_list_says_what_is_known_and_why_the_rest_is_not() {
    let listed = "[[model]]\nid = \"claude-opus-5-5\"\nwindow = 1_000_000\nmax_output = 64_000\nvision = true\n\n\
                  [[model]]\nid = \"claude-of-tomorrow\"\n\n";
    let world = World::new(&format!("{MEND}\n{listed}"));
    let said = world.ask(&["models"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let line = |what: &str| {
        said.out
            .lines()
            .find(|line| line.contains(what))
            .unwrap_or_else(|| panic!("no {what}: {said:?}"))
            .to_owned()
    };
    let cells = |what: &str| line(what).split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
    assert_eq!(cells("claude-opus-5-5"), "claude-opus-5-5 1,000,000 64,000 4 20 images ← worker");
    assert_eq!(cells("claude-of-tomorrow"), "claude-of-tomorrow — — — —");
    assert!(line("Anthropic").contains("as of"), "{said:?}");
    assert!(
        line("no key for OpenAI").starts_with('!') && said.out.contains("mend: set OPENAI_API_KEY"),
        "{said:?}"
    );

    let json = world.ask(&["models", "--json"]).json();
    let first = &json["endpoints"][0];
    assert_eq!((first["wire"].as_str(), first["problem"].is_null()), (Some("anthropic"), true));
    assert_eq!(first["models"][0]["window_from"], "endpoint", "{json}");
    assert_eq!(first["models"][0]["price"]["input"], 4_000, "{json}");
    assert_eq!(first["models"][1]["price"], serde_json::Value::Null);
    assert_eq!(json["endpoints"][1]["problem"]["code"], "model.key_missing");
    assert!(!said.out.contains("sk-scripted") && !json.to_string().contains("sk-scripted"));
    assert!(world.asked().is_empty());

    // It is kept, and read again only on demand.
    let kept = std::fs::read_to_string(world.home().join("models.json")).unwrap();
    assert!(kept.contains("claude-of-tomorrow") && !kept.contains("sk-scripted"), "{kept}");
    let as_of = |refresh: &[&str]| {
        let json = world.ask(&[&["models", "--json"], refresh].concat()).json();
        json["endpoints"][0]["as_of"].as_u64().unwrap()
    };
    let before = as_of(&[]);
    assert_eq!(as_of(&[]), before);
    assert!(as_of(&["--refresh"]) > before);
    let mut command = world.regie(&["models", "--refresh"]);
    command.env("ANTHROPIC_BASE_URL", "http://127.0.0.1:1");
    let said = finish(command);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.contains("could not be reached") && said.out.contains("ANTHROPIC_BASE_URL"), "{said:?}");
}

#[test]
fn a_model_is_checked_on_each_wire_after_its_cost_was_said() {
    for wire in Wire::ALL {
        let world = World::new(CHECKED);
        let model = name(wire, "scripted");
        let unasked = finish(world.regie_on(wire, "", &["models", "check", &model]));
        assert_eq!(unasked.code, Some(2), "{unasked:?}");
        assert!(unasked.err.contains("two messages") && unasked.err.contains("--yes"), "{unasked:?}");
        assert!(world.asked().is_empty());

        let said = finish(world.regie_on(wire, "/v1", &["models", "check", &model, "--yes"]));
        assert_eq!(said.code, Some(0), "{wire:?}: {said:?}");
        for found in
            ["✓ reachable", "✓ listed", "✓ stream", "✓ tool", "✓ result", "✓ usage", " count ", "✓ price"]
        {
            assert!(said.out.contains(found), "{wire:?} {found}: {said:?}");
        }
        assert!(said.out.contains("with the reasoning before it"), "{wire:?}: {said:?}");
        assert!(said.out.contains("it works, for $0.00"), "{wire:?}: {said:?}");
        assert!(said.err.contains("at most $0.00; outside of all caps"), "{wire:?}: {said:?}");
        assert_eq!(world.asked().len(), 2, "{wire:?}");
        let json = finish(world.regie_on(wire, "", &["models", "check", &model, "--yes", "--json"])).json();
        assert_eq!(
            (json["ok"].as_bool(), json["models"][0]["lines"][0]["mark"].as_str()),
            (Some(true), Some("ok"))
        );
    }
}

#[test]
fn what_does_not_work_is_named_with_its_mend() {
    for wire in Wire::ALL {
        let world = World::with(CHECKED, Options { key: Some("sk-other".into()), ..Options::default() });
        let mut command = world.regie_on(wire, "", &["models", "check", &name(wire, "scripted"), "--yes"]);
        let said = finish({
            command.env(wire.key_env(), "sk-scripted");
            command
        });
        assert_eq!(said.code, Some(1), "{wire:?}: {said:?}");
        assert!(said.out.contains("✗ key") && said.out.contains("answered 401"), "{wire:?}: {said:?}");
        assert!(said.out.contains(wire.key_env()) && !said.out.contains("sk-scripted"), "{wire:?}: {said:?}");

        let world = World::new("[[turn]]\ntext = 'It is 5.'\n");
        let said = finish(world.regie_on(wire, "", &["models", "check", &name(wire, "scripted"), "--yes"]));
        assert_eq!(said.code, Some(1), "{wire:?}: {said:?}");
        assert!(said.out.contains("✗ tool") && said.out.contains("that calls tools"), "{wire:?}: {said:?}");
    }
    let world = World::new(CHECKED);
    let mut command = world.regie(&["models", "check", "gpt-6-luna", "local/scripted", "--yes"]);
    command.env(Wire::Chat.url_env(), "http://127.0.0.1:1");
    let said = finish(command);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.out.contains("✗ key") && said.out.contains("mend: set OPENAI_API_KEY"), "{said:?}");
    assert!(said.out.contains("✗ reachable") && said.out.contains("REGIE_LOCAL_BASE_URL"), "{said:?}");
    assert!(world.asked().is_empty());
}

#[test]
fn a_model_that_is_not_there_is_refused_before_anything_begins() {
    let world = World::new(MEND);
    let said = finish(world.regie_on(Wire::Chat, "", &[&RUN[..], &["--model", "local/scriptet"]].concat()));
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains("has no model `local/scriptet`"), "{said:?}");
    assert!(said.err.contains("the nearest are `local/scripted`, `local/scripted-small`"), "{said:?}");
    assert!(said.err.contains("hint: choose another with --model"), "{said:?}");
    assert_eq!(world.ask(&["runs", "--json"]).out, "[]\n");
    assert!(world.asked().is_empty());
    world.is_whole();
}

#[test]
fn a_mission_begins_on_what_the_endpoint_says_and_goes_on_on_it() {
    let listed = |window: u64| {
        format!("{MEND}\n[[model]]\nid = \"scripted\"\nwindow = {window}\nmax_output = 9_000\n")
    };
    let world = World::new(&listed(12_000));
    let said = world.ask(&[&RUN[..], &["--model", "scripted"]].concat());
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.err.contains("the window of `scripted` is 12000 tokens"), "{said:?}");
    let terms = world.events("last")[0]["content"]["terms"].clone();
    assert_eq!(
        (terms["window"].as_u64(), terms["max_output"].as_u64()),
        (Some(12_000), Some(3_000)),
        "{terms}"
    );
    assert!(world.asked().iter().all(|request| request["max_tokens"] == 3_000));
    world.is_whole();
}

#[test]
fn a_catalogue_that_makes_no_sense_or_cannot_be_read_is_in_nobodys_way() {
    let world = World::new(MEND);
    assert_eq!(world.ask(&["runs"]).code, Some(0));
    std::fs::write(world.home().join("models.json"), "{\"version\":99").unwrap();
    let said = world.ask(&[&RUN[..], &["--model", "scripted"]].concat());
    assert_eq!(said.code, Some(0), "{said:?}");
    let kept: serde_json::Value =
        serde_json::from_slice(&std::fs::read(world.home().join("models.json")).unwrap()).unwrap();
    assert_eq!(kept["version"], 1);
    let found = world.ask(&["doctor", "--json"]).json();
    let check =
        |id: &str| found["checks"].as_array().unwrap().iter().find(|check| check["id"] == id).cloned();
    assert_eq!(check("model.catalogue").unwrap()["status"], "ok");
    assert_eq!(check("model.anthropic").unwrap()["evidence"], "ANTHROPIC_BASE_URL is set, and its key");
    assert_eq!(check("model.openai"), None);
    world.is_whole();
}

#[test]
fn the_doctor_knows_all_three_wires() {
    let world = World::new(MEND);
    let mut command = world.regie_on(Wire::Chat, "", &["doctor", "--json"]);
    command.env("OPENAI_API_KEY", "sk-ant-api03-x").env("ANTHROPIC_BASE_URL", "ftp://x");
    command.env("ANTHROPIC_API_KEY", "sk-secret");
    let found = finish(command).json();
    let check = |id: &str| {
        let all = found["checks"].as_array().unwrap();
        all.iter().find(|check| check["id"] == id).unwrap_or_else(|| panic!("no {id}: {found}")).clone()
    };
    assert_eq!(check("model.key")["evidence"], "ANTHROPIC_API_KEY and OPENAI_API_KEY are set");
    assert_eq!(check("model.openai")["status"], "fail");
    assert_eq!(check("model.anthropic")["status"], "fail");
    assert!(check("model.anthropic")["mend"].as_str().unwrap().contains("ANTHROPIC_BASE_URL"));
    assert_eq!(check("model.local")["status"], "ok");
    assert!(check("model.local")["evidence"].as_str().unwrap().contains("lists 2 models"));
    assert!(!found.to_string().contains("sk-secret") && !found.to_string().contains("sk-ant"));
}
