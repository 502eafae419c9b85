//! `regie proposal`: what runs propose to merge, what they had read, and what became of it.

use control::api;

use super::audit::reads::what;
use super::{Context, row};
use crate::failure::{Exit, Failure};
use crate::screen::{self, clock, export, patch, style, table, text};

/// Files that are named.
const FILES: usize = 12;

pub(super) async fn list(context: &Context, all: bool) -> Result<Exit, Failure> {
    let proposals = context.connect().await?.proposal_list(!all).await?;
    if context.json {
        screen::put_json(&proposals)?;
        return Ok(Exit::Done);
    }
    if proposals.is_empty() {
        screen::say(if all { "there are no proposals yet\n" } else { "no proposal waits\n" })?;
        return Ok(Exit::Done);
    }
    let rows: Vec<Vec<String>> = proposals
        .iter()
        .map(|one| {
            vec![
                text::short_id(&one.run),
                text::line(&one.state),
                format!("+{} -{}", one.added, one.removed),
                text::line(&one.taint.join(", ")),
                text::line(&one.goal),
            ]
        })
        .collect();
    screen::put(&table::table(&["RUN", "STATE", "CHANGES", "HAS READ", "GOAL"], &rows, screen::width()))?;
    screen::hint("regie proposal show RUN")?;
    Ok(Exit::Done)
}

pub(super) async fn show(context: &Context, run: &str) -> Result<Exit, Failure> {
    let proposals = context.connect().await?.proposal_fetch(run).await?;
    if context.json {
        screen::put_json(&proposals)?;
        return Ok(Exit::Done);
    }
    screen::put(&proposals.iter().map(card).collect::<String>())?;
    if let Some(last) = proposals.last() {
        screen::hint(&format!("regie diff {} shows the changes", text::short_id(&last.run)))?;
        if let (Some(gate), "waits") = (&last.gate, last.state.as_str()) {
            screen::hint(&format!("regie gate show {}", text::short_id(gate)))?;
        }
    }
    Ok(Exit::Done)
}

fn card(one: &api::Proposal) -> String {
    let mut shown = format!("\n  {}\n\n", style::bold(&text::short(&text::line(&one.goal), 100)));
    let into = format!("{} · {}", text::path(&one.repository), text::line(&one.line));
    shown.push_str(&row("state", &state(one)));
    shown.push_str(&row("into", &into));
    shown.push_str(&row("made", &format!("{} UTC, step {}", clock::moment(one.at), one.step)));
    if !one.summary.trim().is_empty() {
        shown.push_str(&row("intent", &text::short(&text::line(&one.summary), 300)));
    }
    if let Some(report) = one.export.as_ref().filter(|report| report.total() > 0) {
        shown.push_str(&row("export", &style::waiting(&export::summary(report)).to_string()));
    }
    let mut name = "files";
    for file in patch::files(&one.files, FILES) {
        shown.push_str(&row(name, &file));
        name = "";
    }
    let mut name = "checks";
    for check in &one.checks {
        shown.push_str(&row(name, &text::short(&text::line(check), 100)));
        name = "";
    }
    if one.checks.is_empty() {
        shown.push_str(&row("checks", &style::waiting("nothing was checked").to_string()));
    }
    if !one.taint.is_empty() {
        shown.push_str(&row("has read", &style::waiting(&text::line(&one.taint.join(", "))).to_string()));
        for read in &one.read {
            let labels = text::line(&read.labels.join(", "));
            shown.push_str(&row("", &format!("{}  {}", what(&read.what), style::dim(&labels))));
        }
    }
    shown.push('\n');
    shown
}

/// What became of it, by whom and which rule.
fn state(one: &api::Proposal) -> String {
    let by = one.by.as_ref().map(|by| format!(" by {}", text::line(by))).unwrap_or_default();
    let rule = one.rule.as_ref().map(|rule| format!(" · {}", text::short(&text::line(rule), 120)));
    format!("{}{by}{}", text::line(&one.state), rule.unwrap_or_default())
}
