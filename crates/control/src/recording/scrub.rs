//! Taking secrets out of what is written into a recording.
//!
//! A secret is masked where it stands: each of its characters becomes a `*` (a `~` in the owner's
//! paths), and what JSON needs (quotes, backslashes, brackets, slashes, line ends) stays. So a
//! masked text is as long as it was, whatever was counted still counts, JSON stays JSON, and it is
//! the same whether a text is masked and then escaped, cut into pieces or composed into a request,
//! or the other way round. That is what makes a masked recording replay.
//!
//! Pure and deterministic; masking twice is masking once.

use std::ops::Range;

use super::strings;

/// What a secret's characters become.
const MASK: u8 = b'*';
/// What the characters of the owner's paths become.
const HOME: u8 = b'~';
/// The shortest value of the owner's environment that is looked for.
const LEAST: usize = 8;
/// The same, of a variable whose name speaks of a secret.
const LEAST_NAMED: usize = 6;
/// The shortest key that is looked for.
const LEAST_KEY: usize = 4;

/// Whose machine it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owner {
    /// The home directory, as `/home/alice`.
    pub home: Option<String>,
    /// The user's name.
    pub user: Option<String>,
}

/// Knows what is to be masked. Holds secrets: it is never shown.
#[derive(Clone, Default)]
pub struct Scrubber {
    literals: Vec<Literal>,
}

/// A text that is masked wherever it stands.
#[derive(Clone, PartialEq, Eq)]
struct Literal {
    chars: Vec<char>,
    mask: u8,
    /// Whether it must not go on to the left, or to the right.
    bounded: (bool, bool),
}

/// A kind of key, by its beginning, which stays.
struct Shape {
    prefix: &'static str,
    /// What may follow.
    takes: fn(u8) -> bool,
    /// How many of it must.
    least: usize,
    /// Whether it is only one after something that is no part of a word, and with a digit in it.
    bounded: bool,
}

const SHAPES: [Shape; 22] = [
    shape("sk-ant-", worded, 16),
    Shape { prefix: "sk-", takes: worded, least: 20, bounded: true },
    shape("sk_live_", alphanumeric, 16),
    shape("rk_live_", alphanumeric, 16),
    shape("github_pat_", worded, 30),
    shape("ghp_", alphanumeric, 30),
    shape("gho_", alphanumeric, 30),
    shape("ghu_", alphanumeric, 30),
    shape("ghs_", alphanumeric, 30),
    shape("ghr_", alphanumeric, 30),
    shape("glpat-", worded, 16),
    shape("AKIA", upper, 16),
    shape("ASIA", upper, 16),
    shape("xoxb-", dashed, 10),
    shape("xoxp-", dashed, 10),
    shape("xoxa-", dashed, 10),
    shape("xoxr-", dashed, 10),
    shape("xoxs-", dashed, 10),
    shape("xapp-", dashed, 10),
    shape("AIza", worded, 30),
    shape("npm_", alphanumeric, 30),
    shape("hf_", alphanumeric, 30),
];

impl Scrubber {
    /// Looks for these keys, for the values of the owner's environment that steps are given (name and
    /// value), and for the owner; and for everything that has the shape of a key.
    pub fn new<'a>(
        keys: impl IntoIterator<Item = &'a str>,
        given: impl IntoIterator<Item = (&'a str, &'a str)>,
        owner: &Owner,
    ) -> Self {
        let secret = |text: &str| Literal { chars: chars(text), mask: MASK, bounded: (false, false) };
        let keys = keys.into_iter().filter(|key| key.len() >= LEAST_KEY).map(secret);
        let given = given.into_iter().filter(|(name, value)| is_telling(name, value));
        let mut literals: Vec<Literal> = keys.chain(given.map(|(_, value)| secret(value))).collect();
        literals.retain(|literal| literal.chars.iter().any(|c| c.is_alphanumeric()));
        literals.extend(owner.literals());
        // The longest first: a shorter one may be part of it.
        literals.sort_by_key(|literal| std::cmp::Reverse(literal.chars.len()));
        literals.dedup();
        Self { literals }
    }

    /// What both look for.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let mut literals = self.literals.clone();
        let new = other.literals.iter().filter(|literal| !self.literals.contains(literal)).cloned();
        literals.extend(new);
        literals.sort_by_key(|literal| std::cmp::Reverse(literal.chars.len()));
        Self { literals }
    }

    /// Masks a document: in JSON the strings, else the whole text. Whether something was masked.
    pub fn text(&self, bytes: &mut [u8]) -> bool {
        match strings::of_json(bytes) {
            Some(found) => {
                let mut masked = false;
                for string in found {
                    masked |= bytes.get_mut(string.at).is_some_and(|inner| self.mask(inner));
                }
                masked
            }
            None => self.mask(bytes),
        }
    }

    /// Masks the body of an answer. What a stream tells piece by piece is looked at as a whole.
    pub fn body(&self, bytes: &mut [u8]) -> bool {
        let Some(stream) = strings::of_stream(bytes) else { return self.text(bytes) };
        let mut masked = false;
        for text in stream.texts {
            let mut whole: Vec<u8> =
                text.iter().filter_map(|at| bytes.get(at.clone())).flatten().copied().collect();
            if !self.mask(&mut whole) {
                continue;
            }
            masked = true;
            let mut rest = whole.as_slice();
            for at in text {
                let (piece, more) = rest.split_at(at.len().min(rest.len()));
                if let Some(place) = bytes.get_mut(at) {
                    place.copy_from_slice(piece);
                }
                rest = more;
            }
        }
        for at in stream.others {
            masked |= bytes.get_mut(at).is_some_and(|line| self.mask(line));
        }
        masked
    }

    /// The same for a text that is not kept as bytes.
    pub fn line(&self, text: &str) -> String {
        let mut bytes = text.as_bytes().to_vec();
        self.text(&mut bytes);
        // Only ASCII takes the place of ASCII.
        String::from_utf8(bytes).unwrap_or_default()
    }

    /// Masks a text as it stands, escaped or not.
    fn mask(&self, text: &mut [u8]) -> bool {
        let before = text.to_vec();
        for literal in &self.literals {
            for range in literal.ranges(text) {
                cover(text, range, literal.mask);
            }
        }
        for shape in &SHAPES {
            for range in shape.ranges(text) {
                cover(text, range, MASK);
            }
        }
        for find in [web_tokens, passwords, private_keys] {
            for range in find(text) {
                cover(text, range, MASK);
            }
        }
        before != text
    }
}

impl Owner {
    fn literals(&self) -> Vec<Literal> {
        let path = |text: &str| Literal { chars: chars(text), mask: HOME, bounded: (false, true) };
        let home = self.home.as_deref().map(|home| home.trim_end_matches('/'));
        // That somebody is root says nothing of anybody.
        let home = home.filter(|home| home.len() >= 4 && *home != "/root");
        let user = self.user.as_deref().filter(|user| user.len() >= 3 && *user != "root");
        let mut literals: Vec<Literal> = home.map(path).into_iter().collect();
        if let Some(user) = user {
            literals.push(path(&format!("/{user}")));
            literals.push(Literal { bounded: (true, false), ..path(&format!("{user}@")) });
        }
        literals
    }
}

impl Literal {
    fn ranges(&self, text: &[u8]) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        let mut at = 0;
        // Most begin with a letter that stands for itself.
        let first = self.chars.first().filter(|c| c.is_ascii_alphanumeric()).map(|c| *c as u32 as u8);
        while at < text.len() {
            if first.is_some_and(|first| text.get(at) != Some(&first)) && text.get(at) != Some(&b'\\') {
                at += 1;
                continue;
            }
            match self.end(text, at) {
                Some(end) => {
                    found.push(at..end);
                    at = end.max(at + 1);
                }
                None => at += 1,
            }
        }
        found
    }

    fn end(&self, text: &[u8], at: usize) -> Option<usize> {
        if self.bounded.0 && goes_on_before(text, at) {
            return None;
        }
        let mut end = at;
        let mut before = ' ';
        for c in &self.chars {
            // The backslash of its escape went with those before it.
            let letter = (before == '\\').then(|| letter(*c)).flatten();
            end = match letter.filter(|letter| text.get(end) == Some(letter)) {
                Some(_) => end + 1,
                None => eat(text, end, *c)?,
            };
            before = *c;
        }
        let goes_on = text.get(end).is_some_and(|b| worded(*b) || !b.is_ascii());
        (!(self.bounded.1 && goes_on)).then_some(end)
    }
}

impl Shape {
    fn ranges(&self, text: &[u8]) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        for at in places(text, self.prefix.as_bytes()) {
            let begin = at + self.prefix.len();
            let end = begin + run(text, begin, self.takes);
            let has_digit = text.get(begin..end).is_some_and(|key| key.iter().any(u8::is_ascii_digit));
            let is_word = self.bounded && (goes_on_before(text, at) || !has_digit);
            if end - begin >= self.least && !is_word {
                found.push(begin..end);
            }
        }
        found
    }
}

const fn shape(prefix: &'static str, takes: fn(u8) -> bool, least: usize) -> Shape {
    Shape { prefix, takes, least, bounded: false }
}

/// JSON web tokens: three parts, of which the first two are objects.
fn web_tokens(text: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for at in places(text, b"eyJ") {
        let head = at + run(text, at, worded);
        let body = head + 1;
        if text.get(head) != Some(&b'.') || text.get(body..body + 3) != Some(b"eyJ") {
            continue;
        }
        let dot = body + run(text, body, worded);
        if text.get(dot) == Some(&b'.') {
            let end = dot + 1 + run(text, dot + 1, worded);
            found.extend([at + 3..head, body + 3..dot, dot + 1..end]);
        }
    }
    found
}

/// Passwords in addresses, as `https://user:password@host`.
fn passwords(text: &[u8]) -> Vec<Range<usize>> {
    let stops = |b: u8| b.is_ascii_whitespace() || b"/\\\"'`<>@:{}[]".contains(&b);
    let mut found = Vec::new();
    for at in places(text, b":") {
        let Some(host) = eat(text, at + 1, '/').and_then(|at| eat(text, at, '/')) else { continue };
        let colon = host + run(text, host, |b| !stops(b));
        if text.get(colon) != Some(&b':') {
            continue;
        }
        let begin = colon + 1;
        let end = begin + run(text, begin, |b| !stops(b) || b == b':');
        if text.get(end) == Some(&b'@') && end > begin {
            found.push(begin..end);
        }
    }
    found
}

/// Private keys between their lines, or as much of one as there is.
fn private_keys(text: &[u8]) -> Vec<Range<usize>> {
    const KEY: &[u8] = b"PRIVATE KEY-----";
    let mut found = Vec::new();
    for at in places(text, b"-----BEGIN ") {
        let name = at + 11;
        let begin = name + run(text, name, |b| b.is_ascii_uppercase() || b == b' ') + 5;
        if !text.get(name..begin).is_some_and(|line| line.ends_with(KEY)) {
            continue;
        }
        let mut end = begin;
        while let Some(byte) = text.get(end) {
            let rest = text.get(end..).unwrap_or_default();
            let is_key = alphanumeric(*byte) || b"+/=,:-* ".contains(byte) || byte.is_ascii_whitespace();
            if rest.starts_with(b"-----END") {
                break;
            }
            match escape(text, end) {
                Some(Escape { end: next, what: b'n' | b'r' | b't' | b'/' }) => end = next,
                None if is_key => end += 1,
                _ => break,
            }
        }
        found.push(begin..end);
    }
    found
}

/// An escape of JSON, however often it was escaped again.
struct Escape {
    /// Behind it; of one that names a character by number, behind its `u`.
    end: usize,
    what: u8,
}

fn escape(text: &[u8], at: usize) -> Option<Escape> {
    let slashes = run(text, at, |b| b == b'\\');
    let what = *text.get(at + slashes).filter(|_| slashes > 0)?;
    Some(Escape { end: at + slashes + 1, what })
}

/// Behind a character of a text that may be escaped.
fn eat(text: &[u8], at: usize, c: char) -> Option<usize> {
    let mut buffer = [0; 4];
    let raw = c.encode_utf8(&mut buffer).as_bytes();
    let rest = text.get(at..)?;
    if c == '\\' {
        return Some(at + run(text, at, |b| b == b'\\')).filter(|end| *end > at);
    }
    if rest.starts_with(raw) {
        return Some(at + raw.len());
    }
    let Escape { end, what } = escape(text, at)?;
    match what {
        b'u' => numbered(text, at, end, c),
        _ => (letter(c) == Some(what)).then_some(end),
    }
}

/// What stands for a character behind a backslash.
fn letter(c: char) -> Option<u8> {
    match c {
        '\n' => Some(b'n'),
        '\r' => Some(b'r'),
        '\t' => Some(b't'),
        '"' => Some(b'"'),
        '/' => Some(b'/'),
        _ => None,
    }
}

/// Behind a character that is named by number.
fn numbered(text: &[u8], at: usize, digits: usize, c: char) -> Option<usize> {
    let mut units = [0; 2];
    let units = c.encode_utf16(&mut units);
    let slashes = text.get(at..digits)?.to_vec();
    let mut end = digits;
    for (n, unit) in units.iter().enumerate() {
        if n > 0 {
            end += text.get(end..)?.starts_with(&slashes).then_some(slashes.len())?;
        }
        (hex(text, end)? == u32::from(*unit)).then_some(())?;
        end += 4;
    }
    Some(end)
}

fn hex(text: &[u8], at: usize) -> Option<u32> {
    u32::from_str_radix(std::str::from_utf8(text.get(at..at + 4)?).ok()?, 16).ok()
}

/// Masks a range, but for what JSON needs.
fn cover(text: &mut [u8], range: Range<usize>, mask: u8) {
    let mut at = range.start + escaped(text, range.start);
    while at < range.end {
        if text.get(at) != Some(&b'\\') {
            if let Some(byte) = text.get_mut(at).filter(|byte| is_masked(**byte)) {
                *byte = mask;
            }
            at += 1;
            continue;
        }
        let after = at + run(text, at, |b| b == b'\\');
        let number = text.get(after).filter(|what| **what == b'u').and_then(|_| hex(text, after + 1));
        at = match (text.get(after), number) {
            (_, Some(number)) => {
                let is_plain = u8::try_from(number).is_ok_and(is_masked);
                if let Some(digits) = text.get_mut(after + 1..after + 5).filter(|_| is_plain) {
                    digits.copy_from_slice(format!("{mask:04x}").as_bytes());
                }
                after + 5
            }
            (Some(b'n' | b'r' | b't' | b'b' | b'f'), None) => after + 1,
            _ => after,
        };
    }
}

/// How many bytes from here on belong to an escape that begins before: they only look like something else.
fn escaped(text: &[u8], at: usize) -> usize {
    let ends = |back: usize| {
        let slash = at.checked_sub(back).filter(|slash| text.get(*slash) == Some(&b'\\'))?;
        match text.get(slash + 1)? {
            b'n' | b'r' | b't' | b'b' | b'f' => Some(slash + 2),
            b'u' if hex(text, slash + 2).is_some() => Some(slash + 6),
            _ => None,
        }
    };
    (1..=5).filter_map(ends).max().unwrap_or(at).saturating_sub(at)
}

fn is_masked(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"\"\\/{}[]:,".contains(&byte)
}

/// Whether a word goes on to the left of a place.
fn goes_on_before(text: &[u8], at: usize) -> bool {
    let before = |n: usize| at.checked_sub(n).and_then(|at| text.get(at)).copied();
    match (before(2), before(1)) {
        (Some(b'\\'), Some(b'n' | b'r' | b't')) => false,
        (_, Some(last)) => worded(last) || !last.is_ascii(),
        (_, None) => false,
    }
}

/// Whether a value of the environment is one that must not be seen, and not an ordinary word.
fn is_telling(name: &str, value: &str) -> bool {
    const NAMES: [&str; 7] = ["KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH", "PRIVATE"];
    let name = name.to_ascii_uppercase();
    if NAMES.iter().any(|part| name.contains(part)) {
        return value.len() >= LEAST_NAMED;
    }
    let classes: [fn(char) -> bool; 4] =
        [|c| c.is_lowercase(), |c| c.is_uppercase(), |c| c.is_ascii_digit(), |c| !c.is_alphanumeric()];
    value.len() >= LEAST && classes.iter().filter(|is| value.chars().any(*is)).count() >= 2
}

/// The characters of a text; several backslashes are found as one.
fn chars(text: &str) -> Vec<char> {
    let mut chars: Vec<char> = text.chars().collect();
    chars.dedup_by(|a, b| *a == '\\' && *b == '\\');
    chars
}

fn places<'a>(text: &'a [u8], what: &'a [u8]) -> Vec<usize> {
    text.windows(what.len()).enumerate().filter(|(_, window)| *window == what).map(|(at, _)| at).collect()
}

fn run(text: &[u8], at: usize, is: impl Fn(u8) -> bool) -> usize {
    text.get(at..).unwrap_or_default().iter().take_while(|byte| is(**byte)).count()
}

fn alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn worded(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn dashed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

fn upper(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

#[cfg(test)]
mod tests;
