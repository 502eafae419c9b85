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

/// The time of day in UTC, as `14:03:21`, of a moment since the Unix epoch.
pub fn time_of_day(millis: Millis) -> String {
    let seconds = millis / 1_000 % 86_400;
    format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

/// The civil date of a day counted from 1970-01-01, as `2026-03-01`; by Howard Hinnant's
/// `civil_from_days`.
pub fn date(days: u64) -> String {
    let shifted = days.saturating_add(719_468);
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
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
