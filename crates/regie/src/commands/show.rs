//! `regie runs`, `regie show` and `regie diff`: looking at runs.

use control::api;
use serde_json::json;

use super::{Context, row};
use crate::args;
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::follow::{self, Depth, Held, View};
use crate::screen::{self, clock, patch, style, table, text};

pub(super) async fn list(context: &Context, args: &args::Runs) -> Result<Exit, Failure> {
    let runs = context.connect().await?.run_list(args.open).await?;
    if context.json {
        screen::put_json(&runs)?;
        return Ok(Exit::Done);
    }
    if runs.is_empty() {
        screen::say(if args.open { "no run is open\n" } else { "there are no runs yet\n" })?;
        screen::hint("regie run \"Make the failing test pass\" --done \"make test\"")?;
        return Ok(Exit::Done);
    }
    let now = clock::now();
    let rows: Vec<Vec<String>> = runs
        .iter()
        .map(|run| {
            let unpriced = if run.spent.unpriced > 0 { "+?" } else { "" };
            vec![
                text::short_id(&run.run),
                state(run),
                text::ago(now.saturating_sub(run.updated_at)),
                run.turns.to_string(),
                format!("{}{unpriced}", text::dollars(run.spent.nanodollars)),
                goal(run),
            ]
        })
        .collect();
    screen::put(&table::table(
        &["RUN", "STATE", "UPDATED", "TURNS", "COST", "GOAL"],
        &rows,
        screen::width(),
    ))?;
    Ok(Exit::Done)
}

/// What it is for, and what it goes on from.
fn goal(run: &api::Run) -> String {
    match &run.forked {
        None => text::line(&run.goal),
        Some(origin) => {
            format!("{} · {}", origin_of(origin, &text::short_id(&origin.run)), text::line(&run.goal))
        }
    }
}

/// What a run goes on from, in words.
fn origin_of(origin: &api::Origin, run: &str) -> String {
    match origin.purpose.as_str() {
        "fork" => format!("fork of {run} at {}", origin.step),
        _ => format!("follows {run}"),
    }
}

/// Where it stands, in one word or two.
fn state(run: &api::Run) -> String {
    text::line(&run.end.as_deref().unwrap_or(&run.status).replace('_', " "))
}

pub(super) async fn one(context: &Context, args: &args::Show) -> Result<Exit, Failure> {
    let client = context.connect().await?;
    let run = client.run_fetch(&args.run).await?;
    let events = all_events(&client, &run.run).await?;
    if context.json {
        screen::put_json(&json!({ "run": run, "events": events }))?;
        return Ok(Exit::Done);
    }
    let depth = if args.full { Depth::Whole } else { Depth::Brief };
    let mut view = View::new(depth, screen::width()).numbered();
    // What was forgotten, or cannot be read any more, has no labels; the rest is shown all the same.
    let taint = client.run_reads(&run.run).await.map(|manifest| manifest.taint).unwrap_or_default();
    let mut shown = header(&run, &Held::of(&events), &taint);
    for event in &events {
        shown.push_str(&view.event(event));
    }
    shown.push_str(&follow::result(&run, &view));
    screen::put(&shown)?;
    for gate in &run.gates {
        screen::hint(&format!("it waits at a gate: regie gate show {}", text::line(gate)))?;
    }
    if run.status == "parked" {
        screen::hint(&format!("regie resume {}", text::short_id(&run.run)))?;
    }
    Ok(Exit::Done)
}

/// All events of a run.
pub(super) async fn all_events(client: &Client, run: &str) -> Result<Vec<api::Event>, Failure> {
    let mut all: Vec<api::Event> = Vec::new();
    loop {
        let after = all.last().map_or(0, |event| event.seq);
        let page = client.run_events(run, after).await?;
        // A page that leads nowhere would be asked for again and again.
        match page.last() {
            Some(last) if last.seq > after => all.extend(page),
            _ => return Ok(all),
        }
    }
}

fn header(run: &api::Run, held: &Held, taint: &[String]) -> String {
    let goal = text::short(&text::line(&run.goal), screen::width().saturating_sub(4));
    let mut shown = format!("\n  {}\n\n", style::bold(&goal));
    shown.push_str(&row("run", &text::line(&run.run)));
    if let Some(origin) = &run.forked {
        let from = text::line(&origin.run);
        shown.push_str(&match origin.purpose.as_str() {
            "fork" => row("forked", &format!("from {from} at step {}", origin.step)),
            _ => row("follows", &from),
        });
    }
    shown.push_str(&row("project", &format!("{} · {}", text::path(&run.repository), text::line(&run.line))));
    shown.push_str(&row("branch", &text::line(&run.branch)));
    shown.push_str(&row("model", &text::model(&run.model, run.effort)));
    if let Some(first) = &run.instead_of {
        let why = text::line(&format!("{}: {}", first.model, first.why));
        shown.push_str(&row("not on", &why));
    }
    shown.push_str(&row("started", &format!("{} UTC", clock::moment(run.started_at))));
    let head = format!("{} · {}", text::of(run.events, "event", "events"), text::short_hash(&run.head));
    shown.push_str(&row("chain", &head));
    if let Some(held) = held.said() {
        shown.push_str(&row("jail", &held));
    }
    if !taint.is_empty() {
        shown.push_str(&row("has read", &text::line(&taint.join(", "))));
    }
    shown.push('\n');
    shown
}

pub(super) async fn diff(context: &Context, run: &str) -> Result<Exit, Failure> {
    let diff = context.connect().await?.run_diff(run).await?;
    if context.json {
        screen::put_json(&diff)?;
        return Ok(Exit::Done);
    }
    if diff.files.is_empty() {
        screen::say("no changes\n")?;
        return Ok(Exit::Done);
    }
    if screen::is_read() {
        let mut shown = format!("{}\n", patch::summary(&diff.files));
        for file in patch::files(&diff.files, usize::MAX) {
            shown.push_str(&format!("  {file}\n"));
        }
        shown.push('\n');
        shown.push_str(&patch::coloured(&diff.patch, "", usize::MAX).0);
        screen::put(&shown)?;
    } else {
        // As `git apply` takes it.
        screen::put_raw(diff.patch.as_bytes())?;
    }
    Ok(Exit::Done)
}
