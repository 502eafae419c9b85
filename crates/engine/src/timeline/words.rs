//! Titles, amounts, and texts of strangers made safe to show.

use domain::fact::StepPlanned;
use domain::{End, Millis, Payload, StepKind};
use serde::Deserialize;
use serde_json::Value;

use crate::host;
use crate::prompt::cut;

/// Which field of a tool's input says most.
const TELLING: [&str; 5] = ["command", "path", "pattern", "url", "query"];

/// What a step was asked to do, in one line.
pub(super) fn request_title(planned: &StepPlanned, payload: Option<&Payload>) -> String {
    #[derive(Deserialize)]
    struct Call {
        #[serde(default)]
        input: Value,
        #[serde(default)]
        command: Option<String>,
        #[serde(default)]
        line: Option<String>,
        #[serde(default)]
        reason: Option<String>,
    }
    let call: Option<Call> = payload.and_then(|payload| serde_json::from_slice(&payload.0).ok());
    let Some(call) = call else { return clean(&planned.tool, 60) };
    let line = call.line.unwrap_or_default();
    match (planned.kind, planned.tool.as_str()) {
        (StepKind::Verdict, _) => format!("check: {}", clean(&call.command.unwrap_or_default(), 100)),
        (StepKind::Checkpoint, _) => "checkpoint".into(),
        (StepKind::Timer, _) => format!("wait: {}", clean(&call.reason.unwrap_or_default(), 100)),
        (_, host::MERGE) => format!("merge this proposal into {}", clean(&line, 60)),
        (_, host::DELIVER) => format!("deliver to {}", clean(&line, 60)),
        (_, tool) => {
            let telling = TELLING.iter().find_map(|name| call.input.get(name)?.as_str());
            match telling {
                Some(text) => format!("{}: {}", clean(tool, 60), clean(text, 100)),
                None => clean(tool, 60),
            }
        }
    }
}

/// One line of at most `most` characters, with nothing in it that a terminal would obey or hide.
pub(super) fn clean(text: &str, most: usize) -> String {
    let shown: String = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().map(visible).collect();
    match shown.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", cut(&shown, end)),
        None => shown,
    }
}

/// The last `most` lines, each cleaned.
pub(super) fn lines(text: &str, most: usize) -> String {
    let all: Vec<&str> = text.trim_end().lines().collect();
    let skipped = all.len().saturating_sub(most);
    let kept = all.iter().skip(skipped).map(|line| {
        let line: String = line.chars().take(400).map(|c| if c == '\t' { c } else { visible(c) }).collect();
        line
    });
    let note = (skipped > 0).then(|| format!("[… {skipped} lines above]"));
    note.into_iter().chain(kept).collect::<Vec<_>>().join("\n")
}

/// Control characters, invisible ones and those that turn the direction of text become visible.
fn visible(c: char) -> char {
    match c {
        '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}'
        | '\u{00ad}'
        | '\u{061c}'
        | '\u{180e}'
        | '\u{e0000}'..='\u{e007f}' => char::REPLACEMENT_CHARACTER,
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    }
}

/// Money for people: `$0.0123`, `$12.50`.
pub fn dollars(nanodollars: u64) -> String {
    let whole = nanodollars / domain::budget::DOLLAR;
    let rest = nanodollars % domain::budget::DOLLAR;
    match (whole, rest) {
        (0, 0) => "$0.00".into(),
        (0, rest) if rest < 100_000 => "<$0.0001".into(),
        (0, rest) => format!("$0.{:04}", rest / 100_000),
        (whole, rest) => format!("${whole}.{:02}", rest / 10_000_000),
    }
}

/// A span for people: `40 ms`, `0.4 s`, `3 min 20 s`.
pub(super) fn seconds(millis: Millis) -> String {
    match millis {
        0..100 => format!("{millis} ms"),
        100..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        _ => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1_000),
    }
}

pub(super) const fn end_name(end: End) -> &'static str {
    match end {
        End::Done => "done",
        End::Partial => "partial",
        End::Blocked => "blocked",
        End::Failed => "failed",
        End::Cancelled => "cancelled",
        End::BudgetExhausted => "budget exhausted",
    }
}
