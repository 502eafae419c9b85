//! What requests ask beyond the conversation: on record with the run, and left out once it was refused.

use domain::run::End;
use domain::{Digest, Fact, Mission, Outcome};
use engine::ModelFailure;
use kernel::driver::Driver;
use models::{Stop, Wire, catalogue};
use serde_json::{Value, json};

use crate::story::{answered, called, config_of, mission_of, model, reasoned, requests, said, told};
use crate::world::{World, output};

fn on_terms(wire: Wire) -> Mission {
    Mission { terms: Some(catalogue::terms(model(wire))), ..mission_of(wire) }
}

fn begun(wire: Wire) -> World {
    World::with(on_terms(wire), config_of(wire))
}

fn body(world: &mut World, wire: Wire) -> Value {
    let step = world.one(model(wire));
    world.request(&step)
}

/// The vendor refuses a parameter.
fn refuse(world: &mut World, wire: Wire, code: &str) -> Value {
    let step = world.one(model(wire));
    let failure = ModelFailure {
        code: code.into(),
        message: "the vendor does not take it".into(),
        hint: String::new(),
        retry_at: None,
        retryable: false,
    };
    world.done(&step, Outcome::Failed, &failure);
    world.request(&step)
}

/// One turn with reasoning and a call.
fn turn(world: &mut World, wire: Wire, id: &str) -> Value {
    let step = world.one(model(wire));
    let blocks = vec![reasoned(wire), called(wire, id, "shell", json!({"command": id}))];
    world.done(&step, Outcome::Succeeded, &answered(wire, Stop::ToolUse, blocks));
    let call = world.one("shell");
    world.done(&call, Outcome::Succeeded, &output("fine", 0));
    world.request(&step)
}

/// What was sent can be made again from the journal, byte for byte.
#[track_caller]
fn is_repeatable(world: &World) {
    let again = world.reloaded();
    for (step, _) in requests(world) {
        let bytes = again.compose(step.step, step.composed_upto.unwrap()).unwrap();
        assert_eq!(Digest::of(&bytes), step.request, "step {}", step.step);
    }
    assert_eq!(again.next(&world.state), world.driver.next(&world.state));
}

#[test]
fn each_wire_is_asked_for_what_it_has() {
    let messages = body(&mut begun(Wire::Messages), Wire::Messages);
    assert_eq!(messages["thinking"], json!({"type": "adaptive", "display": "summarized"}));
    let responses = body(&mut begun(Wire::Responses), Wire::Responses);
    assert_eq!(responses["reasoning"], json!({"effort": "high", "summary": "auto"}));
    assert!(responses["prompt_cache_key"].as_str().unwrap().starts_with("regie-"), "{responses}");
    let chat = body(&mut begun(Wire::Chat), Wire::Chat);
    let keys: Vec<&String> = chat.as_object().unwrap().keys().collect();
    let plain = ["model", "max_tokens", "stream", "stream_options", "reasoning_effort", "tools", "messages"];
    assert_eq!(keys, plain);
}

#[test]
fn a_model_of_which_nothing_was_known_is_not_asked_to_reason() {
    for wire in Wire::ALL {
        let mut world = World::with(mission_of(wire), config_of(wire));
        let body = body(&mut world, wire);
        assert!(body["thinking"].is_null() && body["reasoning"]["summary"].is_null(), "{body}");
    }
}

#[test]
fn the_cache_key_is_one_for_all_turns_and_runs_with_the_same_beginning() {
    let key = |mission: Mission, system: &str| {
        let config = engine::Config { system: system.into(), ..config_of(Wire::Responses) };
        let mission = Mission { system: Digest::of(system.as_bytes()), ..mission };
        let world = told("native/4", Wire::Responses, config, mission);
        let sent = requests(&world);
        let of = |body: &str| serde_json::from_str::<Value>(body).unwrap()["prompt_cache_key"].clone();
        assert!(sent.len() > 12 && sent.iter().all(|(_, body)| of(body) == of(&sent[0].1)));
        of(&sent[0].1)
    };
    let one = key(on_terms(Wire::Responses), "You are a test.");
    let other = Mission { goal: "Another goal".into(), ..on_terms(Wire::Responses) };
    assert_eq!(one, key(other, "You are a test."));
    assert_ne!(one, key(on_terms(Wire::Responses), "You are another test."));
    assert!(one.as_str().unwrap().len() <= 64);
}

#[test]
fn what_the_vendor_refuses_is_left_out_from_then_on() {
    let mut world = begun(Wire::Responses);
    turn(&mut world, Wire::Responses, "a");
    let first = refuse(&mut world, Wire::Responses, "model.no_reasoning");
    assert_eq!(first["reasoning"]["summary"], "auto");
    let second = refuse(&mut world, Wire::Responses, "model.no_cache_key");
    assert_eq!(second["reasoning"], json!({"effort": "high"}));
    assert_eq!(second["prompt_cache_key"], first["prompt_cache_key"]);
    let third = turn(&mut world, Wire::Responses, "b");
    assert!(third["prompt_cache_key"].is_null(), "{third}");
    assert_eq!(third["input"], first["input"]);
    is_repeatable(&world);
    // Refused again although it is not asked: there is nothing left to leave out.
    refuse(&mut world, Wire::Responses, "model.no_reasoning");
    assert_eq!(world.end().0, End::Failed);
}

#[test]
fn a_fork_does_not_ask_again_for_what_was_refused() {
    let mut world = begun(Wire::Messages);
    refuse(&mut world, Wire::Messages, "model.no_reasoning");
    turn(&mut world, Wire::Messages, "a");
    let seq = world.events.len();
    let mut fork = world.forked(seq, domain::fact::Purpose::Fork, &on_terms(Wire::Messages));
    assert!(body(&mut fork, Wire::Messages)["thinking"].is_null());
    is_repeatable(&fork);
}

#[test]
fn an_effort_is_the_owners_choice_and_never_left_out() {
    for wire in Wire::ALL {
        let mut world = begun(wire);
        refuse(&mut world, wire, "model.no_effort");
        let (end, reason) = world.end();
        assert_eq!(end, End::Failed);
        assert!(reason.contains("(model.no_effort)"), "{reason}");
    }
}

#[test]
fn reasoning_that_the_vendor_does_not_take_back_is_left_out() {
    for wire in [Wire::Messages, Wire::Responses] {
        let mark = if wire == Wire::Messages { r#""type":"thinking""# } else { r#""type":"reasoning""# };
        let count = |body: &Value| body.to_string().matches(mark).count();
        let mut world = begun(wire);
        turn(&mut world, wire, "a");
        turn(&mut world, wire, "b");
        assert_eq!(count(&refuse(&mut world, wire, "model.no_recall")), 2);
        assert_eq!(count(&turn(&mut world, wire, "c")), 0);
        assert_eq!(count(&turn(&mut world, wire, "d")), 1, "what came since goes back");
        is_repeatable(&world);
        refuse(&mut world, wire, "model.no_recall");
        refuse(&mut world, wire, "model.no_recall");
        assert_eq!(world.end().0, End::Failed, "there was none left");
        is_repeatable(&world);
    }
}

#[test]
fn a_run_of_the_driver_before_asks_for_nothing_new_and_ends_as_it_did() {
    for code in ["model.no_reasoning", "model.no_recall"] {
        let mut world = World::driven_by("native/3", on_terms(Wire::Messages), config_of(Wire::Messages));
        assert!(turn(&mut world, Wire::Messages, "a")["thinking"].is_null());
        refuse(&mut world, Wire::Messages, code);
        assert_eq!(world.end().0, End::Failed);
    }
}

#[test]
fn the_timeline_tells_reasoning_and_words_apart() {
    for wire in Wire::ALL {
        let mut world = begun(wire);
        let step = world.one(model(wire));
        let blocks = vec![reasoned(wire), said(wire, "Done.")];
        world.done(&step, Outcome::Succeeded, &answered(wire, Stop::EndTurn, blocks));
        let items = engine::timeline::items(&world.events);
        assert_eq!(items.last().unwrap().detail, "[reasoning] hm\n\nDone.", "{wire:?}");
        assert!(matches!(world.events.last().unwrap().header.fact, Fact::StepCompleted { .. }));
    }
}
