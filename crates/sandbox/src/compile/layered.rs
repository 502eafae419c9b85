//! A look at a directory in two layers, as a jail shows it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::{Kind, Look, Machine};
use crate::Layers;

/// The file tree of this machine, with the layers where their base is.
#[derive(Clone, Copy, Debug)]
pub struct Layered<'a>(pub &'a Layers);

/// Where a path of the base is in each layer; `None` where that layer shows nothing of it.
struct Where {
    upper: Option<PathBuf>,
    base: Option<PathBuf>,
}

impl Layered<'_> {
    /// Looks at every directory on the way: what stands in the upper layer hides what is below.
    fn find(&self, below: &Path) -> Where {
        let mut found = Where { upper: Some(self.0.upper.clone()), base: Some(self.0.base.clone()) };
        for name in below.components() {
            if let Some(upper) = &found.upper {
                match Layer::at(upper) {
                    Layer::Nothing => found.upper = None,
                    Layer::Directory => {}
                    Layer::Opaque => found.base = None,
                    // Nothing is below it in either layer.
                    Layer::Gone | Layer::Other | Layer::Unseen => {
                        return Where { upper: None, base: None };
                    }
                }
            }
            // What the base has there instead of a directory is hidden by one of the upper layer.
            let is_directory = |path: &PathBuf| Machine.kind(path) == Kind::Directory;
            found.base = found.base.filter(is_directory).map(|base| base.join(name));
            found.upper = found.upper.map(|upper| upper.join(name));
        }
        found
    }
}

impl Look for Layered<'_> {
    fn kind(&self, path: &Path) -> Kind {
        let Ok(below) = path.strip_prefix(&self.0.base) else { return Machine.kind(path) };
        let found = self.find(below);
        if let Some(upper) = &found.upper {
            match Layer::at(upper) {
                Layer::Nothing => {}
                Layer::Gone => return Kind::Absent,
                Layer::Unseen => return Kind::Unseen,
                Layer::Directory | Layer::Opaque | Layer::Other => return Machine.kind(upper),
            }
        }
        found.base.map_or(Kind::Absent, |base| Machine.kind(&base))
    }

    fn names(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let Ok(below) = path.strip_prefix(&self.0.base) else { return Machine.names(path) };
        let Where { upper, mut base } = self.find(below);
        let mut names = BTreeSet::new();
        let mut gone = BTreeSet::new();
        if let Some(upper) = upper {
            match Layer::at(&upper) {
                Layer::Nothing => {}
                Layer::Opaque => {
                    base = None;
                    names.extend(Machine.names(&upper)?);
                }
                _ => names.extend(Machine.names(&upper)?),
            }
            let is_gone = |name: &&OsString| Layer::at(&upper.join(name)) == Layer::Gone;
            gone = names.iter().filter(is_gone).cloned().collect();
        }
        if let Some(base) = base.filter(|base| Machine.kind(base) == Kind::Directory) {
            names.extend(Machine.names(&base)?);
        }
        Ok(names.difference(&gone).cloned().collect())
    }
}

/// What the upper layer says of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layer {
    /// Nothing: the base does.
    Nothing,
    /// There is none any more.
    Gone,
    /// A directory, with what the base has in it.
    Directory,
    /// A directory, and nothing of the base in it.
    Opaque,
    /// Another file, in place of what the base has.
    Other,
    /// It cannot be looked at.
    Unseen,
}

impl Layer {
    fn at(path: &Path) -> Self {
        match std::fs::symlink_metadata(path) {
            Ok(found) if found.is_dir() && is_opaque(path) => Self::Opaque,
            Ok(found) if found.is_dir() => Self::Directory,
            Ok(found) if is_whiteout(&found) => Self::Gone,
            Ok(_) => Self::Other,
            // A name that no file can have is for the base to say.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename) =>
            {
                Self::Nothing
            }
            Err(_) => Self::Unseen,
        }
    }
}

#[cfg(target_os = "linux")]
fn is_whiteout(found: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    found.file_type().is_char_device() && found.rdev() == 0
}

#[cfg(target_os = "linux")]
fn is_opaque(path: &Path) -> bool {
    let mut value = [0; 8];
    let read = rustix::fs::lgetxattr(path, "user.overlay.opaque", &mut value[..]);
    matches!(read, Ok(1)) && value.first() == Some(&b'y')
}

#[cfg(not(target_os = "linux"))]
fn is_whiteout(_: &std::fs::Metadata) -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
fn is_opaque(_: &Path) -> bool {
    false
}
