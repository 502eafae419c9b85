//! `regie audit who-read FILE`: which runs have read a file or may have. `regie audit reads RUN`: what a run has read.

use control::api::{Manifest, ManifestEntry, Reader, What, WhoRead};

use super::placed;
use crate::commands::Context;
use crate::failure::{Exit, Failure};
use crate::screen::{self, clock, style, text};

/// Steps that are named one by one.
const MOST_STEPS: usize = 6;

pub(crate) async fn who(context: &Context, file: &str) -> Result<Exit, Failure> {
    let (project, path) = placed(file)?;
    let readers = context.connect().await?.who_read(&WhoRead { project, path }).await?;
    if context.json {
        screen::put_json(&readers)?;
        return Ok(Exit::Done);
    }
    if readers.is_empty() {
        screen::put("no run has read it\n")?;
        return Ok(Exit::Done);
    }
    screen::put(&readers.iter().map(reader).collect::<String>())?;
    Ok(Exit::Done)
}

pub(crate) async fn of_run(context: &Context, run: &str) -> Result<Exit, Failure> {
    let manifest = context.connect().await?.run_reads(run).await?;
    if context.json {
        screen::put_json(&manifest)?;
        return Ok(Exit::Done);
    }
    screen::put(&shown(&manifest))?;
    Ok(Exit::Done)
}

fn shown(manifest: &Manifest) -> String {
    let taint = if manifest.taint.is_empty() { "no label".to_owned() } else { manifest.taint.join(", ") };
    let mut shown = format!("{}  {}\n", style::bold("taint"), text::line(&taint));
    if manifest.read.is_empty() {
        shown.push_str("  it has read nothing\n");
    }
    shown.extend(manifest.read.iter().map(entry));
    shown
}

fn entry(entry: &ManifestEntry) -> String {
    let what = match &entry.what {
        What::File(path) => text::line(path),
        What::Below(folder) if folder.is_empty() => "all files, searched".into(),
        What::Below(folder) => text::line(&format!("{folder}/, searched")),
        What::Workspace => "the whole workspace, by a program".into(),
        What::Outside => "something from outside".into(),
    };
    let labels = match entry.labels.is_empty() {
        true => String::new(),
        false => format!("  {}", style::waiting(&text::line(&entry.labels.join(", ")))),
    };
    let from =
        entry.inherited_from.as_ref().map(|run| format!(" of {}", text::line(run))).unwrap_or_default();
    let by = format!("{}, {}{from}", text::line(&entry.tool), steps(&entry.steps));
    format!("  {what}{labels}  {}\n", style::dim(&by))
}

fn reader(reader: &Reader) -> String {
    let how = match reader.how.as_str() {
        "file" => "read it",
        "below" => "searched all around it",
        _ => "ran programs that may have read it",
    };
    let goal = text::short(&text::line(&reader.goal), 60);
    let (run, who) = (text::line(&reader.run), text::line(&reader.principal));
    format!(
        "{}  {how}  {} UTC  {goal}\n  by {who}, {run}, {}, {}\n",
        style::bold(&text::line(&reader.tool)),
        clock::moment(reader.first_at),
        text::line(&reader.lease),
        steps(&reader.steps),
    )
}

fn steps(steps: &[u64]) -> String {
    let named = |steps: &[u64]| steps.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    match steps {
        [one] => format!("step {one}"),
        few if few.len() <= MOST_STEPS => format!("steps {}", named(few)),
        many => {
            let first = many.get(..MOST_STEPS).unwrap_or(many);
            format!("steps {} and {} more", named(first), many.len().saturating_sub(first.len()))
        }
    }
}
