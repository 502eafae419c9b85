//! `regie export` and `regie import`: a project in a form that needs no Regie to be read, and back.

use std::path::Path;

use control::api::{self, Carried};

use super::Context;
use crate::args;
use crate::failure::{Exit, Failure};
use crate::screen::{self, text};

pub(super) async fn export(context: &Context, args: args::Export) -> Result<Exit, Failure> {
    let to = absolute(&args.dir)?;
    let project = match args.project {
        // A directory is meant from where the command stands, and the daemon stands elsewhere.
        Some(name) if Path::new(&name).is_dir() => absolute(Path::new(&name))?,
        Some(name) => name,
        None => absolute(Path::new("."))?,
    };
    let wanted = api::Export { project, to, line: args.line };
    let carried = context.connect().await?.project_export(&wanted).await?;
    said(context, &carried, &format!("exported to {}", text::path(&wanted.to)))
}

pub(super) async fn import(context: &Context, args: args::Import) -> Result<Exit, Failure> {
    let from = absolute(&args.dir)?;
    let carried = context.connect().await?.project_import(&api::Import { from }).await?;
    said(context, &carried, "imported")
}

fn said(context: &Context, carried: &Carried, what: &str) -> Result<Exit, Failure> {
    if context.json {
        screen::put_json(carried)?;
        return Ok(Exit::Done);
    }
    let names = text::of(carried.names, "name", "names");
    screen::put(&format!(
        "{what}: {} · {} at {} · {names}\n",
        text::path(&carried.repository),
        text::line(&carried.line),
        text::short_hash(&carried.head)
    ))?;
    Ok(Exit::Done)
}

fn absolute(path: &Path) -> Result<String, Failure> {
    let path =
        std::path::absolute(path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    let said = path.display().to_string();
    path.into_os_string().into_string().map_err(|_| Failure::new(format!("{said} is no UTF-8")))
}
