//! What hides in a name: characters that are not seen, letters of two alphabets, what is another name on
//! some systems, and names that collide with others of the tree.

use std::collections::{BTreeSet, HashMap};

use super::text;

/// Names that are devices on Windows, whatever follows the dot.
const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];

/// A path as a report writes it: what is not UTF-8, and what a terminal would obey or hide, is escaped, so
/// that two paths are never written alike.
pub(super) fn written(path: &[u8]) -> String {
    let mut all = String::with_capacity(path.len());
    for chunk in path.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => all.push_str("\\\\"),
                c if text::may_hide(c) || matches!(c, '\t' | '\n' | '\u{c}') => {
                    all.push_str(&format!("\\u{{{:x}}}", u32::from(c)));
                }
                c => all.push(c),
            }
        }
        for byte in chunk.invalid() {
            all.push_str(&format!("\\x{byte:02x}"));
        }
    }
    all
}

/// What is wrong with a path, in words.
pub(super) fn faults(path: &[u8]) -> Vec<String> {
    let mut found = BTreeSet::new();
    let Ok(path) = std::str::from_utf8(path) else {
        return vec!["it is not UTF-8".into()];
    };
    for part in path.split('/') {
        part_faults(part, &mut found);
    }
    found.into_iter().collect()
}

fn part_faults(part: &str, found: &mut BTreeSet<String>) {
    let mut say = |what: &str| {
        found.insert(what.to_owned());
    };
    if part.chars().any(|c| text::may_hide(c) || matches!(c, '\t' | '\n' | '\u{c}')) {
        say("invisible or control characters");
    }
    if part.chars().any(|c| !c.is_ascii() && (c.is_whitespace() || like_a_mark(c))) {
        say("a space or mark that only looks like one");
    }
    if is_decomposed(part) {
        say("an accent apart from its letter: the same name in other bytes");
    }
    if mixes_alphabets(part) || is_wholly_alike(part) {
        say("letters that look like those of another alphabet");
    }
    if part.starts_with('-') {
        say("it begins like an option of a command");
    }
    let stem = part.split('.').next().unwrap_or_default().trim_end().to_ascii_lowercase();
    let numbered = |name: &str| {
        stem.strip_prefix(name)
            .is_some_and(|rest| rest.len() == 1 && rest.bytes().all(|b| b.is_ascii_digit()))
    };
    if DEVICES.contains(&stem.as_str()) || numbered("com") || numbered("lpt") {
        say("a device on Windows");
    }
    if part.ends_with(['.', ' ']) || part.contains(['<', '>', ':', '"', '|', '?', '*', '\\']) {
        say("another name on Windows");
    }
}

fn like_a_mark(c: char) -> bool {
    matches!(c, '\u{2044}' | '\u{2215}' | '\u{29f8}' | '\u{2024}' | '\u{2010}'..='\u{2013}' | '\u{2212}' | '\u{ff01}'..='\u{ff5e}')
}

/// Accents of the Latin, Greek and Cyrillic alphabets, kana's marks, and the parts of Hangul.
fn is_decomposed(part: &str) -> bool {
    part.chars().any(|c| {
        matches!(c, '\u{0300}'..='\u{036f}' | '\u{1100}'..='\u{11ff}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}' | '\u{3099}' | '\u{309a}')
    })
}

fn is_greek_or_cyrillic(c: char) -> bool {
    matches!(c, '\u{0370}'..='\u{03ff}' | '\u{0400}'..='\u{052f}' | '\u{13a0}'..='\u{13ff}' | '\u{1f00}'..='\u{1fff}')
}

/// Latin letters beside Greek, Cyrillic or Cherokee ones in one word.
fn mixes_alphabets(part: &str) -> bool {
    part.split(|c: char| !c.is_alphabetic()).any(|word| {
        word.chars().any(|c| c.is_ascii_alphabetic()) && word.chars().any(is_greek_or_cyrillic)
            || word.chars().any(|c| matches!(c, '\u{1d400}'..='\u{1d7ff}' | '\u{0250}'..='\u{02af}' | '\u{2100}'..='\u{218f}'))
    })
}

/// A word all of whose letters look like Latin ones, as in `сору`.
fn is_wholly_alike(part: &str) -> bool {
    const ALIKE: &str = "асеорхуіјѕԁһԛԝАВЕКМНОРСТХУІЈЅοανΑΒΕΖΗΙΚΜΝΟΡΤΥΧ";
    part.split(|c: char| !c.is_alphabetic())
        .any(|word| word.chars().count() > 1 && word.chars().all(|c| ALIKE.contains(c)))
}

/// What git takes for the name of a git dir on some system: `.GIT`, `git~1`, `.git ` and names that hold
/// characters which a file system leaves out.
pub(super) fn is_git_dir(part: &[u8]) -> bool {
    let seen: String = String::from_utf8_lossy(part).chars().filter(|c| !text::may_hide(*c)).collect();
    let stem = seen.split([':', '\\']).next().unwrap_or_default().trim_end_matches([' ', '.']);
    stem.eq_ignore_ascii_case(".git") || stem.eq_ignore_ascii_case("git~1")
}

/// Names in the form in which systems that tell no case apart compare them.
fn folded(path: &str) -> String {
    path.chars().flat_map(char::to_lowercase).collect()
}

/// The new names of a proposal, to be held against all names of its tree: for those that collide, and for
/// folders that git would take for repositories.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Folded paths and folders of what is new, and how they were found written.
    fresh: HashMap<String, BTreeSet<String>>,
    /// Folders that something was changed in that a git dir has.
    suspects: HashMap<String, Parts>,
}

/// What of a git dir a folder has.
#[derive(Debug, Default, Clone, Copy)]
struct Parts {
    head: bool,
    objects: bool,
    refs: bool,
    common: bool,
}

/// What was found among the names.
#[derive(Debug, Default)]
pub(super) struct Collisions {
    /// Paths that are one on systems that tell no case apart: each with another one.
    pub(super) collide: Vec<(String, String)>,
    /// Folders that git takes for repositories; the root is empty.
    pub(super) bare: Vec<String>,
}

impl Names {
    /// Notes a path that is new or changed.
    pub(super) fn note(&mut self, path: &[u8], is_new: bool) {
        let path = written(path);
        for dir in git_dirs(&path) {
            self.suspects.entry(dir.to_owned()).or_default();
        }
        if is_new {
            for end in path.match_indices('/').map(|(at, _)| at).chain([path.len()]) {
                let prefix = path.get(..end).unwrap_or_default();
                self.fresh.entry(folded(prefix)).or_default().insert(prefix.to_owned());
            }
        }
    }

    /// Whether the names of the tree are needed at all.
    pub(super) fn is_settled(&self) -> bool {
        self.fresh.is_empty() && self.suspects.is_empty()
    }

    /// Holds one name of the tree against them.
    pub(super) fn hold(&mut self, path: &[u8]) {
        if self.is_settled() {
            return;
        }
        let path = written(path);
        for dir in git_dirs(&path) {
            if let Some(parts) = self.suspects.get_mut(dir) {
                let rest = path.get(dir.len()..).unwrap_or_default().trim_start_matches('/').to_lowercase();
                parts.head |= rest == "head";
                parts.common |= rest == "commondir";
                parts.objects |= rest.starts_with("objects/");
                parts.refs |= rest.starts_with("refs/");
            }
        }
        let whole = folded(&path);
        let ends = |text: &str| -> Vec<usize> {
            text.match_indices('/').map(|(at, _)| at).chain([text.len()]).collect()
        };
        for (own, bare) in ends(&path).into_iter().zip(ends(&whole)) {
            let (Some(own), Some(bare)) = (path.get(..own), whole.get(..bare)) else { continue };
            if let Some(writings) = self.fresh.get_mut(bare)
                && !writings.contains(own)
            {
                writings.insert(own.to_owned());
            }
        }
    }

    pub(super) fn close(self) -> Collisions {
        let mut found = Collisions::default();
        for writings in self.fresh.into_values().filter(|writings| writings.len() > 1) {
            let mut writings = writings.into_iter();
            if let (Some(one), Some(other)) = (writings.next(), writings.next()) {
                found.collide.push((one, other));
            }
        }
        let is_bare = |parts: &Parts| parts.head && (parts.common || parts.objects && parts.refs);
        found.bare =
            self.suspects.into_iter().filter(|(_, parts)| is_bare(parts)).map(|(dir, _)| dir).collect();
        found.collide.sort();
        found.bare.sort();
        found
    }
}

/// The folders of a path in which it would be a part of a git dir.
fn git_dirs(path: &str) -> impl Iterator<Item = &str> {
    let mut at = 0;
    path.split('/').filter_map(move |part| {
        let begin = at;
        at += part.len() + 1;
        let is_last = at > path.len();
        let is_part = match is_last {
            true => part.eq_ignore_ascii_case("HEAD") || part.eq_ignore_ascii_case("commondir"),
            false => part.eq_ignore_ascii_case("objects") || part.eq_ignore_ascii_case("refs"),
        };
        is_part.then(|| path.get(..begin.saturating_sub(1)).unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_not_what_they_seem() {
        for bad in [
            &b"a\xff"[..],
            "a\u{202e}b".as_bytes(),
            b"a\nb",
            "сору.txt".as_bytes(),
            "pаypal.js".as_bytes(),
            "e\u{301}.txt".as_bytes(),
            "a\u{a0}b".as_bytes(),
            "src\u{2215}a".as_bytes(),
            b"-rf",
            b"a/CON",
            b"a/nul.txt",
            b"com1.log",
            b"a/b.",
            b"a/b ",
            b"a:b",
            b"a\\b",
        ] {
            assert!(!faults(bad).is_empty(), "{}", written(bad));
        }
        for fine in [
            "Grüße.md",
            "日本語/テスト.md",
            "привет.txt",
            "console.rs",
            "com10.x",
            "a-b.rs",
            "компания_v2.txt",
            "ελληνικά.md",
            "naïve (1).md",
            "a+b@2x.png",
        ] {
            assert_eq!(faults(fine.as_bytes()), Vec::<String>::new(), "{fine}");
        }
    }

    #[test]
    fn a_path_is_written_so_that_nothing_hides_and_no_two_are_alike() {
        assert_eq!(written(b"a/b\xff\n\\"), "a/b\\xff\\u{a}\\\\");
        assert_eq!(written("a\u{202e}".as_bytes()), "a\\u{202e}");
        assert_eq!(written("Grüße".as_bytes()), "Grüße");
    }

    #[test]
    fn names_of_git_dirs_on_any_system() {
        for git in
            [&b".git"[..], b".GIT", b"git~1", b".git ", b".git::$INDEX_ALLOCATION", ".g\u{200c}it".as_bytes()]
        {
            assert!(is_git_dir(git), "{git:?}");
        }
        for other in [&b".gitignore"[..], b"git", b".github", b"git~10"] {
            assert!(!is_git_dir(other), "{other:?}");
        }
    }

    fn close(fresh: &[&str], all: &[&str]) -> Collisions {
        let mut names = Names::default();
        for path in fresh {
            names.note(path.as_bytes(), true);
        }
        for path in all {
            names.hold(path.as_bytes());
        }
        names.close()
    }

    #[test]
    fn names_that_are_one_elsewhere_collide_with_their_folders() {
        let found = close(&["Src/a.rs", "b"], &["src/x.rs", "Src/a.rs", "b", "c/B"]);
        assert_eq!(found.collide, [("Src".to_owned(), "src".to_owned())]);
        assert!(close(&["src/a", "src/b"], &["src/a", "src/b", "a/src/a"]).collide.is_empty());
        assert!(close(&[], &["A", "a"]).collide.is_empty(), "what was there before is not the proposal's");
    }

    #[test]
    fn a_folder_that_git_takes_for_a_repository_is_found() {
        let parts = ["x/HEAD", "x/objects/info/keep", "x/refs/heads/main", "x/config"];
        assert_eq!(close(&parts, &parts).bare, ["x"]);
        assert_eq!(close(&parts[..1], &parts).bare, ["x"], "the rest may have been there before");
        assert_eq!(close(&["HEAD", "commondir"], &["HEAD", "commondir"]).bare, [""]);
        let only = ["src/refs/a.rs", "src/objects/b.rs", "src/head.rs"];
        assert!(close(&only, &only).bare.is_empty());
    }
}
