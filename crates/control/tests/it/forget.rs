//! Forgetting: on record before anything goes, completed after a crash, and refused where others need it.

use control::api::{Forget, Forgotten};
use control::{Error, undo};
use domain::erasure::{DONE, Erasure, KIND, key, ranges};
use domain::{Digest, RunId, Timestamp};
use kernel::port::{Journal as _, Records as _};

use crate::world::World;

fn forget(world: &World, name: &str, order: Forget) -> Result<Forgotten, Error> {
    world.block(world.control().run_forget(name, order))
}

fn merged(world: &World) -> String {
    let (run, gate) = world.asked(world.mission());
    world.answer(&gate, "approve").unwrap();
    assert_eq!(world.ended(&run).0, "done");
    run
}

#[test]
fn what_a_crash_cuts_short_the_next_start_completes() {
    let mut world = World::new();
    let run = merged(&world);
    let id: RunId = run.parse().unwrap();
    let row = world.daemon().journal.run(id).unwrap();
    let erasure = Erasure {
        by: "human:owner".into(),
        at: Timestamp(1),
        run: id,
        step: None,
        events: ranges(1..=row.head.seq),
        head: row.head.hash,
        previous: Digest::ZERO,
    };
    // As if the daemon had died after it had noted the order.
    let body = serde_json::to_vec(&erasure).unwrap();
    world.daemon().records.put(KIND, &key(1), 0, &body).unwrap();
    assert!(world.layout().room(id).exists());
    world.restart();
    assert!(world.daemon().records.get(DONE, &key(1)).unwrap().is_some());
    assert!(!world.layout().room(id).exists());
    let events = world.daemon().journal.history(id, 0, 9999).unwrap();
    assert!(!events.is_empty() && events.iter().all(|event| event.payload.is_none()));
    let audit = world.block(world.control().audit_verify()).unwrap();
    assert_eq!((audit.intact, audit.erased), (true, row.head.seq));
    assert_eq!(forget(&world, &run, Forget::default()).unwrap_err().code, "forget.already");
    // What needs the content says so; what needs none works.
    assert_eq!(world.block(world.control().run_undo(&run)).unwrap_err().code, "run.forgotten");
    assert!(world.daemon().records.get(undo::KIND, &run).unwrap().is_none());
    assert_eq!(world.block(world.control().run_fetch(&run)).unwrap().goal, "(forgotten)");
}

#[test]
fn a_run_that_is_not_over_is_not_forgotten() {
    let world = World::new();
    let (run, _) = world.asked(world.mission());
    assert_eq!(forget(&world, &run, Forget::default()).unwrap_err().code, "forget.run_open");
    assert_eq!(world.daemon().records.list(KIND).unwrap(), []);
}

#[test]
fn one_step_goes_alone_and_one_that_is_not_there_is_named() {
    let world = World::new();
    let run = merged(&world);
    let id: RunId = run.parse().unwrap();
    let none = Forget { step: Some(999), ..Forget::default() };
    assert_eq!(forget(&world, &run, none).unwrap_err().code, "forget.no_step");
    let step = Forget { step: Some(1), ..Forget::default() };
    let forgotten = forget(&world, &run, step).unwrap();
    assert!(forgotten.runs[0].contents > 0);
    let events = world.daemon().journal.history(id, 0, 9999).unwrap();
    for event in &events {
        let is_of = event.header.fact.step().is_some_and(|step| step.0 == 1);
        assert_eq!(event.payload.is_none(), is_of, "event {}", event.header.seq);
    }
    assert!(world.layout().room(id).exists(), "the workspace stays");
    // All of it can still be forgotten.
    forget(&world, &run, Forget::default()).unwrap();
    let audit = world.block(world.control().audit_verify()).unwrap();
    assert_eq!((audit.intact, audit.erased), (true, events.len() as u64));
}
