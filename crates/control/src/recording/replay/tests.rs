//! Whatever happens to a run, what is on record of it replays: hundreds of simulated histories of crashes,
//! late answers, lost acknowledgements, gates and words.

use domain::event::Recorded;
use kernel::port::Refused;
use testkit::sim::{Dice, Flaws, Program, Script, World};

use super::*;

const SCHEDULES: u64 = 500;

/// Makes the driver of a simulated run.
struct Simulated(Arc<Program>);

impl Drivers for Simulated {
    fn driver(&self, _: &Recorded) -> Result<Box<dyn Driver>, Refused> {
        Ok(Box::new(Script::new(Arc::clone(&self.0))))
    }
}

/// A recording of nothing but events.
fn recording(events: &[Recorded]) -> Recording {
    let written = |event: &Recorded| Written { event: event.clone(), masked: false };
    let first = events.first().unwrap().header.run;
    Recording::of_events(first, events.iter().map(written).collect())
}

/// Replays a simulated history to its end, or to an end that a crash might have made.
fn check(seed: u64) -> u64 {
    let program = Program::random(&Dice::new(seed));
    let shared = Arc::new(program.clone());
    let mut world = World::new(program, seed, Flaws::default()).unwrap();
    world.trouble(usize::try_from(seed % 400).unwrap()).unwrap();
    if !seed.is_multiple_of(3) {
        world.finish().unwrap();
    }
    let recording = recording(world.events());
    let drivers = Simulated(shared);
    let mut replay = Replay::new(&recording, &drivers);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    match runtime.block_on(replay.run()) {
        Ok(()) | Err(Stop::Over) => {}
        Err(Stop::Difference(difference)) => {
            for event in world.events() {
                println!("{} {:?}", event.header.seq, event.header.fact);
            }
            panic!("seed {seed}: {difference}: {:?}", difference.sides)
        }
        Err(Stop::Read(error)) => panic!("seed {seed}: {error}"),
    }
    assert_eq!(replay.history.len(), world.events().len(), "seed {seed}");
    replay.steps
}

#[test]
fn every_simulated_history_replays() {
    let steps: u64 = (0..SCHEDULES).map(check).sum();
    assert!(steps > SCHEDULES * 3, "{steps} steps are no histories");
}
