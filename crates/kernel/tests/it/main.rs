//! The kernel's promises, held by simulation: random schedules, named scenarios, deliberate mistakes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cancel;
mod fork;
mod host;
mod mutants;
mod recovery;
mod regressions;
mod say;
mod schedules;
mod stop;

use testkit::sim::{Act, Flaws, Op, Owner, Program, World};

/// A run of a model call and then these operations, with a daemon that has just taken it over.
fn world(ops: &[Op], owner: Owner, seed: u64) -> World {
    let mut world = World::new(Program::of(&[&[Op::new(Act::Model)], ops]), seed, Flaws::default()).unwrap();
    world.owner = owner;
    world.boot().unwrap();
    world
}
