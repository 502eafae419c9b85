//! Submodules of the owner's repository: a workspace has their files as the commit records them, where
//! the owner has checked them out. They are there to be read and built; what a run does to them is part
//! of no snapshot, so the recorded commit of a submodule never changes.

use std::fs;
use std::path::{Path, PathBuf};

use crate::checkout::make_parents;
use crate::error::{Doing as _, DoingAt as _, Error};
use crate::git::{self, Git, split_nul, to_path};
use crate::lens::quoted;
use crate::owner::{Owner, Place};
use crate::workspace::Workspace;

/// What became of the submodules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Submodules {
    /// Those whose files are in the workspace.
    pub filled: Vec<PathBuf>,
    /// Those that are empty there, with the reason.
    pub left: Vec<(PathBuf, &'static str)>,
}

/// A recorded submodule.
struct Link {
    path: PathBuf,
    commit: String,
}

impl Workspace {
    /// Writes the files of the submodules, those of submodules too, into the fresh workspace.
    ///
    /// # Errors
    /// When git or the file system fails. That a submodule is not there is none.
    pub fn fill_submodules(&self, owner: &Owner) -> Result<Submodules, Error> {
        let mut found = Submodules::default();
        let mut waiting = links(self.git("ls-files"), Path::new(""))?;
        while let Some(link) = waiting.pop() {
            match self.fill(owner, &link)? {
                Ok(below) => {
                    waiting.extend(below);
                    found.filled.push(link.path);
                }
                Err(why) => found.left.push((link.path, why)),
            }
        }
        found.filled.sort();
        found.left.sort();
        Ok(found)
    }

    /// The submodules of a filled one, or why it is empty.
    fn fill(&self, owner: &Owner, link: &Link) -> Result<Result<Vec<Link>, &'static str>, Error> {
        const DOING: &str = "write the files of a submodule";
        let (theirs, ours) = (owner.root.join(&link.path), self.dir().join(&link.path));
        let Some(place) = checked_out(&theirs) else {
            return Ok(Err("it is not checked out: `git submodule update --init` does it"));
        };
        make_parents(self.dir(), &link.path).doing_at(DOING, &ours)?;
        fs::create_dir_all(&ours).doing_at(DOING, &ours)?;
        let scratch = tempfile::tempdir().doing_at("make a scratch directory", &std::env::temp_dir())?;
        let objects = quoted(&place.common_dir.join("objects"));
        let git = |name| {
            Git::at(self.tree().git_dir(), name)
                .work_tree(&ours)
                .index(&scratch.path().join("index"))
                .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", &objects)
        };
        if git("read-tree").arg(&link.commit).outcome().doing(DOING)?.code != 0 {
            return Ok(Err("its recorded commit was not fetched: `git submodule update` does it"));
        }
        if git("checkout-index").args(["-a", "-f", "-q"]).outcome().doing(DOING)?.code != 0 {
            return Ok(Err("not all of its files were fetched"));
        }
        links(git("ls-files"), &link.path).map(Ok)
    }
}

/// Where the owner has a checkout of a submodule.
fn checked_out(at: &Path) -> Option<Place> {
    // Without a git dir of its own, the repository above would be found.
    at.join(".git").symlink_metadata().ok()?;
    let place = Place::find(at).ok()?;
    let is_own = fs::canonicalize(at).ok()? == fs::canonicalize(&place.root).ok()?;
    is_own.then_some(place)
}

/// The submodules that an index records, below `top`.
fn links(ls_files: Git, top: &Path) -> Result<Vec<Link>, Error> {
    const DOING: &str = "list the submodules";
    let out = ls_files.args(["-s", "-z"]).run().doing(DOING)?;
    let mut links = Vec::new();
    for entry in split_nul(&out).filter(|entry| entry.starts_with(b"160000 ")) {
        let parts = entry.iter().position(|b| *b == b'\t').map(|at| entry.split_at(at));
        let Some((head, path)) = parts else {
            return Err(git::unreadable("ls-files")).doing(DOING);
        };
        let commit = head.split(|b| *b == b' ').nth(1).unwrap_or_default();
        let path = top.join(to_path(path.get(1..).unwrap_or_default()));
        links.push(Link { path, commit: String::from_utf8_lossy(commit).into_owned() });
    }
    Ok(links)
}
