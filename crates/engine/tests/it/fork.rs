//! A run that goes on from another one stands where that one stood, and sends the same bytes.

use domain::budget::Exhausted;
use domain::fact::{Denial, Purpose};
use domain::run::{Command, End};
use domain::{Caps, Mission, MissionId, Outcome};
use kernel::Driver;
use kernel::driver::Next;
use serde_json::json;

use crate::world::{World, call, calls, mission, output, says, shell};

/// That a run which is read from the journal again stands where it stood.
#[track_caller]
fn reloads(world: &World) {
    assert_eq!(world.reloaded().next(&world.state), world.driver.next(&world.state));
}

fn next_request(world: &World) -> Vec<u8> {
    match world.driver.next(&world.state) {
        Next::Run(specs) => specs[0].request.bytes().to_vec(),
        other => panic!("nothing is asked: {other:?}"),
    }
}

fn say(world: &mut World, text: &str) {
    world.tell_bytes(Command::Say { by: "human:owner".into(), now: true }, text.into());
}

/// A run of two turns with a call each, and the results of the calls.
fn parent() -> (World, [domain::fact::StepPlanned; 2]) {
    let mut world = World::new(&["true"]);
    world.model(&calls(vec![call("t1", "read", json!({"path": "a"}))]));
    let first = world.one("read");
    world.done(&first, Outcome::Succeeded, &output("alpha", 0));
    world.model(&calls(vec![shell("t2", "make")]));
    let second = world.one("shell");
    world.done(&second, Outcome::Failed, &output("broken", 2));
    world.model(&says("I give up"));
    (world, [first, second])
}

#[test]
fn without_words_the_next_request_is_the_one_that_the_parent_sent() {
    let (parent, [first, _]) = parent();
    let sent = &parent.requests[&domain::StepNo(3)];
    let mut fork = parent.forked(parent.upto(&first), Purpose::Fork, &mission(&["true"]));
    assert_eq!(next_request(&fork), *sent);
    reloads(&fork);
    // Its own steps are numbered from 1, and their requests can be made again from its own journal.
    let step = fork.one("claude-opus-5-5");
    assert_eq!(step.step, domain::StepNo(1));
    assert_eq!(fork.reloaded().compose(step.step, step.composed_upto.unwrap()).unwrap(), *sent);
    fork.done(&step, Outcome::Succeeded, &says("I am done"));
    fork.checkpoint(Some("c1"));
    fork.verdict(0, "");
    let merge = fork.one("merge");
    let request: serde_json::Value = serde_json::from_slice(&fork.requests[&merge.step]).unwrap();
    assert_eq!((&request["branch"], &request["head"]), (&json!("coder/fork"), &json!("c1")));
    reloads(&fork);
}

#[test]
fn with_words_the_request_begins_with_the_parents_bytes() {
    let (parent, [_, second]) = parent();
    let sent = parent.requests[&domain::StepNo(5)].to_vec();
    let mut fork = parent.forked(parent.upto(&second), Purpose::Fork, &mission(&["true"]));
    say(&mut fork, "use cargo");
    let next = next_request(&fork);
    let common = sent.iter().zip(&next).take_while(|(one, other)| one == other).count();
    // All but what closes the list of messages, and the mark of the cache that stands on the last one.
    let result = sent.windows(6).position(|bytes| bytes == b"broken").unwrap();
    assert!(
        common > result + 6,
        "{common} of {} bytes are common, the last result is at {result}",
        sent.len()
    );
    let said = fork.last_said();
    assert!(said.contains("took the mission back to this point") && said.ends_with("use cargo"), "{said}");
    reloads(&fork);
}

#[test]
fn calls_without_a_result_are_planned_anew_or_answered_when_the_owner_says_something_else() {
    let mut parent = World::new(&[]);
    parent.model(&calls(vec![
        call("t1", "read", json!({"path": "a"})),
        shell("t2", "make"),
        shell("t3", "rm a"),
    ]));
    let steps = parent.go();
    parent.done(&steps[0], Outcome::Succeeded, &output("alpha", 0));
    let at = parent.upto(&steps[0]);
    parent.done(&steps[1], Outcome::Succeeded, &output("made", 0));

    let mut anew = parent.forked(at, Purpose::Fork, &mission(&[]));
    reloads(&anew);
    let planned: Vec<_> = anew.go().into_iter().map(|step| (step.step.0, step.tool)).collect();
    assert_eq!(planned, [(1, "shell".to_owned()), (2, "shell".to_owned())]);

    let mut other = parent.forked(at, Purpose::Fork, &mission(&[]));
    say(&mut other, "do not make");
    let messages = other.messages();
    let last = messages[2]["content"].as_array().unwrap();
    assert_eq!(last[0]["content"], json!("alpha"));
    for result in &last[1..3] {
        assert_eq!(result["content"], "not run: the owner took another way from here");
    }
    assert!(last[3]["text"].as_str().unwrap().ends_with("do not make"));
    reloads(&other);
}

#[test]
fn the_end_of_the_parent_is_taken_back_and_its_caps_are_not_inherited() {
    let mut parent = World::new(&[]);
    parent.model(&calls(vec![shell("t1", "make")]));
    let step = parent.one("shell");
    parent.done(&step, Outcome::Succeeded, &output("made", 0));
    let model = parent.one("claude-opus-5-5");
    parent.deny(&model, Denial::Budget { cap: Exhausted::Turns });
    let last = parent.one("checkpoint");
    parent.done(&last, Outcome::Succeeded, &crate::world::checkpoint(Some("c1")));
    assert_eq!(parent.end().0, End::BudgetExhausted);

    let caps = Caps { turns: 9, ..Caps::default() };
    let fork = parent.forked(parent.events.len(), Purpose::Fork, &Mission { caps, ..mission(&[]) });
    assert_eq!(next_request(&fork), parent.requests[&model.step]);
    assert_eq!(fork.state.budget.spent, domain::Amount::ZERO);
    reloads(&fork);
}

#[test]
fn a_proposal_that_was_refused_is_checked_anew_on_the_forks_own_branch() {
    let mut parent = World::new(&["true"]);
    parent.model(&says("I am done"));
    parent.checkpoint(Some("c1"));
    parent.verdict(0, "");
    let mut fork = parent.forked(parent.events.len(), Purpose::Fork, &mission(&["true"]));
    let step = fork.one("checkpoint");
    let request: serde_json::Value = serde_json::from_slice(&fork.requests[&step.step]).unwrap();
    assert_eq!(request["branch"], "coder/fork");
    assert_eq!(request.get("keep"), None);
    let mut told = parent.forked(parent.events.len(), Purpose::Fork, &mission(&["true"]));
    say(&mut told, "rename it");
    assert!(told.last_said().ends_with("rename it"));
}

#[test]
fn a_fork_of_a_fork_keeps_the_order_of_all_that_came_before() {
    let (parent, [first, _]) = parent();
    let mut fork = parent.forked(parent.upto(&first), Purpose::Fork, &mission(&["true"]));
    say(&mut fork, "word one");
    fork.model(&calls(vec![shell("u1", "ls")]));
    let step = fork.one("shell");
    fork.done(&step, Outcome::Succeeded, &output("listed", 0));
    let mut second = fork.forked(fork.upto(&step), Purpose::Fork, &mission(&["true"]));
    assert_eq!(next_request(&second), next_request(&fork));
    say(&mut second, "word two");
    let text = second.messages().to_string();
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what} is not in {text}"));
    assert!(at("alpha") < at("word one") && at("word one") < at("listed") && at("listed") < at("word two"));
    reloads(&second);
}

#[test]
fn a_follow_up_knows_the_conversation_and_what_became_of_it() {
    let mut parent = World::new(&[]);
    parent.model(&says("I am done"));
    parent.checkpoint(None);
    let (end, reason) = parent.end();
    parent.tell_bytes(Command::End(end), reason.into_bytes());
    let goal = "Now write a test";
    let new = Mission { id: MissionId::from_bytes([8; 16]), goal: goal.into(), ..mission(&["make test"]) };
    let mut next = parent.forked(parent.events.len(), Purpose::FollowUp, &new);
    let said = next.last_said();
    for part in ["That mission is over: done", "fresh checkout", goal, "`make test` exits with 0"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let sent = parent.requests[&domain::StepNo(1)].to_vec();
    let common = sent.iter().zip(next_request(&next)).take_while(|(one, other)| **one == *other).count();
    assert!(common > sent.len() / 2, "{common} of {}", sent.len());
    reloads(&next);
    next.model(&says("A test"));
    next.checkpoint(Some("c2"));
    next.verdict(0, "");
    let merge = next.one("merge");
    let request: serde_json::Value = serde_json::from_slice(&next.requests[&merge.step]).unwrap();
    assert_eq!((&request["goal"], &request["checks"]), (&json!(goal), &json!(["make test"])));
}

#[test]
fn another_model_goes_on_from_the_record_and_gets_nothing_that_the_first_one_wrote() {
    let mut parent = World::new(&[]);
    parent.model(&calls(vec![shell("u1", "ls alpha")]));
    let step = parent.one("shell");
    parent.done(&step, Outcome::Succeeded, &output("PRIVATE-LISTING", 0));
    say(&mut parent, "mind the gap");
    parent.model(&says("It is mended"));
    parent.checkpoint(Some("c0ffee"));
    parent.tell_bytes(Command::End(End::Cancelled), b"the owner ended it".to_vec());
    for (model, is_other) in [("claude-haiku-5-5", true), ("anthropic/claude-opus-5-5", false)] {
        let id = MissionId::from_bytes([8; 16]);
        let new = Mission { id, goal: "Now a note".into(), model: model.into(), ..mission(&["true"]) };
        let mut next = parent.forked(parent.events.len(), Purpose::FollowUp, &new);
        let sent = next.messages().to_string();
        assert_eq!(sent.contains("[Handed over by Regie]"), is_other, "{model}: {sent}");
        for kept in ["mind the gap", "It is mended", "Now a note"] {
            assert!(sent.contains(kept), "{model}: {kept}: {sent}");
        }
        for own in ["PRIVATE-LISTING", "tool_use", "\"assistant\""] {
            assert_eq!(sent.contains(own), !is_other, "{model}: {own}: {sent}");
        }
        if is_other {
            for told in ["ls alpha", "c0ffee"] {
                assert!(sent.contains(told), "{told}: {sent}");
            }
        }
        reloads(&next);
        // Who goes on from there with the same model stands on the same handover.
        say(&mut next, "one more word");
        let mut fork = next.forked(next.events.len(), Purpose::Fork, &new);
        assert_eq!(next_request(&fork), next_request(&next));
        assert_eq!(fork.messages().to_string().contains("PRIVATE-LISTING"), !is_other);
        reloads(&fork);
    }
}

#[test]
fn a_run_without_what_it_goes_on_from_does_nothing() {
    let (parent, [first, _]) = parent();
    let fork = parent.forked(parent.upto(&first), Purpose::Fork, &mission(&["true"]));
    let mut alone = engine::Native::new(fork.config.clone());
    for event in &fork.events {
        alone.fold(&event.header, event.payload.as_ref());
    }
    let next = alone.next(&fork.state);
    assert!(matches!(next, Next::End { end: End::Failed, .. }), "{next:?}");
}
