//! The exact bytes that go out: stable prefixes, and the same bytes from the journal.

use domain::{Digest, Outcome};
use kernel::driver::Driver;
use serde_json::json;

use crate::world::{World, call, calls, output, says, shell, thinking};

/// Without the moving cache mark, which the vendor leaves out when it compares prefixes.
fn unmarked(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap().replace(r#","cache_control":{"type":"ephemeral"}"#, "")
}

#[test]
fn the_first_request() {
    let mut world = World::new(&["node --test"]);
    let step = world.one("claude-opus-5-5");
    insta::assert_json_snapshot!(world.request(&step)["messages"], @r#"
    [
      {
        "role": "user",
        "content": [
          {
            "type": "text",
            "text": "Make the failing test pass\n\nDefinition of done, run by Regie in the workspace when you finish:\n- `node --test` exits with 0",
            "cache_control": {
              "type": "ephemeral"
            }
          }
        ]
      }
    ]
    "#);
    assert_eq!(world.request(&step)["system"][0]["text"], "You are a test.");
    let names: Vec<String> = world.request(&step)["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["read", "shell", "post"]);
}

#[test]
fn every_request_repeats_the_bytes_of_the_one_before_and_can_be_made_again() {
    let mut world = World::new(&["node --test"]);
    let mut asked = Vec::new();
    for turn in 0..6 {
        let id = format!("t{turn}");
        let blocks = match turn % 2 {
            0 => vec![thinking(), shell(&id, "node --test")],
            _ => vec![
                thinking(),
                call(&id, "read", json!({"path": "ä.js", "n": 1.0, "deep": {"b": 1, "a": 2}})),
            ],
        };
        asked.push(world.model(&calls(blocks)));
        let step = world.go().remove(0);
        let code = turn % 2;
        world.done(&step, Outcome::Succeeded, &output("output — with \"quotes\"\n", code));
    }
    // A cycle of two turns came three times: the note of that is no message.
    let note = world.one("timer");
    world.fire(&note);
    asked.push(world.model(&says("done")));
    world.checkpoint(Some("c1"));
    world.verdict(1, "no");
    let open = world.one("claude-opus-5-5");
    asked.push(open.clone());

    for pair in asked.windows(2) {
        let (before, after) = (&world.requests[&pair[0].step], &world.requests[&pair[1].step]);
        let before = unmarked(before);
        let prefix = before.strip_suffix("]}").unwrap();
        assert!(unmarked(after).starts_with(prefix), "{prefix}\n{}", unmarked(after));
    }
    // From the journal alone, and for earlier steps too.
    let again = world.reloaded();
    for step in &asked {
        let bytes = again.compose(step.step, step.composed_upto.unwrap()).unwrap();
        assert_eq!(Digest::of(&bytes), step.request, "step {}", step.step);
    }
    assert_eq!(again.next(&world.state), world.driver.next(&world.state));
}

#[test]
fn the_tool_list_is_an_artifact_that_reads_back_to_the_same_bytes() {
    let toolbox = crate::world::toolbox();
    let bytes = toolbox.to_bytes().unwrap();
    let again = engine::Toolbox::from_bytes(&bytes).unwrap();
    assert_eq!(again.to_bytes().unwrap(), bytes);
    let mut tools: Vec<engine::Tool> = toolbox.iter().cloned().collect();
    tools[0].spec.name = "merge".into();
    assert!(engine::Toolbox::new(tools).is_err());
}

#[test]
fn the_system_text_holds_the_projects_instructions_and_nothing_volatile() {
    let plain = engine::prompt::system(None);
    assert_eq!(plain, engine::prompt::system(Some("  \n")));
    let with = engine::prompt::system(Some("Use tabs."));
    assert!(with.starts_with(&plain) && with.ends_with("Use tabs.\n"), "{with}");
    let long = engine::prompt::system(Some(&"ü".repeat(40_000)));
    assert!(long.len() < plain.len() + 33_000 && long.contains("[cut here"));
}

#[test]
fn the_built_in_tools_are_fit_for_the_wire_and_the_runners_results_are_read() {
    let toolbox = engine::Toolbox::built_in().unwrap();
    let names: Vec<&str> = toolbox.names().collect();
    assert_eq!(names, ["read", "list", "search", "edit", "write", "shell"]);
    let config = engine::Config { toolbox, ..crate::world::config() };
    let tools = Digest::of(&config.toolbox.to_bytes().unwrap());
    let mission = domain::Mission { tools, ..crate::world::mission(&[]) };
    let mut world = World::with(mission, config);
    world.model(&calls(vec![shell("t1", "node --test")]));
    let step = world.one("shell");
    let output = runner::ToolOutput {
        text: "not ok\n[exit code 1]".into(),
        exit_code: Some(1),
        is_error: true,
        truncated_bytes: 0,
        artifact: None,
        duration_ms: 400,
        jail: sandbox::Status::Enforced,
        path: None,
        instructions: None,
        image: None,
    };
    world.done(&step, Outcome::Failed, &output);
    assert_eq!(world.messages()[2]["content"][0]["content"], "not ok\n[exit code 1]");
}
