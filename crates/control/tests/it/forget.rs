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

/// How far a daemon came before it died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reached {
    Order,
    Workspace,
    SomeContents,
    AllContents,
}

fn cut_short(reached: Reached) {
    let mut world = World::new();
    let run = merged(&world);
    let id: RunId = run.parse().unwrap();
    let row = world.daemon().journal.run(id).unwrap();
    let events = ranges(1..=row.head.seq);
    let erasure = Erasure {
        by: "human:owner".into(),
        at: Timestamp(1),
        run: id,
        step: None,
        events: events.clone(),
        head: row.head.hash,
        previous: Digest::ZERO,
    };
    let body = serde_json::to_vec(&erasure).unwrap();
    world.daemon().records.put(KIND, &key(1), 0, &body).unwrap();
    assert!(world.layout().room(id).exists());
    if reached >= Reached::Workspace {
        std::fs::remove_dir_all(world.layout().room(id)).unwrap();
    }
    match reached {
        Reached::SomeContents => drop(world.daemon().journal.erase(id, &[(1, 5)]).unwrap()),
        Reached::AllContents => drop(world.daemon().journal.erase(id, &events).unwrap()),
        _ => {}
    }
    let audit = world.block(world.control().audit_verify()).unwrap();
    assert!(audit.intact, "at every moment: {audit:?}");
    world.restart();
    assert!(world.daemon().records.get(DONE, &key(1)).unwrap().is_some(), "{reached:?}");
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
fn what_a_crash_cuts_short_the_next_start_completes() {
    for reached in [Reached::Order, Reached::Workspace, Reached::SomeContents, Reached::AllContents] {
        cut_short(reached);
    }
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
    let both = Forget { step: Some(1), with_forks: true, ..Forget::default() };
    assert_eq!(forget(&world, &run, both).unwrap_err().code, "forget.which");
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
