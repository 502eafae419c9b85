//! One run with all that shapes a conversation, on any wire: reasoning, parallel calls, a word of the owner,
//! instructions of a directory, a refused stop hook, cleared results and a compaction.

use std::sync::Arc;

use domain::fact::{Fact, StepPlanned};
use domain::run::Command;
use domain::{Mission, Outcome, StepKind};
use engine::Config;
use engine::config::Clearing;
use models::{Block, Effort, RawJson, Response, Stop, Usage, Wire};
use serde_json::{Value, json};

use crate::world::{World, answer, call, checkpoint, config, mission, output, thinking};

/// A model of the wire.
pub(crate) fn model(wire: Wire) -> &'static str {
    match wire {
        Wire::Messages => "claude-opus-5-5",
        Wire::Responses => "gpt-6.1-sol",
        Wire::Chat => "local/qwen3",
    }
}

fn raw(value: Value) -> Block {
    Block::from_raw(RawJson::encode(&value).unwrap()).unwrap()
}

/// A call as the wire writes it.
pub(crate) fn called(wire: Wire, id: &str, name: &str, input: Value) -> Block {
    let text = input.to_string();
    match wire {
        Wire::Messages => call(id, name, input),
        Wire::Responses => raw(json!({
            "type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name,
            "arguments": text, "status": "completed",
        })),
        Wire::Chat => {
            raw(json!({"id": id, "type": "function", "function": {"name": name, "arguments": text}}))
        }
    }
}

/// Reasoning as the wire writes it.
pub(crate) fn reasoned(wire: Wire) -> Block {
    match wire {
        Wire::Messages => thinking(),
        Wire::Responses => raw(json!({
            "type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}],
            "encrypted_content": "c2Vj",
        })),
        Wire::Chat => raw(json!({"type": "chat_reasoning", "field": "reasoning_content", "text": "hm"})),
    }
}

/// Prose as the wire writes it.
pub(crate) fn said(wire: Wire, text: &str) -> Block {
    match wire {
        Wire::Messages | Wire::Chat => Block::text(text),
        Wire::Responses => raw(json!({
            "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        })),
    }
}

pub(crate) fn answered(wire: Wire, stop: Stop, blocks: Vec<Block>) -> Response {
    let model = model(wire).to_owned();
    Response { asked: model.clone(), model, usage: Usage::default(), ..answer(stop, blocks) }
}

/// Where old results go and the window ends so early that a short story has both.
pub(crate) fn config_of(wire: Wire) -> Config {
    let clearing = Clearing { keep_bytes: 1_500, keep_results: 1, batch_bytes: 2_000 };
    let effort = (wire != Wire::Messages).then_some(Effort::High);
    Config {
        compose: Arc::new(models::wire::compose),
        window: 4_000,
        max_output_tokens: 500,
        clearing,
        effort,
        ..config()
    }
}

pub(crate) fn mission_of(wire: Wire) -> Mission {
    Mission { model: model(wire).into(), ..mission(&["node --test"]) }
}

/// The model is asked and answers.
pub(crate) fn ask(world: &mut World, wire: Wire, stop: Stop, blocks: Vec<Block>) -> StepPlanned {
    let step = world.one(model(wire));
    let is_summary = step.kind == StepKind::Compaction;
    let blocks = if is_summary { vec![said(wire, "## Goal\nthe sum")] } else { blocks };
    let stop = if is_summary { Stop::EndTurn } else { stop };
    world.done(&step, Outcome::Succeeded, &answered(wire, stop, blocks));
    step
}

/// The story, told by a driver.
pub(crate) fn told(driver: &str, wire: Wire, config: Config, mission: Mission) -> World {
    let mut world = World::driven_by(driver, mission, config);
    let mut turn = 0;
    while turn < 14 {
        let id = |n: usize| format!("t{turn}_{n}");
        let blocks = match turn {
            6 => vec![reasoned(wire), said(wire, "It is done.")],
            _ if turn % 3 == 0 => vec![
                reasoned(wire),
                said(wire, "I look — twice."),
                called(wire, &id(0), "read", json!({"path": "ä.js", "n": 1.0, "turn": turn})),
                called(wire, &id(1), "shell", json!({"command": format!("node --test {turn}")})),
            ],
            _ => vec![called(wire, &id(0), "shell", json!({"command": format!("make {turn}")}))],
        };
        let stop = if turn == 6 { Stop::EndTurn } else { Stop::ToolUse };
        let step = ask(&mut world, wire, stop, blocks);
        if step.kind == StepKind::Compaction {
            continue;
        }
        turn += 1;
        if turn == 7 {
            let kept = world.one("checkpoint");
            world.done(&kept, Outcome::Succeeded, &checkpoint(Some("c1")));
            world.verdict(1, "not ok");
            continue;
        }
        let calls = world.go();
        if turn == 2 {
            world.tell_bytes(Command::Say { by: "human:owner".into(), now: false }, b"use tabs".to_vec());
        }
        for (place, step) in calls.iter().enumerate() {
            let long = format!("turn {turn} call {place} — ").repeat(60);
            let mut output = output(&long, i32::from(place == 1));
            if turn == 4 && place == 0 {
                output["instructions"] = json!({"path": "web/AGENTS.md", "text": "Use semicolons."});
            }
            let outcome = if place == 1 { Outcome::Failed } else { Outcome::Succeeded };
            world.done(step, outcome, &output);
        }
    }
    world.go();
    world
}

/// The model calls of a run in order, each with the bytes that were sent.
pub(crate) fn requests(world: &World) -> Vec<(StepPlanned, String)> {
    let planned = world.facts().filter_map(|fact| match fact {
        Fact::StepPlanned(planned) if planned.composed_upto.is_some() => Some(planned.clone()),
        _ => None,
    });
    let bytes = |step: &StepPlanned| String::from_utf8(world.requests[&step.step].to_vec()).unwrap();
    planned.map(|step| (step.clone(), bytes(&step))).collect()
}
