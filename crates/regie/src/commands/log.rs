//! `regie log`: a run's events, one a line.

use control::api;
use serde_json::Value;

use super::Context;
use super::show::all_events;
use crate::args;
use crate::client::Item;
use crate::failure::{Exit, Failure};
use crate::screen::{self, clock, style, text};

pub(super) async fn run(context: &Context, args: &args::Log) -> Result<Exit, Failure> {
    let client = context.connect().await?;
    let run = client.run_fetch(&args.one.run).await?;
    let events = all_events(&client, &run.run).await?;
    for event in &events {
        print(context, event)?;
    }
    if !args.follow || events.last().is_some_and(is_last) {
        return Ok(Exit::Done);
    }
    let mut live = client.live(&run.run, events.last().map_or(0, |event| event.position))?;
    loop {
        let item = tokio::select! {
            item = live.recv() => item,
            _ = tokio::signal::ctrl_c() => return Ok(Exit::Interrupted),
        };
        match item {
            Some(item) => {
                if let Item::Event(event) = item? {
                    print(context, &event)?;
                    if is_last(&event) {
                        return Ok(Exit::Done);
                    }
                }
            }
            None => return Ok(Exit::Failed),
        }
    }
}

fn is_last(event: &api::Event) -> bool {
    event.fact["fact"] == "ended"
}

fn print(context: &Context, event: &api::Event) -> Result<(), Failure> {
    if context.json {
        screen::put_json(event)?;
    } else {
        screen::put(&line(event))?;
    }
    Ok(())
}

/// `   12  14:03:21  step_completed     3  outcome=succeeded spent.tokens=940`
fn line(event: &api::Event) -> String {
    let name = text::line(event.fact["fact"].as_str().unwrap_or("?"));
    let step = event.fact["step"].as_u64().map(|step| step.to_string()).unwrap_or_default();
    let mut told = Vec::new();
    for (name, value) in event.fact.as_object().into_iter().flatten() {
        if !matches!(name.as_str(), "fact" | "step") {
            tell(name, value, &mut told);
        }
    }
    // Of what a step gave back this alone is about the house.
    let jail = event.content["jail"]["state"].as_str().filter(|state| *state != "enforced");
    told.extend(jail.map(|state| format!("jail={}", text::line(state))));
    format!(
        "{:>5}  {}  {name:<18} {step:>4}  {}\n",
        event.seq,
        style::dim(&clock::time_of_day(event.at)),
        style::dim(&told.join(" "))
    )
}

/// A field and those in it; what is empty or zero is left out.
fn tell(name: &str, value: &Value, told: &mut Vec<String>) {
    match value {
        Value::Null => {}
        Value::Number(number) if number.as_u64() == Some(0) => {}
        Value::Object(fields) => {
            for (inner, value) in fields {
                tell(&format!("{name}.{inner}"), value, told);
            }
        }
        Value::Array(all) => {
            for value in all {
                tell(name, value, told);
            }
        }
        Value::String(said) if is_hash(said) => told.push(format!("{name}={}", text::short_hash(said))),
        Value::String(said) if said.contains(' ') => {
            told.push(format!("{name}={:?}", text::short(&text::line(said), 60)));
        }
        Value::String(said) => told.push(format!("{name}={}", text::short(&text::line(said), 60))),
        other => told.push(format!("{name}={other}")),
    }
}

fn is_hash(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
