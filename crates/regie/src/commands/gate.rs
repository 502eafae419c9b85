//! `regie gate`: what waits for the owner, and the answers.

use control::api;

use super::{Context, vendor};
use crate::failure::{Exit, Failure};
use crate::screen::{self, card, clock, style, table, text};

pub(super) async fn list(context: &Context, all: bool) -> Result<Exit, Failure> {
    let gates = context.connect().await?.gate_list(!all).await?;
    if context.json {
        screen::put_json(&gates)?;
        return Ok(Exit::Done);
    }
    if gates.is_empty() {
        screen::say(if all { "there are no gates yet\n" } else { "no gate waits\n" })?;
        return Ok(Exit::Done);
    }
    let now = clock::now();
    let rows: Vec<Vec<String>> = gates
        .iter()
        .map(|gate| {
            let state = match &gate.answer {
                Some(answer) => text::line(&answer.replace('_', " ")),
                None => format!("waits {}", text::span(now.saturating_sub(gate.opened_at))),
            };
            vec![text::short_id(&gate.gate), state, text::short_id(&gate.run), card::title(gate)]
        })
        .collect();
    screen::put(&table::table(&["GATE", "STATE", "RUN", "QUESTION"], &rows, screen::width()))?;
    if gates.iter().any(|gate| gate.answer.is_none()) {
        screen::hint("regie gate show GATE, then approve or refuse it")?;
    }
    Ok(Exit::Done)
}

pub(super) async fn show(context: &Context, gate: &str) -> Result<Exit, Failure> {
    let gate = context.connect().await?.gate_fetch(gate).await?;
    if context.json {
        screen::put_json(&gate)?;
        return Ok(Exit::Done);
    }
    screen::put(&card::gate(&gate))?;
    match (&gate.answer, &gate.by) {
        (Some(answer), by) => {
            let by = by.as_deref().map(|by| format!(" by {}", text::line(by))).unwrap_or_default();
            screen::put(&format!("    {} {}{by}\n", style::dim("answer  "), text::line(answer)))?;
        }
        (None, _) => {
            let left = text::span(gate.expires_at.saturating_sub(clock::now()));
            screen::put(&format!("    {} in {left}, which counts as a refusal\n", style::dim("expires ")))?;
            if gate.always.is_some() {
                screen::hint(&format!("regie gate approve {} --always", text::short_id(&gate.gate)))?;
            }
            screen::hint(&format!("regie diff {} shows the changes", text::short_id(&gate.run)))?;
        }
    }
    Ok(Exit::Done)
}

/// Reads the gate again, shows what is answered, and answers exactly that.
pub(super) async fn answer(context: &Context, gate: &str, answer: &str) -> Result<Exit, Failure> {
    let client = context.connect().await?;
    let gate = client.gate_fetch(gate).await?;
    if !context.json && gate.answer.is_none() {
        screen::say(&card::gate(&gate))?;
    }
    let wanted = api::AnswerGate { answer: answer.into(), action: gate.action.clone(), vendor: vendor() };
    let answered = client.gate_answer(&gate.gate, &wanted).await?;
    if context.json {
        screen::put_json(&answered)?;
        return Ok(Exit::Done);
    }
    let said = match answer {
        "approve" => style::ok("approved"),
        "approve_always" => style::ok("approved, and always in this project"),
        "refuse" => style::failed("refused"),
        "was_done" => style::ok("taken as done"),
        _ => style::ok("it will be done again"),
    };
    screen::say(&format!("  {said}\n"))?;
    screen::hint(&format!("regie log {} --follow", text::short_id(&gate.run)))?;
    Ok(Exit::Done)
}
