//! Calls that the model writes as text, and reasons to stop that nobody knows.

use domain::Outcome;
use domain::run::End;
use models::{Block, Stop};

use crate::world::{World, answer, calls, config, mission, output, says, shell};

const AS_TEXT: &str = "<tool_call>{\"name\": \"shell\", \"arguments\": {\"command\": \"rm x\"}}</tool_call>";

#[test]
fn a_call_as_text_is_never_run_and_the_model_is_told_once() {
    for stop in [Stop::EndTurn, Stop::ToolUse, Stop::Other("novel".into())] {
        let mut world = World::new(&["true"]);
        world.model(&answer(stop, vec![Block::text(AS_TEXT)]));
        let asked = world.one("claude-opus-5-5");
        let told = world.request(&asked)["messages"].as_array().unwrap().last().unwrap().to_string();
        assert!(told.contains("holds a call of `shell` as text") && told.contains("never run"), "{told}");
        world.done(&asked, Outcome::Succeeded, &says(AS_TEXT));
        let (end, reason) = world.end();
        assert_eq!(end, End::Blocked);
        for words in
            ["writes calls of `shell` as text", "--tool-call-parser", "--jinja", "use a model that can"]
        {
            assert!(reason.contains(words), "{reason}");
        }
    }
}

#[test]
fn a_model_that_was_told_may_call_or_finish_and_is_told_anew_later() {
    let mut world = World::new(&["true"]);
    world.model(&says(AS_TEXT));
    world.model(&calls(vec![shell("t1", "ls")]));
    let step = world.one("shell");
    world.done(&step, Outcome::Succeeded, &output("a", 0));
    world.model(&says(AS_TEXT));
    world.model(&says("It is done. The parser takes `<tool_call>` now."));
    world.checkpoint(Some("c0ffee"));
    world.verdict(0, "ok");
    world.one("merge");
}

#[test]
fn runs_of_older_drivers_take_every_text_for_an_answer() {
    for driver in ["native/1", "native/2", "native/3"] {
        let mut world = World::driven_by(driver, mission(&["true"]), config());
        world.model(&says(AS_TEXT));
        world.checkpoint(Some("c0ffee"));
    }
}

#[test]
fn a_reason_to_stop_that_nobody_knows_ends_the_turn_and_is_shown() {
    let mut world = World::new(&["true"]);
    world.model(&answer(Stop::Other("tired\u{1b}[2J".into()), vec![Block::text("Done.")]));
    world.checkpoint(Some("c0ffee"));
    let lines: Vec<String> = engine::timeline::items(&world.events).iter().map(ToString::to_string).collect();
    let shown = lines.iter().find(|line| line.contains("does not know")).unwrap();
    assert!(shown.contains("`tired") && !shown.contains('\u{1b}'), "{shown}");
}
