//! Counting a text's tokens, and refusing a mission that its model has no room for.

use models::Wire;

use crate::world::{MEND, World, finish};

fn model(wire: Wire) -> &'static str {
    match wire {
        Wire::Messages => "scripted-small",
        Wire::Responses => "openai/scripted-small",
        Wire::Chat => "local/scripted-small",
    }
}

#[test]
fn a_mission_that_its_model_has_no_room_for_does_not_begin() {
    let world = World::new(MEND);
    let goal = world.scratch().join("goal.md");
    std::fs::write(&goal, "Make the check pass. Be careful.\n".repeat(4_000)).unwrap();
    for wire in Wire::ALL {
        let args = ["run", "-f", goal.to_str().unwrap(), "--done", "sh check.sh", "--model", model(wire)];
        let said = finish(world.regie_on(wire, "", &args));
        assert_eq!(said.code, Some(1), "{said:?}");
        let lines: Vec<&str> = said.err.lines().collect();
        assert!(lines[0].starts_with("error: the first request to `"), "{said:?}");
        assert!(
            lines[0].contains("(counted by the vendor)") && lines[0].contains("16000 tokens"),
            "{said:?}"
        );
        assert!(lines[1].starts_with("hint: shorten the goal"), "{said:?}");
    }
    assert!(world.asked().is_empty());
    assert_eq!(world.ask(&["runs", "--json"]).out, "[]\n");
    let left = std::fs::read_dir(world.home().join("work")).map(Iterator::count).unwrap_or_default();
    assert_eq!(left, 0, "nothing of it is left");
    let long = std::fs::read(&goal).unwrap();
    // One that the vendor would take, and that the run could not begin with, as nothing of it can be summarised.
    std::fs::write(&goal, "Make the check pass. Be careful.\n".repeat(1_000)).unwrap();
    for wire in Wire::ALL {
        let args = ["run", "-f", goal.to_str().unwrap(), "--done", "sh check.sh", "--model", model(wire)];
        let said = finish(world.regie_on(wire, "", &args));
        assert_eq!(said.code, Some(1), "{said:?}");
        assert!(said.err.contains("that are used of its window of 16000 before"), "{said:?}");
        assert!(said.err.contains("hint: shorten the goal"), "{said:?}");
    }
    assert_eq!(world.ask(&["runs", "--json"]).out, "[]\n");
    // A long one that fits begins.
    std::fs::write(&goal, "Make the check pass. Be careful.\n".repeat(250)).unwrap();
    let file = goal.to_str().unwrap();
    let said = world.ask(&["run", "-f", file, "--done", "sh check.sh", "--yes", "--model", "scripted-small"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    // So it is with one that follows.
    std::fs::write(&goal, long).unwrap();
    let said = world.ask(&["run", "--follow", "last", "-f", file, "--yes"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.starts_with("error: the first request to `scripted-small`"), "{said:?}");
    assert_eq!(world.ask(&["runs", "--json"]).json().as_array().unwrap().len(), 1);
}

#[test]
fn a_text_is_counted_by_the_vendor_or_without_one() {
    let world = World::new(MEND);
    let text = world.scratch().join("text.md");
    std::fs::write(&text, "hello world ".repeat(100)).unwrap();
    let text = text.to_str().unwrap();
    for wire in Wire::ALL {
        let said = finish(world.regie_on(wire, "/v1", &["models", "count", text, "--model", model(wire)]));
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(said.out.ends_with(&format!(" for {}, counted by the vendor\n", model(wire))), "{said:?}");
    }
    let json = world.ask(&["models", "count", text, "--model", "scripted", "--json"]).json();
    assert_eq!((&json["model"], &json["how"]), (&"scripted".into(), &"vendor".into()));
    // Without a key nobody is asked.
    for (model, how) in [("gpt-6-luna", "tokenizer"), ("claude-opus-5-5", "estimate")] {
        let mut command = world.regie(&["models", "count", text, "--model", model, "--json"]);
        command.env_remove("ANTHROPIC_BASE_URL").env_remove("ANTHROPIC_API_KEY");
        let json = finish(command).json();
        assert_eq!(json["how"], how, "{json}");
        let tokens = json["tokens"].as_u64().unwrap();
        assert!((200..500).contains(&tokens), "{json}");
    }
    assert!(world.asked().is_empty());
    let said = world.ask(&["models", "count", "/nowhere"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.starts_with("error: /nowhere cannot be read"), "{said:?}");
}
