//! What a turn costs that carries a long conversation: composed for the wire, and read back from its record.

use anyhow::{Result, ensure};
use models::{Block, Message, RawJson, Request, Role, ToolSpec, Wire, wire};

use crate::clock::{Took, beside, took};
use crate::table::Table;

const TURNS: usize = 100;
const ROUNDS: usize = 15;

pub(crate) fn measure(table: &mut Table) -> Result<()> {
    for wire in Wire::ALL {
        let (short, long) = (conversation(wire, TURNS)?, conversation(wire, 4 * TURNS)?);
        let bytes = (wire::compose(&short)?.len() as f64, wire::compose(&long)?.len() as f64);
        ensure!(bytes.1 > 3.0 * bytes.0, "the longer conversation is about four times as long");
        let [few, many] = beside(ROUNDS, || composed(&short, 4), || composed(&long, 1));
        let ratio = (many.cpu / bytes.1) / (few.cpu / (4.0 * bytes.0));
        table.row(&format!("{wire:?}: processor time of a byte, composing 4n turns / n turns"), ratio, 1.2);
        let (short, long) = (serde_json::to_vec(&short.messages)?, serde_json::to_vec(&long.messages)?);
        let [few, many] = beside(ROUNDS, || recorded(&short, 4), || recorded(&long, 1));
        let ratio = (many.cpu / long.len() as f64) / (few.cpu / (4.0 * short.len() as f64));
        table.row(&format!("{wire:?}: the same, reading the turns back from their record"), ratio, 1.2);
    }
    Ok(())
}

fn composed(request: &Request, times: usize) -> Took {
    took(|| (0..times).map(|_| wire::compose(request).map_or(0, |body| body.len())).sum::<usize>())
}

fn recorded(messages: &[u8], times: usize) -> Took {
    let read = |_| serde_json::from_slice::<Vec<Message>>(messages).map_or(0, |messages| messages.len());
    took(|| (0..times).map(read).sum::<usize>())
}

/// A conversation of so many turns: words, a call, and a result of some kilobytes.
fn conversation(wire: Wire, turns: usize) -> Result<Request> {
    let model = match wire {
        Wire::Messages => "claude-sonnet-5-5",
        Wire::Responses => "gpt-6.1-sol",
        Wire::Chat => "local/qwen3:14b",
    };
    let mut messages = vec![Message::user(vec![Block::text("Make the failing test pass.")])];
    for turn in 0..turns {
        let id = format!("call_{turn}");
        let blocks = vec![Block::text(format!("I look at part {turn} of the cart.")), call(wire, &id)?];
        messages.push(Message { role: Role::Assistant, blocks, made_by: Some(model.to_owned()) });
        let output = "  return line.price * line.quantity; // \"the sum\"\n".repeat(10 + turn % 80);
        messages.push(Message::user(vec![Block::tool_result(id, Ok(&output))]));
    }
    let schema = RawJson::parse(r#"{"type":"object","properties":{"path":{"type":"string"}}}"#)?;
    let read = ToolSpec { name: "read".into(), description: "Reads a file.".into(), input_schema: schema };
    Ok(Request {
        model: model.to_owned(),
        max_tokens: 32_000,
        system: "You mend bugs.".repeat(200),
        tools: vec![read],
        messages,
        effort: None,
        extras: models::Extras { cache_key: true, reasoning: true },
    })
}

/// A call of `read`, as the vendor of each wire writes it.
fn call(wire: Wire, id: &str) -> Result<Block> {
    let raw = match wire {
        Wire::Messages => {
            format!(r#"{{"type":"tool_use","id":"{id}","name":"read","input":{{"path":"src/cart.js"}}}}"#)
        }
        Wire::Responses => format!(
            r#"{{"type":"function_call","id":"fc_{id}","call_id":"{id}","name":"read","arguments":"{{\"path\":\"src/cart.js\"}}","status":"completed"}}"#
        ),
        Wire::Chat => format!(
            r#"{{"id":"{id}","type":"function","function":{{"name":"read","arguments":"{{\"path\":\"src/cart.js\"}}"}}}}"#
        ),
    };
    Ok(Block::from_raw(RawJson::parse(raw)?)?)
}
