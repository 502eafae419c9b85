//! `regie bin`: what runs left that is no branch any more.

use control::api::{Binned, EmptyBin};
use serde_json::json;

use super::{Context, row};
use crate::args::Bin;
use crate::failure::{Exit, Failure};
use crate::screen::{self, clock, patch, table, text};

pub(super) async fn run(context: &Context, args: Bin) -> Result<Exit, Failure> {
    match args {
        Bin::List => list(context).await,
        Bin::Show(one) => show(context, &one.run).await,
        Bin::Restore(one) => restore(context, &one.run).await,
        Bin::Empty(args) => empty(context, args.runs).await,
    }
}

async fn list(context: &Context) -> Result<Exit, Failure> {
    let entries = context.connect().await?.bin_list().await?;
    if context.json {
        screen::put_json(&entries)?;
    } else if entries.is_empty() {
        screen::say("the bin is empty\n")?;
    } else {
        screen::put(&listed(&entries, screen::width()))?;
    }
    Ok(Exit::Done)
}

fn listed(entries: &[Binned], width: usize) -> String {
    let rows: Vec<Vec<String>> = entries
        .iter()
        .map(|entry| {
            let since = entry.at.map_or_else(|| "-".to_owned(), clock::moment);
            let names = [text::short_id(&entry.run), text::line(&entry.what), since];
            names.into_iter().chain([text::path(&entry.repository), text::line(&entry.goal)]).collect()
        })
        .collect();
    table::table(&["RUN", "WHAT", "SINCE", "PROJECT", "GOAL"], &rows, width)
}

async fn show(context: &Context, run: &str) -> Result<Exit, Failure> {
    let shown = context.connect().await?.bin_fetch(run).await?;
    if context.json {
        screen::put_json(&shown)?;
        return Ok(Exit::Done);
    }
    let entry = &shown.entry;
    let since = entry.at.map_or_else(
        || "what its workspace held beyond its branch".to_owned(),
        |at| format!("in the bin since {} UTC", clock::moment(at)),
    );
    let mut text = format!("\n  {}\n\n", text::line(&entry.goal));
    text.push_str(&row("run", &text::line(&entry.run)));
    text.push_str(&row(
        "branch",
        &format!("{} · {}", text::line(&entry.branch), text::short_hash(&entry.head)),
    ));
    text.push_str(&row("bin", &since));
    text.push_str(&format!("\n  {}\n", patch::summary(&shown.files)));
    for file in patch::files(&shown.files, usize::MAX) {
        text.push_str(&format!("  {file}\n"));
    }
    screen::put(&text)?;
    screen::hint(&format!("regie bin restore {}", text::short_id(&entry.run)))?;
    Ok(Exit::Done)
}

async fn restore(context: &Context, run: &str) -> Result<Exit, Failure> {
    let restored = context.connect().await?.bin_restore(run).await?;
    if context.json {
        screen::put_json(&restored)?;
        return Ok(Exit::Done);
    }
    let head = text::short_hash(&restored.head);
    screen::put(&format!("{} is back at {head}\n", text::line(&restored.branch)))?;
    screen::hint(&format!("in your repository: {}", text::line(&restored.command)))?;
    Ok(Exit::Done)
}

async fn empty(context: &Context, runs: Vec<String>) -> Result<Exit, Failure> {
    let gone = context.connect().await?.bin_empty(&EmptyBin { runs }).await?;
    if context.json {
        screen::put_json(&json!({ "gone": gone }))?;
        return Ok(Exit::Done);
    }
    for entry in &gone {
        screen::put(&format!("gone  {} {}\n", text::short_id(&entry.run), text::line(&entry.goal)))?;
    }
    if gone.is_empty() {
        screen::say("the bin was empty\n")?;
    }
    Ok(Exit::Done)
}
