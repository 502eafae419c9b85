//! One change after another becomes findings.

use std::borrow::Cow;

use super::kind::Kind;
use super::name::{self, Collisions, Names};
use super::report::{Altered, Finding, Heap, Report, Standing};
use super::rules::Rules;
use super::{key, place, text};

/// One side of a change.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// The mode of git, as 0o100755.
    pub mode: u32,
    /// The object's id.
    pub id: &'a str,
    /// What is in it.
    pub content: Content<'a>,
}

/// The content of one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content<'a> {
    /// All of it.
    Whole(&'a [u8]),
    /// Too much, or not to be had.
    Unread,
    /// A submodule's commit has none here.
    Elsewhere,
}

/// One changed path. Renames are a path that is gone and one that is new.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    /// The path, as bytes.
    pub path: &'a [u8],
    /// What was there.
    pub before: Option<Side<'a>>,
    /// What is there now.
    pub after: Option<Side<'a>>,
}

/// Looks at the changes of a proposal.
#[derive(Debug)]
pub struct Survey {
    heap: Heap,
    names: Names,
    hooks: Vec<String>,
}

const SUBMODULE: u32 = 0o160_000;
const LINK: u32 = 0o120_000;
const EXECUTABLE: u32 = 0o100_755;
const FILE: u32 = 0o100_644;

impl Side<'_> {
    fn bytes(&self) -> Option<&[u8]> {
        match self.content {
            Content::Whole(bytes) => Some(bytes),
            Content::Unread | Content::Elsewhere => None,
        }
    }
}

impl Change<'_> {
    fn altered(&self) -> Altered {
        match (&self.before, &self.after) {
            (_, None) => Altered::Deleted,
            (None, _) => Altered::Added,
            (Some(old), Some(new)) if old.mode & 0o170_000 != new.mode & 0o170_000 => Altered::Type,
            (Some(old), Some(new)) if old.id == new.id => Altered::Mode,
            _ => Altered::Modified,
        }
    }

    fn became_executable(&self) -> bool {
        let is_one = |side: &Option<Side<'_>>| side.is_some_and(|side| side.mode == EXECUTABLE);
        is_one(&self.after) && !is_one(&self.before)
    }
}

impl Survey {
    /// A survey under the owner's rules.
    pub fn new(rules: Rules) -> Self {
        Self { heap: Heap::new(rules), names: Names::default(), hooks: Vec::new() }
    }

    /// Counts a folder of the tree as one of hooks: the owner's `core.hooksPath`.
    #[must_use]
    pub fn with_hooks_at(mut self, dir: &str) -> Self {
        let dir = dir.trim_matches('/').to_lowercase();
        if !dir.is_empty() {
            self.hooks.push(format!("{dir}/"));
        }
        self
    }

    /// Looks at one change.
    pub fn see(&mut self, change: &Change<'_>) {
        let path = name::written(change.path);
        match &change.after {
            None => self.gone(change, &path),
            Some(after) => {
                let is_new = change.before.is_none();
                self.names.note(change.path, is_new);
                if is_new {
                    self.named(change, &path);
                }
                self.there(change, after, &path);
            }
        }
    }

    /// Whether [`Survey::hold`] is of use: nothing is new otherwise that could collide.
    pub fn needs_names(&self) -> bool {
        !self.names.is_settled()
    }

    /// Holds one name of the proposal's whole tree against what is new.
    pub fn hold(&mut self, path: &[u8]) {
        self.names.hold(path);
    }

    /// What was found.
    pub fn close(mut self) -> Report {
        let Collisions { collide, bare } = std::mem::take(&mut self.names).close();
        for (one, other) in collide {
            let finding =
                blank(Kind::Name, other, "one name on systems that tell no case apart: one hides the other");
            self.heap.push(Finding { what: vec![format!("collides with {one}")], ..finding });
        }
        for dir in bare {
            let path = if dir.is_empty() { "/".into() } else { dir };
            self.heap.push(blank(
                Kind::Repository,
                path,
                "git takes this folder for a repository and obeys its configuration",
            ));
        }
        self.heap.close()
    }

    fn push(
        &mut self,
        kind: Kind,
        change: &Change<'_>,
        path: &str,
        why: &str,
        what: Vec<String>,
        line: Option<u64>,
    ) {
        let content = change.after.as_ref().map(|side| side.id.to_owned()).unwrap_or_default();
        let finding =
            Finding { change: change.altered(), what, line, content, ..blank(kind, path.into(), why) };
        self.heap.push(finding);
    }

    fn named(&mut self, change: &Change<'_>, path: &str) {
        if change.path.split(|byte| *byte == b'/').any(name::is_git_dir) {
            let why = "a git dir, or on some systems one: git obeys its configuration and hooks";
            self.push(Kind::Repository, change, path, why, Vec::new(), None);
        }
        let faults = name::faults(change.path);
        if !faults.is_empty() {
            self.push(
                Kind::Name,
                change,
                path,
                "the name is not what it looks like everywhere",
                faults,
                None,
            );
        }
    }

    /// What guards or checks, and is gone.
    fn gone(&mut self, change: &Change<'_>, path: &str) {
        let why = match place::place(path).map(|(kind, _)| kind) {
            Some(kind @ (Kind::Guard | Kind::Ci | Kind::Hook)) => {
                return self.push(
                    kind,
                    change,
                    path,
                    "it is gone, and what it guarded or checked with it",
                    Vec::new(),
                    None,
                );
            }
            Some(_) => return,
            None if place::is_ignore_list(path) => "files that it kept out can be committed or published now",
            None if place::is_test(path) => "a test is gone: it checks nothing any more",
            None => return,
        };
        self.push(Kind::Guard, change, path, why, Vec::new(), None);
    }

    fn there(&mut self, change: &Change<'_>, after: &Side<'_>, path: &str) {
        match after.mode {
            SUBMODULE => {
                let why = "another commit of another repository is checked out here";
                return self.push(Kind::Submodule, change, path, why, Vec::new(), None);
            }
            LINK => return self.link(change, after, path),
            mode if mode & 0o170_000 != FILE & 0o170_000 => {
                let why = "it is neither a file nor a link";
                return self.push(Kind::Special, change, path, why, vec![format!("mode {mode:o}")], None);
            }
            _ => {}
        }
        let old = change.before.as_ref().and_then(Side::bytes);
        let Some(new) = after.bytes() else {
            let why = "it is too large or could not be read, so nobody has looked into it";
            self.push(Kind::Unread, change, path, why, Vec::new(), None);
            let is_placed = self.placed(change, path, None, None);
            if !is_placed && after.mode == EXECUTABLE {
                self.push(Kind::Executable, change, path, "it can be executed", Vec::new(), None);
            }
            return;
        };
        let line = text::first_difference(old.unwrap_or_default(), new);
        let is_placed = self.placed(change, path, Some(new), line);
        self.executed(change, after, path, is_placed, new, line);
        if change.altered() == Altered::Mode {
            return;
        }
        self.guards(change, path, old, new, line);
        self.looked_through(change, path, old, new);
    }

    /// By where it lies or, of a manifest whose content is given, by what it says; gives whether it counts.
    fn placed(&mut self, change: &Change<'_>, path: &str, new: Option<&[u8]>, line: Option<u64>) -> bool {
        let lower = path.to_lowercase();
        if self.hooks.iter().any(|dir| lower.starts_with(dir)) {
            let why = "your git is configured to run hooks from this folder";
            self.push(Kind::Hook, change, path, why, Vec::new(), line);
            return true;
        }
        let old = change.before.as_ref().and_then(Side::bytes);
        let keys = new.and_then(|new| key::changed(path, old, new));
        match keys {
            Some(keys) if keys.is_empty() => return false,
            Some(keys) => {
                let why = "it says what is run, installed or fetched";
                self.push(Kind::Package, change, path, why, keys, line);
                return true;
            }
            None => {}
        }
        let Some((kind, why)) = place::place(path) else { return false };
        self.push(kind, change, path, why, Vec::new(), line);
        true
    }

    fn executed(
        &mut self,
        change: &Change<'_>,
        after: &Side<'_>,
        path: &str,
        is_placed: bool,
        new: &[u8],
        line: Option<u64>,
    ) {
        let program = program(new);
        let why = match (change.became_executable(), program) {
            (true, None) => "it can be executed now",
            (true, Some(_)) => "it is a program that can be executed now",
            (false, Some(what)) if !is_placed => what,
            (false, None) if after.mode == EXECUTABLE && !is_placed => {
                "it can be executed, and is another now"
            }
            _ => return,
        };
        self.push(Kind::Executable, change, path, why, Vec::new(), line);
    }

    /// Lists of what is kept out, where they become shorter; and tests that become shorter by half.
    fn guards(&mut self, change: &Change<'_>, path: &str, old: Option<&[u8]>, new: &[u8], line: Option<u64>) {
        let Some(old) = old.filter(|_| place::is_ignore_list(path)) else { return };
        let kept: Vec<&[u8]> = new.split(|byte| *byte == b'\n').collect();
        let lost: Vec<String> = old
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.trim_ascii().is_empty() && !line.starts_with(b"#") && !kept.contains(line))
            .map(|line| format!("without {}", name::written(line.get(..80).unwrap_or(line))))
            .take(8)
            .collect();
        let shown = |line: &&[u8]| {
            line.starts_with(b"!") && !old.split(|byte| *byte == b'\n').any(|known| known == *line)
        };
        let lets = kept
            .iter()
            .filter(|line| shown(line))
            .map(|line| format!("with {}", name::written(line.get(..80).unwrap_or(line))));
        let what: Vec<String> = lost.into_iter().chain(lets.take(8)).collect();
        if !what.is_empty() {
            let why = "files that it kept out can be committed or published now";
            self.push(Kind::Guard, change, path, why, what, line);
        }
    }

    fn looked_through(&mut self, change: &Change<'_>, path: &str, old: Option<&[u8]>, new: &[u8]) {
        if new.contains(&0) {
            if !is_picture(path, new) && program(new).is_none() {
                self.push(
                    Kind::Binary,
                    change,
                    path,
                    "its content is not text: the diff shows nothing of it",
                    Vec::new(),
                    None,
                );
            }
            return;
        }
        let was_other = old.is_some_and(|old| !old.contains(&0) && std::str::from_utf8(old).is_err());
        let after = match std::str::from_utf8(new) {
            Ok(text) => Cow::Borrowed(text),
            // A text in another encoding stays one: what hides in it is looked for all the same.
            Err(_) if was_other => String::from_utf8_lossy(new),
            Err(_) => {
                if !is_picture(path, new) {
                    let why = "its content is not UTF-8: it may look different elsewhere";
                    self.push(Kind::Binary, change, path, why, Vec::new(), None);
                }
                return;
            }
        };
        let before = String::from_utf8_lossy(old.unwrap_or_default());
        let hidden = text::hidden(&before, &after);
        if !hidden.is_empty() {
            let why = "characters that are not seen or that turn the order of the text: it is not what it looks like";
            self.push(Kind::HiddenText, change, path, why, hidden.what, hidden.line);
        }
        let long = text::long(path, &before, &after);
        if !long.is_empty() {
            self.push(
                Kind::LongLine,
                change,
                path,
                "a diff shows only the beginning of it",
                long.what,
                long.line,
            );
        }
    }

    fn link(&mut self, change: &Change<'_>, after: &Side<'_>, path: &str) {
        let Some(target) = after.bytes() else {
            return self.push(
                Kind::LinkOut,
                change,
                path,
                "a link whose target could not be read",
                Vec::new(),
                None,
            );
        };
        let what = vec![format!("to {}", name::written(target.get(..200).unwrap_or(target)))];
        match leaves(change.path, target) {
            true => self.push(
                Kind::LinkOut,
                change,
                path,
                "a link out of the tree: what follows it reads or writes there",
                what,
                None,
            ),
            false => self.push(
                Kind::Link,
                change,
                path,
                "a link: what is written here lands elsewhere",
                what,
                None,
            ),
        }
        // A link in such a place is obeyed as what it points to.
        self.placed(change, path, None, None);
    }
}

fn blank(kind: Kind, path: String, why: &str) -> Finding {
    Finding {
        standing: Standing::Asks,
        kind,
        path,
        change: Altered::Added,
        why: why.to_owned(),
        what: Vec::new(),
        line: None,
        content: String::new(),
        seen: false,
    }
}

/// What kind of program this is, by how it begins.
fn program(content: &[u8]) -> Option<&'static str> {
    const COMPILED: &str = "a compiled program: nobody can read what it does";
    const MACH_O: [[u8; 4]; 5] = [
        [0xfe, 0xed, 0xfa, 0xce],
        [0xfe, 0xed, 0xfa, 0xcf],
        [0xce, 0xfa, 0xed, 0xfe],
        [0xcf, 0xfa, 0xed, 0xfe],
        [0xca, 0xfe, 0xba, 0xbe],
    ];
    let begins = |magic: &[u8]| content.starts_with(magic);
    if begins(b"#!") {
        return Some("a script with an interpreter of its own");
    }
    let is_dos = begins(b"MZ") && content.contains(&0);
    let is_compiled = begins(b"\x7fELF")
        || is_dos
        || MACH_O.iter().any(|magic| begins(magic))
        || begins(b"\0asm")
        || begins(b"!<arch>\n")
        || begins(b"dex\n")
        || begins(b"BC\xc0\xde");
    is_compiled.then_some(COMPILED)
}

/// Pictures and fonts that are what their names say.
fn is_picture(path: &str, content: &[u8]) -> bool {
    const MAGIC: [(&str, &[u8]); 14] = [
        (".png", b"\x89PNG\r\n\x1a\n"),
        (".jpg", b"\xff\xd8\xff"),
        (".jpeg", b"\xff\xd8\xff"),
        (".gif", b"GIF8"),
        (".webp", b"RIFF"),
        (".ico", b"\0\0\x01\0"),
        (".bmp", b"BM"),
        (".woff", b"wOFF"),
        (".woff2", b"wOF2"),
        (".ttf", b"\0\x01\0\0"),
        (".otf", b"OTTO"),
        (".mp3", b"ID3"),
        (".wav", b"RIFF"),
        (".pdf", b"%PDF-"),
    ];
    let path = path.to_lowercase();
    MAGIC.iter().any(|(end, magic)| path.ends_with(end) && content.starts_with(magic))
}

/// Whether a link at `path` to `target` leads out of the tree, by the names alone: a part of the way that is
/// a link itself is told of at its own place.
fn leaves(path: &[u8], target: &[u8]) -> bool {
    if target.is_empty() || target.contains(&b'\\') || target.get(1) == Some(&b':') {
        return true;
    }
    if target.starts_with(b"/") {
        return true;
    }
    let mut depth = path.split(|byte| *byte == b'/').count().saturating_sub(1);
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => match depth.checked_sub(1) {
                Some(up) => depth = up,
                None => return true,
            },
            part if name::is_git_dir(part) => return true,
            _ => depth = depth.saturating_add(1),
        }
    }
    false
}
