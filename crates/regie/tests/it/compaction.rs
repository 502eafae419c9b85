//! A mission that outgrows its model's window three times, and still knows what it is for.

use serde_json::Value;

use crate::world::World;

const SCENARIO: &str = include_str!("compact.toml");

/// The owner's words, with all that could be lost on the way.
const GOAL: &str =
    "Make the check pass.\n\nNever touch check.sh: \"it is right\", says Zoë — <b>keep</b> it.";

fn blocks(request: &Value) -> Vec<&Value> {
    let messages = request["messages"].as_array().unwrap();
    messages.iter().flat_map(|message| message["content"].as_array().unwrap()).collect()
}

#[test]
fn three_compactions_keep_goal_constraints_and_the_owners_words() {
    let world = World::new(SCENARIO);
    let said = world.ask(&["run", GOAL, "--done", "sh check.sh", "--yes", "--model", "scripted-small"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let asked = world.asked();
    assert_eq!(asked.len(), 9 + 3);
    let mut summaries = 0;
    for request in &asked {
        let blocks = blocks(request);
        let first = blocks[0]["text"].as_str().unwrap();
        assert!(first.starts_with(GOAL) && first.contains("`sh check.sh` exits with 0"), "{first}");
        assert_eq!(request["system"], asked[0]["system"]);
        assert_eq!(request["tools"].as_array().unwrap().len(), asked[0]["tools"].as_array().unwrap().len());
        let size = request.to_string().len();
        assert!(size < 50_000, "a request of {size} bytes for a window of 16,000 tokens");
        let last = blocks.last().unwrap()["text"].as_str().unwrap_or_default();
        if last.starts_with("Regie compacts this conversation") {
            summaries += 1;
        } else if summaries > 0 {
            let summary = blocks[1]["text"].as_str().unwrap();
            let name = ["FIRST", "SECOND", "THIRD"][summaries - 1];
            assert!(
                summary.contains(&format!("{name} SUMMARY\n## Constraints\nNever touch check.sh.")),
                "{summary}"
            );
            assert_eq!(
                request.to_string().matches("SUMMARY").count(),
                1,
                "one summary stands for all before it"
            );
        }
    }
    assert_eq!(summaries, 3);
    // What was put aside is found again where its preview says.
    assert!(asked[1].to_string().contains("the whole in /outputs/2.txt"), "{}", asked[1]);
    assert!(asked[2].to_string().contains("/outputs/2.txt:3999:3999"), "{}", asked[2]);

    let events = world.events("last");
    let planned = events.iter().filter(|event| event["fact"]["kind"] == "compaction").count();
    assert_eq!(planned, 3);
    let show = world.ask(&["show", "last"]);
    assert!(show.out.contains("the conversation is summarised"), "{}", show.out);
    assert!(show.out.contains("THIRD SUMMARY"), "{}", show.out);
    assert!(show.out.contains("9 turns"), "a summary is no turn: {}", show.out);
    world.is_whole();
}

#[test]
fn a_daemon_that_dies_between_compactions_goes_on_with_the_same_bytes() {
    let scenario = SCENARIO.replacen(
        "[[turn]]\n[[turn.call]]\nname = \"edit\"",
        "[[turn]]\ndelay_ms = 3000\n[[turn.call]]\nname = \"edit\"",
        1,
    );
    let world = World::new(&scenario);
    let said =
        world.ask(&["run", GOAL, "--done", "sh check.sh", "--yes", "--detach", "--model", "scripted-small"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    // The eleventh request is the one after the last summary that is slow.
    crate::world::until("the slow turn is asked for", || world.asked().len() == 11);
    let _ = rustix::process::kill_process(world.daemon().unwrap(), rustix::process::Signal::KILL);
    // The first order may come before the new daemon has found that it lacks the key.
    crate::world::until("it goes on", || world.ask(&["resume", "last"]).code == Some(0));
    assert_eq!(world.ended("last").end, "done");
    let asked = world.asked();
    assert_eq!(asked.len(), 13);
    assert_eq!(asked[10], asked[11], "asked again word by word");
    world.is_whole();
}
