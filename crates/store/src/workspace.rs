//! The writable checkout of one branch: plain files, without a git dir inside.

use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::diff::Diff;
use crate::error::{Doing as _, DoingAt as _, Error};
use crate::git::Git;
use crate::hold::Hold;
use crate::id::{Commit, Treeish as _};
use crate::message::{Message, Signature};
use crate::seen::{Moment, Seen};
use crate::tree::{Tree, branch_ref};

/// More processes than these do not write a tree any faster.
const WRITERS: usize = 4;

/// The files of one branch, with exactly one writer.
#[derive(Clone, Debug)]
pub struct Workspace {
    tree: Tree,
    branch: String,
    dir: PathBuf,
    index: PathBuf,
    hold: Option<Hold>,
    /// What its last snapshot saw; its clones share it.
    seen: Arc<Mutex<Option<Seen>>>,
}

impl Tree {
    /// Checks the branch out into `dir`, which must be empty or absent; its index is kept beside
    /// it, in `<dir>.index`. An existing workspace is opened as it is, an interrupted one completed.
    ///
    /// # Errors
    /// [`Error::Occupied`] when `dir` holds other files.
    pub fn workspace_create(&self, branch: &str, dir: &Path) -> Result<Workspace, Error> {
        let head = self.branch_head(branch)?;
        let mut workspace = Workspace::new(self, branch, dir)?;
        if let Some(parent) = workspace.dir.parent() {
            fs::create_dir_all(parent).doing_at("create the workspace", parent)?;
        }
        workspace = workspace.held()?;
        let dir = &workspace.dir;
        if workspace.index.exists() {
            return workspace.released().checked();
        }
        // The new index is there before the first file: it marks an interrupted checkout as ours.
        let fresh = beside(dir, ".index.new");
        fs::create_dir_all(dir).doing_at("create the workspace", dir)?;
        let mut entries = fs::read_dir(dir).doing_at("look into the workspace", dir)?;
        if !fresh.exists() && entries.next().is_some() {
            return Err(Error::Occupied { dir: dir.clone() });
        }
        remove_if_there(&beside(dir, ".index.new.lock"))?;
        workspace.git("read-tree").index(&fresh).arg(head.hex()).run().doing("prepare the workspace")?;
        workspace
            .git("checkout-index")
            .setting("checkout.workers", writers())
            .index(&fresh)
            .args(["-a", "-f", "-u", "-q"])
            .run()
            .doing("write the files of the workspace")?;
        fs::rename(&fresh, &workspace.index).doing_at("finish the workspace", &workspace.index)?;
        workspace.released().checked()
    }

    /// Opens the workspace in `dir` that [`Tree::workspace_create`] made for the branch.
    ///
    /// # Errors
    /// [`Error::Io`] when it is not there.
    pub fn workspace_open(&self, branch: &str, dir: &Path) -> Result<Workspace, Error> {
        let workspace = Workspace::new(self, branch, dir)?;
        fs::metadata(&workspace.index).doing_at("open the workspace", &workspace.index)?;
        workspace.checked()
    }
}

impl Workspace {
    fn new(tree: &Tree, branch: &str, dir: &Path) -> Result<Self, Error> {
        branch_ref(branch)?;
        let dir = std::path::absolute(dir).doing_at("find the workspace", dir)?;
        let index = beside(&dir, ".index");
        Ok(Self {
            tree: tree.clone(),
            branch: branch.to_owned(),
            dir,
            index,
            hold: None,
            seen: Arc::default(),
        })
    }

    /// The same workspace for exclusive use. Waits for a git that a killed process left working.
    pub(crate) fn held(&self) -> Result<Self, Error> {
        let path = beside(&self.dir, ".index.hold");
        let hold = Hold::take(&path).doing_at("lock the workspace", &path)?;
        Ok(Self { hold: Some(hold), ..self.clone() })
    }

    fn released(self) -> Self {
        Self { hold: None, ..self }
    }

    /// Refuses a workspace whose top is no directory, or a link to one.
    pub(crate) fn checked(self) -> Result<Self, Error> {
        let top = fs::symlink_metadata(&self.dir).doing_at("open the workspace", &self.dir)?;
        if top.is_dir() {
            return Ok(self);
        }
        Err(io::Error::from(io::ErrorKind::NotADirectory)).doing_at("open the workspace", &self.dir)
    }

    /// The branch that is checked out.
    pub fn branch(&self) -> &str {
        &self.branch
    }

    /// The top directory of the files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The tree that the workspace belongs to.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    pub(crate) fn index_path(&self) -> &Path {
        &self.index
    }

    /// Commits the files as they are on the branch; `None` when they equal its head.
    ///
    /// A message with the trailer `Regie-Key` is committed once: when the head of the branch
    /// carries that key already, it is the answer.
    ///
    /// # Errors
    /// When the files cannot be recorded or the branch moved in between.
    pub fn commit(&self, message: &Message, signature: &Signature) -> Result<Option<Commit>, Error> {
        let head = self.tree.branch_head(&self.branch)?;
        if let Some(key) = message.key()
            && self.tree.commit_has_key(&head, key)?
        {
            return Ok(Some(head));
        }
        let tree = self.snapshot()?.tree;
        if tree == self.tree.tree_of(&head)? {
            return Ok(None);
        }
        let commit = self.tree.commit_write(&tree, &[&head], message, signature)?;
        let hold = self.tree.lock()?;
        self.tree.ref_move(&hold, &branch_ref(&self.branch)?, &commit, Some(&head))?;
        Ok(Some(commit))
    }

    /// Compares the files as they are with the commit `from`.
    ///
    /// # Errors
    /// When the files cannot be recorded.
    pub fn diff(&self, from: &Commit) -> Result<Diff, Error> {
        self.tree.diff(from, &self.snapshot()?.tree)
    }

    /// What the last snapshot saw; it is forgotten with it.
    pub(crate) fn recall(&self) -> Option<Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Keeps what a snapshot saw for the next one.
    pub(crate) fn remember(&self, seen: Option<Seen>) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = seen;
    }

    /// Now, by the clock of the file system; `None` when it is not held.
    pub(crate) fn moment(&self) -> Option<Moment> {
        self.hold.as_ref()?.moment().ok()
    }

    /// The command `name` over the files and the index of the workspace.
    pub(crate) fn git(&self, name: &'static str) -> Git {
        let git = Git::at(self.tree.git_dir(), name).work_tree(&self.dir).index(&self.index);
        match &self.hold {
            Some(hold) => git.under(hold),
            None => git,
        }
    }
}

/// How many processes write a large tree: each waits for the file system most of the time.
fn writers() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get).min(WRITERS)
}

/// The path beside `dir` whose name has `suffix` more.
pub(crate) fn beside(dir: &Path, suffix: &str) -> PathBuf {
    let mut name = dir.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Removes what a run that was killed has left behind.
pub(crate) fn remove_if_there(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).doing_at("remove a left-over", path)
        }
        _ => Ok(()),
    }
}
