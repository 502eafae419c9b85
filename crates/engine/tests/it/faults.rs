//! What goes wrong on the way: broken calls, failed calls to the model, interruptions, lost content.

use domain::fact::{Denial, Fact, Parking};
use domain::run::{Command, End};
use domain::{Outcome, StepKind, Timestamp};
use engine::ModelFailure;
use kernel::driver::{Driver, Next};
use models::{Block, Stop};
use serde_json::json;

use crate::world::{
    World, answer, at_gate, broken_call, calls, config, mission, output, says, shell, thinking,
};

fn failure(code: &str, retry_at: Option<u64>, retryable: bool) -> ModelFailure {
    ModelFailure {
        code: code.into(),
        message: "the vendor failed".into(),
        hint: "try later".into(),
        retry_at: retry_at.map(Timestamp),
        retryable,
    }
}

#[test]
fn a_broken_call_is_answered_without_a_step() {
    let mut world = World::new(&[]);
    world.model(&answer(
        Stop::MaxTokens,
        vec![broken_call("t1", "shell", "unreadable"), broken_call("t2", "shell", "truncated")],
    ));
    assert!(
        !world.facts().any(|fact| matches!(fact, Fact::StepPlanned(step) if step.kind == StepKind::ToolCall))
    );
    let messages = world.messages();
    let results = messages[2]["content"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    assert!(results[0]["content"].as_str().unwrap().contains("not a valid JSON object"));
    assert!(results[1]["content"].as_str().unwrap().contains("ended before this tool call was complete"));
    world.one("claude-opus-5-5");
}

#[test]
fn a_whole_call_beside_a_cut_one_is_run() {
    let mut world = World::new(&[]);
    world.model(&answer(Stop::MaxTokens, vec![shell("t1", "ls"), broken_call("t2", "shell", "truncated")]));
    let step = world.one("shell");
    world.done(&step, Outcome::Succeeded, &output("a.js", 0));
    assert_eq!(world.messages()[2]["content"].as_array().unwrap().len(), 2);
}

#[test]
fn interrupted_calls_get_a_result_so_that_the_run_can_go_on() {
    let mut world = World::new(&[]);
    world.model(&calls(vec![shell("t1", "a"), shell("t2", "b"), shell("t3", "c"), shell("t4", "d")]));
    let steps = world.go();
    world.done_bytes(&steps[0], Outcome::Cancelled, Vec::new());
    world.done(&steps[1], Outcome::TimedOut, &output("so far", 137));
    world.done_bytes(&steps[2], Outcome::Failed, Vec::new());
    world.deny(&steps[3], at_gate(domain::gate::Answer::Refused));
    let messages = world.messages();
    let results = messages[2]["content"].as_array().unwrap();
    let texts: Vec<&str> = results.iter().map(|result| result["content"].as_str().unwrap()).collect();
    insta::assert_debug_snapshot!(texts, @r#"
    [
        "interrupted by the owner before it ended; whether it had an effect is not known",
        "so far\n[its time was up and it was ended]",
        "it was interrupted; whether it had an effect is not known",
        "the owner refused it",
    ]
    "#);
    assert!(results.iter().all(|result| result["is_error"] == true));
}

#[test]
fn a_failure_that_will_not_pass_ends_the_run_at_once() {
    for (code, expected) in [("model.bad_request", End::Failed), ("model.context_too_long", End::Blocked)] {
        let mut world = World::new(&[]);
        let step = world.one("claude-opus-5-5");
        world.done(&step, Outcome::Failed, &failure(code, None, false));
        assert_eq!(world.end().0, expected);
    }
}

#[test]
fn resuming_forgets_earlier_failures() {
    let mut world = World::new(&[]);
    for _ in 0..3 {
        let step = world.one("claude-opus-5-5");
        world.done_bytes(&step, Outcome::Failed, Vec::new());
    }
    world.tell_bytes(Command::Park { reason: Parking::Stopped }, Vec::new());
    world.tell_bytes(Command::Resume { by: "human:owner".into() }, Vec::new());
    let step = world.one("claude-opus-5-5");
    world.done(&step, Outcome::Failed, &failure("model.cut", None, true));
    world.one("claude-opus-5-5");
}

#[test]
fn a_refusal_blocks_and_so_does_a_window_that_is_full_after_a_compaction() {
    let no = |stop| answer(stop, vec![Block::text("no"), broken_call("t1", "shell", "refused")]);
    let mut world = World::new(&["true"]);
    world.model(&no(Stop::Refusal));
    assert_eq!(world.end().0, End::Blocked);
    let mut world = World::new(&["true"]);
    world.model(&no(Stop::ContextExceeded));
    let step = world.model(&answer(Stop::EndTurn, vec![Block::text("a summary")]));
    assert_eq!(step.kind, StepKind::Compaction);
    world.model(&no(Stop::ContextExceeded));
    assert_eq!(world.end().0, End::Blocked);
}

#[test]
fn a_paused_turn_is_sent_back_unchanged() {
    let mut world = World::new(&[]);
    world.model(&answer(Stop::PauseTurn, vec![thinking(), Block::text("searching")]));
    let messages = world.messages();
    assert_eq!(messages.as_array().unwrap().len(), 2);
    assert_eq!(messages[1]["role"], "assistant");
    assert_eq!(messages[1]["content"][0], json!({"type": "thinking", "thinking": "hm", "signature": "c2ln"}));
}

#[test]
fn incomplete_answers_are_asked_to_go_on_three_times() {
    for (stop, words) in
        [(Stop::MaxTokens, "cut at the output limit"), (Stop::ToolUse, "announced a tool call")]
    {
        let mut world = World::new(&[]);
        for _ in 0..3 {
            world.model(&answer(stop.clone(), vec![Block::text("Once upon")]));
            assert!(world.last_said().contains(words));
        }
        world.model(&answer(stop, vec![Block::text("a time")]));
        assert_eq!(world.end().0, End::Blocked);
    }
}

#[test]
fn forgotten_answers_fail_in_words_and_never_compose() {
    let mut world = World::new(&[]);
    let step = world.model(&says("done"));
    let mut driver = engine::Native::new(world.config.clone());
    for event in &world.events {
        let forgotten = matches!(event.header.fact, Fact::StepCompleted { .. });
        driver.fold(&event.header, event.payload.as_ref().filter(|_| !forgotten));
    }
    let Next::End { end, reason } = driver.next(&world.state) else { panic!() };
    assert_eq!(end, End::Failed);
    assert!(reason.contains("was forgotten"), "{reason}");
    assert!(driver.compose(step.step, 99).is_err());
}

#[test]
fn another_system_text_or_tool_list_than_recorded_is_refused() {
    let mut words = config();
    words.system.push('!');
    let mut tools: Vec<engine::Tool> = config().toolbox.iter().cloned().collect();
    tools.pop();
    let fewer = engine::Config { toolbox: engine::Toolbox::new(tools).unwrap(), ..config() };
    for other in [words, fewer] {
        let world = World::with(mission(&[]), other);
        let (end, reason) = world.end();
        assert_eq!(end, End::Failed);
        assert!(reason.contains("not the one that this run was started with"), "{reason}");
    }
}

#[test]
fn garbage_payloads_become_results_or_ends_and_never_panics() {
    let mut world = World::new(&["true"]);
    world.model(&calls(vec![shell("t1", "ls")]));
    let step = world.one("shell");
    world.done_bytes(&step, Outcome::Succeeded, b"\xff{garbage".to_vec());
    assert!(world.messages()[2]["content"][0]["content"].as_str().unwrap().contains("cannot be read"));
    let step = world.one("claude-opus-5-5");
    world.done_bytes(&step, Outcome::Succeeded, b"\xff{garbage".to_vec());
    assert_eq!(world.end().0, End::Failed);
}

#[test]
fn a_cancelled_run_ends_cancelled() {
    let mut world = World::new(&[]);
    world.model(&calls(vec![shell("t1", "ls"), shell("t2", "ls")]));
    let steps = world.go();
    world.tell_bytes(Command::Cancel { by: "human:owner".into() }, Vec::new());
    world.done_bytes(&steps[0], Outcome::Cancelled, Vec::new());
    world.deny(&steps[1], Denial::Cancelled);
    assert_eq!(world.end().0, End::Cancelled);
}
