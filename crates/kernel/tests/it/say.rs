//! The owner speaks: a word is kept, and one that interrupts ends what runs.

use domain::run::{End, Phase, Refusal, Status};
use testkit::sim::{Act, Op, Owner, Rule, World};

use crate::world;

fn spoken_when(ops: &[Op], seed: u64, now: bool, when: impl Fn(&World) -> bool) -> World {
    let mut world = world(ops, Owner::Away, seed);
    world.until(when).unwrap();
    world.say(now).unwrap().unwrap();
    world
}

fn running(world: &World) -> bool {
    world.outside.running() == 1
}

#[test]
fn a_word_changes_nothing_about_what_runs() {
    for seed in 0..20 {
        let mut world = spoken_when(&[Op::new(Act::Write)], seed, false, running);
        world.finish().unwrap();
        assert_eq!(world.facts("said"), 1);
        assert_eq!(world.state().status, Status::Ended { end: End::Done });
        assert_eq!(world.outside.workspace, "[11]");
    }
}

#[test]
fn an_interruption_ends_what_runs_and_denies_what_waits_behind_it() {
    let mut cut = 0;
    for act in [Act::Write, Act::Send] {
        for seed in 0..20 {
            let ops = [Op::new(act), Op::new(Act::Send), Op::new(Act::Write)];
            let mut world = spoken_when(&ops, seed, true, running);
            world.finish().unwrap();
            assert_eq!(world.facts("step_denied"), 2, "seed {seed}");
            assert_eq!(world.facts("step_completed"), 2, "seed {seed}");
            assert!(!world.outside.workspace.contains("[3"));
            cut += usize::from(act == Act::Write && world.outside.workspace != "[11]");
        }
    }
    // Some end by themselves before they are killed, and not all.
    assert!(cut >= 5, "only {cut} of 20 were cut");
}

#[test]
fn an_interruption_holds_across_a_crash() {
    for seed in 0..40 {
        let mut world = spoken_when(&[Op::new(Act::Write), Op::new(Act::Send)], seed, true, running);
        world.until(|world| world.facts("said") == 1).unwrap();
        world.crash_daemon();
        world.crash_runner();
        world.finish().unwrap();
        assert_eq!(world.outside.sent.len(), 0, "seed {seed}: what was denied was done");
    }
}

#[test]
fn an_interrupted_model_call_counts_as_spent() {
    let interrupted = (0..40).filter(|seed| {
        let thinks = |world: &World| world.outside.billed.len() == 1;
        let mut world = spoken_when(&[Op::new(Act::Read)], *seed, true, thinks);
        world.finish().unwrap();
        // An answer that was there before the interruption counts as what it was.
        let failed = world.state().status == Status::Ended { end: End::Failed };
        assert!(!failed || world.state().budget.spent.nanodollars == 1_000, "seed {seed}");
        failed
    });
    assert!(interrupted.count() >= 5);
}

#[test]
fn what_waits_for_a_human_goes_on_waiting() {
    let asked = |world: &World| {
        world
            .ahead()
            .is_some_and(|state| state.open.values().any(|open| matches!(open.phase, Phase::Asked { .. })))
    };
    let mut world = spoken_when(&[Op::new(Act::Send).ruled(Rule::Ask)], 1, true, asked);
    world.until(|world| world.facts("said") == 1).unwrap();
    assert_eq!(world.state().gates.len(), 1);
}

#[test]
fn a_run_that_rests_keeps_the_word_and_its_rest() {
    for now in [false, true] {
        let mut world = world(&[Op::new(Act::Write), Op::new(Act::Read)], Owner::Away, 3);
        world.until(running).unwrap();
        world.stop().unwrap().unwrap();
        world.until(|world| matches!(world.state().status, Status::Parked { .. })).unwrap();
        world.say(now).unwrap().unwrap();
        world.until(|world| world.facts("said") == 1).unwrap();
        assert!(matches!(world.state().status, Status::Parked { .. }));
    }
}

#[test]
fn a_run_that_is_over_says_so() {
    let mut cancelled = world(&[Op::new(Act::Write)], Owner::Away, 4);
    cancelled.until(running).unwrap();
    cancelled.cancel().unwrap().unwrap();
    assert_eq!(cancelled.say(false).unwrap(), Err(Refusal::Cancelling));
    cancelled.finish().unwrap();
    assert_eq!(cancelled.say(false).unwrap(), Err(Refusal::Ended));
    assert_eq!(cancelled.facts("said"), 0);
}
