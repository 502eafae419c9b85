//! An owner's repository of many small files, and Regie's tree and workspace of it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use store::{Commit, Message, Provenance, Signature, Tree, Workspace};

use crate::git::git;

/// Files in one directory.
const A_DIRECTORY: usize = 100;

pub(crate) struct World {
    scratch: PathBuf,
    pub(crate) repo: PathBuf,
    pub(crate) tree: Tree,
    pub(crate) head: Commit,
    pub(crate) workspace: Workspace,
    forks: usize,
}

impl World {
    pub(crate) fn new(scratch: &Path, files: usize) -> Result<Self> {
        let repo = scratch.join("owner");
        fs::create_dir(&repo)?;
        fill(&repo, files)?;
        git(&repo, &["init", "-q", "-b", "main"])?;
        git(&repo, &["add", "-A"])?;
        git(&repo, &["commit", "-q", "-m", "Start"])?;
        git(&repo, &["repack", "-adq"])?;
        let tree = Tree::open_or_create(&scratch.join("tree.git"))?;
        let head = tree.import(&Tree::inspect(&repo)?)?;
        tree.branch_create("bench/main", &head)?;
        let workspace = tree.workspace_create("bench/main", &scratch.join("work"))?;
        Ok(Self { scratch: scratch.to_owned(), repo, tree, head, workspace, forks: 0 })
    }

    /// The name of the next branch.
    pub(crate) fn next(&mut self) -> String {
        self.forks += 1;
        format!("bench/fork{}", self.forks)
    }

    pub(crate) fn dir(&self, branch: &str) -> PathBuf {
        self.scratch.join(branch.replace('/', "-"))
    }
}

/// Changes one file below `dir`.
pub(crate) fn change(dir: &Path, round: usize) -> Result<()> {
    Ok(fs::write(dir.join(name(round * 7)), format!("changed in round {round}\n"))?)
}

fn name(number: usize) -> String {
    format!("d{}/f{number}", number / A_DIRECTORY)
}

/// Writes so many files of a kilobyte or two.
pub(crate) fn fill(dir: &Path, files: usize) -> Result<()> {
    for number in 0..files {
        let path = dir.join(name(number));
        if number % A_DIRECTORY == 0
            && let Some(parent) = path.parent()
        {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, format!("line {number} of a file\n").repeat(50 + number % 40))?;
    }
    Ok(())
}

pub(crate) fn words() -> (Message, Signature) {
    let whose = Provenance {
        principal: "agent:coder".into(),
        on_behalf_of: "human:owner".into(),
        run: "run_1".into(),
        lease: "lease_1".into(),
    };
    let message = Message { subject: "Change".into(), body: String::new(), trailers: whose.trailers() };
    let signature =
        Signature { name: "agent:coder".into(), email: "coder@regie.invalid".into(), seconds: 1_800_000_000 };
    (message, signature)
}

/// Bytes on disk of all below a directory.
pub(crate) fn room(dir: &Path) -> f64 {
    let (mut total, mut next) = (0u64, vec![dir.to_owned()]);
    while let Some(path) = next.pop() {
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        total += meta.blocks() * 512;
        if meta.is_dir() {
            next.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        }
    }
    total as f64
}
