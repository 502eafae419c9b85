//! A run that gets nowhere is told so once, and then rests until its owner speaks.

use domain::Outcome;
use domain::fact::Parking;
use domain::run::Command;
use kernel::driver::{Driver as _, Next};

use crate::world::{World, call, calls, mission, output, shell};

/// One turn of the same command, which says `said` on these files.
fn turn(world: &mut World, at: usize, said: &str) {
    world.model(&calls(vec![shell(&format!("t{at}"), "sh check.sh")]));
    let step = world.one("shell");
    world.done(&step, Outcome::Failed, &output(said, 1));
    asked_for_a_plan(world);
}

/// Passes the note that the agent is asked for a new plan, when it was just told.
fn asked_for_a_plan(world: &mut World) -> bool {
    let Next::Run(steps) = world.driver.next(&world.state) else { return false };
    let is_note = steps.first().is_some_and(|step| step.tool == "timer");
    if is_note {
        let note = world.one("timer");
        assert!(
            world.request(&note)["reason"]
                .as_str()
                .unwrap()
                .starts_with("the agent is asked for a new plan: ")
        );
        world.fire(&note);
    }
    is_note
}

#[track_caller]
fn rests(world: &World) -> String {
    match world.driver.next(&world.state) {
        Next::Rest { code, hint } => {
            assert_eq!(code, "run.stalled");
            hint
        }
        other => panic!("the run does not rest: {other:?}"),
    }
}

/// A run that has been told and went on.
fn stalled() -> World {
    let mut world = World::new(&["sh check.sh"]);
    world.files = Some("tree".into());
    for at in 0..6 {
        turn(&mut world, at, "wrong");
        if at == 2 {
            let told = world.last_said();
            assert!(told.contains("You are repeating yourself: 3 times in a row the same"), "{told}");
            assert!(told.contains("shell: sh check.sh"), "{told}");
        }
    }
    world
}

fn resume(world: &mut World) {
    world.tell_bytes(Command::Resume { by: "human:owner".into() }, Vec::new());
}

fn park(world: &mut World) {
    let (code, hint) = ("run.stalled".to_owned(), rests(world));
    world.tell_bytes(Command::Park { reason: Parking::Blocked { code, hint } }, Vec::new());
}

#[test]
fn a_loop_is_told_and_then_rests_with_what_it_repeats() {
    let world = stalled();
    let hint = rests(&world);
    assert!(hint.contains("3 times in a row the same: shell: sh check.sh"), "{hint}");
    assert!(hint.contains("regie say run_") && hint.contains("regie resume run_"), "{hint}");
    assert_eq!(world.reloaded().next(&world.state), world.driver.next(&world.state));
}

#[test]
fn the_owner_s_words_let_it_go_on_afresh() {
    let mut world = stalled();
    park(&mut world);
    world.tell_bytes(Command::Say { by: "human:owner".into(), now: false }, b"use the other file".to_vec());
    resume(&mut world);
    let told = world.last_said();
    assert!(told.contains("use the other file") && !told.contains("had let this mission rest"), "{told}");
    for at in 10..15 {
        turn(&mut world, at, "wrong");
    }
    assert!(matches!(world.driver.next(&world.state), Next::Run(_)), "five turns of six");
    turn(&mut world, 15, "wrong");
    rests(&world);
}

#[test]
fn a_resume_without_words_goes_on_with_a_note() {
    let mut world = stalled();
    park(&mut world);
    resume(&mut world);
    assert!(world.last_said().contains("The owner lets you go on"));
    assert_eq!(world.reloaded().next(&world.state), world.driver.next(&world.state));
}

#[test]
fn a_word_that_comes_with_the_last_result_keeps_it_from_resting() {
    let mut world = World::new(&["true"]);
    for at in 0..5 {
        turn(&mut world, at, "wrong");
    }
    world.model(&calls(vec![shell("t5", "sh check.sh")]));
    let step = world.one("shell");
    world.tell_bytes(Command::Say { by: "human:owner".into(), now: false }, b"look at b".to_vec());
    world.done(&step, Outcome::Failed, &output("wrong", 1));
    assert!(world.last_said().contains("look at b"));
}

#[test]
fn output_that_moves_and_files_that_grow_are_work() {
    let mut world = World::new(&["true"]);
    for at in 0..30 {
        turn(&mut world, at, &format!("{at} of 30"));
    }
    for at in 30..60 {
        world.files = Some(format!("tree {at}"));
        turn(&mut world, at, "wrong");
    }
    assert!(!world.messages().to_string().contains("repeating yourself"));
}

#[test]
fn where_the_whole_of_a_long_result_lies_is_no_difference() {
    let mut world = World::new(&["true"]);
    for at in 0..6 {
        world.model(&calls(vec![call(&format!("t{at}"), "read", serde_json::json!({"path": "log"}))]));
        let step = world.one("read");
        let path = format!("/outputs/{}.txt", step.step.0);
        let mut told = output(&format!("[… 9 bytes left out; the whole in {path} …]"), 0);
        told["path"] = path.into();
        world.done(&step, Outcome::Succeeded, &told);
        assert_eq!(asked_for_a_plan(&mut world), at == 2);
    }
    assert!(rests(&world).contains("read: log"));
}

#[test]
fn calls_of_tools_that_do_not_exist_are_a_loop_too() {
    let mut world = World::new(&["true"]);
    for at in 0..6 {
        world.model(&calls(vec![call(&format!("t{at}"), "fly", serde_json::json!({}))]));
        assert_eq!(asked_for_a_plan(&mut world), at == 2);
    }
    assert!(rests(&world).contains("fly"));
}

#[test]
fn runs_of_earlier_drivers_are_not_watched() {
    for driver in ["native/1", "native/2"] {
        let mut world = World::driven_by(driver, mission(&["true"]), crate::world::config());
        for at in 0..9 {
            turn(&mut world, at, "wrong");
        }
        assert!(!world.messages().to_string().contains("repeating yourself"));
    }
}
