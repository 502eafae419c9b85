//! Tools whose schemas are given on demand: the step is the real tool's, and the prefix never changes.

use domain::fact::StepPlanned;
use domain::{Digest, Effect, Mission, Outcome, Risk, StepKind};
use engine::{Config, Tool, Toolbox, prompt};
use kernel::driver::{Driver, Next};
use models::{Block, RawJson, Stop, ToolSpec, Wire};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::story::{answered, ask, called, config_of, mission_of, model, requests, told};
use crate::world::{World, by_policy, output, toolbox};

const SCHEMA: &str = r#"{"type":"object","properties":{"text":{"type":"string"},"times":{"type":"integer"}},"required":["text"],"additionalProperties":false}"#;

fn outside(serial: usize) -> Tool {
    Tool {
        spec: ToolSpec {
            // A name that no wire would take.
            name: format!("notes.add_{serial:02}"),
            description: format!("Adds a note of kind {serial}.\nA second line with a lot more to say."),
            input_schema: RawJson::parse(SCHEMA).unwrap(),
        },
        effect: Effect::IdempotentWrite,
        risk: Risk::External,
        deferred: true,
    }
}

fn many() -> Toolbox {
    // Not in the order of their names.
    Toolbox::new(toolbox().iter().cloned().chain((0..30).rev().map(outside)).collect()).unwrap()
}

fn config(wire: Wire) -> Config {
    let system = prompt::with_tools("You are a test.\n".into(), &many());
    Config { system, toolbox: many(), ..config_of(wire) }
}

fn mission(wire: Wire) -> Mission {
    let config = config(wire);
    Mission {
        system: Digest::of(config.system.as_bytes()),
        tools: Digest::of(&config.toolbox.to_bytes().unwrap()),
        ..mission_of(wire)
    }
}

fn world(wire: Wire) -> World {
    World::with(mission(wire), config(wire))
}

/// The model calls, and the steps that this comes to.
fn turn(world: &mut World, wire: Wire, calls: &[(&str, Value)]) -> Vec<StepPlanned> {
    let block = |(at, (name, input)): (usize, &(&str, Value))| {
        called(wire, &format!("c{}_{at}", world.events.len()), name, input.clone())
    };
    let blocks: Vec<Block> = calls.iter().enumerate().map(block).collect();
    ask(world, wire, Stop::ToolUse, blocks);
    match world.driver.next(&world.state) {
        Next::Run(specs) if specs.iter().all(|spec| spec.kind == StepKind::ToolCall) => world.go(),
        _ => Vec::new(),
    }
}

/// The body of the next request.
fn next(world: &World) -> String {
    let Next::Run(specs) = world.driver.next(&world.state) else { panic!("no model call is due") };
    String::from_utf8(specs[0].request.bytes().to_vec()).unwrap()
}

fn note(serial: usize, input: &Value) -> (&'static str, Value) {
    ("tools_call", json!({"name": format!("notes.add_{serial:02}"), "input": input}))
}

#[test]
fn the_system_text_names_them_and_two_tools_stand_for_them() {
    let text = config(Wire::Messages).system;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "You are a test.");
    assert_eq!(lines[5], "- notes.add_00: Adds a note of kind 0.");
    assert_eq!(lines.last(), Some(&"- notes.add_29: Adds a note of kind 29."));
    assert_eq!(prompt::with_tools("plain".into(), &toolbox()), "plain");
    let names: Vec<String> = many().specs().into_iter().map(|spec| spec.name).collect();
    assert_eq!(names, ["read", "shell", "post", "tools_describe", "tools_call"]);
    for spec in many().specs() {
        assert!(spec.input_schema.is_object());
    }
}

#[test]
fn a_description_is_no_step_and_holds_the_schema() {
    for wire in Wire::ALL {
        let mut world = world(wire);
        let steps = turn(
            &mut world,
            wire,
            &[
                ("tools_describe", json!({"names": ["notes.add_07", "notes.ad_08"]})),
                ("tools_describe", json!({"names": ["nothing"]})),
                ("tools_describe", json!({"name": 1})),
            ],
        );
        assert_eq!(steps, [], "{wire:?}");
        let body = next(&world);
        let escaped = Value::from(SCHEMA).to_string();
        assert!(body.contains(escaped.trim_matches('"')), "{wire:?}: {body}");
        assert!(body.contains("A second line"), "{body}");
        assert!(body.contains("there is no tool `notes.ad_08`; the nearest are: notes.add_0"), "{body}");
        assert!(body.contains("there is no tool `nothing`; the nearest are: "), "{body}");
        assert!(body.contains("give `names`, a list of names"), "{body}");
        let items = engine::timeline::items(&world.events);
        let told = "asks what these tools take: notes.add_07, notes.ad_08, nothing";
        assert_eq!(items.last().unwrap().detail, told);
    }
}

#[test]
fn the_step_is_the_real_tools() {
    for wire in Wire::ALL {
        let mut world = world(wire);
        let input = json!({"text": "ä", "times": 2});
        let steps = turn(
            &mut world,
            wire,
            &[
                note(7, &input),
                ("tools_call", json!({"name": "shell", "input": {"command": "make"}})),
                ("tools_call", json!({"name": "notes.add_08", "input": input.to_string()})),
                ("notes.add_09", input.clone()),
            ],
        );
        let of = |step: &StepPlanned| (step.tool.clone(), step.effect, step.risk);
        let noted =
            |serial: usize| (format!("notes.add_{serial:02}"), Effect::IdempotentWrite, Risk::External);
        let expected =
            [noted(7), ("shell".into(), Effect::WorkspaceWrite, Risk::Workspace), noted(8), noted(9)];
        assert_eq!(steps.iter().map(of).collect::<Vec<_>>(), expected, "{wire:?}");
        assert_eq!(world.request(&steps[0]), json!({"tool": "notes.add_07", "input": input}));
        assert_eq!(world.request(&steps[2]), json!({"tool": "notes.add_08", "input": input}));
        world.deny(&steps[0], by_policy("no notes"));
        for step in &steps[1..] {
            world.done(step, Outcome::Succeeded, &output("noted", 0));
        }
        let body = next(&world);
        assert_eq!(body.matches("noted").count(), 3, "{body}");
        assert!(body.contains("no notes"), "{body}");
    }
}

#[test]
fn what_does_not_fit_the_schema_is_answered_and_not_run() {
    for wire in Wire::ALL {
        let mut world = world(wire);
        let steps = turn(
            &mut world,
            wire,
            &[
                note(1, &json!({"texts": "a"})),
                note(2, &json!({"text": "a", "times": "two"})),
                note(3, &json!("not an object")),
                ("tools_call", json!({"input": {}})),
                ("tools_call", json!({"name": "note.add_3", "input": {"text": "a"}})),
                ("tools_call", json!({"name": "tools_call", "input": {}})),
                ("notes.add_04", json!({})),
            ],
        );
        assert_eq!(steps, [], "{wire:?}");
        let body = next(&world);
        for words in [
            "`notes.add_01` was not called, its input does not fit: input.text is missing; input.texts is not known",
            "input.times must be of type integer, not string",
            "`notes.add_03` was not called, its input does not fit: input must be of type object",
            "give the tool's `name` and its `input`, an object",
            "there is no tool `note.add_3`; the nearest are: notes.add_03",
            "there is no tool `tools_call`",
            "`notes.add_04` was not called, its input does not fit: input.text is missing",
            "Its input schema: {",
        ] {
            assert!(body.contains(words), "{wire:?}: {words}: {body}");
        }
    }
}

#[test]
fn tools_and_system_text_stay_through_clearing_and_compaction() {
    for wire in Wire::ALL {
        let wide = Config { window: 12_000, ..config(wire) };
        let world = told("native/4", wire, wide, mission(wire));
        let heads: Vec<Value> = requests(&world)
            .iter()
            .map(|(_, body)| {
                let body: Value = serde_json::from_str(body).unwrap();
                let system = match wire {
                    Wire::Messages => &body["system"],
                    Wire::Responses => &body["instructions"],
                    Wire::Chat => &body["messages"][0],
                };
                json!([body["tools"], system])
            })
            .collect();
        assert!(heads.len() > 12 && heads.iter().all(|head| *head == heads[0]), "{wire:?}");
    }
    // A description is cleared like any old result, and given again when it is asked for again.
    let roomy = Config { window: 40_000, ..config(Wire::Messages) };
    let mut world = World::with(mission(Wire::Messages), roomy);
    let ask_for = |world: &mut World| {
        turn(
            world,
            Wire::Messages,
            &[("tools_describe", json!({"names": ["notes.add_07", "notes.add_08", "notes.add_09"]}))],
        );
        next(world).contains("Input schema: ")
    };
    assert!(ask_for(&mut world));
    for serial in 0..5 {
        let calls = [("shell", json!({"command": format!("make {serial}")}))];
        let steps = turn(&mut world, Wire::Messages, &calls);
        world.done(&steps[0], Outcome::Succeeded, &output(&"x".repeat(1_200), 0));
    }
    let body = next(&world);
    assert!(body.contains("[an old result of") && !body.contains("Input schema: "), "{body}");
    let steps = turn(&mut world, Wire::Messages, &[note(7, &json!({"text": "a"}))]);
    assert_eq!(steps.len(), 1, "a call needs no description, only an input that fits");
    world.done(&steps[0], Outcome::Succeeded, &output("noted", 0));
    assert!(ask_for(&mut world));
}

#[test]
fn only_tools_from_outside_are_deferred_and_only_when_there_are_many() {
    let with = |count: usize| {
        let built_in = Toolbox::built_in().unwrap();
        let outside = (0..count).map(|serial| Tool { deferred: false, ..outside(serial) });
        let all = Toolbox::new(built_in.iter().cloned().chain(outside).collect()).unwrap();
        all.with_definition().unwrap().deferring()
    };
    let few = with(17);
    assert_eq!((few.iter().count(), few.defers()), (24, false));
    assert!(!String::from_utf8(few.to_bytes().unwrap()).unwrap().contains("deferred"), "old artifacts stay");
    let many = with(18);
    let shown: Vec<String> = many.specs().into_iter().map(|spec| spec.name).collect();
    let own = ["read", "list", "search", "edit", "write", "shell", "define_done"];
    assert_eq!(shown, [&own[..], &["tools_describe", "tools_call"]].concat());
    assert_eq!(many.names().count(), 25, "a lease holds them all");
    assert_eq!(Toolbox::from_bytes(&many.to_bytes().unwrap()).unwrap(), many);
    for name in ["tools_call", "tools_describe"] {
        let mut tool = outside(1);
        tool.spec.name = name.into();
        assert!(Toolbox::new(vec![tool]).is_err(), "{name}");
    }
}

fn random_call(dice: u8) -> (&'static str, Value) {
    match dice % 10 {
        0 => ("shell", json!({"command": dice})),
        1 => ("tools_describe", json!({"names": [format!("notes.add_{:02}", dice % 40)]})),
        2 => ("tools_describe", json!({"names": []})),
        3 => ("tools_call", json!({"name": "read", "input": {"path": dice}})),
        4 => ("tools_call", json!({"name": "nothing", "input": {}})),
        5 => note(usize::from(dice) % 40, &json!({"text": dice})),
        6 => ("tools_call", json!([])),
        7 => ("nothing", json!({})),
        _ => note(usize::from(dice) % 40, &json!({"text": "a"})),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// `compose` refuses a request in which a call has no result, or two.
    #[test]
    fn whatever_is_called_in_whatever_order_each_call_is_answered_once(
        wire in prop::sample::select(Wire::ALL.to_vec()),
        turns in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..6), 1..6),
        dice in any::<u8>(),
    ) {
        let mut world = world(wire);
        for turn in turns {
            let serial = world.events.len();
            let blocks: Vec<Block> = turn
                .iter()
                .enumerate()
                .map(|(at, dice)| {
                    let (name, input) = random_call(*dice);
                    called(wire, &format!("c{serial}_{at}"), name, input)
                })
                .collect();
            loop {
                let step = world.one(model(wire));
                let is_summary = step.kind == StepKind::Compaction;
                let said = if is_summary { vec![Block::text("all of it")] } else { blocks.clone() };
                let stop = if is_summary { Stop::EndTurn } else { Stop::ToolUse };
                world.done(&step, Outcome::Succeeded, &answered(wire, stop, said));
                if !is_summary {
                    break;
                }
            }
            // Calls that may not run beside each other come one after the other.
            while let Next::Run(specs) = world.driver.next(&world.state)
                && specs.iter().all(|spec| spec.kind == StepKind::ToolCall)
            {
                let mut steps = world.go();
                let middle = usize::from(dice) % steps.len();
                steps.rotate_left(middle);
                for (at, step) in steps.iter().enumerate() {
                    prop_assert!(many().find(&step.tool).is_some_and(|tool| tool.effect == step.effect));
                    match (usize::from(dice) + at) % 3 {
                        0 => world.deny(step, by_policy("no")),
                        1 => world.done(step, Outcome::Failed, &output("no", 1)),
                        _ => world.done(step, Outcome::Succeeded, &output("yes", 0)),
                    }
                }
            }
            let again = world.reloaded();
            prop_assert_eq!(again.next(&world.state), world.driver.next(&world.state));
            match world.driver.next(&world.state) {
                Next::Run(specs) if specs[0].kind == StepKind::Timer => break,
                Next::Run(_) => {}
                _ => break,
            }
        }
        for (step, _) in requests(&world) {
            let bytes = world.driver.compose(step.step, step.composed_upto.unwrap()).unwrap();
            prop_assert_eq!(Digest::of(&bytes), step.request);
        }
    }
}
