//! The attributes under which Regie's own git dirs work: none. Files are raw bytes, diffs and
//! merges use git's built-in rules, whatever a `.gitattributes` in the tree asks for.

use std::fs;
use std::io;
use std::path::Path;

/// `info/attributes` outranks every `.gitattributes` in a tree, in all versions of git.
const RAW: &str = "* -text !eol !crlf !ident !filter !working-tree-encoding \
                   !diff !merge !conflict-marker-size !whitespace\n";

/// Makes the git dir `git_dir` blind to the attributes of the tree.
pub(crate) fn ignore_in_tree(git_dir: &Path) -> io::Result<()> {
    let info = git_dir.join("info");
    fs::create_dir_all(&info)?;
    let path = info.join("attributes");
    if fs::read(&path).is_ok_and(|now| now == RAW.as_bytes()) {
        return Ok(());
    }
    fs::write(path, RAW)
}

/// Attributes under which the bytes of a file may differ from those of its blob.
pub(crate) const ALTERING: [&str; 5] = ["filter", "eol", "ident", "working-tree-encoding", "crlf"];

/// What an attribute of [`ALTERING`] does to a file, as `git check-attr` tells its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alteration {
    /// Nothing.
    None,
    /// Ends of lines are recorded as `\n`: nothing to a file that has no `\r\n`.
    LineFeeds,
    /// The bytes on disk are others.
    Other,
}

impl Alteration {
    pub(crate) fn of(name: &[u8], value: &[u8]) -> Self {
        match (name, value) {
            (_, b"unspecified" | b"unset") => Self::None,
            // `crlf` without a value is an old name of `text`, which alters nothing by itself.
            (b"crlf", b"set") => Self::None,
            (b"eol", b"lf") => Self::LineFeeds,
            _ => Self::Other,
        }
    }
}

/// Whether bytes hold an end of line that `eol=lf` would alter.
pub(crate) fn has_crlf(bytes: &[u8]) -> bool {
    bytes.windows(2).any(|pair| pair == b"\r\n")
}
