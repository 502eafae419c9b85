//! What hides in a text: characters that are not seen or that turn its order, and lines that go on where
//! nobody looks.

use std::collections::HashSet;

/// Lines with hidden characters that a finding names.
const LINES: usize = 8;
/// From so many spaces within a line on, what follows is out of sight.
const GAP: usize = 80;
/// A line of a program that is longer than this is not read by anybody, in bytes.
const LONG: usize = 2_000;
/// Endings of files whose lines are long by nature.
const WIDE: [&str; 12] =
    [".json", ".jsonl", ".csv", ".tsv", ".svg", ".ipynb", ".lock", ".xml", ".html", ".md", ".txt", ".map"];

/// What hides, and in which line the first of it is.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Hidden {
    /// `line 3: U+202E`.
    pub(super) what: Vec<String>,
    /// The first line.
    pub(super) line: Option<u64>,
}

impl Hidden {
    fn note(&mut self, line: u64, what: &str) {
        self.line.get_or_insert(line);
        match self.what.len() {
            0..LINES => self.what.push(format!("line {line}: {what}")),
            LINES => self.what.push("and more lines".into()),
            _ => {}
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.what.is_empty()
    }
}

/// The lines of `after` that `before` does not have, with their numbers.
fn fresh<'a>(before: &'a str, after: &'a str) -> impl Iterator<Item = (u64, &'a str)> {
    let known: HashSet<&str> = before.split('\n').collect();
    (1..).zip(after.split('\n')).filter(move |(_, line)| !known.contains(line))
}

/// Hidden characters in the lines that are new.
pub(super) fn hidden(before: &str, after: &str) -> Hidden {
    let mut found = Hidden::default();
    if !after.chars().any(may_hide) {
        return found;
    }
    for (number, line) in fresh(before, after) {
        let line = line.strip_suffix('\r').unwrap_or(line);
        let line = if number == 1 { line.strip_prefix('\u{feff}').unwrap_or(line) } else { line };
        let mut codes: Vec<String> = Vec::new();
        let mut last = ' ';
        let mut letters = line.chars().peekable();
        while let Some(c) = letters.next() {
            if hides(last, c, letters.peek().copied()) {
                let code = format!("U+{:04X}", u32::from(c));
                if codes.len() < 4 && !codes.contains(&code) {
                    codes.push(code);
                }
            }
            last = c;
        }
        if !codes.is_empty() {
            found.note(number, &codes.join(" "));
        }
    }
    found
}

/// Lines that are new and go on out of sight.
pub(super) fn long(path: &str, before: &str, after: &str) -> Hidden {
    let mut found = Hidden::default();
    let path = path.to_lowercase();
    let is_wide = WIDE.iter().any(|end| path.ends_with(end));
    if !after.split('\n').any(|line| line.len() > GAP / 8) {
        return found;
    }
    for (number, line) in fresh(before, after).filter(|(_, line)| line.len() > GAP / 8) {
        if has_gap(line) {
            found.note(number, "goes on after a wide gap");
        } else if line.len() > LONG && !is_wide {
            found.note(number, &format!("{} bytes long", line.len()));
        }
    }
    found
}

fn has_gap(line: &str) -> bool {
    let mut run = 0_usize;
    let mut begun = false;
    for c in line.trim_end().chars() {
        if c.is_whitespace() {
            run = run.saturating_add(if c == '\t' { 8 } else { 1 });
        } else {
            // What is only indented is seen, unless it is indented beyond all reason.
            if run >= GAP && (begun || run >= 2 * GAP) {
                return true;
            }
            (run, begun) = (0, true);
        }
    }
    false
}

/// Whether a character is one of those that may not be seen.
pub(super) fn may_hide(c: char) -> bool {
    match c {
        '\t' | '\n' | '\u{c}' => false,
        '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{feff}'
        | '\u{00ad}'
        | '\u{034f}'
        | '\u{061c}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{3164}'
        | '\u{ffa0}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{e0000}'..='\u{e0fff}' => true,
        c => c.is_control(),
    }
}

/// The same, where its neighbours say that it is not at home.
fn hides(last: char, c: char, next: Option<char>) -> bool {
    let joins = |c: char| is_pictogram(c) || matches!(c, '\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}');
    match c {
        // How a pictogram is drawn, and how some are put together.
        '\u{fe00}'..='\u{fe0f}' => !(is_pictogram(last) || last.is_ascii_digit() || is_east(last)),
        '\u{200d}' if joins(last) && next.is_some_and(is_pictogram) => false,
        // Scripts that need them to be written.
        '\u{200c}' | '\u{200d}' => {
            !(is_joined(last) && next.is_none_or(|next| is_joined(next) || !next.is_alphanumeric()))
        }
        c => may_hide(c),
    }
}

fn is_pictogram(c: char) -> bool {
    matches!(c, '\u{00a9}' | '\u{00ae}' | '\u{203c}'..='\u{3299}' | '\u{1f000}'..='\u{1faff}')
}

fn is_east(c: char) -> bool {
    matches!(c, '\u{1000}'..='\u{109f}' | '\u{1820}'..='\u{18aa}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// Letters of scripts that are written joined: Arabic to Sinhala, Myanmar, Khmer, Mongolian.
fn is_joined(c: char) -> bool {
    matches!(c, '\u{0600}'..='\u{0dff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{18af}')
}

/// The first line that differs, from 1.
pub(super) fn first_difference(before: &[u8], after: &[u8]) -> Option<u64> {
    if before == after {
        return None;
    }
    let same = before.iter().zip(after).take_while(|(one, other)| one == other).count();
    let lines = after.iter().take(same).filter(|byte| **byte == b'\n').count();
    u64::try_from(lines).ok().map(|lines| lines.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(before: &str, after: &str, what: &[&str]) {
        assert_eq!(hidden(before, after).what, what, "{after:?}");
    }

    #[test]
    fn hidden_characters_of_new_lines_are_named() {
        check("", "a\nif x {\u{202e} } \u{2066}\n", &["line 2: U+202E U+2066"]);
        check("old \u{200b}\n", "old \u{200b}\nnew\n", &[]);
        check("old \u{200b}\n", "older \u{200b}\n", &["line 1: U+200B"]);
        check("", "\u{feff}a\n\u{feff}b\n", &["line 2: U+FEFF"]);
        check("", "a\u{1b}[2K\n", &["line 1: U+001B"]);
        check("", "safe\rrm -rf ~\r\n", &["line 1: U+000D"]);
        check("", "let \u{3164} = 1;", &["line 1: U+3164"]);
        check("", "x\u{e0041}\u{e0101}", &["line 1: U+E0041 U+E0101"]);
        check("", "ad\u{200d}min", &["line 1: U+200D"]);
        assert_eq!(hidden("", &"\u{200b}\n".repeat(30)).what.len(), LINES + 1);
        assert_eq!(hidden("", "a\n\u{200b}").line, Some(2));
    }

    #[test]
    fn what_languages_and_pictograms_need_is_no_finding() {
        for fine in [
            "tab\there\r\nnext\u{c}",
            "👩\u{200d}👩\u{200d}👧 ❤\u{fe0f}\u{200d}🔥 1\u{fe0f}\u{20e3} ☀\u{fe0f}",
            "می\u{200c}خواهم",
            "क\u{94d}\u{200d}ष",
            "שלום עולם, Grüße, 日本語",
        ] {
            check("", fine, &[]);
        }
    }

    #[test]
    fn lines_that_go_on_out_of_sight_are_named() {
        let gap = format!("let a = 1;{};evil()", " ".repeat(200));
        assert_eq!(long("a.js", "", &gap).what, ["line 1: goes on after a wide gap"]);
        assert!(long("a.js", &gap, &gap).is_empty());
        assert!(!long("a.js", "", &"x".repeat(3_000)).is_empty());
        assert!(long("a.json", "", &"x".repeat(3_000)).is_empty());
        let tabs = format!("a;{}b", "\t".repeat(20));
        assert!(!long("a.py", "", &tabs).is_empty());
        for fine in [format!("{}deep", " ".repeat(100)), "a".repeat(300), format!("a{}", " ".repeat(300))] {
            assert!(long("a.js", "", &fine).is_empty(), "{fine}");
        }
    }

    #[test]
    fn the_place_of_a_change_is_its_first_line() {
        assert_eq!(first_difference(b"a\nb\n", b"a\nc\n"), Some(2));
        assert_eq!(first_difference(b"", b"x"), Some(1));
        assert_eq!(first_difference(b"a\n", b"a\n"), None);
    }
}
