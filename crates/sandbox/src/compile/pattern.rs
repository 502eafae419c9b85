//! Paths with wildcards, matched component by component.
//!
//! `*` and `?` stay within one name, `[a-z]` and `[!a-z]` are one character of it, `**` is any number of
//! directories, and at the end everything below. A backslash takes the next character as it is.

use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use super::Error;

/// What relative patterns and `~/` stand on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// Where patterns that begin with neither `/` nor `~/` begin.
    pub workspace: PathBuf,
    /// What `~/` means; without one such patterns are refused.
    pub home: Option<PathBuf>,
}

/// Which paths a rule is about: absolute, as it is matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// Exactly this name.
    Name(OsString),
    /// A name that looks like this.
    Like(Vec<Token>),
    /// Any number of names; at the end, at least one.
    Deep,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Char(char),
    One,
    Many,
    Class { negated: bool, ranges: Vec<(char, char)> },
}

impl Pattern {
    /// One path, in which no character means anything.
    ///
    /// # Errors
    /// When it is not an absolute path without detours in UTF-8.
    pub fn literal(path: &Path) -> Result<Self, Error> {
        let mut parts = Vec::new();
        if !path.is_absolute() {
            return Err(Error::Relative { path: path.to_owned() });
        }
        if path.to_str().is_none() {
            return Err(Error::NotText { path: path.to_owned() });
        }
        if path.as_os_str().as_encoded_bytes().contains(&0) {
            return Err(Error::Nul);
        }
        for component in path.components() {
            match component {
                Component::RootDir | Component::CurDir => {}
                Component::Normal(name) => parts.push(Part::Name(name.to_owned())),
                Component::ParentDir | Component::Prefix(_) => {
                    return Err(Error::Detour { pattern: path.display().to_string() });
                }
            }
        }
        Ok(Self { parts })
    }

    /// What a person or a file writes: absolute, `~/…`, or relative to the workspace.
    ///
    /// # Errors
    /// What makes it mean nothing, or more than one thing.
    pub fn glob(text: &str, base: &Base) -> Result<Self, Error> {
        let pattern = || text.to_owned();
        if text.is_empty() {
            return Err(Error::Empty);
        }
        if text.contains('\0') {
            return Err(Error::Nul);
        }
        let (start, rest) = if let Some(rest) = text.strip_prefix('/') {
            (Path::new("/"), rest)
        } else if text == "~" || text.starts_with("~/") {
            let home = base.home.as_deref().ok_or_else(|| Error::NoHome { pattern: pattern() })?;
            (home, text.strip_prefix('~').unwrap_or_default())
        } else if text.starts_with('~') {
            return Err(Error::OtherHome { pattern: pattern() });
        } else {
            (base.workspace.as_path(), text)
        };
        let mut parts = Self::literal(start)?.parts;
        for name in rest.split('/') {
            match name {
                "" | "." => {}
                ".." => return Err(Error::Detour { pattern: pattern() }),
                "**" if parts.last() == Some(&Part::Deep) => {}
                "**" => parts.push(Part::Deep),
                name => parts.push(part(name).ok_or_else(|| Error::Unclear { pattern: pattern() })?),
            }
        }
        Ok(Self { parts })
    }

    /// Whether it means one path only.
    #[must_use]
    pub fn is_literal(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Name(_)))
    }

    /// Whether it means `path` itself.
    #[must_use]
    pub fn is_match(&self, path: &Path) -> bool {
        let mut at = vec![0];
        self.rest(&mut at);
        for component in path.components() {
            if let Component::Normal(name) = component {
                at = at.into_iter().flat_map(|at| self.step(at, name)).collect();
                self.rest(&mut at);
            }
        }
        at.contains(&self.len())
    }

    /// Whether it names something below `path`, and comes to `path` by names alone.
    pub(super) fn leads_through(&self, path: &Path) -> bool {
        let names: Vec<&OsStr> = path.components().skip(1).map(|component| component.as_os_str()).collect();
        names.len() < self.len() && names.iter().enumerate().all(|(at, name)| self.name(at) == Some(*name))
    }

    pub(super) fn len(&self) -> usize {
        self.parts.len()
    }

    /// The positions after `name` has been read at `at`.
    pub(super) fn step(&self, at: usize, name: &OsStr) -> Vec<usize> {
        match self.parts.get(at) {
            Some(Part::Name(wanted)) if wanted == name => vec![at + 1],
            Some(Part::Like(tokens)) if is_like(tokens, name) => vec![at + 1],
            Some(Part::Deep) if at + 1 == self.len() => vec![at, at + 1],
            Some(Part::Deep) => vec![at],
            _ => vec![],
        }
    }

    /// Adds the positions that are reached without reading a name.
    pub(super) fn rest(&self, at: &mut Vec<usize>) {
        let skipped: Vec<usize> = at
            .iter()
            .filter(|at| self.parts.get(**at) == Some(&Part::Deep) && **at + 1 < self.len())
            .map(|at| at + 1)
            .collect();
        at.extend(skipped);
        at.sort_unstable();
        at.dedup();
    }

    /// The only name that is of use at `at`; `None` where many are.
    pub(super) fn name(&self, at: usize) -> Option<&OsStr> {
        match self.parts.get(at) {
            Some(Part::Name(name)) => Some(name),
            _ => None,
        }
    }

    /// Whether what follows `at` is one of many names.
    pub(super) fn is_wild(&self, at: usize) -> bool {
        matches!(self.parts.get(at), Some(Part::Like(_) | Part::Deep))
    }

    /// Whether everything below the directory in which `at` stands is meant.
    pub(super) fn is_everything(&self, at: usize) -> bool {
        let all = |part: &Part| matches!(part, Part::Like(tokens) if tokens[..] == [Token::Many]);
        match self.parts.get(at..) {
            Some([Part::Deep]) => true,
            Some([name] | [Part::Deep, name]) => all(name),
            _ => false,
        }
    }

    /// Whether `at` was reached, `depth` names from the root, without any wildcard.
    pub(super) fn is_certain(&self, at: usize, depth: usize) -> bool {
        at == depth && (0..at).all(|before| !self.is_wild(before))
    }
}

/// One name of a pattern; `None` for what has two readings.
fn part(name: &str) -> Option<Part> {
    let mut tokens = Vec::new();
    let mut chars = name.chars().peekable();
    while let Some(next) = chars.next() {
        tokens.push(match next {
            '*' if tokens.last() == Some(&Token::Many) => continue,
            '*' => Token::Many,
            '?' => Token::One,
            '{' | '}' => return None,
            '\\' => Token::Char(chars.next()?),
            '[' => class(&mut chars)?,
            other => Token::Char(other),
        });
    }
    let plain: Option<String> = tokens
        .iter()
        .map(|token| match token {
            Token::Char(one) => Some(*one),
            _ => None,
        })
        .collect();
    match plain {
        // Escapes spell what would have been a detour.
        Some(name) if name == "." || name == ".." || name.contains('/') => None,
        Some(name) => Some(Part::Name(name.into())),
        None => Some(Part::Like(tokens)),
    }
}

fn class(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<Token> {
    let negated = chars.next_if(|next| matches!(next, '!' | '^')).is_some();
    let mut ranges = Vec::new();
    loop {
        let from = match chars.next()? {
            ']' if !ranges.is_empty() => return Some(Token::Class { negated, ranges }),
            '\\' => chars.next()?,
            other => other,
        };
        let mut to = from;
        if chars.next_if_eq(&'-').is_some() {
            match chars.next()? {
                ']' => {
                    ranges.extend([(from, from), ('-', '-')]);
                    return Some(Token::Class { negated, ranges });
                }
                '\\' => to = chars.next()?,
                other => to = other,
            }
        }
        if from > to {
            return None;
        }
        ranges.push((from, to));
    }
}

/// Whether a name looks like that. Of a name that is not UTF-8, what is not is one unknown character each.
fn is_like(tokens: &[Token], name: &OsStr) -> bool {
    let name: Vec<char> = name.to_string_lossy().chars().collect();
    // The last `*`, and how much of the name it has taken: all that ever needs to be tried again.
    let (mut token, mut at) = (0, 0);
    let mut again: Option<(usize, usize)> = None;
    loop {
        let fits = match (tokens.get(token), name.get(at)) {
            (None, None) => return true,
            (Some(Token::Many), _) => {
                again = Some((token, at));
                token += 1;
                continue;
            }
            (Some(Token::Char(wanted)), Some(found)) => wanted == found,
            (Some(Token::One), Some(_)) => true,
            (Some(Token::Class { negated, ranges }), Some(found)) => {
                ranges.iter().any(|(from, to)| from <= found && found <= to) != *negated
            }
            _ => false,
        };
        if fits {
            token += 1;
            at += 1;
            continue;
        }
        match again {
            Some((many, taken)) if taken < name.len() => {
                again = Some((many, taken + 1));
                token = many + 1;
                at = taken + 1;
            }
            _ => return false,
        }
    }
}
