//! The kinds of findings.

use serde::{Deserialize, Serialize};

/// What a finding is about. The order is that of the report: what deceives first, then what runs unasked,
/// then what runs when it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Invisible or bidirectional characters: the text is not what it looks like.
    HiddenText,
    /// A name that looks like another, collides with one, or is another on some systems.
    Name,
    /// A repository inside the tree, or what git takes for one.
    Repository,
    /// A symbolic link that leaves the tree.
    LinkOut,
    /// What has no content that could be looked at.
    Special,
    /// What could not be read.
    Unread,
    /// What git runs by itself.
    Hook,
    /// What tells agents what to do, or gives them tools.
    Agent,
    /// What an editor obeys when the folder is opened.
    Editor,
    /// What a shell or its tools obey in the folder.
    Shell,
    /// What Regie itself reads.
    Regie,
    /// What a build server runs, with its secrets.
    Ci,
    /// What a package manager runs or fetches.
    Package,
    /// What a build runs.
    Build,
    /// What is fetched from another repository.
    Submodule,
    /// What decides how files are read, compared and shown.
    Attributes,
    /// Installed code: virtual environments, vendored and compiled files.
    Environment,
    /// What guards the rest, where it becomes weaker.
    Guard,
    /// What can be executed.
    Executable,
    /// A symbolic link within the tree.
    Link,
    /// A line so long, or so far to the right, that a diff hides it.
    LongLine,
    /// Content that a diff does not show.
    Binary,
}

impl Kind {
    /// All of them, in the order of the report.
    pub const ALL: [Self; 22] = [
        Self::HiddenText,
        Self::Name,
        Self::Repository,
        Self::LinkOut,
        Self::Special,
        Self::Unread,
        Self::Hook,
        Self::Agent,
        Self::Editor,
        Self::Shell,
        Self::Regie,
        Self::Ci,
        Self::Package,
        Self::Build,
        Self::Submodule,
        Self::Attributes,
        Self::Environment,
        Self::Guard,
        Self::Executable,
        Self::Link,
        Self::LongLine,
        Self::Binary,
    ];

    /// Its name in files and reports, as `hidden_text`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HiddenText => "hidden_text",
            Self::Name => "name",
            Self::Repository => "repository",
            Self::LinkOut => "link_out",
            Self::Special => "special",
            Self::Unread => "unread",
            Self::Hook => "hook",
            Self::Agent => "agent",
            Self::Editor => "editor",
            Self::Shell => "shell",
            Self::Regie => "regie",
            Self::Ci => "ci",
            Self::Package => "package",
            Self::Build => "build",
            Self::Submodule => "submodule",
            Self::Attributes => "attributes",
            Self::Environment => "environment",
            Self::Guard => "guard",
            Self::Executable => "executable",
            Self::Link => "link",
            Self::LongLine => "long_line",
            Self::Binary => "binary",
        }
    }

    /// The kind of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether it is about a change that is not what it seems. A path says nothing about that, so what is
    /// allowed by its path alone does not cover it.
    pub const fn deceives(self) -> bool {
        matches!(
            self,
            Self::HiddenText
                | Self::Name
                | Self::Repository
                | Self::LinkOut
                | Self::Special
                | Self::Unread
                | Self::LongLine
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_record_and_the_order_is_one() {
        for kind in Kind::ALL {
            assert_eq!(Kind::named(kind.name()), Some(kind));
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{}\"", kind.name()));
        }
        assert!(Kind::ALL.is_sorted());
    }
}
