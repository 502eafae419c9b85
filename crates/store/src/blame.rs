//! Which commit a line comes from.

use std::path::Path;

use crate::error::{Doing as _, Error};
use crate::git::{self, Git};
use crate::id::{Commit, Treeish as _};
use crate::tree::Tree;

/// Lines of a file that come from one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The commit.
    pub commit: Commit,
    /// The first of the lines, counted from 1.
    pub first: u64,
    /// How many there are.
    pub lines: u64,
}

impl Tree {
    /// Where the lines of a file come from, in their order; nothing when the commit has no such file.
    ///
    /// # Errors
    /// [`Error::Git`] when the commit is not in this tree's store.
    pub fn blame(&self, at: &Commit, path: &Path) -> Result<Vec<Origin>, Error> {
        const DOING: &str = "find where a line comes from";
        let listed = Git::at(self.git_dir(), "ls-tree")
            .args(["-z", "--full-tree", at.hex(), "--"])
            .arg(path)
            .run()
            .doing(DOING)?;
        // Neither a directory nor the commit of a submodule has lines.
        if !listed.starts_with(b"100") {
            return Ok(Vec::new());
        }
        let out = Git::at(self.git_dir(), "blame")
            .args(["--porcelain", "--no-textconv", at.hex(), "--"])
            .arg(path)
            .run()
            .doing(DOING)?;
        parse(&out).ok_or_else(|| git::unreadable("blame")).doing(DOING)
    }
}

/// Reads the porcelain form: a line of each content follows a tab, whatever is in it.
fn parse(out: &[u8]) -> Option<Vec<Origin>> {
    let mut origins: Vec<Origin> = Vec::new();
    for line in out.split(|byte| *byte == b'\n').filter(|line| line.first() != Some(&b'\t')) {
        let mut words = line.split(|byte| *byte == b' ');
        let commit = words.next().and_then(|word| std::str::from_utf8(word).ok()?.parse::<Commit>().ok());
        // All else begins with a word that says what it is.
        let Some(commit) = commit else { continue };
        let first: u64 = std::str::from_utf8(words.nth(1)?).ok()?.parse().ok()?;
        match origins.last_mut() {
            Some(last) if last.commit == commit && last.first + last.lines == first => last.lines += 1,
            _ => origins.push(Origin { commit, first, lines: 1 }),
        }
    }
    Some(origins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_that_looks_like_a_head_is_none() {
        let (one, other) = ("0".repeat(40), "1".repeat(40));
        let text = format!(
            "{one} 1 1 2\nauthor A\n\t{other} 9 9 1\n{one} 2 2\n\t\n{other} 1 3 1\nsummary {one} 1 1\n\tx\n"
        );
        let origin = |name: &str, first, lines| Origin { commit: name.parse().unwrap(), first, lines };
        assert_eq!(parse(text.as_bytes()).unwrap(), [origin(&one, 1, 2), origin(&other, 3, 1)]);
    }
}
