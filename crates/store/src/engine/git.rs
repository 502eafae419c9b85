//! The engine of repositories: the contract on the git dir of a [`Tree`].

use std::collections::BTreeMap;

use super::{Binned, Change, Checkout, Engine, Mode, Record};
use crate::error::{Doing as _, Error};
use crate::git::{self, Git as Command, split_nul, to_path};
use crate::id::{Commit, TreeId, Treeish as _};
use crate::message::{Message, Provenance, Signature};
use crate::tree::{Merged, Tree, branch_ref, line_ref};
use crate::workspace::Workspace;

/// A tree on Git.
#[derive(Clone, Debug)]
pub struct Git(Tree);

impl Git {
    /// The engine of a tree.
    pub const fn new(tree: Tree) -> Self {
        Self(tree)
    }

    fn at(&self, name: &'static str) -> Command {
        Command::at(self.0.git_dir(), name)
    }

    fn workspace(&self, at: Checkout<'_>) -> Result<Workspace, Error> {
        self.0.workspace_open(at.branch, at.dir)
    }
}

impl Engine for Git {
    fn name(&self) -> &'static str {
        "git"
    }

    fn begin(&self, name: &str, message: &Message, signature: &Signature) -> Result<Commit, Error> {
        let reference = reference(name)?;
        let hold = self.0.lock()?;
        if self.0.ref_head(&reference)?.is_some() {
            return Err(Error::BranchExists { name: name.to_owned() });
        }
        let empty: TreeId = self.at("mktree").object().doing("write an empty tree")?;
        let commit = self.0.commit_write(&empty, &[], message, signature)?;
        self.0.ref_move(&hold, &reference, &commit, None)?;
        Ok(commit)
    }

    fn fork(&self, name: &str, at: &Commit, _now: i64) -> Result<(), Error> {
        self.0.branch_create(name, at)
    }

    fn head(&self, name: &str) -> Result<Commit, Error> {
        let head = self.0.ref_head(&reference(name)?)?;
        head.ok_or_else(|| Error::BranchMissing { name: name.to_owned() })
    }

    fn heads(&self) -> Result<BTreeMap<String, Commit>, Error> {
        const DOING: &str = "list the branches";
        let format = "--format=%(objectname) %(refname:lstrip=2)";
        let out = self.at("for-each-ref").args([format, "refs/heads/"]).run().doing(DOING)?;
        let text = String::from_utf8_lossy(&out);
        let read = |line: &str| {
            let (commit, name) = line.split_once(' ')?;
            Some((name.to_owned(), commit.parse().ok()?))
        };
        let heads = text.lines().map(|line| read(line).ok_or_else(|| git::unreadable("for-each-ref")));
        heads.collect::<Result<_, _>>().doing(DOING)
    }

    fn checkout(&self, at: Checkout<'_>) -> Result<(), Error> {
        if std::fs::read_dir(at.dir).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(Error::Occupied { dir: at.dir.to_owned() });
        }
        self.0.workspace_create(at.branch, at.dir).map(|_| ())
    }

    fn snapshot(&self, at: Checkout<'_>) -> Result<TreeId, Error> {
        Ok(self.workspace(at)?.snapshot()?.tree)
    }

    fn restore(&self, at: Checkout<'_>, files: &TreeId) -> Result<(), Error> {
        self.workspace(at)?.restore(files)
    }

    fn commit(
        &self,
        at: Checkout<'_>,
        expected: &Commit,
        message: &Message,
        signature: &Signature,
    ) -> Result<Option<Commit>, Error> {
        let workspace = self.workspace(at)?;
        let reference = branch_ref(at.branch)?;
        let stands = || -> Result<(), Error> {
            let found = self.head(at.branch)?;
            if found == *expected {
                return Ok(());
            }
            Err(Error::Moved { name: at.branch.to_owned(), expected: expected.clone(), found })
        };
        stands()?;
        let files = workspace.snapshot()?.tree;
        if files == self.0.tree_of(expected)? {
            return Ok(None);
        }
        let commit = self.0.commit_write(&files, &[expected], message, signature)?;
        let hold = self.0.lock()?;
        stands()?;
        self.0.ref_move(&hold, &reference, &commit, Some(expected))?;
        Ok(Some(commit))
    }

    fn record(&self, commit: &Commit) -> Result<Record, Error> {
        const DOING: &str = "read a commit";
        let raw = self.at("cat-file").args(["commit", commit.hex()]).run().doing(DOING)?;
        read(&raw).ok_or_else(|| git::unreadable("cat-file")).doing(DOING)
    }

    fn diff(&self, from: &TreeId, to: &TreeId) -> Result<Vec<Change>, Error> {
        const DOING: &str = "compare two trees";
        let out = self
            .at("diff-tree")
            .args(["-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--ignore-submodules=none"])
            .args(["--no-ext-diff", "--no-textconv", from.hex(), to.hex()])
            .run()
            .doing(DOING)?;
        let mut fields = split_nul(&out);
        let mut changes = Vec::new();
        while let (Some(entry), Some(path)) = (fields.next(), fields.next()) {
            let entry = String::from_utf8_lossy(entry);
            let mut modes = entry.trim_start_matches(':').split(' ').map(mode);
            let (before, after) = (modes.next().flatten(), modes.next().flatten());
            changes.push(Change { path: to_path(path), before, after });
        }
        changes.sort();
        Ok(changes)
    }

    fn merge(
        &self,
        from: &Commit,
        into: &str,
        expected: &Commit,
        message: &Message,
        signature: &Signature,
    ) -> Result<Commit, Error> {
        let reference = reference(into)?;
        let hold = self.0.lock()?;
        let found = self.head(into)?;
        if found != *expected {
            return Err(Error::Moved { name: into.to_owned(), expected: expected.clone(), found });
        }
        if self.0.is_ancestor(from, &found)? {
            return Err(Error::NothingToMerge { name: from.to_string() });
        }
        let files = match self.0.merge_trees(&found, from)? {
            Merged::Clean(files) => files,
            Merged::Conflict(paths) => return Err(Error::Conflict { paths }),
        };
        let merge = self.0.commit_write(&files, &[&found, from], message, signature)?;
        self.0.ref_move(&hold, &reference, &merge, Some(&found))?;
        Ok(merge)
    }

    fn verify(&self) -> Result<(), Error> {
        let args = ["--full", "--no-dangling", "--no-progress", "--connectivity-only"];
        let check = |args: &[&str]| -> Result<(), Error> {
            let git = args.iter().fold(self.at("fsck"), |git, arg| git.arg(arg));
            let outcome = git.outcome().doing("check the store")?;
            if outcome.code == 0 {
                return Ok(());
            }
            let said = String::from_utf8_lossy(&outcome.stdout).lines().next().map(str::to_owned);
            let why = said.unwrap_or_else(|| outcome.failure("fsck").to_string());
            Err(Error::Corrupt { path: self.0.git_dir().to_owned(), why })
        };
        // What is missing shows at once; what is there and altered, by its bytes.
        check(&args)?;
        check(args.get(..3).unwrap_or_default())
    }

    fn recycle(&self, name: &str, now: i64) -> Result<(), Error> {
        self.0.branch_recycle(name, None, now)
    }

    fn bin(&self) -> Result<Vec<Binned>, Error> {
        self.0.bin_list()
    }

    fn bin_restore(&self, name: &str, to: &str, _now: i64) -> Result<Commit, Error> {
        self.0.bin_restore(name, to)
    }

    fn bin_empty(&self, name: &str) -> Result<(), Error> {
        self.0.bin_empty(name)
    }
}

/// The ref of a branch or a line.
fn reference(name: &str) -> Result<String, Error> {
    match name.strip_prefix("lines/") {
        Some(line) if super::is_line(line) => Ok(line_ref(line)),
        _ => branch_ref(name),
    }
}

fn mode(octal: &str) -> Option<Mode> {
    match octal {
        "100755" => Some(Mode::Program),
        "120000" => Some(Mode::Link),
        "160000" => Some(Mode::Submodule),
        "000000" => None,
        _ => Some(Mode::File),
    }
}

/// Reads a commit object.
fn read(raw: &[u8]) -> Option<Record> {
    let text = String::from_utf8_lossy(raw);
    let (head, message) = text.split_once("\n\n")?;
    let field = |name: &'static str| head.lines().filter_map(move |line| line.strip_prefix(name));
    let parents = field("parent ").map(|parent| parent.parse().ok()).collect::<Option<_>>()?;
    let committer = field("committer ").next()?;
    let mut when = committer.rsplit(' ');
    let seconds = when.nth(1)?.parse().ok()?;
    Some(Record {
        parents,
        files: field("tree ").next()?.parse().ok()?,
        subject: message.lines().next().unwrap_or_default().to_owned(),
        provenance: Provenance::of(message),
        by: committer.split(" <").next().unwrap_or_default().to_owned(),
        seconds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_read_as_git_writes_it() {
        let tree = "0123456789012345678901234567890123456789";
        let raw = format!(
            "tree {tree}\nauthor A <a@b> 7 +0000\ncommitter C D <c@d> 8 +0000\n\nSay\n\nRegie-Run: run_1\n"
        );
        let record = read(raw.as_bytes()).unwrap();
        assert_eq!((record.parents.len(), record.seconds, record.subject.as_str()), (0, 8, "Say"));
        assert_eq!(record.provenance.run, "run_1");
        assert_eq!(read(b"tree 0123\n\nx"), None);
    }
}
