//! The owner's working tree as a commit of Regie's own: tracked changes and new files that nothing
//! ignores. The owner's index, files and branches are looked at and stay as they are.

use std::fs;
use std::path::{Path, PathBuf};

use crate::attributes::{self, ALTERING, Alteration};
use crate::error::{Doing as _, DoingAt as _, Error};
use crate::git::{Git, join_nul, split_nul, to_path};
use crate::id::{Commit, TreeId, Treeish as _};
use crate::lens::Lens;
use crate::message::{Message, Signature};
use crate::owner::Owner;
use crate::snapshot::is_git_name;
use crate::tree::{Merged, Tree};

/// What a run starts from that takes the owner's uncommitted changes along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uncommitted {
    /// The commit to start from: Regie's line, with the changes on top of it.
    pub base: Commit,
    /// The paths that were taken along; none when there was nothing to take.
    pub paths: Vec<PathBuf>,
    /// Paths that no commit can hold: nested repositories, sockets, devices.
    pub left: Vec<PathBuf>,
}

/// The owner's changes, sorted by what git is to be told.
#[derive(Default)]
struct Changes {
    present: Vec<PathBuf>,
    gone: Vec<PathBuf>,
    left: Vec<PathBuf>,
}

impl Tree {
    /// Imports the owner's HEAD as [`Tree::import`] does, and puts the uncommitted changes on top of it.
    /// No branch but the line moves.
    ///
    /// # Errors
    /// [`Error::Altered`] where the bytes on disk are not those that git would record, and
    /// [`Error::Conflict`] when Regie's line is ahead and changed the same places.
    pub fn import_uncommitted(&self, owner: &Owner, signature: &Signature) -> Result<Uncommitted, Error> {
        const DOING: &str = "record your working tree";
        let line = self.import(owner)?;
        let lens =
            Lens::new(&owner.place, &owner.head, None).doing_at("look at your repository", &owner.root)?;
        let changes = Changes::find(owner, &lens)?;
        let Changes { present, gone, left } = changes;
        let mut paths = [present.as_slice(), gone.as_slice()].concat();
        paths.sort();
        if paths.is_empty() {
            return Ok(Uncommitted { base: line, paths, left });
        }
        refuse_altered(&lens, &present)?;
        let scratch = tempfile::tempdir().doing_at("make a scratch directory", &std::env::temp_dir())?;
        let index = scratch.path().join("index");
        let git = |name| Git::at(self.git_dir(), name).work_tree(&owner.root).index(&index);
        git("read-tree").arg(owner.head.hex()).run().doing(DOING)?;
        let told = |paths: &[PathBuf]| join_nul(paths.iter().map(PathBuf::as_path));
        if !gone.is_empty() {
            let git = git("update-index").args(["-z", "--force-remove", "--stdin"]);
            git.stdin(told(&gone)).run().doing(DOING)?;
        }
        if !present.is_empty() {
            let git = git("update-index").args(["-z", "--add", "--replace", "--stdin"]);
            git.stdin(told(&present)).run().doing(DOING)?;
        }
        let tree: TreeId = git("write-tree").object().doing(DOING)?;
        if tree == self.tree_of(&owner.head)? {
            return Ok(Uncommitted { base: line, paths: Vec::new(), left });
        }
        let message = |subject: &str| Message { subject: subject.to_owned(), ..Message::default() };
        let words = message("Snapshot of the working tree");
        let snapshot = self.commit_write(&tree, &[&owner.head], &words, signature)?;
        if line == owner.head {
            return Ok(Uncommitted { base: snapshot, paths, left });
        }
        // Regie's line has merges that the owner's branch does not have yet.
        let tree = match self.merge_trees(&line, &snapshot)? {
            Merged::Clean(tree) => tree,
            Merged::Conflict(paths) => return Err(Error::Conflict { paths }),
        };
        let words = message("Put the snapshot of the working tree on Regie's line");
        let base = self.commit_write(&tree, &[&line, &snapshot], &words, signature)?;
        Ok(Uncommitted { base, paths, left })
    }
}

impl Changes {
    fn find(owner: &Owner, lens: &Lens) -> Result<Self, Error> {
        let mut changes = Self::default();
        for path in &owner.dirty {
            changes.sort(&owner.root, path);
        }
        // What the owner ignores anywhere, in a file of the machine too, is not taken.
        let new = lens
            .owner_git("ls-files")
            .args(["-o", "-z", "--exclude-standard"])
            .run()
            .doing("list your new files")?;
        for name in split_nul(&new) {
            match name.strip_suffix(b"/") {
                Some(nested) => changes.left.push(to_path(nested)),
                None => changes.sort(&owner.root, &to_path(name)),
            }
        }
        changes.present.sort();
        changes.present.dedup();
        Ok(changes)
    }

    fn sort(&mut self, root: &Path, path: &Path) {
        use std::os::unix::ffi::OsStrExt as _;
        let real = |parent: &Path| root.join(parent).symlink_metadata().is_ok_and(|meta| meta.is_dir());
        let is_reached = path.ancestors().skip(1).all(real);
        let kind = root.join(path).symlink_metadata().ok().filter(|_| is_reached);
        let kind = kind.map(|meta| meta.file_type());
        let list = match kind {
            _ if path.iter().any(|name| is_git_name(name.as_bytes())) => &mut self.left,
            Some(kind) if kind.is_file() || kind.is_symlink() => &mut self.present,
            Some(kind) if !kind.is_dir() => &mut self.left,
            _ => &mut self.gone,
        };
        list.push(path.to_owned());
    }
}

/// Refuses files whose bytes git would change on the way into a commit: recorded as they are they would
/// come back as other files.
fn refuse_altered(lens: &Lens, paths: &[PathBuf]) -> Result<(), Error> {
    let setting = lens.owner_git("config").args(["--get", "core.autocrlf"]).outcome();
    let setting = setting.doing("read your settings")?;
    let value = String::from_utf8_lossy(&setting.stdout).trim().to_lowercase();
    if matches!(value.as_str(), "true" | "yes" | "on" | "1" | "input") {
        return Err(Error::Altered { what: format!("the setting core.autocrlf ({value}) applies") });
    }
    if paths.is_empty() {
        return Ok(());
    }
    let git = lens.owner_git("check-attr").args(["-z", "--stdin"]).args(ALTERING);
    let out = git.stdin(join_nul(paths.iter().map(PathBuf::as_path))).run().doing("read your attributes")?;
    let fields: Vec<&[u8]> = out.split(|b| *b == 0).collect();
    for entry in fields.chunks_exact(3) {
        let [path, name, value] = entry else { continue };
        let is_altered = match Alteration::of(name, value) {
            Alteration::None => false,
            Alteration::LineFeeds => {
                let at = lens.owner_root().join(to_path(path));
                // What a link leads to is no content of it.
                let is_file = at.symlink_metadata().is_ok_and(|meta| meta.is_file());
                is_file && attributes::has_crlf(&fs::read(&at).doing_at("look at the line ends", &at)?)
            }
            Alteration::Other => true,
        };
        if is_altered {
            let (name, path) = (String::from_utf8_lossy(name), to_path(path));
            return Err(Error::Altered { what: format!("the attribute `{name}` applies to {path:?}") });
        }
    }
    Ok(())
}

/// Whether the files of a checkout differ from its HEAD in any way that git would name.
pub(crate) fn is_changed(owner: &Owner) -> bool {
    !owner.dirty.is_empty() || !owner.untracked.is_empty()
}

impl Tree {
    /// What the owner types to take a merge over which holds changes that lie uncommitted in the
    /// checkout: git would not overwrite them, so they are put aside first.
    pub fn fetch_command_over_changes(&self, repo: &Path, branch: &str) -> String {
        let command = self.fetch_command(branch);
        let changed = fs::metadata(repo).is_ok() && Self::inspect(repo).is_ok_and(|owner| is_changed(&owner));
        if changed { format!("git stash --include-untracked && {command}") } else { command }
    }
}
