//! `regie replay`: a recorded run again, and where it goes another way; and what `--record` needs here.

use std::path::Path;
use std::time::Duration;

use control::recording::{self, MANIFEST, Manifest, Replayed};
use serde_json::json;

use super::{Context, row};
use crate::args;
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::follow::{Depth, View};
use crate::screen::{self, style, text};

/// How long the last events may take to reach a recording.
const WRITTEN_WITHIN: Duration = Duration::from_secs(10);
/// How often it is looked at.
const EVERY: Duration = Duration::from_millis(20);

pub(super) fn run(json: bool, args: &args::Replay) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("no runtime can be had: {error}")))?;
    let replayed = runtime.block_on(recording::replay(&args.dir)).map_err(|error| unreadable(&error))?;
    if json {
        screen::put_json(&document(&replayed))?;
    } else {
        shown(&replayed, args.full)?;
    }
    Ok(if replayed.difference.is_none() { Exit::Done } else { Exit::Failed })
}

/// What is wrong, and why; and how to mend it.
fn unreadable(error: &recording::read::Error) -> Failure {
    let (told, why) = (error.to_string(), std::error::Error::source(error));
    let why = why.map(|why| format!(": {}", domain::causes::in_full(why))).unwrap_or_default();
    match told.rsplit_once("; ") {
        Some((what, mend)) => Failure::new(format!("{what}{why}")).hint(mend),
        None => Failure::new(format!("{told}{why}")),
    }
}

fn document(replayed: &Replayed) -> serde_json::Value {
    let difference = replayed.difference.as_ref().map(|difference| {
        let sides = difference.sides.as_ref();
        json!({
            "event": difference.event,
            "step": difference.step,
            "what": difference.what,
            "offset": sides.map(|sides| sides.offset),
            "recorded": sides.map(|sides| sides.recorded.as_str()),
            "replayed": sides.map(|sides| sides.replayed.as_str()),
        })
    });
    json!({
        "recording": replayed.manifest,
        "is_over": replayed.is_over,
        "steps": replayed.steps,
        "model_calls": replayed.calls,
        "unrecorded_calls": replayed.unheard,
        "difference": difference,
        "events": replayed.events,
    })
}

fn shown(replayed: &Replayed, full: bool) -> Result<(), Failure> {
    let Replayed { manifest, .. } = replayed;
    let depth = if full { Depth::Whole } else { Depth::Brief };
    let mut view = View::new(depth, screen::width()).numbered();
    let mut shown = String::from("\n");
    shown.push_str(&row("run", &manifest.run.to_string()));
    shown.push_str(&row(
        "model",
        &format!("{} · {}", text::line(&manifest.model), text::line(&manifest.wire)),
    ));
    shown.push_str(&row(
        "made by",
        &format!("Regie {} · {}", text::line(&manifest.regie), text::line(&manifest.driver)),
    ));
    shown.push('\n');
    for event in &replayed.events {
        shown.push_str(&view.event(event));
    }
    shown.push('\n');
    shown.push_str(&verdict(replayed));
    screen::put(&shown)?;
    Ok(())
}

fn verdict(replayed: &Replayed) -> String {
    if let Some(difference) = &replayed.difference {
        let mut told = format!("{}\n", style::failed(&format!("the replay differs at {difference}")));
        if let Some(sides) = &difference.sides {
            told.push_str(&row("recorded", &text::line(&sides.recorded)));
            told.push_str(&row("replayed", &text::line(&sides.replayed)));
        }
        return told;
    }
    let mut told = format!(
        "replayed {}, {}: every request and every event is the same\n",
        text::of(replayed.steps, "step", "steps"),
        text::of(replayed.calls, "model call", "model calls"),
    );
    if replayed.unheard > 0 {
        let calls = text::of(replayed.unheard, "model call was", "model calls were");
        told.push_str(&format!("{calls} made before the recording began: the answers are those on record\n"));
    }
    if !replayed.is_over {
        told.push_str("the recording ends before its run did: this is as far as it goes\n");
    }
    told
}

/// The directory of a recording as the daemon can find it.
pub(super) fn place(dir: Option<&Path>) -> Result<Option<String>, Failure> {
    let Some(dir) = dir else { return Ok(None) };
    let unusable = |why: String| {
        Failure::usage(format!("{} cannot hold a recording: {why}", dir.display()))
            .hint("name a directory that is empty or not there")
    };
    let path = std::path::absolute(dir).map_err(|error| unusable(error.to_string()))?;
    path.into_os_string().into_string().map(Some).map_err(|_| unusable("its path is not UTF-8".into()))
}

/// Waits until a run that is over is whole in its recording, and says where that is.
pub(super) async fn recorded(
    context: &Context,
    client: &Client,
    run: &str,
    dir: Option<String>,
) -> Result<(), Failure> {
    let Some(dir) = dir else { return Ok(()) };
    let manifest = Path::new(&dir).join(MANIFEST);
    let is_over = client.run_fetch(run).await?.status == "ended";
    let mut left = WRITTEN_WITHIN;
    while is_over && !is_whole(&manifest) && !left.is_zero() {
        tokio::time::sleep(EVERY).await;
        left = left.saturating_sub(EVERY);
    }
    if !context.json {
        screen::hint(&format!("regie replay {}", text::path(&dir)))?;
    }
    Ok(())
}

fn is_whole(manifest: &Path) -> bool {
    let read = std::fs::read(manifest).ok();
    let manifest = read.and_then(|bytes| serde_json::from_slice::<Manifest>(&bytes).ok());
    manifest.is_some_and(|manifest| manifest.whole.is_some())
}
