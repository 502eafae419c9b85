//! `regie gate`: what waits for the owner, and the answers.

use control::api;

use super::{Context, vendor};
use crate::args::Gates;
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

/// Answers several gates one after another, each for exactly what it asks. What leaves the house is approved one at a
/// time, after it was shown.
pub(super) async fn answer_all(context: &Context, which: &Gates, answer: &str) -> Result<Exit, Failure> {
    let client = context.connect().await?;
    let gates: Vec<api::Gate> = match &which.run {
        Some(run) => {
            let run = client.run_fetch(run).await?.run;
            let waiting = client.gate_list(true).await?;
            waiting.into_iter().filter(|gate| gate.run == run).collect()
        }
        None => {
            let mut found = Vec::new();
            for gate in &which.gates {
                found.push(client.gate_fetch(gate).await?);
            }
            found
        }
    };
    if let [one] = gates.as_slice() {
        return self::answer(context, &one.gate, answer).await;
    }
    if gates.is_empty() {
        return Err(Failure::new("no gate of this run waits").hint("`regie gate list` shows what waits"));
    }
    let is_grave = |gate: &&api::Gate| gate.risk == "external" || gate.question == "was_it_done";
    if let Some(grave) = gates.iter().find(is_grave).filter(|_| answer != "refuse") {
        let gate = text::short_id(&grave.gate);
        let what = format!(
            "gate {gate} asks for what leaves the house, which is approved by itself; nothing was answered"
        );
        return Err(
            Failure::new(what).hint(format!("regie gate show {gate}, then regie gate approve {gate}"))
        );
    }
    let mut exit = Exit::Done;
    for gate in &gates {
        exit = self::answer(context, &gate.gate, answer).await?;
    }
    Ok(exit)
}

pub(super) async fn report(context: &Context, within: u64) -> Result<Exit, Failure> {
    let report = context.connect().await?.gate_report(within).await?;
    if context.json {
        screen::put_json(&report)?;
        return Ok(Exit::Done);
    }
    if report.all.asked == 0 {
        screen::say(&format!("nothing was asked in {}\n", text::span(within)))?;
        return Ok(Exit::Done);
    }
    let row = |tool: &str, rule: &str, asked: &api::Asked| -> Vec<String> {
        let wait = asked.median_ms.map_or_else(|| "-".to_owned(), text::span);
        let numbers = [asked.asked, asked.approved, asked.refused, asked.expired, asked.waiting];
        let mut row: Vec<String> = numbers.iter().map(u64::to_string).collect();
        row.extend([wait, text::line(tool), text::line(rule)]);
        row
    };
    let mut rows = vec![row("all", "", &report.all)];
    rows.extend(report.by.iter().map(|by| row(&by.tool, &by.rule, &by.asked)));
    let head = ["ASKED", "APPROVED", "REFUSED", "EXPIRED", "WAITS", "ANSWERED IN", "TOOL", "RULE"];
    screen::put(&table::table(&head, &rows, screen::width()))?;
    if let Some(why) = &report.too_frequent {
        screen::hint(&text::line(why))?;
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
