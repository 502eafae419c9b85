//! What a proposal says of the export gate, and what the owner has approved of it already.

use domain::gate::Answer;
use domain::run::Command;
use domain::{GateId, Outcome};
use kernel::driver::Driver as _;
use serde_json::{Value, json};

use crate::world::{World, checkpoint, config, mission, says};

/// A checkpoint with what was found in it, each with its content.
fn found(findings: &[(&str, &str)]) -> Value {
    let mut made = checkpoint(Some("c0ffee"));
    let findings: Vec<Value> = findings
        .iter()
        .map(|(path, content)| {
            json!({ "standing": "asks", "kind": "build", "path": path, "change": "added", "why": "w", "content": content })
        })
        .collect();
    made["export"] = json!({ "counts": [{ "kind": "build", "number": findings.len() }], "findings": findings, "rules": "r" });
    made
}

fn seen(world: &World, step: &domain::fact::StepPlanned) -> Vec<bool> {
    let request = world.request(step);
    let findings = request["export"]["findings"].as_array().unwrap().clone();
    findings.iter().map(|one| one["seen"].as_bool().unwrap_or(false)).collect()
}

fn answer_gate(world: &mut World, gate: GateId, answer: Answer) {
    let answer = Command::AnswerGate { gate, action: None, answer, by: "human:owner".into() };
    world.tell_bytes(answer, Vec::new());
}

#[test]
fn the_same_content_is_approved_once_and_another_is_asked_about_again() {
    let mut world = World::new(&[]);
    world.model(&says("done"));
    let step = world.one("checkpoint");
    world.done(&step, Outcome::Succeeded, &found(&[("Makefile", "1"), ("build.rs", "1")]));
    let merge = world.one("merge");
    assert_eq!(seen(&world, &merge), [false, false]);
    let gate = GateId::from_bytes([5; 16]);
    world.gate(&merge, gate);
    answer_gate(&mut world, gate, Answer::Approved);
    world.done(&merge, Outcome::Failed, &json!({ "message": "the line has moved", "moved": true }));
    let step = world.one("checkpoint");
    world.done(&step, Outcome::Succeeded, &found(&[("Makefile", "1"), ("build.rs", "2"), ("justfile", "1")]));
    let merge = world.one("merge");
    assert_eq!(seen(&world, &merge), [true, false, false]);
    assert_eq!(world.reloaded().next(&world.state), world.driver.next(&world.state));
}

#[test]
fn what_was_refused_or_not_answered_is_not_seen() {
    for answer in [Answer::Refused, Answer::Expired] {
        let mut world = World::new(&[]);
        world.model(&says("done"));
        let step = world.one("checkpoint");
        world.done(&step, Outcome::Succeeded, &found(&[("Makefile", "1")]));
        let merge = world.one("merge");
        let gate = GateId::from_bytes([5; 16]);
        world.gate(&merge, gate);
        answer_gate(&mut world, gate, answer);
        assert_eq!(seen(&world, &merge), [false]);
    }
}

#[test]
fn proposals_of_older_drivers_are_as_they_were() {
    for driver in ["native/1", "native/2", "native/3"] {
        let mut world = World::driven_by(driver, mission(&[]), config());
        world.model(&says("done"));
        let step = world.one("checkpoint");
        world.done(&step, Outcome::Succeeded, &found(&[("Makefile", "1")]));
        let merge = world.one("merge");
        assert_eq!(world.request(&merge).get("export"), None, "{driver}");
    }
}
