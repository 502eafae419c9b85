//! The recycle bin: what was a branch, under a ref that is none. Each is one commit on top of the branch's head,
//! with the files that its workspace held last, made at the moment when it was put there.

use std::collections::BTreeMap;

use crate::engine::Binned;
use crate::error::{Doing as _, Error};
use crate::follow::base_ref;
use crate::forked::held_ref;
use crate::git::{self, Git, split_nul};
use crate::hold::Hold;
use crate::id::{Commit, TreeId};
use crate::keep::reference;
use crate::message::{Message, Signature};
use crate::tree::{NOTHING, Tree, branch_ref};
use crate::workspace::remove_if_there;

/// The role of branches that came back out of the bin. No run has it.
pub const RESTORED: &str = "restored";
/// Where the bin is.
const BIN: &str = "refs/regie/bin/";

impl Tree {
    /// Puts a branch into the recycle bin, with the files that its workspace held last when they are not its
    /// head's. Repeating it is harmless.
    ///
    /// # Errors
    /// [`Error::BranchName`], [`Error::BranchMissing`].
    pub fn branch_recycle(&self, name: &str, files: Option<&TreeId>, now: i64) -> Result<(), Error> {
        let (branch, bin) = (branch_ref(name)?, bin_ref(name)?);
        let hold = self.lock()?;
        let before = self.ref_head(&bin)?;
        let Some(head) = self.ref_head(&branch)? else {
            return match before {
                Some(_) => Ok(()),
                None => Err(Error::BranchMissing { name: name.to_owned() }),
            };
        };
        let tree = match files {
            Some(files) => files.clone(),
            None => self.tree_of(&head)?,
        };
        let message = Message { subject: format!("Put {name} into the bin"), ..Message::default() };
        // Should the name have been there before, that stays below it.
        let parents: Vec<&Commit> = [&head].into_iter().chain(before.as_ref()).collect();
        let binned = self.commit_write(&tree, &parents, &message, &regie(now))?;
        let old = before.as_ref().map_or(NOTHING.to_owned(), ToString::to_string);
        self.refs_move(
            &hold,
            &format!("update {bin} {binned} {old}\ndelete {branch} {head}\n"),
            [&bin, &branch],
        )
    }

    /// What is in the bin, by name.
    ///
    /// # Errors
    /// When git fails.
    pub fn bin_list(&self) -> Result<Vec<Binned>, Error> {
        const DOING: &str = "look into the bin";
        let format = "--format=%(refname)%00%(tree)%00%(parent)%00%(committerdate:unix)%00%(objectname)%00";
        let out = Git::at(self.git_dir(), "for-each-ref").args([format, BIN]).run().doing(DOING)?;
        let fields: Vec<&str> =
            split_nul(&out).filter_map(|field| std::str::from_utf8(field).ok()).map(str::trim).collect();
        let mut found = Vec::new();
        for entry in fields.chunks_exact(5) {
            let [name, tree, parents, at, own] = entry else { continue };
            let read = || -> Option<Binned> {
                let head: Commit = parents.split(' ').next()?.parse().ok()?;
                Some(Binned {
                    name: name.strip_prefix(BIN)?.to_owned(),
                    head,
                    files: tree.parse().ok()?,
                    at: at.parse().ok()?,
                })
            };
            found.push(read().ok_or_else(|| Error::Corrupt {
                path: self.git_dir().join(name),
                why: format!("{own} is nothing that the bin holds"),
            })?);
        }
        Ok(found)
    }

    /// Brings a branch back out of the bin under a name that is free, and gives its head.
    ///
    /// # Errors
    /// [`Error::BranchMissing`] when it is not in the bin, [`Error::BranchExists`].
    pub fn bin_restore(&self, name: &str, to: &str) -> Result<Commit, Error> {
        let (bin, branch) = (bin_ref(name)?, branch_ref(to)?);
        let hold = self.lock()?;
        let binned = self.ref_head(&bin)?;
        let binned = binned.ok_or_else(|| Error::BranchMissing { name: name.to_owned() })?;
        if self.ref_head(&branch)?.is_some() {
            return Err(Error::BranchExists { name: to.to_owned() });
        }
        let before = self.parent(&binned, 1)?.unwrap_or_else(|| binned.clone());
        // What the workspace held beyond its branch comes back as a commit on top.
        let head = if self.tree_of(&before)? == self.tree_of(&binned)? { before } else { binned.clone() };
        let moves = format!("update {branch} {head} {NOTHING}\ndelete {bin} {binned}\n");
        self.refs_move(&hold, &moves, [&bin, &branch])?;
        Ok(head)
    }

    /// Lets go of what the bin holds under a name. Its objects go with the next collection, when nothing else
    /// reaches them.
    ///
    /// # Errors
    /// [`Error::BranchMissing`] when it is not in the bin.
    pub fn bin_empty(&self, name: &str) -> Result<(), Error> {
        let bin = bin_ref(name)?;
        let hold = self.lock()?;
        let binned = self.ref_head(&bin)?;
        let binned = binned.ok_or_else(|| Error::BranchMissing { name: name.to_owned() })?;
        self.refs_move(&hold, &format!("delete {bin} {binned}\n"), [&bin])
    }

    /// The head that a branch has, or had when it was put into the bin. One that came back from there is found
    /// under `restored/`.
    ///
    /// # Errors
    /// [`Error::BranchMissing`] when there is no such branch, and none in the bin.
    pub fn branch_last(&self, name: &str) -> Result<Commit, Error> {
        if let Some(head) = self.ref_head(&branch_ref(name)?)? {
            return Ok(head);
        }
        let binned = self.ref_head(&bin_ref(name)?)?;
        let head = match binned {
            Some(binned) => self.parent(&binned, 1)?,
            None => match name.split_once('/') {
                Some((_, run)) => self.ref_head(&branch_ref(&format!("{RESTORED}/{run}"))?)?,
                None => None,
            },
        };
        head.ok_or_else(|| Error::BranchMissing { name: name.to_owned() })
    }

    /// Opens a branch that has the files which a workspace held last, as a commit on top of `head`.
    ///
    /// # Errors
    /// [`Error::BranchName`], [`Error::BranchExists`].
    pub fn branch_of_files(
        &self,
        name: &str,
        head: &Commit,
        files: &TreeId,
        now: i64,
    ) -> Result<Commit, Error> {
        let branch = branch_ref(name)?;
        let hold = self.lock()?;
        if self.ref_head(&branch)?.is_some() {
            return Err(Error::BranchExists { name: name.to_owned() });
        }
        if self.tree_of(head)? == *files {
            self.ref_move(&hold, &branch, head, None)?;
            return Ok(head.clone());
        }
        let message = Message {
            subject: format!("Bring back what the workspace of {name} held"),
            ..Message::default()
        };
        let commit = self.commit_write(files, &[head], &message, &regie(now))?;
        self.ref_move(&hold, &branch, &commit, None)?;
        Ok(commit)
    }

    /// What the workspaces that were taken away held, by run.
    ///
    /// # Errors
    /// When git fails.
    pub fn left_all(&self) -> Result<BTreeMap<String, TreeId>, Error> {
        const DOING: &str = "find what workspaces held";
        let format = "--format=%(objectname) %(refname:lstrip=3)";
        let out = Git::at(self.git_dir(), "for-each-ref").args([format, "refs/regie/left/"]).run();
        let out = out.doing(DOING)?;
        let read = |line: &str| {
            let (tree, run) = line.split_once(' ')?;
            Some((run.to_owned(), tree.parse().ok()?))
        };
        let text = String::from_utf8_lossy(&out);
        let all = text.lines().map(|line| read(line).ok_or_else(|| git::unreadable("for-each-ref")));
        all.collect::<Result<_, _>>().doing(DOING)
    }

    /// Lets go of what is held for a run: what its workspace held, and when its branch is in the bin, that and its
    /// snapshots. Its objects go with a later collection, when nothing else reaches them.
    ///
    /// # Errors
    /// When git fails, or `run` is no plain name. Repeating it is safe.
    pub fn run_forget(&self, branch: &str, run: &str) -> Result<(), Error> {
        let (left, kept, own) = (reference("left", run)?, reference("kept", run)?, branch_ref(branch)?);
        let with_branch = [bin_ref(branch)?, base_ref(branch), held_ref(&own), kept];
        let hold = self.lock()?;
        let stands = self.ref_head(&own)?.is_some();
        for reference in with_branch.into_iter().filter(|_| !stands).chain([left]) {
            remove_if_there(&self.git_dir().join(format!("{reference}.lock")))?;
            let git = Git::at(self.git_dir(), "update-ref").args(["-d", reference.as_str()]).under(&hold);
            git.run().doing("empty the bin")?;
        }
        Ok(())
    }

    /// Moves refs, all of them or none.
    fn refs_move<const N: usize>(&self, hold: &Hold, moves: &str, refs: [&String; N]) -> Result<(), Error> {
        for reference in refs {
            remove_if_there(&self.git_dir().join(format!("{reference}.lock")))?;
        }
        let git = Git::at(self.git_dir(), "update-ref").args(["--stdin"]).stdin(moves.into());
        git.under(hold).run().map(|_| ()).doing("move branches")
    }
}

/// What the host signs with where nobody asked for it.
pub(crate) fn regie(now: i64) -> Signature {
    Signature { name: "Regie".to_owned(), email: "regie@localhost".to_owned(), seconds: now }
}

pub(crate) fn bin_ref(name: &str) -> Result<String, Error> {
    branch_ref(name).map(|branch| branch.replacen("refs/heads/", BIN, 1))
}
