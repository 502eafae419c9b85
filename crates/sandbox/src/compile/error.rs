//! Why rules were not compiled.

use std::path::PathBuf;

/// Why rules were not compiled. Nothing is granted then. Paths are shown with what would break a line escaped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A pattern without a character.
    #[error("a path rule is empty; name a path, or leave the rule out")]
    Empty,
    /// A pattern with a NUL byte.
    #[error("a path rule holds a NUL byte, which no path can; write the path again")]
    Nul,
    /// A path that would have to be resolved first.
    #[error("the path rule {pattern:?} has a `..`; write the path that it leads to")]
    Detour {
        /// The rule's pattern.
        pattern: String,
    },
    /// A pattern with two readings.
    #[error(
        "the path rule {pattern:?} cannot be read: braces are not supported, and a `[` wants its `]`; write one \
         rule for each, or put a backslash before a character that means itself"
    )]
    Unclear {
        /// The rule's pattern.
        pattern: String,
    },
    /// `~/` where no home is known.
    #[error("the path rule {pattern:?} names a home, and none is known; write an absolute path")]
    NoHome {
        /// The rule's pattern.
        pattern: String,
    },
    /// Another user's home.
    #[error("the path rule {pattern:?} names another user's home; write an absolute path")]
    OtherHome {
        /// The rule's pattern.
        pattern: String,
    },
    /// A literal that is not absolute.
    #[error("the path {path:?} is not absolute; write the whole path")]
    Relative {
        /// The path.
        path: PathBuf,
    },
    /// A path that a plan cannot be written with.
    #[error(
        "the name of {path:?} is not valid UTF-8, which a jail's plan has to be; rename it, or deny the directory that it is in"
    )]
    NotText {
        /// The path.
        path: PathBuf,
    },
    /// A path beyond what the kernel takes.
    #[error("a path of {bytes} bytes is longer than the {most} that the kernel takes: {path:?}; move it to a shorter one", path = short(path))]
    TooLong {
        /// The path.
        path: PathBuf,
        /// Its length.
        bytes: usize,
        /// The longest.
        most: usize,
    },
    /// A path of more names than the walk follows.
    #[error("a path rule leads through more than {most} directories in each other: {path:?}; deny or grant one above", path = short(path))]
    TooDeep {
        /// The path.
        path: PathBuf,
        /// The bound.
        most: usize,
    },
    /// What is to be granted is not there.
    #[error("{path:?} is to be granted and is not there; make it first, or name another path")]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// A rule about a link.
    #[error(
        "{path:?}, which a path rule names, is a symbolic link, and a rule holds for what it leads to; name that"
    )]
    Link {
        /// The link.
        path: PathBuf,
    },
    /// A grant of what is neither file nor directory.
    #[error(
        "{path:?} is to be granted and is neither a file nor a directory; sockets and devices cannot be granted"
    )]
    Special {
        /// The path.
        path: PathBuf,
    },
    /// A grant of what cannot be looked at.
    #[error(
        "{path:?} is to be granted and cannot be looked at; make its directory searchable, or name another path"
    )]
    Unseen {
        /// The path.
        path: PathBuf,
    },
    /// A grant of a place that the jail makes itself.
    #[error(
        "{path:?} cannot be granted, as the jail has one of its own; name what you need below another directory"
    )]
    Own {
        /// The path.
        path: PathBuf,
    },
    /// More mounts than a jail should be made of.
    #[error(
        "the rules need more than {most} mounts; deny or grant the directories instead of what is in them"
    )]
    TooMany {
        /// The bound.
        most: usize,
    },
    /// A tree that is too large to be looked through.
    #[error(
        "a path rule with wildcards would look through more than {most} files, from {path:?} on; begin it with a directory"
    )]
    TooLarge {
        /// The bound.
        most: usize,
        /// Where it became too much.
        path: PathBuf,
    },
    /// A working directory that the rules do not show.
    #[error("the working directory {path:?} is not granted by the rules; grant it, or name another one")]
    Cwd {
        /// The directory.
        path: PathBuf,
    },
}

/// The beginning of a path that is too long to be shown.
fn short(path: &std::path::Path) -> String {
    let text = path.to_string_lossy();
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.into_owned(),
    }
}
