//! `regie forget`: what a run was about is destroyed. What would go is always shown first.

use control::api;

use super::{Context, undo};
use crate::args;
use crate::failure::{Exit, Failure};
use crate::screen::{self, style, text};

pub(super) async fn run(context: &Context, args: &args::Forget) -> Result<Exit, Failure> {
    let client = context.connect().await?;
    let order = api::Forget { step: args.step, dry_run: true, with_forks: args.with_forks };
    if args.dry_run || !args.yes {
        let preview = client.run_forget(&args.run, &order).await?;
        if args.dry_run {
            return show(context, &preview);
        }
        if context.json || !screen::can_ask() {
            return Err(Failure::usage("what is forgotten never comes back, and nobody can be asked here")
                .hint(format!("regie forget {} --dry-run, then with --yes", text::line(&args.run))));
        }
        screen::say(&shown(&preview))?;
        screen::say(&format!("{} Forget it for good? [y / n] ", style::waiting("?")))?;
        if !undo::is_yes() {
            screen::say("nothing was done\n")?;
            return Ok(Exit::Denied);
        }
    }
    let forgotten = client.run_forget(&args.run, &api::Forget { dry_run: false, ..order }).await?;
    show(context, &forgotten)
}

fn show(context: &Context, forgotten: &api::Forgotten) -> Result<Exit, Failure> {
    if context.json {
        screen::put_json(forgotten)?;
    } else {
        screen::put(&shown(forgotten))?;
    }
    Ok(Exit::Done)
}

fn shown(forgotten: &api::Forgotten) -> String {
    let mut shown = String::new();
    let verb = if forgotten.dry_run { "would go" } else { "gone" };
    for run in &forgotten.runs {
        let step = run.step.map(|step| format!(" step {step}")).unwrap_or_default();
        let goal = text::short(&text::line(&run.goal), 60);
        shown.push_str(&format!("{verb}  {}{step}  {goal}\n", text::line(&run.run)));
        let mut parts = vec![
            text::of(run.contents, "content", "contents"),
            format!("{} that nothing else refers to", text::of(run.artifacts, "artifact", "artifacts")),
        ];
        if let Some(branch) = &run.branch {
            parts.push(format!("its workspace, spool and snapshots, its branch {}", text::line(branch)));
        }
        shown.push_str(&format!("  {}\n", parts.join(", ")));
    }
    shown.push_str("stays\n");
    for line in &forgotten.stays {
        shown.push_str(&format!("  {}\n", text::line(line)));
    }
    shown
}
