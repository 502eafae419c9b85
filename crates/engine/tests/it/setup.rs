//! The setup before the first question: asked for once, and whatever it gives, the run goes on.

use domain::fact::Denial;
use domain::gate::Answer;
use domain::run::{Command, End};
use domain::{Effect, Environment, GateId, Outcome, Risk};
use kernel::Driver;

use crate::world::{World, config, mission, output, says};

fn environment(kept: bool) -> Environment {
    Environment {
        hash: domain::Digest::of(b"all of it"),
        setup: "npm ci".into(),
        from: "regie.toml:3".into(),
        sees: Vec::new(),
        kept,
    }
}

fn world(kept: bool) -> World {
    let mission = domain::Mission { environment: Some(environment(kept)), ..mission(&[]) };
    World::with(mission, config())
}

#[track_caller]
fn first_question(world: &mut World) -> String {
    assert_eq!(world.reloaded().next(&world.state), world.driver.next(&world.state));
    let step = world.model(&says("I see"));
    String::from_utf8(world.requests[&step.step].to_vec()).unwrap()
}

#[test]
fn it_is_the_first_step_and_never_a_plain_one() {
    let mut world = world(false);
    let step = world.one("setup");
    assert_eq!((step.effect, step.risk), (Effect::WorkspaceWrite, Risk::External));
    world.done(&step, Outcome::Succeeded, &output("added 3 packages", 0));
    let told = first_question(&mut world);
    assert!(told.contains("The project was set up by `npm ci`"), "{told}");
    // Nothing of it is the agent's work.
    let checkpoint = world.one("checkpoint");
    assert!(checkpoint.step > step.step);
}

#[test]
fn one_that_was_kept_needs_no_step() {
    let mut world = world(true);
    let told = first_question(&mut world);
    assert!(told.contains("The project was set up by `npm ci`"), "{told}");
}

#[test]
fn one_that_failed_is_told_with_its_output() {
    let mut world = world(false);
    let step = world.one("setup");
    world.done(&step, Outcome::Failed, &output("no such package", 7));
    let told = first_question(&mut world);
    assert!(told.contains("failed with exit code 7") && told.contains("no such package"), "{told}");
}

#[test]
fn one_that_was_refused_is_told() {
    let mut world = world(false);
    let step = world.one("setup");
    let gate = GateId::from_bytes([5; 16]);
    world.deny(&step, Denial::Gate { gate, answer: Answer::Refused });
    let told = first_question(&mut world);
    assert!(told.contains("was not run: the owner refused it"), "{told}");
}

#[test]
fn the_owners_word_meanwhile_is_read_behind_it() {
    let mut world = world(false);
    let step = world.one("setup");
    world.tell_bytes(Command::Say { by: "human:owner".into(), now: true }, b"never mind".to_vec());
    world.done_bytes(&step, Outcome::Cancelled, Vec::new());
    let told = first_question(&mut world);
    let (setup, word) = (told.find("was interrupted by the owner"), told.find("never mind"));
    assert!(setup.is_some() && setup < word, "{told}");
}

#[test]
fn one_that_a_stop_cut_is_due_again() {
    let mut world = world(false);
    let step = world.one("setup");
    world.done_bytes(&step, Outcome::Cancelled, Vec::new());
    let again = world.one("setup");
    assert_ne!(again.step, step.step);
    world.done(&again, Outcome::Succeeded, &output("added 7 packages", 0));
    let told = first_question(&mut world);
    assert!(told.contains("The project was set up by `npm ci`"), "{told}");
    assert!(!told.contains("interrupted"), "{told}");
}

#[test]
fn a_cancellation_ends_the_run_there() {
    let mut world = world(false);
    let step = world.one("setup");
    world.deny(&step, Denial::Cancelled);
    assert_eq!(world.end().0, End::Cancelled);
}
