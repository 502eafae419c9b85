//! Rules about paths become the mounts of a jail: a pure function of the rules and of a look at the files.
//!
//! What a path may be used for: nothing, if a rule denies it or a directory above it. Otherwise what the
//! rules allow that mean the path itself, joined; where there is none, what holds for the directory above.
//! So `read` inside `write` is read-only, `write` inside `read` is writable, and the order of rules is of no
//! matter.
//!
//! A jail is made of whole directories and files, so rules are compiled to less where that cannot say what
//! they say (never to more):
//!
//! - What is denied inside a grant is covered, in place, by something empty that nobody can open. What is
//!   denied and not there is covered all the same, so that it cannot be made ([`Absent`] says how).
//! - Every directory between a grant and what is protected in it is mounted onto itself: a mount point can be
//!   neither renamed nor removed, so nothing takes the place of an ancestor.
//! - A directory in which a new name could be one that a rule with wildcards keeps is not writable: there is no
//!   boundary between what may and what must not be made in it. Directories in it where no such name is
//!   possible are.
//! - A rule that denies everything in a directory denies the directory.
//! - Links are never followed. A rule that names one is refused; one that is met by wildcards is passed by.

mod error;
mod layered;
mod look;
mod pattern;
mod walk;

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::{Access, Mount};

pub use self::{
    error::Error,
    layered::Layered,
    look::{Kind, Look, Machine},
    pattern::{Base, Pattern},
};

/// What a rule does with its paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// They are not there. Wins over everything.
    Deny,
    /// They can be read.
    Read,
    /// They can be read and changed.
    Write,
    /// They can be read and executed.
    Exec,
}

/// What becomes of a path that a rule keeps and that is not there yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Absent {
    /// It cannot be made in the jail.
    Covered,
    /// It can be made in the jail: the rule is about what is there.
    Left,
}

/// One rule about paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What it does.
    pub verb: Verb,
    /// What it is about.
    pub pattern: Pattern,
    /// Whether it also holds for what is not there.
    pub absent: Absent,
    /// What is said when somebody asks which rule it was.
    pub origin: String,
}

impl Rule {
    /// A rule that also holds for what is not there.
    pub fn new(verb: Verb, pattern: Pattern, origin: impl Into<String>) -> Self {
        Self { verb, pattern, absent: Absent::Covered, origin: origin.into() }
    }
}

/// What a jail is to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// What may be done where.
    pub paths: Vec<Rule>,
    /// Mounts that come with the system, as [`crate::default_system_mounts`] lists them. What is denied of
    /// them is not shown.
    pub system: Vec<Mount>,
    /// Where the program is to start; it has to be granted.
    pub cwd: Option<PathBuf>,
}

/// What may be done with a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights(u8);

impl Rights {
    /// Nothing.
    pub const NONE: Self = Self(0);
    const READ: u8 = 1;
    const WRITE: u8 = 2;
    const EXEC: u8 = 4;

    /// What a rule gives.
    #[must_use]
    pub const fn of(verb: Verb) -> Self {
        Self(match verb {
            Verb::Deny => 0,
            Verb::Read => Self::READ,
            Verb::Write => Self::READ | Self::WRITE,
            Verb::Exec => Self::READ | Self::EXEC,
        })
    }

    /// What a mount of this kind gives; `None` when it gives what is there already.
    #[must_use]
    pub const fn of_access(access: Access) -> Option<Self> {
        Some(Self(match access {
            Access::Read => Self::READ | Self::EXEC,
            Access::ReadNoExec => Self::READ,
            Access::WriteNoExec => Self::READ | Self::WRITE,
            Access::Write | Access::Private => Self::READ | Self::WRITE | Self::EXEC,
            Access::Cover | Access::Link => 0,
            Access::Hold => return None,
        }))
    }

    /// All of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether everything in `other` is in it.
    #[must_use]
    pub const fn holds(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether the path can be written, made or removed.
    #[must_use]
    pub const fn can_write(self) -> bool {
        self.0 & Self::WRITE != 0
    }

    const fn without_write(self) -> Self {
        Self(self.0 & !Self::WRITE)
    }

    const fn access(self) -> Access {
        match (self.can_write(), self.0 & Self::EXEC != 0) {
            (false, false) => Access::ReadNoExec,
            (false, true) => Access::Read,
            (true, false) => Access::WriteNoExec,
            (true, true) => Access::Write,
        }
    }
}

/// Why a mount is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// It comes with the system.
    System,
    /// A rule says what may be done there.
    Granted,
    /// A rule denies it.
    Denied,
    /// A rule keeps it, and it is not there: it cannot be made.
    Absent,
    /// It cannot be read, and a rule might deny what is in it.
    Unreadable,
    /// A new name in it could be one that a rule keeps: it is not writable.
    Frozen,
    /// In a directory that is not writable for that reason, where none of its rules reaches.
    Reopened,
    /// It leads to something that is protected: it can be neither renamed nor removed.
    Held,
}

/// One mount, and what it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Laid {
    /// The mount.
    pub mount: Mount,
    /// Why it is there.
    pub why: Why,
    /// The rule, by its place in [`Rules::paths`].
    pub rule: Option<usize>,
}

/// Rules as mounts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compiled {
    /// The mounts; what is nearer to the root comes first.
    pub laid: Vec<Laid>,
    /// The rules that changed nothing, by their place in [`Rules::paths`].
    pub idle: Vec<usize>,
}

impl Compiled {
    /// The mounts, with what is below `from` shown at `to`.
    #[must_use]
    pub fn mounts_at(&self, from: &Path, to: &Path) -> Vec<Mount> {
        let moved = |mount: &Mount| match mount.target.strip_prefix(from) {
            Ok(rest) => Mount { target: to.components().chain(rest.components()).collect(), ..mount.clone() },
            Err(_) => mount.clone(),
        };
        self.laid.iter().map(|laid| moved(&laid.mount)).collect()
    }

    /// The mounts, each at the place where it is outside.
    #[must_use]
    pub fn mounts(&self) -> Vec<Mount> {
        self.laid.iter().map(|laid| laid.mount.clone()).collect()
    }
}

/// Compiles `rules` for the files that `look` sees. Grants nothing when it fails.
///
/// # Errors
/// [`Error`] names the path or the rule, and how to mend it.
pub fn compile(rules: &Rules, look: &dyn Look) -> Result<Compiled, Error> {
    let mut all = rules.paths.clone();
    let mut fixed = Vec::new();
    for mount in &rules.system {
        // What is shown as it is can carry what the rules say of it; links, and what is shown elsewhere, cannot.
        let is_plain = mount.source == mount.target && look.kind(&mount.source) == Kind::Directory;
        match (is_plain, mount.access) {
            (true, Access::Read) => {
                all.push(Rule::new(Verb::Exec, Pattern::literal(&mount.target)?, "the system"));
            }
            _ => fixed.push(mount),
        }
    }
    let mut compiled = walk::walk(&all, look)?;
    let is_denied = |path: &Path| {
        path.ancestors().any(|above| {
            rules.paths.iter().any(|rule| rule.verb == Verb::Deny && rule.pattern.is_match(above))
        })
    };
    for link in fixed.iter().filter(|mount| mount.access == Access::Link) {
        if rules.paths.iter().any(|rule| rule.pattern.leads_through(&link.target)) {
            return Err(Error::Link { path: link.target.clone() });
        }
    }
    for mount in fixed.into_iter().filter(|mount| !is_denied(&mount.target)) {
        compiled.laid.push(Laid { mount: mount.clone(), why: Why::System, rule: None });
    }
    for laid in &mut compiled.laid {
        if laid.rule.is_some_and(|rule| rule >= rules.paths.len()) {
            laid.rule = None;
            if laid.why == Why::Granted {
                laid.why = Why::System;
            }
        }
    }
    compiled.idle.retain(|rule| *rule < rules.paths.len());
    compiled.laid.sort_by_key(|laid| laid.mount.target.components().count());
    if let Some(cwd) = &rules.cwd {
        let nearest = compiled
            .laid
            .iter()
            .rfind(|laid| laid.mount.access != Access::Hold && cwd.starts_with(&laid.mount.target));
        if nearest.is_none_or(|laid| laid.mount.access == Access::Cover) {
            return Err(Error::Cwd { path: cwd.clone() });
        }
    }
    Ok(compiled)
}
