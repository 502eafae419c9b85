//! `regie run`: start a mission and follow it.

use std::fs;

use control::api;

use super::{Context, row, vendor};
use crate::args;
use crate::failure::{Exit, Failure};
use crate::follow::{self, Options};
use crate::screen::{self, style, text};

pub(super) async fn run(context: &Context, args: args::Run) -> Result<Exit, Failure> {
    if args.goal.trim().is_empty() {
        return Err(Failure::usage("the goal is empty").hint("say what is to be achieved: regie run \"…\""));
    }
    let project = fs::canonicalize(&args.project).map_err(|error| {
        Failure::new(format!("the project {} cannot be found: {error}", args.project.display()))
            .hint("name a directory in a Git repository with --project")
    })?;
    let project = project.into_os_string().into_string().map_err(|path| {
        Failure::new(format!("the project's path is not UTF-8: {}", path.display()))
            .hint("reach it by another path, or rename it")
    })?;
    let vendor = vendor();
    let wanted = api::StartMission {
        goal: args.goal,
        project,
        done: args.done,
        model: args.model,
        caps: api::CapsWanted {
            nanodollars: args.max_dollars,
            tokens: args.max_tokens,
            turns: args.max_turns,
            millis: args.max_time,
        },
        approve_merge: args.yes,
        allow_unjailed: args.allow_unjailed,
        dirty: args.dirty,
        vendor: vendor.clone(),
    };
    let client = context.connect().await?;
    let started = client.mission_start(&wanted).await?;
    for warning in &started.warnings {
        screen::warning(warning)?;
    }
    if args.detach {
        if context.json {
            screen::put_json(&started)?;
        } else {
            screen::put(&format!("{}\n", started.run))?;
            let id = text::short_id(&started.run);
            screen::hint(&format!("regie log {id} --follow, regie show {id}, regie gate list"))?;
        }
        return Ok(Exit::Done);
    }
    if context.json {
        screen::put_json(&follow::tagged("started", &started))?;
    } else {
        screen::say(&header(&wanted, &started))?;
    }
    let options = Options { json: context.json, vendor, so_far: None };
    follow::follow(&client, &started.run, started.position, options).await
}

fn header(wanted: &api::StartMission, started: &api::Started) -> String {
    let caps = domain::Caps::default();
    let bounds = [
        text::dollars(wanted.caps.nanodollars.unwrap_or(caps.nanodollars)),
        text::of(wanted.caps.turns.unwrap_or(caps.turns), "turn", "turns"),
        text::of(wanted.caps.tokens.unwrap_or(caps.tokens), "token", "tokens"),
        text::bound(wanted.caps.millis.unwrap_or(caps.millis)),
    ];
    let line = format!("{} at {}", text::line(&started.line), text::short_hash(&started.base));
    let goal = text::short(&text::line(&wanted.goal), screen::width().saturating_sub(4));
    let mut shown = format!("\n  {}\n\n", style::bold(&goal));
    shown.push_str(&row("project", &format!("{} · {line}", text::path(&wanted.project))));
    shown.push_str(&row("model", &text::line(&started.model)));
    shown.push_str(&row("budget", &format!("at most {}", bounds.join(" · "))));
    let mut name = "done when";
    for command in &wanted.done {
        shown.push_str(&row(name, &format!("{} exits with 0", text::line(command))));
        name = "";
    }
    shown.push_str(&row("run", &text::line(&started.run)));
    shown.push('\n');
    shown
}
