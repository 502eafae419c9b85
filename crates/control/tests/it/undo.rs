//! Undoing a merge: on record before it happens, and once.

use control::undo::{KIND, State, Undo};
use control::{Error, api::Undone};
use kernel::port::Records as _;
use store::Treeish as _;

use crate::world::World;

fn undo(world: &World, name: &str) -> Result<Undone, Error> {
    world.block(world.control().run_undo(name))
}

fn record(world: &World, run: &str) -> (u64, Undo) {
    let record = world.daemon().records.get(KIND, run).unwrap().unwrap();
    (record.version, serde_json::from_slice(&record.body).unwrap())
}

fn merged(world: &World) -> String {
    let (run, gate) = world.asked(world.mission());
    world.answer(&gate, "approve").unwrap();
    assert_eq!(world.ended(&run).0, "done");
    run
}

#[test]
fn a_crash_after_the_commit_leaves_one_continuation() {
    let mut world = World::new();
    let run = merged(&world);
    let undone = undo(&world, &run).unwrap();
    let (version, done) = record(&world, &run);
    assert_eq!((done.state, done.commit.as_deref()), (State::Done, Some(undone.commit.as_str())));
    // As if the daemon had died before it noted the end.
    let intended = Undo { state: State::Intended, commit: None, ..done };
    let body = serde_json::to_vec(&intended).unwrap();
    world.daemon().records.put(KIND, &run, version, &body).unwrap();
    world.restart();
    let again = undo(&world, &run).unwrap();
    assert_eq!(again.commit, undone.commit, "nothing is made twice");
    assert_eq!(record(&world, &run).1.state, State::Done);
    assert_eq!(undo(&world, &run).unwrap_err().code, "undo.already");
    assert_eq!(world.git(&["rev-parse", "HEAD"]), undone.commit);
}

#[test]
fn a_conflict_names_its_files_and_can_be_tried_again() {
    let world = World::new();
    let run = merged(&world);
    world.write("sum.sh", "echo $(($1 + $2 + 0))\n");
    world.commit("The owner goes on");
    // The line learns of it by the next mission.
    let (note, gate) = world.asked(world.note());
    world.answer(&gate, "approve").unwrap();
    world.ended(&note);
    let head = world.tree().line_head("main").unwrap().unwrap();
    let refused = undo(&world, &run).unwrap_err();
    assert_eq!(refused.code, "undo.conflict");
    assert!(refused.detail.contains("sum.sh"), "{refused:?}");
    assert_eq!(record(&world, &run).1.state, State::Refused);
    assert_eq!(world.tree().line_head("main").unwrap().unwrap().hex(), head.hex());
    world.write("sum.sh", "echo $(($1 + $2))\n");
    world.commit("Back again");
    let note = world.start(world.note()).unwrap().run;
    assert_eq!(world.ended(&note).0, "done");
    undo(&world, &run).unwrap();
    assert_eq!(record(&world, &run).1.state, State::Done);
}
