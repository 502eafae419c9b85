//! What a proposal would have others execute or trust, for people: before the diff, and never cut unsaid.

use trust::export::{Altered, Finding, Report, Standing};

use super::{style, text};

/// As many findings as a report lists.
pub(crate) const ALL: usize = usize::MAX;
/// Findings that are shown on the way.
pub(crate) const SOME: usize = 30;

/// `3 changes to what others execute or trust (1 hook, 2 ci)`
pub(crate) fn summary(report: &Report) -> String {
    let of = text::of(report.total(), "change", "changes");
    format!("{of} to what others execute or trust ({})", text::line(&report.counted()))
}

/// The findings, the gravest first; empty where there are none.
pub(crate) fn report(report: &Report, gate: &str, most: usize) -> String {
    if report.total() == 0 {
        return String::new();
    }
    let mut shown = format!("  {} {}\n", style::error("!"), style::bold(&format!("{}:", summary(report))));
    for finding in report.findings.iter().take(most) {
        shown.push_str(&one(finding));
    }
    let hidden = u64::try_from(report.findings.len().saturating_sub(most)).unwrap_or(u64::MAX);
    let mut note = |text: String| shown.push_str(&format!("    {}\n", style::waiting(&text)));
    if hidden > 0 {
        let more = text::of(hidden, "more is", "more are");
        note(format!("… {more} not shown here: regie gate show {}", text::short_id(gate)));
    }
    if report.unlisted > 0 {
        let more = text::of(report.unlisted, "more is", "more are");
        note(format!("… {more} counted above and listed nowhere: see the whole diff"));
    }
    shown.push('\n');
    shown
}

fn one(finding: &Finding) -> String {
    let place = match finding.line {
        Some(line) => format!("{}:{line}", text::line(&finding.path)),
        None => text::line(&finding.path),
    };
    let change = match finding.change {
        Altered::Added => "added",
        Altered::Modified => "modified",
        Altered::Mode => "mode changed",
        Altered::Type => "type changed",
        Altered::Deleted => "deleted",
    };
    let standing = match (finding.standing, finding.seen) {
        (Standing::Denied, _) => style::failed("  denied by config.toml"),
        (Standing::Allowed, _) => style::dim("  allowed by config.toml"),
        (Standing::Asks, true) => style::dim("  approved at an earlier gate"),
        (Standing::Asks, false) => String::new(),
    };
    let kind = format!("{:<11}", finding.kind.name());
    let mut shown =
        format!("    {} {}  {}{standing}\n", style::waiting(&kind), style::bold(&place), style::dim(change));
    let indent = " ".repeat(16);
    shown.push_str(&format!("{indent}{}\n", text::line(&finding.why)));
    for what in &finding.what {
        shown.push_str(&format!("{indent}{} {}\n", style::dim("·"), text::line(what)));
    }
    shown
}
