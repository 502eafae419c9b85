//! A look at the owner's repository through a git dir of our own: its objects, index and files
//! are seen, its configuration and attributes are not, so that nothing in them can start.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::attributes;
use crate::git::Git;
use crate::hold::Hold;
use crate::id::Commit;
use crate::owner::Place;

/// A throwaway git dir whose HEAD is the owner's.
pub(crate) struct Lens {
    dir: TempDir,
    place: Place,
    alternates: Option<OsString>,
    hold: Option<Hold>,
}

impl Lens {
    /// Looks at `place` as of `head`; `more` is a second store of objects to see.
    pub(crate) fn new(place: &Place, head: &Commit, more: Option<&Path>) -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix("regie-lens-").tempdir()?;
        let at = dir.path();
        fs::create_dir(at.join("objects"))?;
        fs::create_dir(at.join("refs"))?;
        fs::write(at.join("config"), "[core]\nrepositoryformatversion = 0\nbare = true\n")?;
        fs::write(at.join("HEAD"), format!("{head}\n"))?;
        attributes::ignore_in_tree(at)?;
        for name in ["shallow", "info/exclude"] {
            match fs::copy(place.common_dir.join(name), at.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        for entry in fs::read_dir(&place.git_dir)? {
            let entry = entry?;
            if entry.file_name().as_bytes().starts_with(b"sharedindex.") {
                symlink(entry.path(), at.join(entry.file_name()))?;
            }
        }
        let alternates = more.map(|git_dir| quoted(&git_dir.join("objects")));
        Ok(Self { dir, place: place.clone(), alternates, hold: None })
    }

    /// Lets all its commands share the exclusive use of `hold`.
    pub(crate) fn under(mut self, hold: &Hold) -> Self {
        self.hold = Some(hold.clone());
        self
    }

    /// The command `name` over the owner's files and index.
    pub(crate) fn git(&self, name: &'static str) -> Git {
        let git = Git::at(self.dir.path(), name)
            .work_tree(&self.place.root)
            .index(&self.place.index())
            .env("GIT_OBJECT_DIRECTORY", self.objects());
        let git = match &self.hold {
            Some(hold) => git.under(hold),
            None => git,
        };
        match &self.alternates {
            Some(alternates) => git.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", alternates),
            None => git,
        }
    }

    /// The command `name` in the owner's own git dir, for questions about its settings.
    pub(crate) fn owner_git(&self, name: &'static str) -> Git {
        let git = Git::at(&self.place.git_dir, name).work_tree(&self.place.root).with_owner_settings();
        match &self.alternates {
            Some(alternates) => git.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", alternates),
            None => git,
        }
    }

    /// The top of the owner's checkout.
    pub(crate) fn owner_root(&self) -> &Path {
        &self.place.root
    }

    /// The owner's store of objects.
    pub(crate) fn objects(&self) -> PathBuf {
        self.place.common_dir.join("objects")
    }
}

/// A path as git reads it in a list that colons separate.
pub(crate) fn quoted(path: &Path) -> OsString {
    let mut out = vec![b'"'];
    for byte in OsStr::as_bytes(path.as_os_str()) {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out.push(b'"');
    OsString::from_vec(out)
}
