//! `regie say`: steering a run on its way.

use std::io::Read;

use control::api;
use serde_json::json;

use super::Context;
use crate::args;
use crate::failure::{Exit, Failure};
use crate::screen::{self, text};

/// No word is that long; it only keeps a mistaken pipe from filling the memory.
const MOST: u64 = 1 << 20;

pub(super) async fn run(context: &Context, args: args::Say) -> Result<Exit, Failure> {
    let words = if args.text == "-" { from_stdin()? } else { args.text };
    if words.trim().is_empty() {
        return Err(Failure::usage("there is nothing to say").hint("regie say last \"use the other parser\""));
    }
    let client = context.connect().await?;
    let run = client.run_fetch(&args.run).await?;
    client.run_say(&run.run, &api::Say { text: words, now: args.now }).await?;
    let when = match (run.status.as_str(), args.now) {
        ("parked", _) => "said: it is read when the run goes on",
        ("waiting", _) => "said: it is read when the gate is answered",
        (_, true) => "said: what runs is interrupted",
        (_, false) => "said: it is read when the running tool calls have ended",
    };
    if context.json {
        screen::put_json(&json!({ "run": run.run, "did": when }))?;
        return Ok(Exit::Done);
    }
    screen::say(&format!("{}: {when}\n", text::line(&run.run)))?;
    match (run.status.as_str(), run.gates.first()) {
        ("parked", _) => screen::hint(&format!("regie resume {}", text::short_id(&run.run)))?,
        ("waiting", Some(gate)) => {
            let gate = text::line(gate);
            screen::hint(&format!("regie gate refuse {gate}   lets the agent read it instead of going on"))?;
        }
        _ => {}
    }
    Ok(Exit::Done)
}

pub(super) fn from_stdin() -> Result<String, Failure> {
    let mut words = String::new();
    std::io::stdin().lock().take(MOST).read_to_string(&mut words).map_err(|error| {
        Failure::new(format!("the words cannot be read from stdin: {error}")).hint("give them as UTF-8 text")
    })?;
    Ok(words)
}
