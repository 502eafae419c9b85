//! The owner's repository, looked at without touching it.

use std::io;
use std::path::{Path, PathBuf};

use crate::git::{self, Git, to_path};
use crate::id::Commit;
use crate::lens::Lens;

/// A repository that Regie can work with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The top directory of the checkout.
    pub root: PathBuf,
    /// The branch that is checked out.
    pub branch: String,
    /// The commit at its head.
    pub head: Commit,
    /// Tracked files that differ from HEAD, in the index or on disk.
    pub dirty: Vec<PathBuf>,
    /// Files and directories that are neither tracked nor ignored.
    pub untracked: Vec<PathBuf>,
    pub(crate) place: Place,
}

/// The root of the repository that a directory lies in, found without asking git: as git has it, a `.git` that is a
/// file, or a directory with a HEAD in it. An empty one is none, and its parents are looked at.
pub fn root(of: &Path) -> Option<&Path> {
    let is_root = |path: &&Path| {
        let git = path.join(".git");
        git.is_file() || git.join("HEAD").symlink_metadata().is_ok()
    };
    of.ancestors().find(is_root)
}

/// Where the parts of a repository lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) root: PathBuf,
    /// The git dir of this checkout.
    pub(crate) git_dir: PathBuf,
    /// The git dir that linked checkouts share.
    pub(crate) common_dir: PathBuf,
}

/// Why the repository cannot be used, and how to mend it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The directory is not there.
    #[error("{} is not a directory: give the path of a git repository", .path.display())]
    NotFound {
        /// The directory.
        path: PathBuf,
    },
    /// It is not in a repository.
    #[error("{} is not in a git repository: run `git init && git add -A && git commit`", .path.display())]
    NoRepository {
        /// The directory.
        path: PathBuf,
    },
    /// The repository has no files of its own.
    #[error("{} is a bare repository: give a clone with a checkout (`git clone`)", .path.display())]
    Bare {
        /// The directory.
        path: PathBuf,
    },
    /// There is no commit yet.
    #[error("{} has no commit yet: run `git add -A && git commit`", .path.display())]
    Empty {
        /// The directory.
        path: PathBuf,
    },
    /// No branch is checked out.
    #[error("{} has a detached HEAD: run `git switch <branch>`", .path.display())]
    Detached {
        /// The directory.
        path: PathBuf,
    },
    /// An operation of git is waiting for the owner.
    #[error("a {operation} is in progress in {}: finish it or run `{mend}`", .path.display())]
    InProgress {
        /// The directory.
        path: PathBuf,
        /// Which one.
        operation: &'static str,
        /// The command that gives it up.
        mend: &'static str,
    },
    /// The repository uses a form that is not supported.
    #[error("{} uses {what}, which Regie does not support: use a clone without it", .path.display())]
    Unsupported {
        /// The directory.
        path: PathBuf,
        /// The form.
        what: &'static str,
    },
    /// git failed.
    #[error("cannot read the repository at {}: see the cause (`git status` there may say more)", .path.display())]
    Git {
        /// The directory.
        path: PathBuf,
        /// How it failed.
        #[source]
        source: git::Error,
    },
    /// The file system failed.
    #[error("cannot look at {}: see the cause", .path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
}

/// What git leaves in the git dir while an operation waits, and how to give it up.
const OPERATIONS: &[(&str, &str, &str)] = &[
    ("MERGE_HEAD", "merge", "git merge --abort"),
    ("rebase-merge", "rebase", "git rebase --abort"),
    ("rebase-apply", "rebase", "git rebase --abort"),
    ("CHERRY_PICK_HEAD", "cherry-pick", "git cherry-pick --abort"),
    ("REVERT_HEAD", "revert", "git revert --abort"),
    ("BISECT_LOG", "bisect", "git bisect reset"),
    ("sequencer", "cherry-pick or revert", "git cherry-pick --abort"),
];

impl Place {
    pub(crate) fn index(&self) -> PathBuf {
        self.git_dir.join("index")
    }

    /// Finds the repository that `path` is in.
    pub(crate) fn find(path: &Path) -> Result<Self, Error> {
        if !path.is_dir() {
            return Err(Error::NotFound { path: path.to_owned() });
        }
        let ask =
            |question: &str| Git::in_dir(path, "rev-parse").args(["--path-format=absolute", question]).path();
        let git_dir = match ask("--absolute-git-dir") {
            Ok(dir) => dir,
            Err(git::Error::Failed { said, .. }) if said.contains("not a git repository") => {
                return Err(Error::NoRepository { path: path.to_owned() });
            }
            Err(source) => return Err(failed(path, source)),
        };
        let bare = Git::in_dir(path, "rev-parse").args(["--is-bare-repository"]).line();
        if bare.map_err(|source| failed(path, source))? == "true" {
            return Err(Error::Bare { path: path.to_owned() });
        }
        Ok(Self {
            root: ask("--show-toplevel").map_err(|source| failed(path, source))?,
            common_dir: ask("--git-common-dir").map_err(|source| failed(path, source))?,
            git_dir,
        })
    }
}

/// Looks at the repository that `path` is in: what is checked out, and what is not committed.
///
/// # Errors
/// Every state in which a run cannot start has a variant that names the mend.
pub fn inspect(path: &Path) -> Result<Owner, Error> {
    inspect_place(&Place::find(path)?)
}

pub(crate) fn inspect_place(place: &Place) -> Result<Owner, Error> {
    let path = place.root.clone();
    for (file, operation, mend) in OPERATIONS {
        if place.git_dir.join(file).symlink_metadata().is_ok() {
            return Err(Error::InProgress { path, operation, mend });
        }
    }
    let fail = |source| failed(&place.root, source);
    let git = |name| Git::at(&place.git_dir, name).work_tree(&place.root);
    if git("rev-parse").args(["--show-object-format"]).line().map_err(fail)? != "sha1" {
        return Err(Error::Unsupported { path, what: "SHA-256 object names" });
    }
    let branch = git("symbolic-ref").args(["-q", "HEAD"]).outcome().map_err(fail)?;
    if branch.code != 0 {
        return Err(Error::Detached { path });
    }
    let branch = match std::str::from_utf8(&branch.stdout).map(str::trim_end) {
        Ok(name) => name.strip_prefix("refs/heads/").map(str::to_owned),
        Err(_) => None,
    };
    let Some(branch) = branch else {
        return Err(Error::Unsupported { path, what: "a branch name that is not UTF-8" });
    };
    let head = git("rev-parse").args(["-q", "--verify", "HEAD^{commit}"]).outcome().map_err(fail)?;
    if head.code != 0 {
        return Err(Error::Empty { path });
    }
    let head = String::from_utf8_lossy(&head.stdout).trim_end().parse::<Commit>();
    let head = head.map_err(|_| fail(git::unreadable("rev-parse")))?;
    let (dirty, untracked) = status(place, &head)?;
    Ok(Owner { root: path, branch, head, dirty, untracked, place: place.clone() })
}

/// The tracked files that differ from `head`, and the untracked ones.
fn status(place: &Place, head: &Commit) -> Result<(Vec<PathBuf>, Vec<PathBuf>), Error> {
    let lens =
        Lens::new(place, head, None).map_err(|source| Error::Io { path: place.root.clone(), source })?;
    let out = lens
        .git("status")
        .args(["--porcelain=v1", "-z", "--no-renames", "--ignore-submodules=all"])
        .args(["--untracked-files=normal"])
        .run()
        .map_err(|source| failed(&place.root, source))?;
    let (mut dirty, mut untracked) = (Vec::new(), Vec::new());
    for entry in git::split_nul(&out) {
        match (entry.get(..2), entry.get(3..)) {
            (Some(b"??"), Some(name)) => untracked.push(to_path(name)),
            (Some(_), Some(name)) => dirty.push(to_path(name)),
            _ => return Err(failed(&place.root, git::unreadable("status"))),
        }
    }
    Ok((dirty, untracked))
}

fn failed(path: &Path, source: git::Error) -> Error {
    Error::Git { path: path.to_owned(), source }
}
