//! The git dir of one project: its lines, its branches, and how commits come into being.

use std::fs;
use std::path::{Path, PathBuf};

use crate::attributes;
use crate::error::{Doing as _, DoingAt as _, Error};
use crate::git::{self, Git, to_path};
use crate::hold::Hold;
use crate::id::{Commit, TreeId, Treeish as _};
use crate::message::{self, Message, Provenance, Signature};
use crate::objects::{self, Way};
use crate::odb;
use crate::owner::{self, Owner};
use crate::workspace::remove_if_there;

/// No object: the expected old value of a ref that must not exist.
pub(crate) const NOTHING: &str = "0000000000000000000000000000000000000000";

/// The history of one project, in a bare git dir of Regie's own.
#[derive(Clone, Debug)]
pub struct Tree {
    git_dir: PathBuf,
}

/// What merging two commits gives.
pub(crate) enum Merged {
    Clean(TreeId),
    Conflict(Vec<PathBuf>),
}

impl Tree {
    /// Opens the git dir, created when it is not there.
    ///
    /// # Errors
    /// When it cannot be created or git is missing.
    pub fn open_or_create(git_dir: &Path) -> Result<Self, Error> {
        let git_dir = std::path::absolute(git_dir).doing_at("find the store", git_dir)?;
        fs::create_dir_all(&git_dir).doing_at("create the store", &git_dir)?;
        // The attributes come last: where they are, the rest is. Whoever comes at the same moment waits.
        if !git_dir.join("info/attributes").exists() {
            let path = git_dir.join("regie.lock");
            let _hold = Hold::take(&path).doing_at("lock the store", &path)?;
            if !git_dir.join("HEAD").exists() || !git_dir.join("config").exists() {
                Git::in_dir(&git_dir, "init")
                    .args(["-q", "--bare", "--template=", "--initial-branch=none", "."])
                    .run()
                    .doing("create the store")?;
                // Snapshots are reachable from no ref; nobody may prune them by chance.
                Git::at(&git_dir, "config").args(["gc.auto", "0"]).run().doing("set up the store")?;
            }
            attributes::ignore_in_tree(&git_dir).doing_at("set up the store", &git_dir)?;
        }
        attributes::ignore_in_tree(&git_dir).doing_at("set up the store", &git_dir)?;
        Ok(Self { git_dir })
    }

    /// Where the git dir lies.
    pub fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// Brings the owner's HEAD into Regie's own line of that branch and gives the line's head.
    ///
    /// The line follows HEAD when it can; a line that is ahead stays; a line that has diverged is
    /// merged. Importing the same HEAD again changes nothing.
    ///
    /// # Errors
    /// [`Error::Diverged`] when line and branch changed the same places.
    pub fn import(&self, owner: &Owner) -> Result<Commit, Error> {
        let hold = self.lock()?;
        let head = &owner.head;
        let line = line_ref(&owner.branch);
        let old = self.ref_head(&line)?;
        if old.as_ref() == Some(head) {
            return Ok(head.clone());
        }
        if old.is_none() && !self.has_refs()? {
            // The fetch looks whether all is there, and brings what is not.
            let _ = objects::bring(&owner.place, &self.git_dir, &hold, Way::Link);
        }
        Git::at(&self.git_dir, "fetch")
            .args(["-q", "--no-tags", "--no-write-fetch-head", "--update-shallow"])
            .args(["--no-auto-maintenance", "--upload-pack=git -c safe.directory='*' upload-pack"])
            .arg(&owner.place.common_dir)
            .arg(head.hex())
            .under(&hold)
            .run()
            .doing("read the owner's repository")?;
        let Some(old) = old else {
            self.ref_move(&hold, &line, head, None)?;
            return Ok(head.clone());
        };
        if self.is_ancestor(head, &old)? {
            return Ok(old);
        }
        if self.is_ancestor(&old, head)? {
            self.ref_move(&hold, &line, head, Some(&old))?;
            return Ok(head.clone());
        }
        if !self.are_related(&old, head)? {
            // Another repository has taken the place of the one that was known here. What was merged
            // for that one is kept beside, and the line begins anew.
            let kept = former_ref(&owner.branch, &old);
            if self.ref_head(&kept)?.is_none() {
                self.ref_move(&hold, &kept, &old, None)?;
            }
            self.ref_move(&hold, &line, head, Some(&old))?;
            return Ok(head.clone());
        }
        let tree = match self.merge_trees(&old, head)? {
            Merged::Clean(tree) => tree,
            Merged::Conflict(paths) => {
                return Err(Error::Diverged { branch: owner.branch.clone(), paths });
            }
        };
        let whose = Provenance {
            principal: "svc:regie".to_owned(),
            on_behalf_of: "human:owner".to_owned(),
            ..Provenance::default()
        };
        let message = Message {
            subject: format!("Merge branch '{}' into Regie's line of it", owner.branch),
            body: String::new(),
            trailers: whose.trailers(),
        };
        let signature = Signature {
            name: "Regie".to_owned(),
            email: "regie@localhost".to_owned(),
            seconds: self.commit_time(&old)?.max(self.commit_time(head)?),
        };
        let merge = self.commit_write(&tree, &[&old, head], &message, &signature)?;
        self.ref_move(&hold, &line, &merge, Some(&old))?;
        Ok(merge)
    }

    /// The head of Regie's line of the owner's branch `branch`, if it was ever imported.
    ///
    /// # Errors
    /// When git fails.
    pub fn line_head(&self, branch: &str) -> Result<Option<Commit>, Error> {
        self.ref_head(&line_ref(branch))
    }

    /// Opens the branch `name`, of the form `<role>/<run>`, at `at`. Repeating it is harmless.
    ///
    /// # Errors
    /// [`Error::BranchName`], or [`Error::BranchExists`] when it stands elsewhere.
    pub fn branch_create(&self, name: &str, at: &Commit) -> Result<(), Error> {
        let reference = branch_ref(name)?;
        let hold = self.lock()?;
        match self.ref_head(&reference)? {
            Some(head) if head == *at => Ok(()),
            Some(_) => Err(Error::BranchExists { name: name.to_owned() }),
            None => self.ref_move(&hold, &reference, at, None),
        }
    }

    /// The commit at the head of the branch `name`.
    ///
    /// # Errors
    /// [`Error::BranchMissing`] when there is no such branch.
    pub fn branch_head(&self, name: &str) -> Result<Commit, Error> {
        let head = self.ref_head(&branch_ref(name)?)?;
        head.ok_or_else(|| Error::BranchMissing { name: name.to_owned() })
    }

    /// The tree of a commit.
    ///
    /// # Errors
    /// When the commit is not in this store.
    pub fn tree_of(&self, commit: &Commit) -> Result<TreeId, Error> {
        if let Some(raw) = odb::read(&self.git_dir, odb::Kind::Commit, commit.hex())
            && let Some(tree) = odb::tree_of(&raw).and_then(|hex| hex.parse().ok())
        {
            return Ok(tree);
        }
        Git::at(&self.git_dir, "rev-parse")
            .args(["-q", "--verify"])
            .arg(format!("{commit}^{{tree}}"))
            .object()
            .doing("read a commit")
    }

    /// Held while refs move or the owner's repository is written.
    pub(crate) fn lock(&self) -> Result<Hold, Error> {
        let path = self.git_dir.join("regie.lock");
        Hold::take(&path).doing_at("lock the store", &path)
    }

    pub(crate) fn ref_head(&self, reference: &str) -> Result<Option<Commit>, Error> {
        if let Some(head) = odb::ref_head(&self.git_dir, reference) {
            return Ok(Some(head));
        }
        let outcome = Git::at(&self.git_dir, "rev-parse")
            .args(["-q", "--verify", "--end-of-options"])
            .arg(format!("{reference}^{{commit}}"))
            .outcome()
            .doing("read a branch")?;
        if outcome.code != 0 {
            return Ok(None);
        }
        // `--verify` repeats the marker of the options in some versions: the name is the last line.
        let text = String::from_utf8_lossy(&outcome.stdout);
        let name = text.lines().last().unwrap_or_default();
        name.parse().map(Some).map_err(|_| git::unreadable("rev-parse")).doing("read a branch")
    }

    /// Whether anything was ever recorded here.
    fn has_refs(&self) -> Result<bool, Error> {
        let first = Git::at(&self.git_dir, "for-each-ref").args(["--count=1"]).run();
        Ok(!first.doing("look at the branches")?.is_empty())
    }

    /// Moves a ref from `expected` (`None`: it must not exist) to `to`.
    pub(crate) fn ref_move(
        &self,
        hold: &Hold,
        reference: &str,
        to: &Commit,
        expected: Option<&Commit>,
    ) -> Result<(), Error> {
        let old = expected.map_or(NOTHING, |commit| commit.hex());
        // All refs move under the hold: a lock that is there now is that of a git that was killed.
        remove_if_there(&self.git_dir.join(format!("{reference}.lock")))?;
        if expected.is_some_and(|old| odb::ref_move(&self.git_dir, reference, to, old).is_some()) {
            return Ok(());
        }
        let outcome = Git::at(&self.git_dir, "update-ref")
            .args([reference, to.hex(), old])
            .under(hold)
            .outcome()
            .doing("move a branch")?;
        if outcome.code == 0 {
            return Ok(());
        }
        match (self.ref_head(reference)?, expected) {
            (Some(found), Some(expected)) if found != *expected => Err(Error::Moved {
                name: reference.trim_start_matches("refs/heads/").to_owned(),
                expected: expected.clone(),
                found,
            }),
            _ => Err(outcome.failure("update-ref")).doing("move a branch"),
        }
    }

    /// Whether `new` is `old` or comes after it.
    ///
    /// # Errors
    /// [`Error::Git`] when one of them is not in this tree's store.
    pub fn is_ancestor(&self, old: &Commit, new: &Commit) -> Result<bool, Error> {
        is_ancestor(Git::at(&self.git_dir, "merge-base"), old, new)
    }

    /// Whether a commit is in this tree's store.
    pub(crate) fn is_known(&self, commit: &Commit) -> Result<bool, Error> {
        Ok(self.ref_head(commit.hex())?.is_some())
    }

    /// Whether two commits have a beginning in common.
    ///
    /// # Errors
    /// [`Error::Git`] when one of them is not in this tree's store.
    pub fn are_related(&self, one: &Commit, other: &Commit) -> Result<bool, Error> {
        are_related(Git::at(&self.git_dir, "merge-base"), one, other)
    }

    pub(crate) fn merge_trees(&self, ours: &Commit, theirs: &Commit) -> Result<Merged, Error> {
        merged(Git::at(&self.git_dir, "merge-tree").args(["--write-tree"]), ours, theirs)
    }

    /// The same, with `base` for what both come from.
    pub(crate) fn merge_trees_from(
        &self,
        base: &Commit,
        ours: &Commit,
        theirs: &Commit,
    ) -> Result<Merged, Error> {
        let git = Git::at(&self.git_dir, "merge-tree").args(["--write-tree"]);
        merged(git.arg(format!("--merge-base={base}")), ours, theirs)
    }

    /// Writes a commit object; no branch moves.
    pub(crate) fn commit_write(
        &self,
        tree: &TreeId,
        parents: &[&Commit],
        message: &Message,
        signature: &Signature,
    ) -> Result<Commit, Error> {
        if let Some(commit) = odb::commit(&self.git_dir, tree.hex(), parents, message, signature) {
            return Ok(commit);
        }
        let mut git =
            Git::at(&self.git_dir, "commit-tree").signed(signature).stdin(message.text()).args(["-F", "-"]);
        for parent in parents {
            git = git.args(["-p", parent.hex()]);
        }
        git.arg(tree.hex()).object().doing("write a commit")
    }

    /// Whether a commit was made under the key `key`.
    pub(crate) fn commit_has_key(&self, commit: &Commit, key: &str) -> Result<bool, Error> {
        let raw = match odb::read(&self.git_dir, odb::Kind::Commit, commit.hex()) {
            Some(raw) => raw,
            None => {
                let git = Git::at(&self.git_dir, "cat-file").args(["commit", commit.hex()]);
                git.run().doing("read a commit")?
            }
        };
        Ok(message::carries_key(&raw, key))
    }

    /// The committer's time, in seconds since 1970.
    fn commit_time(&self, commit: &Commit) -> Result<i64, Error> {
        let text = Git::at(&self.git_dir, "log")
            .args(["-1", "--format=%ct", commit.hex()])
            .line()
            .doing("read a commit")?;
        text.parse().map_err(|_| git::unreadable("log")).doing("read a commit")
    }
}

impl Tree {
    /// Looks at the owner's repository; see [`owner::inspect`].
    ///
    /// # Errors
    /// [`Error::Owner`] with the mend.
    pub fn inspect(repo: &Path) -> Result<Owner, Error> {
        owner::inspect(repo).map_err(Error::Owner)
    }

    /// The folder of the owner's tree that its git takes hooks from (`core.hooksPath`), where there is one.
    /// `None` also where the repository cannot be asked.
    pub fn hooks_in_tree(repo: &Path) -> Option<PathBuf> {
        crate::manners::hooks_in_tree(&owner::Place::find(repo).ok()?)
    }
}

/// Whether `new` contains `old`, asked with a prepared `git merge-base`.
pub(crate) fn is_ancestor(git: Git, old: &Commit, new: &Commit) -> Result<bool, Error> {
    let outcome = git.args(["--is-ancestor", old.hex(), new.hex()]).outcome().doing("compare two commits")?;
    match outcome.code {
        0 => Ok(true),
        1 => Ok(false),
        _ => Err(outcome.failure("merge-base")).doing("compare two commits"),
    }
}

/// Whether two commits have a beginning in common, asked with a prepared `git merge-base`.
pub(crate) fn are_related(git: Git, one: &Commit, other: &Commit) -> Result<bool, Error> {
    let outcome = git.args([one.hex(), other.hex()]).outcome().doing("compare two commits")?;
    match outcome.code {
        0 => Ok(true),
        1 => Ok(false),
        _ => Err(outcome.failure("merge-base")).doing("compare two commits"),
    }
}

/// What a prepared `git merge-tree` gives.
fn merged(git: Git, ours: &Commit, theirs: &Commit) -> Result<Merged, Error> {
    let outcome = git
        .args(["-z", "--name-only", "--no-messages"])
        .args([ours.hex(), theirs.hex()])
        .outcome()
        .doing("merge")?;
    if !matches!(outcome.code, 0 | 1) {
        return Err(outcome.failure("merge-tree")).doing("merge");
    }
    let mut fields = git::split_nul(&outcome.stdout);
    let tree = fields.next().and_then(|name| std::str::from_utf8(name).ok()?.parse().ok());
    match (outcome.code, tree) {
        (0, Some(tree)) => Ok(Merged::Clean(tree)),
        (1, Some(_)) => Ok(Merged::Conflict(fields.map(to_path).collect())),
        _ => Err(git::unreadable("merge-tree")).doing("merge"),
    }
}

/// The ref of Regie's line of an owner's branch.
pub(crate) fn line_ref(branch: &str) -> String {
    format!("refs/heads/lines/{branch}")
}

/// Where a line is kept whose repository was replaced by another one.
pub fn former_ref(branch: &str, head: &Commit) -> String {
    let short: String = head.hex().chars().take(12).collect();
    format!("refs/former/{branch}/{short}")
}

/// The ref of a run's branch. Only names that git, shells and file systems all take are accepted.
pub(crate) fn branch_ref(name: &str) -> Result<String, Error> {
    let part_ok = |part: &str| {
        let first_ok = part.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        first_ok && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    };
    match name.split_once('/') {
        Some((role, run)) if part_ok(role) && part_ok(run) && role != "lines" => {
            Ok(format!("refs/heads/{name}"))
        }
        _ => Err(Error::BranchName { name: name.chars().take(100).collect() }),
    }
}
