//! `regie undo`: a merge is taken back.

use std::io::BufRead as _;

use control::api;
use engine::host::Delivered;

use super::Context;
use crate::args;
use crate::failure::{Exit, Failure};
use crate::screen::{self, patch, style, text};

/// Files that are named.
const FILES: usize = 12;

pub(super) async fn run(context: &Context, args: &args::Undo) -> Result<Exit, Failure> {
    let client = context.connect().await?;
    if !args.yes {
        if context.json || !screen::can_ask() {
            return Err(Failure::usage("undoing a merge changes your branch, and nobody can be asked here")
                .hint(format!("regie undo {} --yes", text::line(&args.run))));
        }
        let what = match client.run_fetch(&args.run).await {
            Ok(run) => format!("“{}” on {}", text::short(&text::line(&run.goal), 60), text::line(&run.line)),
            // A mission is named by its id.
            Err(_) => text::line(&args.run),
        };
        screen::say(&format!("{} Undo the merge of {what}? [y / n] ", style::waiting("?")))?;
        if !is_yes() {
            screen::say("nothing was done\n")?;
            return Ok(Exit::Denied);
        }
    }
    let undone = client.run_undo(&args.run).await?;
    if context.json {
        screen::put_json(&undone)?;
        return Ok(Exit::Done);
    }
    screen::put(&shown(&undone))?;
    if let Delivered::Left { command, .. } = &undone.delivered {
        screen::hint(&text::line(command))?;
    }
    Ok(Exit::Done)
}

/// Whether the next line says yes; no answer is a no.
pub(super) fn is_yes() -> bool {
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    read.is_ok() && matches!(line.trim().to_lowercase().as_str(), "y" | "yes")
}

fn shown(undone: &api::Undone) -> String {
    let commit = text::short_hash(&undone.commit);
    let line = text::line(&undone.line);
    let mut shown = match &undone.delivered {
        Delivered::Left { reason, .. } => format!(
            "{} undone on Regie's line of {line} as {commit}; your branch was left alone: {}\n",
            style::waiting("!"),
            text::line(reason)
        ),
        _ => format!("{} undone on {line} as {commit}\n", style::ok("✓")),
    };
    shown.push_str(&format!("  {}\n", patch::summary(&undone.files)));
    for file in patch::files(&undone.files, FILES) {
        shown.push_str(&format!("    {file}\n"));
    }
    shown
}
