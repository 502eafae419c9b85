//! Cancellation in every phase that a step can be in.

use domain::gate::Answer;
use domain::run::{End, Phase, Status};
use testkit::sim::{Act, Op, Owner, Rule, World};

use crate::world;

const ENDED: Status = Status::Ended { end: End::Cancelled };

fn cancelled_when(op: Op, seed: u64, when: impl Fn(&World) -> bool) -> World {
    let mut world = world(&[op], Owner::Away, seed);
    world.until(when).unwrap();
    world.cancel().unwrap().unwrap();
    world.finish().unwrap();
    assert_eq!(world.state().status, ENDED);
    world
}

fn in_phase(world: &World, is: impl Fn(&Phase) -> bool) -> bool {
    world.ahead().is_some_and(|state| state.open.values().any(|open| is(&open.phase)))
}

#[test]
fn while_a_human_is_asked() {
    let asked = |world: &World| in_phase(world, |phase| matches!(phase, Phase::Asked { .. }));
    let world = cancelled_when(Op::new(Act::Send).ruled(Rule::Ask), 1, asked);
    assert_eq!(world.outside.sent.len(), 0);
}

#[test]
fn while_a_timer_sleeps() {
    cancelled_when(Op::new(Act::Timer(90_000)), 1, |world| {
        in_phase(world, |phase| matches!(phase, Phase::Sleeping { .. }))
    });
}

#[test]
fn while_an_intention_is_not_yet_durable() {
    for seed in 0..20 {
        cancelled_when(Op::new(Act::Write), seed, |world| {
            let ahead = world.ahead().map_or(0, |state| state.seq);
            ahead > world.state().seq && in_phase(world, |phase| matches!(phase, Phase::Intended { .. }))
        });
    }
}

#[test]
fn while_a_step_runs() {
    for act in [Act::Read, Act::Write, Act::Send] {
        for seed in 0..20 {
            cancelled_when(Op::new(act), seed, |world| world.outside.running() == 1);
        }
    }
}

#[test]
fn while_a_model_thinks() {
    let spent: Vec<_> = (0..20)
        .map(|seed| cancelled_when(Op::new(Act::Read), seed, |world| world.outside.billed.len() == 1))
        .map(|world| world.state().budget.spent.nanodollars)
        .collect();
    // An answer may still come in time; else the whole reservation counts as spent.
    assert!(spent.iter().all(|spent| [338, 1_000].contains(spent)), "{spent:?}");
    assert!(spent.contains(&1_000), "{spent:?}");
}

#[test]
fn while_the_run_rests() {
    let mut world = world(&[Op::new(Act::Write)], Owner::Away, 1);
    world.until(|world| world.facts("step_intended") == 1).unwrap();
    world.stop().unwrap().unwrap();
    world.until(|world| matches!(world.state().status, Status::Parked { .. })).unwrap();
    world.cancel().unwrap().unwrap();
    world.finish().unwrap();
    assert_eq!(world.state().status, ENDED);
}

#[test]
fn while_nobody_knows_whether_it_was_done() {
    let mut world = world(&[Op::new(Act::Send).unprobed()], Owner::Away, 1);
    world.until(|world| world.outside.sent.len() == 1).unwrap();
    world.crash_daemon();
    world.crash_runner();
    world.until(|world| world.facts("step_uncertain") == 1).unwrap();
    world.cancel().unwrap().unwrap();
    world.finish().unwrap();
    assert_eq!(world.state().status, ENDED);
}

#[test]
fn at_any_moment_with_or_without_a_crash_before() {
    let ops = [
        Op::new(Act::Read),
        Op::new(Act::Write),
        Op::new(Act::Timer(50)),
        Op::new(Act::Send).unprobed(),
        Op::new(Act::Put),
        Op::new(Act::Verdict).ruled(Rule::Ask),
    ];
    for moment in 0..110 {
        for crash in [false, true] {
            let mut world = world(&ops, Owner::Says(Answer::WasDone), 2);
            world.turns(moment).unwrap();
            if crash {
                world.crash_daemon();
                world.crash_runner();
                world.turns(moment % 7 + 1).unwrap();
            }
            let accepted = world.cancel().unwrap().is_ok();
            world.finish().unwrap();
            assert!(!accepted || world.state().status == ENDED, "moment {moment}, crash {crash}");
        }
    }
}

#[test]
fn without_a_driver_at_any_moment() {
    let ops = [
        Op::new(Act::Read),
        Op::new(Act::Write),
        Op::new(Act::Model),
        Op::new(Act::Send).unprobed(),
        Op::new(Act::Put),
        Op::new(Act::Verdict).ruled(Rule::Ask),
    ];
    let mut named = 0;
    for moment in 0..110 {
        for seed in 0..4 {
            let mut world = world(&ops, Owner::Away, seed);
            world.turns(moment).unwrap();
            if world.state().has_ended() {
                continue;
            }
            world.crash_daemon();
            if seed % 2 == 0 {
                world.crash_runner();
            }
            world.driver_is_lost = true;
            world.boot().unwrap();
            let before = world.facts("step_intended");
            // The daemon may die again before the end is on record.
            world.cancel().unwrap().unwrap();
            world.turns(moment % 5).unwrap();
            world.crash_daemon();
            world.boot().unwrap();
            if !world.state().cancelling && !world.state().has_ended() {
                world.cancel().unwrap().unwrap();
            }
            world.finish().unwrap();
            assert_eq!(world.state().status, ENDED, "moment {moment}, seed {seed}");
            assert_eq!(world.facts("step_intended"), before, "nothing more begins");
            named += u32::from(world.facts("step_uncertain") > 0);
        }
    }
    assert!(named > 0, "no cancellation met a step that nobody knows of");
}
