//! A run that goes on from another one stands where that one stood, whatever crashes on the way.

use std::collections::BTreeSet;

use domain::Effect;
use testkit::sim::{Act, Dice, Flaws, Op, Owner, Program, World};

use crate::world;

/// Seeds of the random ones.
const SEEDS: u64 = 400;

#[test]
fn forks_of_troubled_runs_come_to_what_the_reference_says() {
    let (mut forks, mut forks_of_forks, mut steps) = (0, 0, BTreeSet::new());
    for seed in 0..SEEDS {
        let dice = Dice::new(seed);
        let program = Program::random(&dice);
        let mut parent = World::new(program, seed, Flaws::default()).unwrap();
        parent.trouble(20 + usize::try_from(dice.below(200)).unwrap()).unwrap_or_else(|what| {
            panic!("seed {seed}: the parent: {what}");
        });
        let done = parent.steps_done();
        // What a cancellation closed has no fate that the reference knows.
        if done.is_empty() || parent.state().cancelling {
            continue;
        }
        let at = done[dice.index(done.len())];
        steps.insert(at);
        // The parent goes on by itself: it must not see its fork.
        let forked = parent.fork(at, seed + 1).unwrap();
        let Some(mut fork) = forked else { continue };
        let told = |what| panic!("seed {seed}: the fork at step {at}: {what}");
        fork.trouble(20 + usize::try_from(dice.below(150)).unwrap()).unwrap_or_else(told);
        forks += 1;
        if !fork.state().cancelling
            && let Some(next) = fork.steps_done().last()
            && let Some(mut second) = fork.fork(*next, seed + 2).unwrap()
        {
            second.trouble(60).unwrap_or_else(told);
            second.finish().unwrap_or_else(|what| panic!("seed {seed}: the fork of the fork: {what}"));
            forks_of_forks += 1;
        }
        fork.finish().unwrap_or_else(told_at(seed));
        parent.finish().unwrap_or_else(told_at(seed));
    }
    assert!(forks > SEEDS / 3 && forks_of_forks > SEEDS / 8, "{forks} forks, {forks_of_forks} of forks");
    assert!(steps.len() > 5, "{steps:?}");
}

fn told_at<T>(seed: u64) -> impl FnOnce(String) -> T {
    move |what| panic!("seed {seed}: {what}")
}

#[test]
fn what_has_no_result_at_the_fork_is_done_anew_on_the_files_as_they_were() {
    let ops = [Op::new(Act::Write), Op::new(Act::Write), Op::new(Act::Read)];
    let mut parent = world(&ops, Owner::Away, 3);
    parent.until(|world| world.steps_done().len() == 4).unwrap();
    let first_write = parent.steps_done()[1];
    assert_eq!(parent.outside.workspace, "[11][22]");
    let mut fork = parent.fork(first_write, 4).unwrap().unwrap();
    assert_eq!(fork.outside.workspace, "[11]");
    fork.boot().unwrap();
    fork.until(|world| world.facts("step_intended") == 1).unwrap();
    fork.crash_daemon();
    fork.boot().unwrap();
    fork.finish().unwrap();
    assert_eq!(fork.outside.workspace, "[11][22]");
    // Nothing of it was paid for a second time, and nothing of the parent's is booked here.
    assert_eq!((fork.outside.billed.len(), fork.state().budget.spent.nanodollars), (0, 0));
    let planned: Vec<_> = ops.iter().skip(1).map(Op::effect).collect();
    assert_eq!(planned, [Effect::WorkspaceWrite, Effect::Read]);
    assert_eq!(fork.facts("step_planned"), 2);
    parent.finish().unwrap();
}
