//! A stop at once: what runs is cut, what has not begun keeps its place, and the run can be resumed.

use domain::run::{End, Status};
use testkit::sim::{Act, Op, Owner, World};

use crate::world;

fn stopped_when(ops: &[Op], seed: u64, when: impl Fn(&World) -> bool) -> World {
    let mut world = world(ops, Owner::Away, seed);
    world.until(when).unwrap();
    world.stop_now().unwrap().unwrap();
    world
}

fn running(world: &World) -> bool {
    world.outside.running() == 1
}

fn rests(world: &World) -> bool {
    matches!(world.state().status, Status::Parked { .. })
}

#[test]
fn what_runs_is_cut_and_what_waits_behind_it_is_done_after_the_resume() {
    let mut cut = 0;
    for seed in 0..40 {
        let mut world = stopped_when(&[Op::new(Act::Write), Op::new(Act::Write)], seed, running);
        world.until(rests).unwrap();
        assert_eq!(world.outside.running(), 0, "seed {seed}: something runs under a rest");
        assert_eq!(world.facts("step_denied"), 0, "seed {seed}: what had not begun keeps its place");
        cut += usize::from(world.outside.workspace != "[11]");
        world.finish().unwrap();
        assert!(world.outside.workspace.ends_with("[22]"), "{}", world.outside.workspace);
        assert_eq!(world.state().status, Status::Ended { end: End::Done });
    }
    // Some end by themselves before they are killed, and not all.
    assert!((5..40).contains(&cut), "{cut} of 40 were cut");
}

#[test]
fn a_keyed_write_is_never_cut() {
    for seed in 0..30 {
        let puts = |world: &World| !world.outside.keys.is_empty();
        let mut world = stopped_when(&[Op::new(Act::Put), Op::new(Act::Read)], seed, puts);
        world.finish().unwrap();
        assert_eq!((world.outside.keys.len(), world.times("stop at once")), (1, 1));
        assert_eq!(world.state().status, Status::Ended { end: End::Done });
    }
}

#[test]
fn a_stop_holds_across_a_crash() {
    for seed in 0..60 {
        let mut world = stopped_when(&[Op::new(Act::Write), Op::new(Act::Send)], seed, running);
        world.until(|world| world.facts("interrupted") == 1).unwrap();
        world.crash_daemon();
        if seed % 2 == 0 {
            world.crash_runner();
        }
        world.boot().unwrap();
        world.until(rests).unwrap();
        assert_eq!(world.outside.sent.len(), 0, "seed {seed}: nothing new begins");
        world.finish().unwrap();
        assert_eq!(world.outside.sent.len(), 1, "seed {seed}");
    }
}

#[test]
fn a_pause_that_is_asked_for_can_still_become_a_stop() {
    let mut world = world(&[Op::new(Act::Write)], Owner::Away, 5);
    world.until(running).unwrap();
    world.stop().unwrap().unwrap();
    world.stop_now().unwrap().unwrap();
    world.until(rests).unwrap();
    assert!(world.stop_now().unwrap().is_err(), "a run that rests is not stopped");
    world.finish().unwrap();
}
