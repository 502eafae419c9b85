//! Ignored files that the owner wants in workspaces all the same: those that match `.worktreeinclude`.
//! They are copied at the start of a run and never become part of a commit.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use crate::checkout::make_parents;
use crate::error::{Doing as _, DoingAt as _, Error};
use crate::git::{join_nul, split_nul, to_path};
use crate::lens::Lens;
use crate::owner::Owner;
use crate::snapshot::is_git_name;
use crate::workspace::Workspace;

/// The file with the patterns, in the form of a `.gitignore`, at the top of the owner's checkout.
pub const INCLUDE_FILE: &str = ".worktreeinclude";
/// The most files that are copied, and the most bytes in all: what a large project's dependencies take.
const MOST_FILES: usize = 100_000;
const MOST_BYTES: u64 = 4 << 30;

/// What came of `.worktreeinclude`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Included {
    /// The files that were copied.
    pub copied: Vec<PathBuf>,
    /// What matches and was not, with the reason.
    pub left: Vec<(PathBuf, &'static str)>,
}

impl Workspace {
    /// Copies the owner's ignored files that match `.worktreeinclude` into the fresh workspace. Links are
    /// copied as links: installed dependencies are full of them, and in the jail they lead to nothing more
    /// than a step can reach anyway.
    ///
    /// # Errors
    /// When git or the file system fails.
    pub fn include(&self, owner: &Owner) -> Result<Included, Error> {
        let patterns = owner.root.join(INCLUDE_FILE);
        let mut included = Included::default();
        if !patterns.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
            return Ok(included);
        }
        let lens =
            Lens::new(&owner.place, &owner.head, None).doing_at("look at your repository", &owner.root)?;
        let mut option = std::ffi::OsString::from("--exclude-from=");
        option.push(&patterns);
        let found = lens.git("ls-files").args(["-o", "-i", "-z"]).arg(option).run();
        let found = found.doing("list the files of .worktreeinclude")?;
        let mut bytes = 0_u64;
        for path in split_nul(&found).filter(|name| !name.ends_with(b"/")).map(to_path) {
            if included.copied.len() >= MOST_FILES || bytes >= MOST_BYTES {
                included.left.push((path, "there are more files than are copied"));
                break;
            }
            match self.copy_in(&owner.root, &path) {
                Ok(Ok(more)) => {
                    bytes = bytes.saturating_add(more);
                    included.copied.push(path);
                }
                Ok(Err(why)) => included.left.push((path, why)),
                Err(error) => return Err(error).doing_at("copy a file of .worktreeinclude", &path),
            }
        }
        self.take_back_what_counts(&mut included)?;
        let list = self.include_path();
        fs::write(&list, join_nul(included.copied.iter().map(PathBuf::as_path)))
            .doing_at("note the files of .worktreeinclude", &list)?;
        Ok(included)
    }

    /// The size of the copy, or why there is none.
    fn copy_in(&self, root: &Path, path: &Path) -> io::Result<Result<u64, &'static str>> {
        let real = |top: &Path, parent: &Path| top.join(parent).symlink_metadata().is_ok_and(|m| m.is_dir());
        if path.iter().any(|name| is_git_name(name.as_bytes())) {
            return Ok(Err("it is a git directory"));
        }
        let (from, to) = (root.join(path), self.dir().join(path));
        let meta = from.symlink_metadata()?;
        if !path.ancestors().skip(1).all(|parent| real(root, parent)) {
            return Ok(Err("it lies beyond a link"));
        }
        if !meta.is_file() && !meta.is_symlink() {
            return Ok(Err("it is no file"));
        }
        if to.symlink_metadata().is_ok() {
            return Ok(Err("the commit has a file of that name"));
        }
        if make_parents(self.dir(), path).is_err() {
            return Ok(Err("the commit has no directory there"));
        }
        if meta.is_symlink() {
            symlink(fs::read_link(&from)?, &to)?;
            return Ok(Ok(0));
        }
        let mut source = OpenOptions::new().read(true).custom_flags(no_follow()).open(&from)?;
        let mut copy = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&to)?;
        let size = io::copy(&mut source, &mut copy)?;
        copy.set_permissions(fs::Permissions::from_mode(meta.permissions().mode() & 0o777))?;
        Ok(Ok(size))
    }

    /// What the workspace's own rules do not ignore would be committed: it is taken back.
    fn take_back_what_counts(&self, included: &mut Included) -> Result<(), Error> {
        if included.copied.is_empty() {
            return Ok(());
        }
        let counting: BTreeSet<PathBuf> = self.untracked()?.into_iter().collect();
        let (taken, kept) =
            std::mem::take(&mut included.copied).into_iter().partition(|path| counting.contains(path));
        included.copied = kept;
        let taken: Vec<PathBuf> = taken;
        for path in taken {
            let at = self.dir().join(&path);
            fs::remove_file(&at).doing_at("take a file back", &at)?;
            included.left.push((path, "no .gitignore of the repository ignores it"));
        }
        Ok(())
    }

    /// The files that were copied in, which no snapshot holds whatever an agent does to the rules.
    pub(crate) fn included(&self) -> BTreeSet<PathBuf> {
        let list = fs::read(self.include_path()).unwrap_or_default();
        split_nul(&list).map(to_path).collect()
    }

    fn include_path(&self) -> PathBuf {
        self.index_path().with_extension("included")
    }
}

/// `O_NOFOLLOW`.
pub(crate) fn no_follow() -> i32 {
    i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0)
}
