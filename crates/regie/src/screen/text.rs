//! Words, amounts and spans for people; texts of strangers made safe to show.

pub(crate) use engine::words::dollars;
use engine::words::visible;

/// One line without anything in it that a terminal would obey or hide.
pub(crate) fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().map(visible).collect()
}

/// The same, keeping lines and tabs.
pub(crate) fn lines(text: &str) -> String {
    text.chars().map(|c| if matches!(c, '\n' | '\t') { c } else { visible(c) }).collect()
}

/// At most `most` characters; the last is an ellipsis where something was cut.
pub(crate) fn short(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// Lines of at most `width` characters, broken between words where possible.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut all = Vec::new();
    for paragraph in lines(text).lines() {
        let mut current = String::new();
        for word in paragraph.split(' ') {
            let length = current.chars().count();
            if length > 0 && length + 1 + word.chars().count() > width {
                all.push(std::mem::take(&mut current));
            }
            if !current.is_empty() {
                current.push(' ');
            }
            current.push_str(word);
        }
        all.push(current);
    }
    all
}

/// The part of an id that a person needs: its random end.
pub(crate) fn short_id(id: &str) -> String {
    let body = id.rsplit('_').next().unwrap_or(id);
    let skipped = body.chars().count().saturating_sub(8);
    body.chars().skip(skipped).collect()
}

/// The beginning of a hash.
pub(crate) fn short_hash(hash: &str) -> String {
    line(hash).chars().take(12).collect()
}

/// A number with its thousands apart: `12,345`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A size: `512 B`, `1.2 MiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0..1_024 => return format!("{bytes} B"),
        1_024..1_048_576 => (1 << 10, "KiB"),
        1_048_576..1_073_741_824 => (1 << 20, "MiB"),
        _ => (1u64 << 30, "GiB"),
    };
    let tenths = bytes / unit * 10 + bytes % unit * 10 / unit;
    if tenths.is_multiple_of(10) {
        format!("{} {name}", tenths / 10)
    } else {
        format!("{}.{} {name}", tenths / 10, tenths % 10)
    }
}

/// A number of things: `1 file`, `2 files`.
pub(crate) fn of(number: u64, one: &str, more: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { more })
}

/// A span: `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`.
pub(crate) fn span(millis: u64) -> String {
    let seconds = millis / 1_000;
    match seconds {
        0..10 => format!("{seconds}.{} s", millis % 1_000 / 100),
        10..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// How long ago: `just now`, `12 s ago`, `3 min ago`, `2 h ago`, `5 d ago`.
pub(crate) fn ago(millis: u64) -> String {
    let seconds = millis / 1_000;
    match seconds {
        0..5 => "just now".into(),
        5..60 => format!("{seconds} s ago"),
        60..3_600 => format!("{} min ago", seconds / 60),
        3_600..86_400 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

/// A bound: `30 min`, `2 h`, without the parts that are zero.
pub(crate) fn bound(millis: u64) -> String {
    let seconds = millis / 1_000;
    let parts = [(seconds / 3_600, "h"), (seconds / 60 % 60, "min"), (seconds % 60, "s")];
    let shown: Vec<String> = parts
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, unit)| format!("{number} {unit}"))
        .collect();
    if shown.is_empty() { "0 s".into() } else { shown.join(" ") }
}

/// What was used: `12,345 tokens · $0.0123`.
pub(crate) fn spent(spent: &control::api::Spent) -> String {
    let mut text = of(spent.tokens, "token", "tokens");
    let unknown =
        (spent.unpriced > 0).then(|| format!("{} of unknown price", of(spent.unpriced, "call", "calls")));
    let money = (spent.nanodollars > 0 || unknown.is_none()).then(|| dollars(spent.nanodollars));
    for part in [money, unknown].into_iter().flatten() {
        text.push_str(" · ");
        text.push_str(&part);
    }
    text
}

/// The path with the user's home as `~`.
pub(crate) fn path(path: &str) -> String {
    let path = line(path);
    match std::env::var("HOME") {
        Ok(home) if home.len() > 1 => match path.strip_prefix(&home) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("~{rest}"),
            _ => path,
        },
        _ => path,
    }
}

/// A model, and how much work it puts in where somebody said so. Not every vendor's scale has every step.
pub(crate) fn model(name: &str, effort: Option<domain::Effort>) -> String {
    let name = line(name);
    let Some(effort) = effort else { return name };
    let sent = models::Wire::of(&name).scale(effort);
    match sent == effort.name() {
        true => format!("{name} · effort {effort}"),
        false => format!("{name} · effort {effort}, sent as {sent}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_cannot_steer_the_terminal() {
        assert_eq!(line("a\x1b[2Jb\r\nc\u{202e}d"), "a\u{fffd}[2Jb c\u{fffd}d");
        assert_eq!(lines("a\x1b]0;x\x07\n\tb"), "a\u{fffd}]0;x\u{fffd}\n\tb");
    }

    #[test]
    fn amounts_read_well() {
        assert_eq!(dollars(12_345_678), "$0.0123");
        assert_eq!(dollars(1_999_999_999), "$1.99");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(span(59_900), "59 s");
        assert_eq!(bound(7_200_000), "2 h");
        assert_eq!(short_id("run_01jd0000000000000012345678"), "12345678");
    }

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("a\n\nb", 8), ["a", "", "b"]);
    }
}
