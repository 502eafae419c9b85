//! `regie du` and `regie gc`: what lies in the home, and taking away what has served its time.

use control::api::{Sweep, Swept, Usage};

use super::Context;
use crate::args;
use crate::config::{self, Key};
use crate::failure::{Exit, Failure};
use crate::screen::{self, table, text};

/// How many runs are listed.
const SHOWN: usize = 20;

pub(super) async fn usage(context: &Context) -> Result<Exit, Failure> {
    let usage = context.connect().await?.usage().await?;
    if context.json {
        screen::put_json(&usage)?;
    } else {
        screen::put(&usage_shown(&usage, screen::width()))?;
    }
    Ok(Exit::Done)
}

fn usage_shown(usage: &Usage, width: usize) -> String {
    let parts = usage.parts.iter().map(|part| (part.name.clone(), part.bytes));
    let all = [("all".to_owned(), usage.bytes)];
    let rows: Vec<Vec<String>> =
        parts.chain(all).map(|(name, bytes)| vec![text::bytes(bytes), text::line(&name)]).collect();
    let mut shown = table::table(&["SIZE", text::path(&usage.home).as_str()], &rows, width);
    if !usage.projects.is_empty() {
        let rows: Vec<Vec<String>> = usage
            .projects
            .iter()
            .map(|project| {
                let sizes = [project.tree, project.cache, project.work].map(text::bytes);
                sizes.into_iter().chain([text::path(&project.repository)]).collect()
            })
            .collect();
        shown.push('\n');
        shown.push_str(&table::table(&["TREE", "CACHE", "WORK", "PROJECT"], &rows, width));
        for project in usage.projects.iter().filter(|project| project.shared > 0) {
            let (shared, repository) = (text::bytes(project.shared), text::path(&project.repository));
            shown.push_str(&format!("{shared} of the tree are files that {repository} holds as well\n"));
        }
    }
    let taking = usage.runs.iter().filter(|run| run.work + run.spool + run.artifacts > 0);
    let rows: Vec<Vec<String>> = taking
        .take(SHOWN)
        .map(|run| {
            let sizes = [run.work, run.spool, run.artifacts].map(text::bytes);
            let names = [text::short_id(&run.run), text::line(&run.status)];
            names.into_iter().chain(sizes).chain([text::line(&run.goal)]).collect()
        })
        .collect();
    if !rows.is_empty() {
        shown.push('\n');
        let heading = ["RUN", "STATE", "WORK", "SPOOL", "ARTIFACTS", "GOAL"];
        shown.push_str(&table::table(&heading, &rows, width));
    }
    shown
}

pub(super) async fn sweep(context: &Context, args: &args::Gc) -> Result<Exit, Failure> {
    let config = config::of_installation(&context.home)?;
    let order = Sweep {
        dry_run: args.dry_run,
        older_than: args.older_than.unwrap_or_else(|| config.amount(Key::KeepWorkspaces)),
        caches: config.amount(Key::KeepCaches),
        branches: Some(config.amount(Key::KeepBranches)),
        bin: Some(config.amount(Key::KeepBin)),
    };
    let swept = context.connect().await?.sweep(&order).await?;
    if context.json {
        screen::put_json(&swept)?;
    } else {
        screen::put(&swept_shown(&swept))?;
    }
    Ok(Exit::Done)
}

fn swept_shown(swept: &Swept) -> String {
    let mut shown = String::new();
    for item in &swept.items {
        let did = match (item.goes, swept.dry_run) {
            (false, _) => "stays",
            (true, true) => "would go",
            (true, false) => "gone",
        };
        let name = text::line(&item.name);
        let size = text::bytes(item.bytes);
        shown.push_str(&format!("{did:<8}  {size:>10}  {} {name}\n", item.what.replace('_', "-")));
        if let Some(note) = &item.note {
            shown.push_str(&format!("{:<22}{}\n", "", text::line(note)));
        }
    }
    let freed = text::bytes(swept.freed);
    shown.push_str(&match (swept.items.iter().any(|item| item.goes), swept.dry_run) {
        (false, _) => "nothing has served its time\n".to_owned(),
        (true, true) => format!("{freed} would be freed; nothing was touched\n"),
        (true, false) => format!("{freed} freed\n"),
    });
    shown
}
