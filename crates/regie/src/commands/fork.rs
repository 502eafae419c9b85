//! `regie fork`: the same mission from a point of another run, on another way.

use control::api;

use super::run::{Begun, follow_or_leave};
use super::{Context, replay, row, say, vendor};
use crate::args;
use crate::failure::{Exit, Failure};
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
            nanodollars: args.bounds.max_dollars,
            tokens: args.bounds.max_tokens,
            turns: args.bounds.max_turns,
            millis: args.bounds.max_time,
        },
        approve_merge: args.beginning.yes,
        allow_unjailed: args.beginning.allow_unjailed,
        record: replay::place(args.beginning.record.as_deref())?,
        lease: args.reach.wanted(),
        vendor: vendor.clone(),
    };
    let client = context.connect().await?;
    let parent = client.run_fetch(&args.run).await?;
    let started = client.run_fork(&parent.run, &wanted).await?;
    let header = header(&parent, &started);
    let begun = Begun { detach: args.beginning.detach, header, vendor, record: wanted.record };
    follow_or_leave(context, &client, &started, begun).await
}

fn header(parent: &api::Run, started: &api::Started) -> String {
    let goal = text::short(&text::line(&parent.goal), screen::width().saturating_sub(4));
    let mut shown = format!("\n  {}\n\n", style::bold(&goal));
    let project = format!("{} · {}", text::path(&parent.repository), text::line(&started.line));
    shown.push_str(&row("project", &project));
    shown.push_str(&row("model", &text::model(&started.model, started.effort)));
    shown.push_str(&row("run", &text::line(&started.run)));
    shown.push('\n');
    shown
}
