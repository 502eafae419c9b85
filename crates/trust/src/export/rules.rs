//! The owner's rules for what leaves the jail: deny before ask before allow; what no rule names is asked.
//!
//! An entry is a kind (`ci`), a pattern of paths as in `.gitignore` (`Makefile`, `scripts/`), or both
//! (`hidden_text:docs/ar/**`). A kind that deceives is allowed by its name alone: the path of a file says
//! nothing about what hides in it.

use domain::Digest;
use globset::{GlobBuilder, GlobMatcher};

use super::kind::Kind;
use super::report::Standing;

/// The most entries of one list.
const MOST: usize = 1_000;

/// Why an entry makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// There is nothing in it.
    #[error("it is blank: expected a kind, as \"ci\", or a pattern of paths, as \"scripts/**\"")]
    Blank,
    /// The pattern cannot be read.
    #[error("`{pattern}` is no pattern of paths ({why})")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong.
        why: String,
    },
    /// There are too many.
    #[error("more than 1,000 entries: name kinds or patterns instead of files")]
    TooMany,
}

#[derive(Debug, Clone)]
struct Entry {
    kind: Option<Kind>,
    paths: Option<GlobMatcher>,
}

/// The rules of an installation. Without any, everything is asked.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    deny: Vec<Entry>,
    ask: Vec<Entry>,
    allow: Vec<Entry>,
    written: String,
}

impl Rules {
    /// Reads rules.
    ///
    /// # Errors
    /// The first entry that makes no sense.
    pub fn parse(allow: &[String], ask: &[String], deny: &[String]) -> Result<Self, Malformed> {
        let written = format!("{allow:?}{ask:?}{deny:?}");
        // A name in capitals is the same file on some systems: what is stricter hears it.
        let read = |list: &[String], any_case| -> Result<Vec<Entry>, Malformed> {
            if list.len() > MOST {
                return Err(Malformed::TooMany);
            }
            list.iter().map(|text| entry(text, any_case)).collect()
        };
        Ok(Self { deny: read(deny, true)?, ask: read(ask, true)?, allow: read(allow, false)?, written })
    }

    /// What denies everything: where the owner's rules cannot be read.
    pub fn closed() -> Self {
        let deny = Kind::ALL.map(|kind| Entry { kind: Some(kind), paths: None }).into();
        Self { deny, written: "closed".into(), ..Self::default() }
    }

    /// How a finding stands.
    pub fn standing(&self, kind: Kind, path: &str) -> Standing {
        let names = |entries: &[Entry]| entries.iter().any(|entry| entry.matches(kind, path));
        if names(&self.deny) {
            return Standing::Denied;
        }
        let allows = |entry: &Entry| (entry.kind.is_some() || !kind.deceives()) && entry.matches(kind, path);
        match !names(&self.ask) && self.allow.iter().any(allows) {
            true => Standing::Allowed,
            false => Standing::Asks,
        }
    }

    /// Tells whether two sets of rules are the same.
    pub fn digest(&self) -> String {
        Digest::of(self.written.as_bytes()).to_string()
    }
}

impl Entry {
    fn matches(&self, kind: Kind, path: &str) -> bool {
        self.kind.is_none_or(|named| named == kind)
            && self.paths.as_ref().is_none_or(|paths| paths.is_match(path))
    }
}

fn entry(text: &str, any_case: bool) -> Result<Entry, Malformed> {
    let text = text.trim();
    if let Some(kind) = Kind::named(text) {
        return Ok(Entry { kind: Some(kind), paths: None });
    }
    let (kind, pattern) = match text.split_once(':').map(|(kind, rest)| (Kind::named(kind), rest)) {
        Some((Some(kind), rest)) => (Some(kind), rest),
        _ => (None, text),
    };
    if pattern.trim_matches('/').is_empty() {
        return Err(Malformed::Blank);
    }
    let mut whole = pattern.to_owned();
    if pattern.ends_with('/') {
        whole.push_str("**");
    }
    let whole = match whole.strip_prefix('/') {
        Some(rooted) => rooted.to_owned(),
        None if pattern.trim_end_matches('/').contains('/') => whole,
        None => format!("**/{whole}"),
    };
    let mut builder = GlobBuilder::new(&whole);
    builder.literal_separator(true).case_insensitive(any_case);
    match builder.build() {
        Ok(glob) => Ok(Entry { kind, paths: Some(glob.compile_matcher()) }),
        Err(error) => Err(Malformed::Pattern { pattern: pattern.to_owned(), why: error.kind().to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(allow: &[&str], ask: &[&str], deny: &[&str]) -> Rules {
        let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        Rules::parse(&owned(allow), &owned(ask), &owned(deny)).unwrap()
    }

    #[test]
    fn deny_goes_before_ask_and_ask_before_allow() {
        let all = rules(&["build", "scripts/", "/bin/"], &["Makefile"], &["ci", "build.rs"]);
        for (kind, path, standing) in [
            (Kind::Build, "justfile", Standing::Allowed),
            (Kind::Build, "sub/Makefile", Standing::Asks),
            (Kind::Build, "makefile", Standing::Asks),
            (Kind::Build, "a/BUILD.RS", Standing::Denied),
            (Kind::Ci, "scripts/ci.yml", Standing::Denied),
            (Kind::Executable, "scripts/a/b", Standing::Allowed),
            (Kind::Executable, "Scripts/a/b", Standing::Asks),
            (Kind::Executable, "tools/scripts/b", Standing::Allowed),
            (Kind::Executable, "bin/a", Standing::Allowed),
            (Kind::Executable, "tools/bin/a", Standing::Asks),
            (Kind::Executable, "scripts", Standing::Asks),
            (Kind::Hook, ".husky/pre-push", Standing::Asks),
        ] {
            assert_eq!(all.standing(kind, path), standing, "{kind:?} {path}");
        }
        assert_eq!(Rules::default().standing(Kind::Build, "Makefile"), Standing::Asks);
        assert_eq!(Rules::closed().standing(Kind::Binary, "a.png"), Standing::Denied);
    }

    #[test]
    fn what_deceives_is_allowed_by_its_name_only() {
        let by_path = rules(&["docs/**"], &[], &[]);
        assert_eq!(by_path.standing(Kind::Executable, "docs/a"), Standing::Allowed);
        for kind in Kind::ALL.into_iter().filter(|kind| kind.deceives()) {
            assert_eq!(by_path.standing(kind, "docs/a"), Standing::Asks, "{kind:?}");
        }
        let named = rules(&["hidden_text:docs/**"], &[], &["name:/docs/x"]);
        assert_eq!(named.standing(Kind::HiddenText, "docs/a"), Standing::Allowed);
        assert_eq!(named.standing(Kind::HiddenText, "src/a"), Standing::Asks);
        assert_eq!(named.standing(Kind::Name, "docs/x"), Standing::Denied);
        assert_eq!(named.standing(Kind::Name, "a/docs/x"), Standing::Asks);
    }

    #[test]
    fn nonsense_is_refused() {
        for wrong in ["", " ", "/", "a[", "hidden_text:", "{a"] {
            assert!(Rules::parse(&[], &[], &[wrong.to_owned()]).is_err(), "{wrong:?}");
        }
        assert_eq!(Rules::parse(&[], &vec!["a".to_owned(); 1_001], &[]).err(), Some(Malformed::TooMany));
        assert_ne!(rules(&["a"], &[], &[]).digest(), rules(&[], &["a"], &[]).digest());
    }
}
