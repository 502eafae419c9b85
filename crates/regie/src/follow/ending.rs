//! The last words about a run: how it ended, what it cost, what was merged, what to try next.

use control::api;
use engine::failure::OUTAGES;
use models::Wire;
use models::routing::{Reach, Role, Status};

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

/// The model of another vendor whose key is there, for a run that rests or has ended because its vendor is out.
fn elsewhere(run: &api::Run, reach: &Reach) -> Option<&'static str> {
    let reason = run.reason.as_deref().filter(|_| run.end.as_deref() == Some("failed"));
    let is_why = |code: &str| {
        run.code.as_deref() == Some(code) || reason.is_some_and(|why| why.contains(&format!("({code})")))
    };
    OUTAGES.iter().find(|code| is_why(code))?;
    let others = [Wire::Messages, Wire::Responses].into_iter();
    let mut others = others.filter(|wire| *wire != Wire::of(&run.model));
    others.find(|wire| *reach.status(*wire) == Status::Ready).and_then(|wire| Role::Worker.model(wire))
}

/// How a run that rests goes on.
pub(super) fn again(run: &api::Run, reach: &Reach) -> String {
    let id = text::short_id(&run.run);
    let other = elsewhere(run, reach).map(|model| {
        format!("; or elsewhere: regie cancel {id}, regie run --follow {id} --model {model} \"…\"")
    });
    format!("regie resume {id}{}", other.unwrap_or_default())
}

/// Three commands worth trying next.
pub(crate) fn next(run: &api::Run, reach: &Reach) -> String {
    let id = text::short_id(&run.run);
    let commands = [
        (format!("regie show {id}"), "the whole timeline"),
        (format!("regie diff {id}"), "what was changed"),
        match (run.end.as_deref(), elsewhere(run, reach)) {
            (_, Some(model)) => (
                format!("regie run --follow {id} --model {model} \"…\""),
                "another vendor goes on from the files; the conversation stays behind",
            ),
            (Some("budget_exhausted"), _) => {
                ("regie config explain".to_owned(), "what the caps are, and who set them")
            }
            _ => ("regie audit verify".to_owned(), "the record, link by link"),
        },
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

#[cfg(test)]
mod tests {
    use super::*;

    fn run(status: &str, end: Option<&str>) -> api::Run {
        api::Run {
            run: "run_01m8pe3ngtehda9vcp1rc0b0qf".into(),
            mission: String::new(),
            goal: "Mend it".into(),
            repository: "/project".into(),
            line: "main".into(),
            branch: String::new(),
            model: String::new(),
            effort: None,
            instead_of: None,
            status: status.into(),
            end: end.map(str::to_owned),
            reason: Some("the cap on turns is reached".into()),
            code: None,
            started_at: 1_000,
            updated_at: 13_500,
            turns: 3,
            spent: api::Spent { tokens: 12_345, nanodollars: 43_900_000, unpriced: 0 },
            gates: vec![],
            head: String::new(),
            events: 0,
            forked: None,
        }
    }

    #[test]
    fn every_end_has_its_exit_code() {
        let cases = [
            ("ended", Some("done"), false, Exit::Done),
            ("ended", Some("done"), true, Exit::Done),
            ("ended", Some("partial"), true, Exit::Denied),
            ("ended", Some("partial"), false, Exit::Failed),
            ("ended", Some("blocked"), false, Exit::Failed),
            ("ended", Some("failed"), false, Exit::Failed),
            ("ended", Some("cancelled"), false, Exit::Failed),
            ("ended", Some("budget_exhausted"), false, Exit::Budget),
            ("waiting", None, false, Exit::Waiting),
            ("parked", None, false, Exit::Failed),
        ];
        for (status, end, was_refused, wanted) in cases {
            assert_eq!(exit(&run(status, end), was_refused), wanted, "{status} {end:?} {was_refused}");
        }
    }

    #[test]
    fn another_vendor_is_offered_when_the_own_one_is_out_and_its_key_is_there() {
        let mut run = run("ended", Some("failed"));
        let both = Reach::new(|_| Status::Ready);
        let said = |run: &api::Run, reach: &Reach| next(run, reach).contains("--model gpt-6.1-sol \"…\"");
        assert!(!said(&run, &both));
        run.reason = Some("the vendor answered 529 (model.overloaded); try again later".into());
        assert!(said(&run, &both));
        assert!(!said(
            &run,
            &Reach::new(|wire| match wire {
                Wire::Responses => Status::NoKey,
                _ => Status::Ready,
            })
        ));
        let mut rests = run.clone();
        rests.end = None;
        (rests.reason, rests.code) = (None, Some("model.overloaded".into()));
        assert_eq!(
            again(&rests, &both),
            "regie resume 1rc0b0qf; or elsewhere: regie cancel 1rc0b0qf, regie run --follow 1rc0b0qf --model \
             gpt-6.1-sol \"…\""
        );
        rests.code = Some("model.unauthorized".into());
        assert_eq!(again(&rests, &both), "regie resume 1rc0b0qf");
        run.model = "gpt-6-luna".into();
        assert!(next(&run, &both).contains("--model claude-opus-5-5"));
    }

    #[test]
    fn a_result_says_how_why_and_what_it_cost() {
        let view = View::new(super::super::Depth::Brief, 90);
        let shown = result(&run("ended", Some("budget_exhausted")), &view);
        insta::assert_snapshot!(anstream::adapter::strip_str(&shown).to_string(), @r"

          ✗ budget exhausted  3 turns · 12,345 tokens · $0.0439 · 12 s
            the cap on turns is reached
        ");
    }

    #[test]
    fn a_long_patch_is_bounded() {
        let patch: String = (0..100).map(|number| format!("+line {number}\n")).collect();
        let files = vec![api::File {
            path: "a\x1b[2Jb".into(),
            status: "added".into(),
            added: Some(100),
            removed: Some(0),
        }];
        let diff = api::Diff {
            run: "run_01m8pe3ngtehda9vcp1rc0b0qf".into(),
            base: String::new(),
            head: None,
            files,
            patch,
        };
        let shown = anstream::adapter::strip_str(&changes(&diff)).to_string();
        assert_eq!(shown.matches("+line").count(), PATCH_LINES);
        assert!(shown.contains("… 40 more lines: regie diff 1rc0b0qf"), "{shown}");
        assert!(shown.contains("a\u{fffd}[2Jb"), "{shown}");
    }
}
