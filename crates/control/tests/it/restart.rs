//! Daemons that die, and the ones after them.

use control::api::{AnswerGate, Resume, Vendor};

use crate::world::World;

fn count(world: &World, run: &str, fact: &str) -> usize {
    world.facts(run).iter().filter(|name| **name == fact).count()
}

#[test]
fn a_step_that_was_cut_off_is_rolled_back_and_done_again() {
    let mut world = World::new();
    world.daemon().bare.hold();
    let run = world.start(world.mission()).unwrap().run;
    world.block(world.daemon().bare.started(1));
    let changed = std::fs::read_to_string(world.workspace(&run).join("sum.sh")).unwrap();
    assert_eq!(changed, "echo $(($1 + $2))\n", "it has happened, and nobody was told");
    world.restart();
    world.block(world.daemon().bare.started(1));
    assert_eq!(world.daemon().bare.lines()[0], "echo $(($1 - $2)) | cp right.sh sum.sh");
    assert_eq!(count(&world, &run, "workspace_restored"), 1);
    // The key died with the daemon: the model's next turn has to wait for it.
    let parked = world.until(&run, |run| run.status != "active");
    assert_eq!((parked.status.as_str(), parked.code.as_deref()), ("parked", Some("model.key_missing")));
    assert!(parked.reason.unwrap().contains("regie resume"));

    let without = world.block(world.control().run_resume(&run, Resume::default()));
    assert_eq!(without, Ok(()), "it may be resumed, and rests again");
    world.until(&run, |run| run.status == "parked");
    world.block(world.control().run_resume(&run, Resume { vendor: world.vendor(), record: None })).unwrap();
    let gate = world.gate(&run);
    world.answer(&gate, "approve").unwrap();
    assert_eq!(world.ended(&run).0, "done");
    assert!(world.block(world.control().audit_verify()).unwrap().intact);
}

#[test]
fn a_waiting_gate_survives_and_its_approval_needs_no_key() {
    let mut world = World::new();
    let (run, gate) = world.asked(world.mission());
    world.restart();
    let same = world.gate(&run);
    assert_eq!(same, gate);
    world.answer(&gate, "approve").unwrap();
    assert_eq!(world.ended(&run).0, "done");
    assert_eq!(world.git(&["show", "HEAD:sum.sh"]), "echo $(($1 + $2))");
}

#[test]
fn a_key_may_come_with_the_answer() {
    let mut world = World::new();
    let (run, gate) = world.asked(world.mission());
    world.restart();
    let broken = Vendor { base_url: Some("nonsense".into()), ..world.vendor() };
    let request = |vendor| AnswerGate { answer: "approve".into(), action: gate.action.clone(), vendor };
    let refused = world.block(world.control().gate_answer(&gate.gate, request(broken))).unwrap_err();
    assert_eq!(refused.code, "model.config");
    world.block(world.control().gate_answer(&gate.gate, request(world.vendor()))).unwrap();
    assert_eq!(world.ended(&run).0, "done");
}

#[test]
fn what_rests_or_is_over_is_left_as_it_is() {
    let mut world = World::new();
    let (refused, gate) = world.asked(world.note());
    world.answer(&gate, "refuse").unwrap();
    world.ended(&refused);
    world.daemon().bare.hold();
    let stopped = world.start(world.mission()).unwrap().run;
    world.block(world.daemon().bare.started(2));
    world.block(world.control().run_pause(&stopped)).unwrap();
    world.daemon().bare.release();
    world.until(&stopped, |run| run.status == "parked");
    let before = world.control().hello().position;
    world.restart();
    assert_eq!(world.control().hello().position, before);
    assert_eq!(world.until(&stopped, |_| true).status, "parked");
}

#[test]
fn a_daemon_that_dies_again_and_again_does_nothing_twice() {
    let mut world = World::new();
    world.daemon().bare.hold();
    let run = world.start(world.mission()).unwrap().run;
    for _ in 0..3 {
        world.block(world.daemon().bare.started(1));
        world.kill();
        // The next one dies in the same step.
        world.restart_held();
    }
    world.block(world.daemon().bare.started(1));
    world.daemon().bare.release();
    world.until(&run, |run| run.code.as_deref() == Some("model.key_missing"));
    world.block(world.control().run_resume(&run, Resume { vendor: world.vendor(), record: None })).unwrap();
    let gate = world.gate(&run);
    world.answer(&gate, "approve").unwrap();
    assert_eq!(world.ended(&run).0, "done");
    assert_eq!(count(&world, &run, "workspace_restored"), 3);
    assert_eq!(world.model_requests().len(), 2, "no paid call was repeated");
}
