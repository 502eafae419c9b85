//! The owner's words, and when a value counts as one of them.
//!
//! A value is the owner's only as a whole: it stands in the words between boundaries, so that `evil.com` is not in
//! `notevil.com`, nor `www.a.com` in `www.a.com/b`. Short and common words, and numbers of a few digits, are in every
//! text and prove nothing.

/// Words that stand in every text.
const COMMON: &[&str] = &[
    "about",
    "after",
    "all",
    "also",
    "and",
    "any",
    "are",
    "been",
    "but",
    "can",
    "content",
    "did",
    "does",
    "done",
    "each",
    "email",
    "file",
    "following",
    "for",
    "from",
    "get",
    "give",
    "has",
    "have",
    "her",
    "him",
    "his",
    "how",
    "into",
    "its",
    "make",
    "message",
    "most",
    "new",
    "not",
    "now",
    "one",
    "only",
    "our",
    "out",
    "own",
    "page",
    "please",
    "read",
    "see",
    "send",
    "she",
    "should",
    "some",
    "take",
    "tell",
    "that",
    "the",
    "their",
    "them",
    "then",
    "there",
    "they",
    "this",
    "time",
    "user",
    "want",
    "was",
    "were",
    "what",
    "when",
    "where",
    "which",
    "who",
    "will",
    "with",
    "write",
    "you",
    "your",
];

/// The least number of digits that a number needs to be recognised as the owner's.
const DIGITS: usize = 3;

/// What the owner said: the goal of the run, and what followed.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Words {
    texts: Vec<String>,
    tokens: Vec<Vec<String>>,
    numbers: Vec<f64>,
}

impl Words {
    /// Takes in what the owner said; where a sentence begins without a space before it, both ways.
    pub(super) fn hear(&mut self, text: &str) {
        let parted = parted(text);
        self.tokens.push(tokens(text));
        self.numbers.extend(numbers(&parted));
        self.texts.extend([normal(text), normal(&parted)]);
    }

    /// Whether the owner said exactly this.
    pub(super) fn hold(&self, value: &str) -> bool {
        let value = normal(value);
        is_telling(&value) && self.texts.iter().any(|text| stands_in(text, &value))
    }

    /// Whether the owner named a thing that is called so: word for word, and for a file with or without its suffix.
    pub(super) fn name(&self, name: &str) -> bool {
        let whole = tokens(name);
        let stem = match whole.split_last() {
            Some((last, stem)) if name.contains('.') && last.len() <= 5 => stem,
            _ => &whole,
        };
        [&whole[..], stem].into_iter().any(|name| is_naming(name) && self.have_run(name))
    }

    /// Whether the owner said this amount.
    pub(super) fn count(&self, amount: f64) -> bool {
        self.numbers.iter().any(|number| same(*number, amount))
    }

    /// Whether a text is the owner's own, but for parts that `others` (token runs) allow: each part is at least two
    /// words that the owner said in this order. Words of two letters and counts below 100 carry nothing, as long as
    /// they are the fewer.
    pub(super) fn cover(&self, text: &str, others: &[Vec<String>]) -> bool {
        if self.hold(text) {
            return true;
        }
        let tokens = tokens(text);
        let (mut at, mut free) = (0, 0);
        while let Some(rest) = tokens.get(at..).filter(|rest| !rest.is_empty()) {
            let owners =
                (2..=rest.len()).rev().find(|n| rest.get(..*n).is_some_and(|run| self.have_run(run)));
            let allowed = others.iter().filter(|run| rest.starts_with(run)).map(Vec::len).max();
            let step = owners.max(allowed).unwrap_or(0);
            let carries_nothing = rest.first().is_some_and(|token| token.chars().count() <= 2);
            match step {
                0 if carries_nothing => {
                    free += 1;
                    at += 1;
                }
                0 => return false,
                step => at += step,
            }
        }
        free * 3 <= tokens.len()
    }

    fn have_run(&self, run: &[String]) -> bool {
        !run.is_empty() && self.tokens.iter().any(|said| said.windows(run.len()).any(|window| window == run))
    }
}

/// The words of a text: runs of letters and digits, in lower case.
pub(super) fn tokens(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// A text as it is compared: lower case, plain quotes, single spaces.
pub(super) fn normal(text: &str) -> String {
    let plain = |c: char| match c {
        '\u{2018}' | '\u{2019}' => '\'',
        '\u{201c}' | '\u{201d}' => '"',
        c => c,
    };
    let lower = text.chars().map(plain).collect::<String>().to_lowercase();
    lower.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A text with a space wherever a full stop is followed by a word with a capital, as in `www.a.com.They said`.
fn parted(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut parted = String::with_capacity(text.len());
    for (at, c) in chars.iter().enumerate() {
        parted.push(*c);
        let is = |n: usize, holds: fn(char) -> bool| chars.get(n).copied().is_some_and(holds);
        let begins = is(at + 1, char::is_uppercase) && is(at + 2, char::is_lowercase);
        if *c == '.' && begins && at.checked_sub(1).is_some_and(|before| is(before, char::is_lowercase)) {
            parted.push(' ');
        }
    }
    parted
}

/// The addresses of pages in a text: what begins with a scheme or `www.`, and names with a dot and a path.
pub(super) fn links(text: &str) -> Vec<String> {
    let is_edge = |c: char| !(c.is_alphanumeric() || "-._~:/?#[]@!$&'()*+,;=%".contains(c));
    let mut found = Vec::new();
    for word in text.split(is_edge) {
        let word = word.trim_matches(|c: char| ".,;:!?'()[]".contains(c));
        if is_link(word) {
            found.push(word.to_owned());
        }
    }
    found
}

/// Whether two amounts are the same sum.
pub(super) fn same(one: f64, other: f64) -> bool {
    (one - other).abs() < 0.005
}

fn is_link(word: &str) -> bool {
    let lower = word.to_lowercase();
    if lower.contains("://") || lower.starts_with("www.") {
        return true;
    }
    let host = lower.split(['/', '?', '#', ':']).next().unwrap_or_default();
    let last = host.rsplit('.').next().unwrap_or_default();
    let has_path = host.len() < lower.len();
    let is_name = host.contains('.') && !host.contains('@') && last.len() >= 2;
    is_name && last.chars().all(char::is_alphabetic) && (has_path || last.len() <= 4)
}

/// Whether a value says enough for its standing in a text to mean something.
fn is_telling(value: &str) -> bool {
    let letters = value.chars().filter(|c| c.is_alphanumeric()).count();
    let only_digits = value.chars().all(|c| !c.is_alphabetic());
    let least = if only_digits { 5 } else { 3 };
    letters >= least && !COMMON.contains(&value)
}

fn is_naming(name: &[String]) -> bool {
    let letters: usize = name.iter().map(|token| token.chars().count()).sum();
    let is_common = matches!(name, [only] if COMMON.contains(&only.as_str()));
    letters >= 4 && !is_common && name.iter().any(|token| token.chars().any(char::is_alphabetic))
}

fn stands_in(text: &str, value: &str) -> bool {
    text.match_indices(value).any(|(at, found)| {
        let (before, after) =
            (text.get(..at).unwrap_or_default(), text.get(at + found.len()..).unwrap_or_default());
        begins_after(before) && ends_before(after)
    })
}

/// Whether a value may begin after this: not within a word or an address, but after the scheme of one.
fn begins_after(before: &str) -> bool {
    let joins = |c: char| c.is_alphanumeric() || "@_-./+%=&?#:".contains(c);
    before.ends_with("://") || !before.chars().next_back().is_some_and(joins)
}

/// Whether a value may end before this: what ends a sentence does not go on an address.
fn ends_before(after: &str) -> bool {
    let mut rest = after.chars();
    match rest.next() {
        None => true,
        Some('.' | ':' | '?' | '!' | ',' | ';') => {
            !rest.next().is_some_and(|c| c.is_alphanumeric() || "/@_-".contains(c))
        }
        Some(c) => !(c.is_alphanumeric() || "@_-/+%=&#".contains(c)),
    }
}

/// The sums in a text: numbers of three digits or more that stand alone and are no percentages.
fn numbers(text: &str) -> Vec<f64> {
    let is_part = |c: char| c.is_alphanumeric() || ".,%-:/_@".contains(c);
    let words = text.split(|c: char| !is_part(c)).map(|word| word.trim_end_matches(['.', ',', ':']));
    words.filter_map(amount).collect()
}

fn amount(word: &str) -> Option<f64> {
    let digits = word.chars().filter(char::is_ascii_digit).count();
    let is_number = word.chars().all(|c| c.is_ascii_digit() || c == '.' || c == ',');
    if digits < DIGITS || !is_number {
        return None;
    }
    word.replace(',', "").parse().ok()
}
