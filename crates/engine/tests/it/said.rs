//! What the owner says on the way is read at the next boundary, and never dropped.

use domain::fact::Denial;
use domain::gate::Answer;
use domain::run::{Command, End};
use domain::{GateId, Outcome};
use kernel::Driver;
use serde_json::json;

use crate::world::{World, answer, at_gate, call, calls, checkpoint, output, says, shell};

fn say(world: &mut World, text: &str, now: bool) {
    world.tell_bytes(Command::Say { by: "human:owner".into(), now }, text.into());
}

/// That a run which is read from the journal again stands where it stood.
#[track_caller]
fn reloads(world: &World) {
    assert_eq!(world.reloaded().next(&world.state), world.driver.next(&world.state));
}

#[test]
fn a_word_goes_beside_the_results_of_the_turn() {
    let mut world = World::new(&[]);
    world.model(&calls(vec![call("t1", "read", json!({"path": "a"})), shell("t2", "make")]));
    let steps = world.go();
    say(&mut world, "use tabs", false);
    world.done(&steps[0], Outcome::Succeeded, &output("first", 0));
    world.done(&steps[1], Outcome::Succeeded, &output("second", 0));
    let messages = world.messages();
    let last = &messages[2]["content"];
    assert_eq!(last[0]["tool_use_id"], "t1");
    assert_eq!(last[1]["tool_use_id"], "t2");
    assert_eq!(last[2]["text"], "The owner says, while you are working:\n\nuse tabs");
    assert_eq!(messages.as_array().unwrap().len(), 3);
    reloads(&world);
}

#[test]
fn a_word_while_the_model_thinks_is_read_at_the_next_boundary() {
    let mut world = World::new(&["true"]);
    let step = world.one("claude-opus-5-5");
    say(&mut world, "one", false);
    say(&mut world, "two", false);
    // The open call is still what was recorded.
    let composed = world.reloaded().compose(step.step, step.composed_upto.unwrap()).unwrap();
    assert_eq!(composed, world.requests[&step.step]);
    world.done(&step, Outcome::Succeeded, &says("I am done"));
    let said = world.last_said();
    assert!(said.contains("one") && said.contains("two"), "{said}");
    reloads(&world);
}

#[test]
fn a_word_during_the_verdicts_keeps_the_run_from_merging() {
    let mut world = World::new(&["true"]);
    world.model(&says("I am done"));
    world.checkpoint(Some("c1"));
    let verdict = world.one("verdict");
    say(&mut world, "also the docs", false);
    world.done(&verdict, Outcome::Succeeded, &output("", 0));
    assert!(world.last_said().contains("also the docs"));
    reloads(&world);
    world.model(&says("the docs too"));
    world.checkpoint(Some("c2"));
    world.verdict(0, "");
    world.one("merge");
}

#[test]
fn a_word_during_the_checkpoint_comes_before_the_verdicts() {
    let mut world = World::new(&["true"]);
    world.model(&says("I am done"));
    let step = world.one("checkpoint");
    say(&mut world, "wait", false);
    world.done(&step, Outcome::Succeeded, &checkpoint(Some("c1")));
    assert!(world.last_said().contains("wait"));
}

fn proposed() -> (World, domain::fact::StepPlanned) {
    let mut world = World::new(&[]);
    world.model(&says("I am done"));
    world.checkpoint(Some("c1"));
    let merge = world.one("merge");
    world.gate(&merge, GateId::from_bytes([4; 16]));
    say(&mut world, "rename it first", false);
    (world, merge)
}

fn answered(world: &mut World, given: Answer) {
    let gate = GateId::from_bytes([4; 16]);
    world.tell_bytes(
        Command::AnswerGate { gate, action: None, answer: given, by: "human:owner".into() },
        Vec::new(),
    );
}

#[test]
fn a_word_at_the_merge_is_read_when_the_merge_is_refused() {
    let (mut world, _) = proposed();
    answered(&mut world, Answer::Refused);
    let said = world.last_said();
    assert!(said.contains("Your proposal was not merged: the owner refused it."), "{said}");
    assert!(said.contains("rename it first"), "{said}");
    reloads(&world);
}

#[test]
fn a_word_that_a_merge_overtakes_is_told_at_the_end() {
    let (mut world, merge) = proposed();
    answered(&mut world, Answer::Approved);
    world.done(&merge, Outcome::Succeeded, &json!({"commit": "decade"}));
    let deliver = world.one("deliver");
    world.done(&deliver, Outcome::Succeeded, &json!({"delivery": "fast_forwarded", "commit": "decade"}));
    let (end, reason) = world.end();
    assert_eq!(end, End::Done);
    assert!(
        reason.ends_with("came too late to be read: start a new mission with it, `regie run`"),
        "{reason}"
    );
}

#[test]
fn a_refusal_without_a_word_ends_the_run() {
    let mut world = World::new(&[]);
    world.model(&says("I am done"));
    world.checkpoint(Some("c1"));
    let merge = world.one("merge");
    world.deny(&merge, at_gate(Answer::Refused));
    assert_eq!(world.end().0, End::Partial);
}

#[test]
fn an_interrupted_call_says_by_whom_and_what_it_had_written() {
    let mut world = World::new(&[]);
    world.model(&calls(vec![shell("t1", "sleep 1000"), shell("t2", "make")]));
    let steps = world.go();
    say(&mut world, "stop that", true);
    let cut = json!({"text": "half\n[cancelled: it and all that it started were ended]",
        "exit_code": null, "is_error": true});
    world.done(&steps[0], Outcome::Cancelled, &cut);
    world.deny(&steps[1], Denial::Interrupted);
    let messages = world.messages();
    let last = messages[2]["content"].as_array().unwrap();
    let text = last[0]["content"].as_str().unwrap();
    assert!(
        text.starts_with("half\n") && text.ends_with("[interrupted by the owner before it ended]"),
        "{text}"
    );
    assert_eq!(last[1]["content"], "not run: the owner interrupted");
    assert!(last[2]["text"].as_str().unwrap().ends_with("stop that"));
    reloads(&world);
}

#[test]
fn calls_that_have_no_step_yet_are_dropped_by_an_interruption() {
    let mut world = World::new(&[]);
    world.model(&calls(vec![shell("t1", "make")]));
    say(&mut world, "not that", true);
    let messages = world.messages();
    assert_eq!(messages[2]["content"][0]["content"], "not run: the owner interrupted");
    assert!(world.last_said().contains("not that"));
}

#[test]
fn any_number_of_interrupted_model_calls_is_no_failure() {
    let mut world = World::new(&[]);
    for round in 0..6 {
        let step = world.one("claude-opus-5-5");
        say(&mut world, &format!("word {round}"), true);
        world.done_bytes(&step, Outcome::Cancelled, Vec::new());
    }
    let said = world.last_said();
    assert!((0..6).all(|round| said.contains(&format!("word {round}"))), "{said}");
}

#[test]
fn an_interrupted_criterion_is_judged_again_after_the_word() {
    let mut world = World::new(&["make", "true"]);
    world.model(&says("I am done"));
    world.checkpoint(Some("c1"));
    let steps = world.go();
    say(&mut world, "make is slow, use ninja", true);
    world.done(&steps[0], Outcome::Cancelled, &output("", 137));
    world.deny(&steps[1], Denial::Interrupted);
    assert!(world.last_said().contains("ninja"));
    world.model(&says("done"));
    world.checkpoint(Some("c2"));
    let steps = world.go();
    assert_eq!(steps.len(), 2);
}

#[test]
fn a_word_keeps_a_stuck_agent_going() {
    let mut world = World::new(&["false"]);
    for _ in 1..=3 {
        world.model(&says("done"));
        world.checkpoint(Some("same"));
        world.verdict(1, "no");
    }
    let step = world.one("claude-opus-5-5");
    say(&mut world, "the flag is -x", false);
    world.done(&step, Outcome::Succeeded, &answer(models::Stop::EndTurn, vec![models::Block::text("hm")]));
    assert!(world.last_said().contains("-x"));
}

#[test]
fn a_word_during_a_wait_for_the_vendor_is_read_after_it() {
    let mut world = World::new(&[]);
    let step = world.one("claude-opus-5-5");
    let limited = json!({"code": "model.rate_limited", "message": "slow down", "retry_at": 5_000});
    world.done(&step, Outcome::Failed, &limited);
    let timer = world.one("timer");
    say(&mut world, "no hurry", true);
    world.fire(&timer);
    assert!(world.last_said().contains("no hurry"));
    reloads(&world);
}
