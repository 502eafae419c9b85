//! Words for people: amounts, spans, refusals, and texts of strangers made safe to show.

use domain::Millis;
use domain::fact::Denial;
use domain::gate::Answer;

use crate::prompt::cut;

/// One line of at most `most` characters, with nothing in it that a terminal would obey or hide.
pub fn clean(text: &str, most: usize) -> String {
    let shown: String = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().map(visible).collect();
    match shown.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", cut(&shown, end)),
        None => shown,
    }
}

/// The last `most` lines, each cleaned.
pub fn lines(text: &str, most: usize) -> String {
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
pub fn visible(c: char) -> char {
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
pub fn seconds(millis: Millis) -> String {
    match millis {
        0..100 => format!("{millis} ms"),
        100..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        _ => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1_000),
    }
}

/// Why a step did not happen, in words for the model and the owner.
pub fn denial(reason: &Denial) -> String {
    match reason {
        Denial::Policy { decision } => format!("denied by policy: {}", decision.rule),
        Denial::Gate { answer: Answer::Expired, .. } => {
            "not approved: nobody answered in time, which counts as a refusal".into()
        }
        Denial::Gate { .. } => "the owner refused it".into(),
        Denial::Budget { cap } => format!("not run: the cap on {} is reached", cap.noun()),
        Denial::Cancelled => "not run: the run was cancelled".into(),
        Denial::Interrupted => "not run: the owner interrupted".into(),
    }
}
