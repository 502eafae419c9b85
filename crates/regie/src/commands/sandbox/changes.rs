//! `--changes DIR`: the working directory stays as it is, and what a program changes in it is kept beside it.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use ::sandbox::Layers;

use super::{refused, resolved};
use crate::failure::Failure;

/// What is changed.
const FILES: &str = "files";
/// Where the kernel prepares it.
const WORK: &str = "work";

/// The layers of `cwd` with its changes in `dir`, which need not be there yet.
pub(super) fn layers(cwd: &Path, dir: &Path) -> Result<Layers, Failure> {
    let dir = match dir.symlink_metadata() {
        Ok(_) => resolved(dir, "--changes")?,
        Err(_) => {
            let (parent, name) = (dir.parent().unwrap_or(Path::new("")), dir.file_name());
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            let name = name.ok_or_else(|| refused(format!("--changes {dir:?} has no name")))?;
            resolved(parent, "the place of --changes")?.join(name)
        }
    };
    if dir.starts_with(cwd) || cwd.starts_with(&dir) {
        return Err(refused(format!("--changes {dir:?} and the working directory are in one another"))
            .hint("name a directory beside it"));
    }
    let strange = |entry: io::Result<fs::DirEntry>| {
        entry.map(|entry| entry.file_name()).is_ok_and(|name| name != FILES && name != WORK)
    };
    if fs::read_dir(&dir).is_ok_and(|entries| entries.into_iter().any(strange)) {
        return Err(refused(format!("--changes {dir:?} holds other files"))
            .hint("name a directory that is empty, or one of an earlier `--changes`"));
    }
    Ok(Layers { base: cwd.to_owned(), upper: dir.join(FILES), work: dir.join(WORK) })
}

/// Makes what of them is not there yet, for this user alone. The directory itself is shown as the base has it.
pub(super) fn make(layers: &Layers) -> Result<(), Failure> {
    let dir = layers.upper.parent();
    for layer in dir.into_iter().chain([layers.upper.as_path(), layers.work.as_path()]) {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(layer).map_err(|error| {
            refused(format!("{layer:?} cannot be made: {error}")).hint("name another directory by --changes")
        })?;
    }
    let shown = fs::metadata(&layers.base).map(|base| base.permissions());
    shown
        .and_then(|shown| fs::set_permissions(&layers.upper, shown))
        .map_err(|error| refused(format!("{:?} cannot be used: {error}", layers.upper)))
}
