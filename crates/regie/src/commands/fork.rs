//! `regie fork`: the same mission from a point of another run, on another way.

use control::api;

use super::{Context, row, say, vendor};
use crate::args;
use crate::failure::{Exit, Failure};
use crate::follow::{self, Options};
use crate::screen::{self, style, text};

pub(super) async fn run(context: &Context, args: args::Fork) -> Result<Exit, Failure> {
    let words = match args.words.as_deref() {
        Some("-") => say::from_stdin()?,
        Some(words) if words.trim().is_empty() => {
            return Err(Failure::usage("there is nothing to say")
                .hint("leave the words out to go on from there without any"));
        }
        words => words.unwrap_or_default().to_owned(),
    };
    let vendor = vendor();
    let wanted = api::Fork {
        at: args.at,
        words,
        caps: api::CapsWanted {
            nanodollars: args.max_dollars,
            tokens: args.max_tokens,
            turns: args.max_turns,
            millis: args.max_time,
        },
        approve_merge: args.yes,
        allow_unjailed: args.allow_unjailed,
        vendor: vendor.clone(),
    };
    let client = context.connect().await?;
    let parent = client.run_fetch(&args.run).await?;
    let started = client.run_fork(&parent.run, &wanted).await?;
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
        let goal = text::short(&text::line(&parent.goal), screen::width().saturating_sub(4));
        let mut shown = format!("\n  {}\n\n", style::bold(&goal));
        shown.push_str(&row(
            "project",
            &format!("{} · {}", text::path(&parent.repository), text::line(&started.line)),
        ));
        shown.push_str(&row("model", &text::line(&started.model)));
        shown.push_str(&row("run", &text::line(&started.run)));
        shown.push('\n');
        screen::say(&shown)?;
    }
    let options = Options { json: context.json, vendor, so_far: None };
    follow::follow(&client, &started.run, started.position, options).await
}
