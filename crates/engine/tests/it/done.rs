//! The definition of done that the agent proposes where its owner gave none.

use domain::fact::Purpose;
use domain::run::{Command, End};
use domain::{Digest, Mission, Outcome};
use kernel::driver::Driver as _;
use serde_json::{Value, json};

use crate::world::{World, call, calls, checkpoint, config, mission, output, says, shell, toolbox};

/// A run without criteria of its owner's, which therefore has the tool.
fn asked() -> World {
    let toolbox = toolbox().with_definition().unwrap();
    let tools = Digest::of(&toolbox.to_bytes().unwrap());
    World::with(Mission { tools, ..mission(&[]) }, engine::Config { toolbox, ..config() })
}

fn define(id: &str, commands: &[&str]) -> models::Block {
    let why = "it is what the goal asks for";
    let criteria: Vec<Value> =
        commands.iter().map(|command| json!({"command": command, "why": why})).collect();
    call(id, "define_done", json!({ "criteria": criteria }))
}

/// That a run which is read from the journal again stands where it stood.
#[track_caller]
fn reloads(world: &World) {
    assert_eq!(world.reloaded().next(&world.state), world.driver.next(&world.state));
}

fn write(world: &mut World, id: &str) {
    world.model(&calls(vec![shell(id, "cp right.sh sum.sh")]));
    let step = world.one("shell");
    world.done(&step, Outcome::Succeeded, &output("", 0));
    world.files = Some(format!("tree after {id}"));
}

#[test]
fn a_proposal_is_frozen_tried_before_the_work_and_decides_at_its_end() {
    let mut world = asked();
    world.files = Some("tree at the start".into());
    assert!(world.last_said().contains("call `define_done`"));
    world.model(&calls(vec![define("t1", &["node --test", "sh lint.sh"])]));
    reloads(&world);
    // It became no step: what comes next are its commands.
    let steps = world.go();
    assert_eq!(steps.iter().map(|step| step.tool.as_str()).collect::<Vec<_>>(), ["trial", "trial"]);
    assert_eq!(world.request(&steps[0]), json!({"command": "node --test"}));
    world.done(&steps[0], Outcome::Failed, &output("1 failing", 1));
    reloads(&world);
    world.done(&steps[1], Outcome::Succeeded, &output("", 0));
    reloads(&world);
    let messages = world.messages();
    assert!(messages[2]["content"][0]["content"].as_str().unwrap().starts_with("Accepted and frozen"));
    let told = world.last_said();
    assert!(told.contains("- `node --test`: fails, as it should\n"), "{told}");
    assert!(told.contains("- `sh lint.sh`: passes already"), "{told}");

    write(&mut world, "t2");
    world.model(&says("The sign was wrong."));
    world.checkpoint(Some("c0ffee"));
    let steps = world.go();
    world.done(&steps[0], Outcome::Failed, &output("still failing", 1));
    world.done(&steps[1], Outcome::Succeeded, &output("", 0));
    assert!(world.last_said().contains("Not done yet. Regie ran the definition of done"));
    write(&mut world, "t3");
    world.model(&says("Now it is right."));
    world.checkpoint(Some("decade"));
    let steps = world.go();
    for step in &steps {
        world.done(step, Outcome::Succeeded, &output("", 0));
    }
    let merge = world.one("merge");
    let request = world.request(&merge);
    assert_eq!(request["checks"], json!(["node --test", "sh lint.sh"]));
    assert_eq!(request["proposed"][0]["before"], "failed");
    assert_eq!(request["proposed"][1]["before"], "passed");
    assert_eq!(
        request["checked"],
        "checked: all 2 criteria pass (proposed by the agent; 1 of 2 passed already before)"
    );
    let message = &request["message"];
    assert!(message["body"].as_str().unwrap().contains(
        "Definition of done, proposed by the agent:\n- `node --test` (failed before): it is what the goal asks for"
    ));
    let trailers = message["trailers"].as_array().unwrap();
    assert_eq!(trailers.last().unwrap()[0], "Regie-Criteria");
    world.done(&merge, Outcome::Succeeded, &json!({"commit": "facade"}));
    let deliver = world.one("deliver");
    world.done(&deliver, Outcome::Succeeded, &json!({"delivery": "already_there"}));
    let (end, reason) = world.end();
    assert_eq!(end, End::Done);
    assert!(reason.contains("proposed by the agent"), "{reason}");
}

#[test]
fn the_first_list_stands() {
    let mut world = asked();
    world.model(&calls(vec![define("t1", &["true"]), define("t2", &["false"])]));
    let step = world.one("trial");
    assert_eq!(world.request(&step), json!({"command": "true"}));
    world.done(&step, Outcome::Succeeded, &output("", 0));
    assert!(world.last_said().contains("None of them tells whether the goal is reached"));
    world.model(&calls(vec![define("t3", &["make"])]));
    let messages = world.messages();
    let refused = &messages.as_array().unwrap().last().unwrap()["content"][0];
    assert_eq!(refused["is_error"], true);
    assert!(refused["content"].as_str().unwrap().contains("frozen; only the owner"), "{refused}");
}

#[test]
fn what_is_no_definition_is_answered_and_freezes_nothing() {
    let mut world = asked();
    world.model(&calls(vec![define("t1", &[])]));
    let messages = world.messages();
    assert!(messages[2]["content"][0]["content"].as_str().unwrap().contains("give 1 to 8"));
    world.model(&calls(vec![define("t2", &["make"])]));
    world.one("trial");
}

#[test]
fn changes_without_a_definition_are_sent_back_twice_and_then_marked() {
    let mut world = asked();
    write(&mut world, "t1");
    for _ in 0..2 {
        world.model(&says("done"));
        world.checkpoint(Some("c0ffee"));
        let told = world.last_said();
        assert!(told.contains("Call `define_done`"), "{told}");
        reloads(&world);
    }
    world.model(&says("done"));
    world.checkpoint(Some("c0ffee"));
    let merge = world.one("merge");
    let request = world.request(&merge);
    assert_eq!(
        request["checked"],
        "nothing was checked: the mission has no definition of done, and the agent proposed none when asked"
    );
    assert_eq!((&request["checks"], request.get("proposed")), (&json!([]), None));
}

#[test]
fn an_answer_without_changes_needs_no_definition() {
    let mut world = asked();
    world.model(&says("It subtracts because of the sign."));
    world.checkpoint(None);
    assert_eq!(world.end().0, End::Done);
}

#[test]
fn a_list_that_comes_late_is_tried_on_the_work_and_says_so() {
    let mut world = asked();
    world.files = Some("tree at the start".into());
    write(&mut world, "t1");
    world.model(&says("done"));
    world.checkpoint(Some("c0ffee"));
    world.model(&calls(vec![define("t2", &["node --test"])]));
    world.trial(0, "");
    world.model(&says("done"));
    world.checkpoint(Some("c0ffee"));
    world.verdict(0, "");
    let merge = world.one("merge");
    assert_eq!(world.request(&merge)["proposed"][0]["before"], "passed_at_work");
}

#[test]
fn an_owner_who_interrupts_the_trial_is_heard_at_once() {
    let mut world = asked();
    world.model(&calls(vec![define("t1", &["sleep 100", "true"])]));
    let steps = world.go();
    world.intend(&steps[0]);
    let by = "human:owner".to_owned();
    world.tell_bytes(Command::Say { by, now: true }, b"use tabs".to_vec());
    let (outcome, spent) = (Outcome::Cancelled, domain::Amount::CALL);
    let cut = Command::Complete { step: steps[0].step, outcome, spent, artifacts: Vec::new() };
    world.tell_bytes(cut, Vec::new());
    world.deny(&steps[1], domain::fact::Denial::Interrupted);
    let told = world.last_said();
    assert!(told.contains("not tried: the owner interrupted") && told.contains("use tabs"), "{told}");
    reloads(&world);
    world.model(&says("done"));
    world.checkpoint(Some("c0ffee"));
    let steps = world.go();
    assert_eq!(steps.len(), 2, "they decide all the same");
}

#[test]
fn a_cap_met_by_the_trial_ends_the_run() {
    let mut world = asked();
    world.model(&calls(vec![define("t1", &["true"])]));
    let step = world.one("trial");
    world.deny(&step, domain::fact::Denial::Budget { cap: domain::budget::Exhausted::Calls });
    assert_eq!(world.end().0, End::BudgetExhausted);
}

#[test]
fn the_owner_s_criteria_win_and_the_tool_list_is_what_it_was() {
    let built_in = engine::Toolbox::built_in().unwrap();
    // The bytes of the tool list are part of every prompt: a change empties the vendors' caches.
    insta::assert_snapshot!(Digest::of(&built_in.to_bytes().unwrap()), @"cb6d3d566642091b40b2123547176fefa5b4a76a68b29fa20a55d54d1edc62d2");
    let names: Vec<String> = built_in.clone().with_definition().unwrap().names().map(str::to_owned).collect();
    assert_eq!(names, ["read", "list", "search", "edit", "write", "shell", "define_done"]);
    // Even with the tool, the owner's list cannot be replaced.
    let toolbox = toolbox().with_definition().unwrap();
    let tools = Digest::of(&toolbox.to_bytes().unwrap());
    let mission = Mission { tools, ..mission(&["make test"]) };
    let mut world = World::with(mission, engine::Config { toolbox, ..config() });
    assert!(!world.last_said().contains("define_done"));
    world.model(&calls(vec![define("t1", &["true"])]));
    let messages = world.messages();
    assert!(
        messages[2]["content"][0]["content"].as_str().unwrap().contains("the owner's definition of done")
    );
    world.model(&says("done"));
    world.checkpoint(Some("c0ffee"));
    let step = world.one("verdict");
    assert_eq!(world.request(&step), json!({"command": "make test"}));
}

#[test]
fn the_owner_s_own_merge_request_is_byte_for_byte_what_it_was() {
    let mut world = World::new(&["true"]);
    world.model(&says("done"));
    let step = world.one("checkpoint");
    world.done(&step, Outcome::Succeeded, &checkpoint(Some("c0ffee")));
    world.verdict(0, "");
    let merge = world.one("merge");
    insta::assert_snapshot!(Digest::of(&world.requests[&merge.step]), @"57473f9c52d846300baf690a8e01d4a284cf0543759f4b542daaf950314446e4");
}

#[test]
fn a_fork_keeps_what_was_frozen_and_a_follow_up_defines_its_own() {
    let mut world = asked();
    world.model(&calls(vec![define("t1", &["node --test"])]));
    world.trial(1, "1 failing");
    write(&mut world, "t2");
    let upto = world.events.len();
    let mut fork = world.forked(upto, Purpose::Fork, &mission(&[]));
    fork.model(&says("done"));
    fork.checkpoint(Some("c0ffee"));
    fork.verdict(0, "");
    let merge = fork.one("merge");
    assert_eq!(fork.request(&merge)["proposed"][0]["before"], "failed");
    let mut next = world.forked(upto, Purpose::FollowUp, &mission(&[]));
    assert!(next.last_said().contains("call `define_done`"));
    next.model(&calls(vec![define("t3", &["make lint"])]));
    let step = next.one("trial");
    assert_eq!(next.request(&step), json!({"command": "make lint"}));
}
