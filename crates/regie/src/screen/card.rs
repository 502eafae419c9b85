//! The card of a gate: everything that the owner decides upon, before the question.

use control::api;

use super::{patch, style, text};

/// Files on a card.
const FILES: usize = 12;
/// Lines of a request on a card.
const REQUEST_LINES: usize = 20;

/// The card, each line indented.
pub(crate) fn gate(gate: &api::Gate) -> String {
    let mut card = format!("  {} {}\n", style::waiting("?"), style::bold(&title(gate)));
    let mut row = |name: &str, value: &str| {
        card.push_str(&format!("    {} {value}\n", style::dim(&format!("{name:<8}"))));
    };
    if gate.question == "was_it_done" {
        row("why", "a crash left it open whether this happened");
    }
    row("goal", &text::short(&text::line(&gate.goal), 80));
    let mut name = "files";
    for file in patch::files(&gate.files, FILES) {
        row(name, &file);
        name = "";
    }
    let mut name = "checks";
    for check in &gate.checks {
        row(name, &text::short(&text::line(check), 100));
        name = "";
    }
    if gate.checks.is_empty() && !gate.files.is_empty() {
        row("checks", &style::waiting("nothing was checked"));
    }
    row("tool", &format!("{} · {} · {} risk", text::line(&gate.tool), words(&gate.effect), words(&gate.risk)));
    if let Some(reason) = &gate.reason {
        row("rule", &text::short(&text::line(reason), 100));
    }
    row("action", &text::short_hash(&gate.action));
    row("gate", &text::line(&gate.gate));
    // What a proposal changes is said above; of anything else the exact request is shown.
    if gate.files.is_empty() {
        card.push_str(&request(&gate.request));
    }
    card
}

/// The question.
pub(crate) fn title(gate: &api::Gate) -> String {
    let title = text::line(&gate.title);
    let mut letters = title.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => "May this happen?".into(),
    }
}

fn request(request: &serde_json::Value) -> String {
    let pretty = serde_json::to_string_pretty(request).unwrap_or_default();
    let clean = text::lines(&pretty);
    let mut card: String =
        clean.lines().take(REQUEST_LINES).map(|line| format!("    {} {line}\n", style::dim("│"))).collect();
    let left = clean.lines().count().saturating_sub(REQUEST_LINES);
    if left > 0 {
        card.push_str(&format!("    {}\n", style::dim(&format!("│ … {left} more lines: regie gate show --json"))));
    }
    card
}

fn words(name: &str) -> String {
    text::line(&name.replace('_', " "))
}
