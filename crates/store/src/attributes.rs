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
