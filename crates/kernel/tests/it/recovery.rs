//! Intention without result, one test per effect class and per answer.

use domain::gate::Answer;
use testkit::sim::{Act, Op, Owner, World};

use crate::world;

/// Each scenario under so many seeds, which differ in what happens in between.
const SEEDS: u64 = 20;

fn says(answer: Answer) -> Owner {
    Owner::Says(answer)
}

/// Kills daemon and runner once `when` holds, and lets the run end.
fn crash(op: Op, owner: Owner, seed: u64, when: impl Fn(&World) -> bool) -> World {
    let mut world = world(&[op], owner, seed);
    world.until(when).unwrap();
    world.crash_daemon();
    world.crash_runner();
    world.finish().unwrap();
    world
}

#[test]
fn a_read_runs_again() {
    for seed in 0..SEEDS {
        let world = crash(Op::new(Act::Read), Owner::Away, seed, |world| world.outside.running() == 1);
        assert_eq!(world.facts("step_intended"), 3);
        assert_eq!(world.facts("step_completed"), 2);
    }
}

#[test]
fn a_workspace_write_is_rolled_back_and_runs_again() {
    for seed in 0..SEEDS {
        let world = crash(Op::new(Act::Write), Owner::Away, seed, |world| world.outside.workspace == "[1");
        assert_eq!(world.facts("workspace_restored"), 1);
        assert_eq!(world.outside.workspace, "[11]");
    }
}

#[test]
fn an_idempotent_write_runs_again_under_its_key() {
    for seed in 0..SEEDS {
        let world = crash(Op::new(Act::Put), Owner::Away, seed, |world| world.outside.keys.len() == 1);
        assert_eq!(world.facts("step_intended"), 3);
        assert_eq!(world.outside.keys.len(), 1);
    }
}

#[test]
fn a_lost_model_call_is_on_record_and_paid_for() {
    for seed in 0..SEEDS {
        let world = crash(Op::new(Act::Read), Owner::Away, seed, |world| world.outside.billed.len() == 1);
        assert_eq!(world.facts("model_call_lost"), 1);
        assert_eq!(world.outside.billed.len(), 2);
        let bill: u64 = world.outside.billed.iter().map(|line| line.cost).sum();
        assert!(world.state().budget.spent.nanodollars >= bill);
    }
}

#[test]
fn a_non_idempotent_step_that_was_done_is_taken_as_done() {
    for seed in 0..SEEDS {
        let world = crash(Op::new(Act::Send), Owner::Away, seed, |world| world.outside.sent.len() == 1);
        assert_eq!(world.times("probe done"), 1);
        assert_eq!((world.outside.sent.len(), world.facts("step_uncertain")), (1, 0));
    }
}

#[test]
fn a_non_idempotent_step_that_was_not_done_runs_again() {
    for seed in 0..SEEDS {
        let world = crash(Op::new(Act::Send), Owner::Away, seed, |world| world.outside.running() == 1);
        assert_eq!(world.facts("step_returned"), 1);
        assert_eq!((world.outside.sent.len(), world.facts("step_uncertain")), (1, 0));
    }
}

#[test]
fn when_nobody_knows_the_owner_says_what_becomes_of_it() {
    let op = Op::new(Act::Send).unprobed();
    for seed in 0..SEEDS {
        for (owner, sent) in [
            (says(Answer::WasDone), 1),
            (says(Answer::Refused), 1),
            (Owner::Away, 1),
            (says(Answer::Repeat), 2),
        ] {
            let world = crash(op, owner, seed, |world| world.outside.sent.len() == 1);
            assert_eq!(world.facts("step_uncertain"), 1, "{owner:?}");
            assert_eq!(world.outside.sent.len(), sent, "{owner:?}");
        }
    }
}

#[test]
fn a_step_that_outlives_the_daemon_is_not_run_again() {
    for act in [Act::Read, Act::Write, Act::Send] {
        for seed in 0..SEEDS {
            let mut world = world(&[Op::new(act)], Owner::Away, seed);
            world.until(|world| world.outside.running() == 1).unwrap();
            world.crash_daemon();
            world.finish().unwrap();
            assert_eq!(world.facts("step_intended"), 2);
            assert_eq!(world.times("running step taken over") + world.times("spooled result taken"), 1);
        }
    }
}

#[test]
fn a_crash_at_any_moment_changes_nothing() {
    let ops = [
        Op::new(Act::Read),
        Op::new(Act::Read),
        Op::new(Act::Write),
        Op::new(Act::Timer(50)),
        Op::new(Act::Send),
        Op::new(Act::Put),
        Op::new(Act::Commit),
        Op::new(Act::Verdict).ruled(testkit::sim::Rule::Ask),
    ];
    for moment in 0..130 {
        for runner in [false, true] {
            let mut world = world(&ops, says(Answer::WasDone), 1);
            world.turns(moment).unwrap();
            world.crash_daemon();
            if runner {
                world.crash_runner();
            }
            world.finish().unwrap();
            assert_eq!(world.outside.workspace, "[33][88]", "moment {moment}, runner {runner}");
            assert_eq!(world.outside.sent.len(), 1, "moment {moment}, runner {runner}");
        }
    }
}
