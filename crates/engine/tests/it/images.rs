//! Images that the agent looks at: shown on each wire, hidden when a vendor refuses them, bounded in number,
//! and always the same bytes when a request is made again.

use std::sync::Arc;

use domain::fact::{Fact, Parking, Purpose, StepPlanned};
use domain::run::Command;
use domain::{Digest, End, Image, Mission, Outcome, Terms};
use engine::{Config, ModelFailure, native, timeline};
use kernel::driver::{Driver, Next};
use models::{Stop, Wire, catalogue};
use serde_json::{Value, json};

use crate::story::{answered, called, config_of, mission_of, model, requests, said};
use crate::world::{World, output};

/// The beginning of a PNG, which is all that is looked at; as many different ones as there are numbers.
fn png(number: u8) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02\x80\0\0\x01\xe0".to_vec();
    bytes.resize(12_000, number);
    bytes
}

/// How each image begins on each wire.
const PNG: &str = "iVBORw0KGgo";

fn count(request: &str) -> usize {
    request.matches(PNG).count()
}

fn config(wire: Wire) -> Config {
    let images = |digest| {
        let all = (0..40).map(png);
        all.into_iter().find(|bytes| Digest::of(bytes) == digest).ok_or_else(|| "it is gone".to_owned())
    };
    Config { images: Arc::new(images), window: 200_000, clearing: Default::default(), ..config_of(wire) }
}

fn begun(wire: Wire) -> World {
    World::with(mission_of(wire), config(wire))
}

/// What the runner says of an image.
fn image_output(number: u8) -> Value {
    let bytes = png(number);
    let image = Image::of(&bytes).unwrap();
    let mut output = output(&format!("[`{number}.png` is an image: png, 640×480 pixels, 12000 bytes]"), 0);
    output["exit_code"] = Value::Null;
    output["artifact"] = serde_json::to_value(image.digest).unwrap();
    output["image"] = serde_json::to_value(image).unwrap();
    output
}

/// The model reads images. Gives the step that asked it.
fn read(world: &mut World, wire: Wire, numbers: &[u8]) -> StepPlanned {
    let step = world.one(model(wire));
    let call =
        |number: &u8| called(wire, &format!("t{number}"), "read", json!({"path": format!("{number}.png")}));
    world.done(&step, Outcome::Succeeded, &answered(wire, Stop::ToolUse, numbers.iter().map(call).collect()));
    let calls = world.go();
    for (step, number) in calls.iter().zip(numbers) {
        world.done(step, Outcome::Succeeded, &image_output(*number));
    }
    step
}

/// The model is asked: what it is sent.
fn sent(world: &mut World, wire: Wire) -> (StepPlanned, String) {
    let step = world.one(model(wire));
    let body = String::from_utf8(world.requests[&step.step].to_vec()).unwrap();
    (step, body)
}

fn refuse(world: &mut World, step: &StepPlanned, code: &str) {
    let failure = ModelFailure {
        code: code.into(),
        message: "https://vendor answered 400: image exceeds 5 MB maximum".into(),
        hint: String::new(),
        retry_at: None,
        retryable: false,
    };
    world.done(step, Outcome::Failed, &failure);
}

fn speak(world: &mut World, step: &StepPlanned, wire: Wire) {
    let block = called(wire, &format!("s{}", step.step), "shell", json!({"command": "true"}));
    world.done(step, Outcome::Succeeded, &answered(wire, Stop::ToolUse, vec![said(wire, "I see."), block]));
    let call = world.one("shell");
    world.done(&call, Outcome::Succeeded, &output("fine", 0));
}

/// What was sent can be made again from the journal, byte for byte.
#[track_caller]
fn is_repeatable(world: &World) {
    let again = world.reloaded();
    for (step, _) in requests(world) {
        let bytes = again.compose(step.step, step.composed_upto.unwrap()).unwrap();
        assert_eq!(Digest::of(&bytes), step.request, "step {}", step.step);
    }
}

#[test]
fn an_image_is_shown_once_and_repeated_byte_for_byte() {
    for wire in Wire::ALL {
        let mut world = begun(wire);
        read(&mut world, wire, &[1]);
        let (step, body) = sent(&mut world, wire);
        assert_eq!(count(&body), 1, "{wire:?}");
        speak(&mut world, &step, wire);
        let (_, next) = sent(&mut world, wire);
        assert_eq!(count(&next), 1, "{wire:?}");
        is_repeatable(&world);
        let lines = timeline::items(&world.events);
        let line = lines.iter().find(|line| line.image.is_some()).unwrap();
        assert_eq!((line.title.as_str(), line.outcome.as_str()), ("read: 1.png", "image 640×480 png 12 KB"));
    }
}

#[test]
fn an_image_counts_by_its_pixels() {
    for wire in Wire::ALL {
        let mut world = begun(wire);
        let before = read(&mut world, wire, &[1]);
        let (step, body) = sent(&mut world, wire);
        let pixels = 640 * 480 / 750 + 1;
        let text = u64::try_from(body.len()).unwrap() - 16_000;
        assert_eq!(step.reserve.tokens, text.div_ceil(3) + pixels + 500, "{wire:?}");
        assert!(step.reserve.tokens < before.reserve.tokens + 1_000);
    }
    // In base64 the images would fill this window many times; by their pixels they do not.
    let mut world =
        World::with(mission_of(Wire::Messages), Config { window: 8_000, ..config(Wire::Messages) });
    read(&mut world, Wire::Messages, &[1, 2, 3, 4]);
    assert_eq!(world.one(model(Wire::Messages)).kind, domain::StepKind::ModelCall);
}

#[test]
fn case_30_a_refused_image_is_hidden_the_model_is_told_and_the_run_goes_on() {
    for wire in Wire::ALL {
        let mut world = begun(wire);
        read(&mut world, wire, &[1]);
        let (step, body) = sent(&mut world, wire);
        assert_eq!(count(&body), 1);
        // It was taken, and is not hidden with the next one.
        speak(&mut world, &step, wire);
        let (step, _) = sent(&mut world, wire);
        let call = called(wire, "t2", "read", json!({"path": "2.png"}));
        world.done(&step, Outcome::Succeeded, &answered(wire, Stop::ToolUse, vec![call]));
        let call = world.one("read");
        world.done(&call, Outcome::Succeeded, &image_output(2));
        let (step, body) = sent(&mut world, wire);
        assert_eq!(count(&body), 2);
        refuse(&mut world, &step, "model.image");
        let (step, body) = sent(&mut world, wire);
        assert_eq!(count(&body), 1, "{wire:?}");
        assert!(
            body.contains("the image is not shown any more") && body.contains("image exceeds 5 MB maximum")
        );
        speak(&mut world, &step, wire);
        let (_, body) = sent(&mut world, wire);
        assert_eq!(count(&body), 1, "{wire:?}");
        is_repeatable(&world);
    }
}

#[test]
fn case_30_what_is_refused_without_a_new_image_hides_all_and_then_rests_until_resumed() {
    for wire in Wire::ALL {
        let mut world = begun(wire);
        read(&mut world, wire, &[1]);
        let (step, _) = sent(&mut world, wire);
        speak(&mut world, &step, wire);
        let (step, body) = sent(&mut world, wire);
        assert_eq!(count(&body), 1);
        refuse(&mut world, &step, "model.image");
        let (step, body) = sent(&mut world, wire);
        assert_eq!(count(&body), 0, "{wire:?}");
        refuse(&mut world, &step, "model.image");
        let Next::Rest { code, hint } = world.driver.next(&world.state) else { panic!("it does not rest") };
        assert!(code == "model.image" && hint.contains("regie resume"), "{hint}");
        world.tell_bytes(Command::Park { reason: Parking::Blocked { code, hint } }, Vec::new());
        world.tell_bytes(Command::Resume { by: "human:owner".into() }, Vec::new());
        assert_eq!(count(&sent(&mut world, wire).1), 0);
        is_repeatable(&world);
    }
}

#[test]
fn a_vendor_that_takes_no_images_is_sent_none_again_and_a_fork_neither() {
    for wire in Wire::ALL {
        let mut world = begun(wire);
        read(&mut world, wire, &[1]);
        let (step, _) = sent(&mut world, wire);
        refuse(&mut world, &step, "model.no_images");
        let last = {
            let (step, body) = sent(&mut world, wire);
            assert_eq!(count(&body), 0, "{wire:?}");
            assert!(body.contains("This model cannot look at images"), "{body}");
            speak(&mut world, &step, wire);
            world.events.len()
        };
        let mut fork = world.forked(last, Purpose::Fork, &mission_of(wire));
        for world in [&mut world, &mut fork] {
            read(world, wire, &[2]);
            let (_, body) = sent(world, wire);
            assert_eq!(count(&body), 0, "{wire:?}");
            assert!(body.contains("[not shown: this model cannot look at images"), "{body}");
            is_repeatable(world);
        }
    }
}

#[test]
fn a_model_that_is_known_to_be_blind_is_told_so_at_once() {
    let wire = Wire::Chat;
    let terms = Terms { blind: true, ..catalogue::terms(model(wire)) };
    let mission = Mission { terms: Some(terms), ..mission_of(wire) };
    let mut world = World::with(mission, config(wire));
    read(&mut world, wire, &[1]);
    let (_, body) = sent(&mut world, wire);
    assert!(count(&body) == 0 && body.contains("[not shown: this model cannot look at images"), "{body}");
}

#[test]
fn runs_of_earlier_drivers_are_shown_none() {
    for driver in ["native/1", "native/2", "native/3"] {
        let mut world = World::driven_by(driver, mission_of(Wire::Messages), config(Wire::Messages));
        read(&mut world, Wire::Messages, &[1]);
        let (_, body) = sent(&mut world, Wire::Messages);
        assert!(count(&body) == 0 && body.contains("is an image") && !body.contains("not shown"), "{body}");
    }
    assert!(native::drives("native/4"));
}

#[test]
fn only_the_newest_are_sent_and_a_turn_shows_eight() {
    for wire in Wire::ALL {
        let mut world = begun(wire);
        let mut counts = Vec::new();
        for number in 0..12 {
            read(&mut world, wire, &[number]);
            // What the next call would send.
            let Next::Run(specs) = world.driver.next(&world.state) else { panic!("no model call is due") };
            counts.push(count(&String::from_utf8_lossy(specs[0].request.bytes())));
        }
        assert_eq!(counts, [1, 2, 3, 4, 5, 6, 7, 8, 4, 5, 6, 7], "{wire:?}");
        let many: Vec<u8> = (20..30).collect();
        read(&mut world, wire, &many);
        let (_, body) = sent(&mut world, wire);
        assert_eq!(count(&body), 8, "{wire:?}");
        assert_eq!(body.matches("[not shown: there are too many images at once").count(), 2, "{wire:?}");
        is_repeatable(&world);
    }
}

#[test]
fn an_image_whose_bytes_are_gone_ends_the_run_in_clear_words() {
    let gone = Config { images: Arc::new(|_| Err("there is no artifact".into())), ..config(Wire::Messages) };
    let mut world = World::with(mission_of(Wire::Messages), gone);
    read(&mut world, Wire::Messages, &[1]);
    let (end, reason) = world.end();
    assert!(end == End::Failed && reason.contains("there is no artifact"), "{reason}");
}

#[test]
fn what_could_not_be_kept_is_not_shown() {
    let wire = Wire::Messages;
    let mut world = begun(wire);
    let step = world.one(model(wire));
    let call = called(wire, "t1", "read", json!({"path": "1.png"}));
    world.done(&step, Outcome::Succeeded, &answered(wire, Stop::ToolUse, vec![call]));
    let call = world.one("read");
    let mut output = image_output(1);
    output["artifact"] = Value::Null;
    world.done(&call, Outcome::Succeeded, &output);
    assert_eq!(count(&sent(&mut world, wire).1), 0);
    assert!(!world.facts().any(|fact| matches!(fact, Fact::Ended { .. })));
}
