//! `regie pause`, `regie stop`, `regie cancel` and `regie resume`: whether a run goes on.

use control::api;
use serde_json::json;

use super::{Context, replay, vendor};
use crate::args;
use crate::failure::{Exit, Failure};
use crate::follow::{self, Options};
use crate::screen::{self, text};

pub(super) async fn pause(context: &Context, run: &str) -> Result<Exit, Failure> {
    let client = context.connect().await?;
    let run = client.run_fetch(run).await?;
    client.run_pause(&run.run).await?;
    told(context, &run, "pause asked for: it rests when what runs has ended")?;
    if !context.json {
        screen::hint(&format!("regie resume {}", text::short_id(&run.run)))?;
    }
    Ok(Exit::Done)
}

pub(super) async fn stop(context: &Context, run: &str) -> Result<Exit, Failure> {
    let client = context.connect().await?;
    let run = client.run_fetch(run).await?;
    client.run_stop(&run.run).await?;
    told(context, &run, "stop asked for: what runs is interrupted")?;
    if !context.json {
        screen::hint(&format!("regie resume {}", text::short_id(&run.run)))?;
    }
    Ok(Exit::Done)
}

pub(super) async fn cancel(context: &Context, run: &str) -> Result<Exit, Failure> {
    let client = context.connect().await?;
    let run = client.run_fetch(run).await?;
    client.run_cancel(&run.run).await?;
    told(context, &run, "cancelled")?;
    Ok(Exit::Done)
}

pub(super) async fn resume(context: &Context, args: &args::Resume) -> Result<Exit, Failure> {
    let client = context.connect().await?;
    let run = client.run_fetch(&args.one.run).await?;
    let position = client.hello().await?.position;
    let vendor = vendor();
    let record = replay::place(args.record.as_deref())?;
    client.run_resume(&run.run, &api::Resume { vendor: vendor.clone(), record: record.clone() }).await?;
    if args.detach {
        told(context, &run, "resumed")?;
        return Ok(Exit::Done);
    }
    if !context.json {
        screen::say(&format!("\n  resumed: {}\n\n", text::line(&run.goal)))?;
    }
    let id = run.run.clone();
    let options = Options { json: context.json, vendor, so_far: Some(run) };
    let exit = follow::follow(&client, &id, position, options).await?;
    replay::recorded(context, &client, &id, record).await?;
    Ok(exit)
}

fn told(context: &Context, run: &api::Run, what: &str) -> Result<(), Failure> {
    if context.json {
        screen::put_json(&json!({ "run": run.run, "did": what }))?;
    } else {
        screen::say(&format!("{}: {what}\n", text::line(&run.run)))?;
    }
    Ok(())
}
