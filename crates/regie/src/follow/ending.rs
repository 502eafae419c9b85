//! The last words about a run: how it ended, what it cost, what was merged, what to try next.

use control::api;

use super::view::{Merge, View};
use crate::failure::Exit;
use crate::screen::{self, patch, style, text};

/// Lines of a patch that are shown on the way.
pub(super) const PATCH_LINES: usize = 60;
/// Files that are listed.
const FILES: usize = 20;

/// The exit code for where a run stands.
pub(crate) fn exit(run: &api::Run, was_refused: bool) -> Exit {
    match (run.status.as_str(), run.end.as_deref()) {
        ("waiting", _) => Exit::Waiting,
        (_, Some("done")) => Exit::Done,
        (_, Some("budget_exhausted")) => Exit::Budget,
        (_, Some("partial")) if was_refused => Exit::Denied,
        _ => Exit::Failed,
    }
}

/// The result, as data.
pub(crate) fn result(run: &api::Run, view: &View) -> String {
    let end = run.end.as_deref().unwrap_or(&run.status).replace('_', " ");
    let (mark, end) = match run.end.as_deref() {
        Some("done") => (style::ok("✓"), style::ok(&end)),
        Some(_) => (style::failed("✗"), style::failed(&end)),
        None => (style::waiting("·"), style::waiting(&end)),
    };
    let took = text::span(run.updated_at.saturating_sub(run.started_at));
    let turns = text::of(run.turns, "turn", "turns");
    let mut shown = format!(
        "\n  {mark} {end}  {}\n",
        style::dim(&format!("{turns} · {} · {took}", text::spent(&run.spent)))
    );
    if let Some(reason) = view.last_words().or(run.reason.as_deref()) {
        for line in text::wrap(reason, screen::width().saturating_sub(4)) {
            shown.push_str(&format!("    {line}\n"));
        }
    }
    if let Some(commit) = &view.merge().commit {
        shown.push_str(&merged(view.merge(), commit));
    }
    shown
}

fn merged(merge: &Merge, commit: &str) -> String {
    let mut shown = format!("\n    {} {commit}\n", style::dim("commit"));
    shown.push_str(&format!("    {}\n\n", style::bold(&text::short(&merge.subject, 80))));
    let wide = merge.trailers.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
    for (name, value) in &merge.trailers {
        let name = format!("{:<1$}", format!("{name}:"), wide + 1);
        shown.push_str(&format!("    {} {}\n", style::dim(&name), text::short(value, 80)));
    }
    shown
}

/// Three commands worth trying next.
pub(crate) fn next(run: &api::Run) -> String {
    let id = text::short_id(&run.run);
    let commands = [
        (format!("regie show {id}"), "the whole timeline"),
        (format!("regie diff {id}"), "what was changed"),
        ("regie audit verify".to_owned(), "the record, link by link"),
    ];
    let wide = commands.iter().map(|(command, _)| command.chars().count()).max().unwrap_or_default();
    let mut shown = format!("\n  {}\n", style::dim("worth trying next"));
    for (command, why) in commands {
        shown.push_str(&format!("    {command:<wide$}  {}\n", style::dim(why)));
    }
    shown
}

/// What a run has changed, bounded.
pub(super) fn changes(diff: &api::Diff) -> String {
    if diff.files.is_empty() {
        return format!("\n  {}\n", style::dim("no changes"));
    }
    let mut shown = format!("\n  {}\n", patch::summary(&diff.files));
    for file in patch::files(&diff.files, FILES) {
        shown.push_str(&format!("    {file}\n"));
    }
    let (lines, left) = patch::coloured(&diff.patch, "    ", PATCH_LINES);
    shown.push('\n');
    shown.push_str(&lines);
    if left > 0 {
        let more = text::of(u64::try_from(left).unwrap_or(u64::MAX), "more line", "more lines");
        let command = format!("regie diff {}", text::short_id(&diff.run));
        shown.push_str(&format!("    {}\n", style::dim(&format!("… {more}: {command}"))));
    }
    shown
}
