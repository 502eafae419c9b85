//! Which files of a workspace a lease is about.
//!
//! A pattern is relative to the workspace. It means the paths that look like it and everything below them: `src`
//! is the file or directory `src` and all that is in it, and `src/**` is the same, said of a directory. `*` and
//! `?` stay within one name, `**` is any number of directories, and every other character is itself. There are
//! no character classes and no alternatives: what one pattern contains of another can be told from the texts
//! alone, and so a narrower lease is known to be narrower without a look at any file.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The longest pattern, in bytes: the comparison of two takes the product of their lengths.
const LONGEST: usize = 512;
/// The most patterns that one kind of access takes.
const MOST: usize = 64;

/// Which paths are meant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern(String);

/// A text that is no pattern of a lease.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} names no files of a workspace: {why}")]
pub struct NotAPattern {
    text: String,
    why: &'static str,
}

/// One name of a pattern.
enum Part {
    Deep,
    Name(Vec<Token>),
}

#[derive(PartialEq, Eq)]
enum Token {
    Char(char),
    One,
    Many,
}

impl Pattern {
    /// The whole workspace.
    #[must_use]
    pub fn everything() -> Self {
        Self("**".into())
    }

    /// As it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The same without what says that a directory is meant: what has to be opened for all of it to be reached.
    /// Empty for the whole workspace.
    #[must_use]
    pub fn top(&self) -> &str {
        match self.0.strip_suffix("**") {
            Some(rest) => rest.trim_end_matches('/'),
            None => &self.0,
        }
    }

    /// Whether it says itself that a directory is meant.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.0.ends_with("**")
    }

    /// The one directory that it names without any wildcard, when it does.
    #[must_use]
    pub fn named_directory(&self) -> Option<&str> {
        let top = self.top();
        (self.is_directory() && !top.is_empty() && !top.contains(['*', '?'])).then_some(top)
    }

    /// Whether a path of the workspace is meant. What is no plain relative path never is.
    #[must_use]
    pub fn is_match(&self, path: &str) -> bool {
        let mut names = Vec::new();
        for name in path.split('/') {
            match name {
                "" | "." => {}
                ".." => return false,
                name => names.push(Part::Name(name.chars().map(Token::Char).collect())),
            }
        }
        path_holds(&self.parts(), &names)
    }

    /// Whether all that `other` means is meant. Says no when it is not certain.
    #[must_use]
    pub fn holds(&self, other: &Self) -> bool {
        path_holds(&self.parts(), &other.parts())
    }

    fn parts(&self) -> Vec<Part> {
        let names = self.top().split('/').filter(|name| !name.is_empty());
        names.map(part).collect()
    }
}

fn part(name: &str) -> Part {
    if name == "**" {
        return Part::Deep;
    }
    let token = |letter| match letter {
        '*' => Token::Many,
        '?' => Token::One,
        other => Token::Char(other),
    };
    Part::Name(name.chars().map(token).collect())
}

/// Whether each path of `narrow` has a beginning that `wide` means: all below is meant with it.
fn path_holds(wide: &[Part], narrow: &[Part]) -> bool {
    let is_many = |part: &Part| matches!(part, Part::Deep);
    let step = |wide: &Part, narrow: &Part| match (wide, narrow) {
        (Part::Name(wide), Part::Name(narrow)) => name_holds(wide, narrow),
        _ => false,
    };
    holds(wide, narrow, is_many, step, true)
}

fn name_holds(wide: &[Token], narrow: &[Token]) -> bool {
    let step = |wide: &Token, narrow: &Token| *wide == Token::One || wide == narrow;
    holds(wide, narrow, |token| *token == Token::Many, step, false)
}

/// Whether everything that `narrow` stands for, `wide` stands for too. An element of which `is_many` holds stands
/// for any number of elements, and one of `narrow` is met only by one of `wide`. With an open end what `narrow` has
/// beyond `wide` is of no matter.
fn holds<T>(
    wide: &[T],
    narrow: &[T],
    is_many: impl Fn(&T) -> bool,
    step: impl Fn(&T, &T) -> bool,
    has_open_end: bool,
) -> bool {
    // From the ends backwards: `row[at]` says it of what is left of `wide` and of `narrow` from `at` on.
    let mut row: Vec<bool> = (0..=narrow.len()).map(|at| has_open_end || at == narrow.len()).collect();
    for wanted in wide.iter().rev() {
        let mut here = vec![is_many(wanted) && row.last().copied().unwrap_or(false)];
        for (at, given) in narrow.iter().enumerate().rev() {
            let skipped = row.get(at).copied().unwrap_or(false);
            let taken = here.last().copied().unwrap_or(false);
            let both = row.get(at + 1).copied().unwrap_or(false);
            here.push(match (is_many(wanted), is_many(given)) {
                (true, _) => skipped || taken,
                (false, true) => false,
                (false, false) => both && step(wanted, given),
            });
        }
        here.reverse();
        row = here;
    }
    row.first().copied().unwrap_or(false)
}

impl TryFrom<String> for Pattern {
    type Error = NotAPattern;

    fn try_from(text: String) -> Result<Self, NotAPattern> {
        let refused = |why| Err(NotAPattern { text: text.chars().take(80).collect(), why });
        if text.len() > LONGEST {
            return refused("it is longer than 512 bytes");
        }
        if text.starts_with('/') || text.starts_with('~') {
            return refused("write it relative to the root of the repository, as `src/**`");
        }
        if let Some(bad) = text.chars().find(|letter| "[]{}\\!".contains(*letter) || letter.is_control()) {
            return refused(match bad {
                '!' => "there are no exceptions; name what is meant",
                '[' | ']' | '{' | '}' => "`[` and `{` are not supported; write one pattern for each",
                _ => "a backslash or a control character is in it",
            });
        }
        let mut names: Vec<&str> = Vec::new();
        for name in text.split('/') {
            match name {
                "" | "." => {}
                ".." => return refused("it has a `..`; write the path that it leads to"),
                "**" if names.last() == Some(&"**") => {}
                name if name != "**" && name.contains("**") => {
                    return refused("`**` stands for whole directories only, as in `src/**`");
                }
                name => names.push(name),
            }
        }
        if names.is_empty() {
            return match text.trim() {
                "." | "./" => Ok(Self::everything()),
                _ => refused("it is empty; `**` is the whole workspace"),
            };
        }
        // `a/` is said of a directory.
        if text.ends_with('/') && names.last() != Some(&"**") {
            names.push("**");
        }
        Ok(Self(names.join("/")))
    }
}

impl FromStr for Pattern {
    type Err = NotAPattern;

    fn from_str(text: &str) -> Result<Self, NotAPattern> {
        Self::try_from(text.to_owned())
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.0
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What may be done with which files. What may be written may be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grants {
    /// What may be read.
    pub read: Vec<Pattern>,
    /// What may be written.
    pub write: Vec<Pattern>,
}

impl Default for Grants {
    fn default() -> Self {
        Self { read: vec![Pattern::everything()], write: vec![Pattern::everything()] }
    }
}

/// More patterns than a lease takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a lease takes at most {MOST} patterns of a kind; name the directories instead of what is in them")]
pub struct TooMany;

impl Grants {
    /// From what is asked for: what is not said is everything, and who says only what may be read writes
    /// nothing else than what is said to be writable.
    ///
    /// # Errors
    /// [`TooMany`].
    pub fn new(read: Option<Vec<Pattern>>, write: Option<Vec<Pattern>>) -> Result<Self, TooMany> {
        let whole = || vec![Pattern::everything()];
        let grants = match (read, write) {
            (None, None) => Self::default(),
            (None, Some(write)) => Self { read: whole(), write },
            // Nothing can be written that cannot be read.
            (Some(read), None) => Self { write: read.clone(), read },
            (Some(read), Some(write)) => Self { read, write },
        };
        match grants.read.len() > MOST || grants.write.len() > MOST {
            true => Err(TooMany),
            false => Ok(grants),
        }
    }

    /// Whether all of the workspace may be read and written.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.reads_everything() && self.write.iter().any(|pattern| pattern.top().is_empty())
    }

    /// Whether all of the workspace may be read.
    #[must_use]
    pub fn reads_everything(&self) -> bool {
        self.readable().any(|pattern| pattern.top().is_empty())
    }

    /// What may be read, with what may be written.
    pub fn readable(&self) -> impl Iterator<Item = &Pattern> {
        self.read.iter().chain(&self.write)
    }

    /// Whether a path of the workspace may be read.
    #[must_use]
    pub fn may_read(&self, path: &str) -> bool {
        self.readable().any(|pattern| pattern.is_match(path))
    }

    /// Whether a path of the workspace may be written.
    #[must_use]
    pub fn may_write(&self, path: &str) -> bool {
        self.write.iter().any(|pattern| pattern.is_match(path))
    }

    /// The narrower of these and others, whole; `None` where neither certainly contains the other.
    #[must_use]
    pub fn narrower(self, other: Self) -> Option<Self> {
        match (self.beyond(&other), other.beyond(&self)) {
            (None, _) => Some(self),
            (Some(_), None) => Some(other),
            (Some(_), Some(_)) => None,
        }
    }

    /// What of these is certainly not granted by `wide`; `None` when all of it is.
    #[must_use]
    pub fn beyond<'a>(&'a self, wide: &Self) -> Option<&'a Pattern> {
        let written = self.write.iter().find(|own| !wide.write.iter().any(|other| other.holds(own)));
        let read = || self.read.iter().find(|own| !wide.readable().any(|other| other.holds(own)));
        written.or_else(read)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn pattern(text: &str) -> Pattern {
        text.parse().unwrap()
    }

    #[test]
    fn what_a_pattern_means() {
        let check = |text: &str, meant: &[&str], not: &[&str]| {
            let pattern = pattern(text);
            meant.iter().for_each(|path| assert!(pattern.is_match(path), "{text} {path}"));
            not.iter().for_each(|path| assert!(!pattern.is_match(path), "{text} {path}"));
        };
        check("**", &["a", "a/b", ".", ""], &["../a", "a/../b"]);
        check("src/**", &["src", "src/a", "src/a/b", "./src//a"], &["srcs", "a/src", "src/../a"]);
        check("src", &["src", "src/a"], &["sr", "srcx"]);
        check("**/*.md", &["a.md", "a/b.md", "a.md/x"], &["a.txt", "md"]);
        check("a/*/c", &["a/b/c", "a/b/c/d"], &["a/c", "a/b/b/c"]);
        check("te?t*", &["test", "text.rs"], &["tet", "atest"]);
    }

    #[test]
    fn malformed_patterns_are_refused_with_the_mend() {
        for (text, why) in [
            ("", "empty"),
            ("/", "relative"),
            ("/etc", "relative"),
            ("~/x", "relative"),
            ("a/../b", "`..`"),
            ("a[b", "not supported"),
            ("{a,b}", "not supported"),
            ("!a", "exceptions"),
            ("a\\b", "backslash"),
            ("a\nb", "control"),
            ("a\0", "control"),
            ("a**b", "whole directories"),
            (&"a/".repeat(300), "longer"),
        ] {
            let error = text.parse::<Pattern>().unwrap_err().to_string();
            assert!(error.contains(why), "{text:?}: {error}");
        }
        assert_eq!((pattern("./src/"), pattern("a/**/**/b")), (pattern("src/**"), pattern("a/**/b")));
        assert_eq!(pattern("."), Pattern::everything());
    }

    #[test]
    fn what_one_pattern_contains_of_another() {
        for (wide, narrow) in [
            ("**", "a/b"),
            ("src", "src/**"),
            ("src/**", "src"),
            ("src/**", "src/a/*.rs"),
            ("**/*.rs", "src/**/m*.rs"),
            ("*", "a"),
            ("a/**/c", "a/b/c"),
            ("a/**/c", "a/**/b/c"),
            ("a*", "ab?"),
        ] {
            assert!(pattern(wide).holds(&pattern(narrow)), "{wide} {narrow}");
        }
        for (wide, narrow) in [
            ("src/**", "**"),
            ("src/**", "*"),
            ("src", "s*"),
            ("?", "*"),
            ("a/*/c", "a/**/c"),
            ("a?", "a*"),
            ("src/a", "src"),
            ("**/*.rs", "src"),
        ] {
            assert!(!pattern(wide).holds(&pattern(narrow)), "{wide} {narrow}");
        }
    }

    #[test]
    fn grants_say_what_is_beyond_others() {
        let grants = |read: &[&str], write: &[&str]| Grants {
            read: read.iter().map(|text| pattern(text)).collect(),
            write: write.iter().map(|text| pattern(text)).collect(),
        };
        let wide = grants(&["docs"], &["src/**"]);
        assert_eq!(grants(&["docs/a", "src"], &["src/b"]).beyond(&wide), None);
        assert_eq!(grants(&["docs"], &["docs"]).beyond(&wide), Some(&pattern("docs")));
        assert_eq!(grants(&["lib"], &[]).beyond(&wide), Some(&pattern("lib")));
        assert_eq!(Grants::default().beyond(&wide), Some(&pattern("**")));
        assert!(wide.may_read("src/x") && wide.may_read("docs") && !wide.may_write("docs"));
        assert!(Grants::default().is_everything() && !wide.reads_everything());
        assert_eq!(Grants::default().narrower(wide.clone()), Some(wide.clone()));
        assert_eq!(wide.clone().narrower(Grants::default()), Some(wide.clone()));
        assert_eq!(grants(&[], &["docs"]).narrower(wide), None);
    }

    fn patterns() -> impl Strategy<Value = Pattern> {
        let name = prop::sample::select(vec!["a", "b", "ab", "*", "?", "a*", "*b", "?b", "**"]);
        prop::collection::vec(name, 1..4).prop_map(|names| pattern(&names.join("/")))
    }

    fn paths() -> impl Strategy<Value = String> {
        let name = prop::sample::select(vec!["a", "b", "ab", "bb", "c"]);
        prop::collection::vec(name, 1..5).prop_map(|names| names.join("/"))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2048))]
        #[test]
        fn what_is_contained_means_no_path_more(wide in patterns(), narrow in patterns(), path in paths()) {
            if wide.holds(&narrow) && narrow.is_match(&path) {
                prop_assert!(wide.is_match(&path), "{} {} {}", wide, narrow, path);
            }
            prop_assert!(narrow.holds(&narrow));
        }

        #[test]
        fn a_pattern_means_what_is_below_what_it_means(pattern in patterns(), path in paths(), more in paths()) {
            if pattern.is_match(&path) {
                let below = format!("{path}/{more}");
                prop_assert!(pattern.is_match(&below));
            }
        }
    }
}
