//! What the simulator found, each as a scenario of its own.

use domain::run::{End, Phase, Status};
use testkit::sim::{Act, Op, Owner};

use crate::world;

const DONE: Status = Status::Ended { end: End::Done };

/// The run rested in the journal's eyes, was resumed, and nobody drove it any more.
#[test]
fn a_resume_that_comes_while_the_rest_is_being_written_is_not_lost() {
    for seed in 0..20 {
        let mut world = world(&[Op::new(Act::Read)], Owner::Away, seed);
        world.until(|world| world.facts("step_intended") == 1).unwrap();
        world.stop().unwrap().unwrap();
        let resting = |world: &testkit::sim::World| {
            world.ahead().is_some_and(|state| matches!(state.status, Status::Parked { .. }))
        };
        world.until(resting).unwrap();
        world.resume().unwrap().unwrap();
        world.finish().unwrap();
        assert_eq!(world.state().status, DONE);
    }
}

/// A read whose try was lost counted as running, so that the run never came to rest.
#[test]
fn a_stop_does_not_wait_for_a_read_that_nobody_executes() {
    for seed in 0..20 {
        let mut world = world(&[Op::new(Act::Read)], Owner::Away, seed);
        world.until(|world| world.outside.running() == 1).unwrap();
        world.crash_daemon();
        world.crash_runner();
        world.boot().unwrap();
        world.stop().unwrap().unwrap();
        world.until(|world| world.facts("parked") == 1).unwrap();
        world.finish().unwrap();
        assert_eq!(world.state().status, DONE);
    }
}

/// The workspace was rolled back although the result lay in the spool, and a later daemon took it.
#[test]
fn a_spooled_result_is_taken_when_the_runner_dies_before_it_is_told() {
    for seed in 0..20 {
        let mut world = world(&[Op::new(Act::Write)], Owner::Away, seed);
        world.until(|world| world.outside.untold() == 1).unwrap();
        world.crash_runner();
        world.finish().unwrap();
        assert_eq!((world.facts("workspace_restored"), world.facts("step_intended")), (0, 2));
        assert_eq!(world.outside.workspace, "[11]");
    }
}

/// A step was killed for a cancellation that a crash then took back: the run went on without it.
#[test]
fn nothing_is_killed_for_a_cancellation_that_is_not_durable() {
    for seed in 0..20 {
        let mut world = world(&[Op::new(Act::Write)], Owner::Away, seed);
        world.until(|world| world.outside.workspace == "[1").unwrap();
        world.cancel().unwrap().unwrap();
        world.crash_daemon();
        world.finish().unwrap();
        assert_eq!(world.state().status, DONE);
        assert_eq!(world.outside.workspace, "[11]");
    }
}

/// The second try was refused, the step taken back, and then denied although the first had happened.
#[test]
fn a_refused_second_try_does_not_hide_the_first() {
    for seed in 0..20 {
        let mut world = world(&[Op::new(Act::Put)], Owner::Away, seed);
        world.until(|world| world.outside.keys.len() == 1).unwrap();
        world.crash_daemon();
        world.until(|world| world.facts("step_intended") == 3).unwrap();
        let mut refused = false;
        while !refused {
            world.turns(1).unwrap();
            refused = world.refuse().unwrap();
        }
        world.until(|world| world.facts("parked") == 1).unwrap();
        let state = world.state();
        assert!(state.open.values().all(|open| matches!(open.phase, Phase::Intended { .. })));
        world.cancel().unwrap().unwrap();
        world.finish().unwrap();
        assert_eq!(world.facts("step_denied"), 0);
    }
}

/// The runner died between "it runs" and its arrival: the step was waited for for ever.
#[test]
fn a_runner_that_dies_while_it_is_asked_is_asked_again() {
    for seed in 0..50 {
        let mut world = world(&[Op::new(Act::Send)], Owner::Away, seed);
        world.until(|world| world.outside.running() == 1).unwrap();
        world.crash_daemon();
        world
            .until(|world| world.times("running step taken over") + world.times("spooled result taken") == 1)
            .unwrap();
        world.crash_runner();
        world.finish().unwrap();
        assert_eq!((world.state().status.clone(), world.outside.sent.len()), (DONE, 1));
    }
}

/// A step that was taken back got the number of its try again, and a late word about the first try
/// was taken for the second.
#[test]
fn a_try_keeps_its_number_when_it_is_taken_back() {
    for seed in 0..20 {
        let mut world = world(&[Op::new(Act::Send)], Owner::Away, seed);
        world.until(|world| world.outside.running() == 1).unwrap();
        world.crash_daemon();
        world.crash_runner();
        world.until(|world| world.outside.sent.len() == 1).unwrap();
        assert_eq!(world.facts("step_returned"), 1);
        assert_eq!(world.outside.sent.first().map(|line| line.attempt), Some(2));
        world.finish().unwrap();
    }
}
