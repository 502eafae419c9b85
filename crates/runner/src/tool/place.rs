//! From a path that a model wrote to a file of the workspace.
//!
//! These checks give clear words; what holds a step inside is the jail.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::LARGEST;

/// A path in the workspace.
#[derive(Debug)]
pub(super) struct Place {
    /// Where it is, without links.
    pub(super) path: PathBuf,
    /// The same relative to the workspace, for people and models; `.` for the workspace itself.
    pub(super) shown: String,
}

/// What may be looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ground<'a> {
    /// The workspace.
    pub(super) root: &'a Path,
    /// The long outputs of earlier steps.
    pub(super) outputs: &'a Path,
}

/// Finds a path to look at: in the workspace, or of an earlier step's output.
pub(super) fn find_to_look(ground: Ground<'_>, path: &str) -> Result<Place, String> {
    if path.contains('\0') || !Path::new(path).starts_with(ground.outputs) {
        return find(ground.root, path);
    }
    let outputs = fs::canonicalize(ground.outputs)
        .map_err(|error| format!("the outputs of earlier steps cannot be reached: {error}"))?;
    match fs::canonicalize(path) {
        Ok(found) if found.starts_with(&outputs) => Ok(Place { path: found, shown: path.to_owned() }),
        _ => Err(format!("there is no output `{path}`; `list` {} shows which are there", outputs.display())),
    }
}

/// Finds a path; its last parts need not exist.
pub(super) fn find(root: &Path, path: &str) -> Result<Place, String> {
    if path.is_empty() || path.contains('\0') {
        return Err("the path is empty or has a NUL character; give a path relative to the workspace".into());
    }
    let root = fs::canonicalize(root).map_err(|error| format!("the workspace cannot be reached: {error}"))?;
    let asked = root.join(path);
    let (mut found, missing) = existing(&asked).map_err(|error| broken(path, &asked, &error))?;
    if !found.starts_with(&root) {
        let hint = "files are reached by paths relative to the workspace";
        return Err(match fs::symlink_metadata(&asked) {
            Ok(meta) if meta.is_symlink() => {
                format!("`{path}` is a symbolic link that leads out of the workspace; {hint}")
            }
            _ => format!("`{path}` lies outside of the workspace; {hint}"),
        });
    }
    found.extend(missing.iter().map(PathBuf::as_path));
    let inside = found.strip_prefix(&root).unwrap_or(&found);
    if inside.iter().any(|part| part.eq_ignore_ascii_case(".git")) {
        return Err(format!(
            "`{path}` belongs to git, and file tools leave that alone; use `git` in a `shell` command"
        ));
    }
    let shown = inside.to_string_lossy().into_owned();
    Ok(Place { path: found, shown: if shown.is_empty() { ".".into() } else { shown } })
}

/// Refuses what is withheld from models, by whatever path it is reached.
pub(super) fn refuse(root: &Path, path: Option<&str>, withheld: &[String]) -> Result<(), String> {
    let Some(place) = path.filter(|_| !withheld.is_empty()).and_then(|path| find(root, path).ok()) else {
        return Ok(());
    };
    if withheld.contains(&place.shown) {
        return Err(format!(
            "`{}` holds values of the owner's environment: commands may use it, file tools do not show or \
             change it",
            place.shown
        ));
    }
    Ok(())
}

/// The deepest part that exists, without links, and the plain names below it.
fn existing(asked: &Path) -> io::Result<(PathBuf, Vec<PathBuf>)> {
    let mut missing = Vec::new();
    let mut part = asked;
    loop {
        match fs::canonicalize(part) {
            Ok(found) => {
                missing.reverse();
                return Ok((found, missing));
            }
            // A link to nowhere is not a name that is free.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !part.is_symlink() => {
                match (part.components().next_back(), part.parent()) {
                    (Some(Component::Normal(name)), Some(parent)) => {
                        missing.push(PathBuf::from(name));
                        part = parent;
                    }
                    _ => return Err(error),
                }
            }
            Err(error) => return Err(error),
        }
    }
}

fn broken(path: &str, asked: &Path, error: &io::Error) -> String {
    // The path may lead through a link before its last part.
    for part in asked.ancestors() {
        let Ok(target) = fs::read_link(part) else { continue };
        if fs::canonicalize(part).is_err() {
            let through = if part == asked { "is" } else { "leads through" };
            return format!(
                "`{path}` {through} a symbolic link to `{}`, which does not exist or lies outside of the workspace",
                target.display()
            );
        }
    }
    format!("`{path}` cannot be reached: {error}")
}

/// The content of a regular file.
pub(super) fn content(place: &Place) -> Result<Vec<u8>, String> {
    let Place { path, shown } = place;
    let meta = match fs::metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(format!("there is no file `{shown}`; `list` shows what is there"));
        }
        Err(error) => return Err(format!("`{shown}` cannot be read: {error}")),
    };
    if meta.is_dir() {
        return Err(format!("`{shown}` is a directory; use `list`"));
    }
    // A pipe would be waited for, and a device has no end.
    if !meta.is_file() {
        return Err(format!("`{shown}` is not a regular file"));
    }
    if meta.len() > LARGEST {
        return Err(format!(
            "`{shown}` has {} bytes, more than the {LARGEST} that file tools take; use `shell` with head, tail or sed",
            meta.len()
        ));
    }
    fs::read(path).map_err(|error| format!("`{shown}` cannot be read: {error}"))
}
