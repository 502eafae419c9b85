//! What the house style can see by machine: every source file says why it exists and stays short,
//! and no integration test is forgotten by its binary.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The most lines of a source file.
const LINES: usize = 800;

/// Fails when a file breaks a rule.
pub(crate) fn check() -> Result<()> {
    let mut files = Vec::new();
    for root in ["bench", "crates", "xtask/src"] {
        collect(Path::new(root), &mut files)?;
    }
    let mut faults = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        if !text.starts_with("//!") {
            faults.push(format!("{} does not open with `//!`", file.display()));
        }
        let lines = text.lines().count();
        if lines > LINES {
            faults.push(format!("{} has {lines} lines, more than {LINES}", file.display()));
        }
        if is_forgotten(file)? {
            faults.push(format!("{} is not named in its binary's main.rs", file.display()));
        }
    }
    if faults.is_empty() {
        println!("sources: {} files, each with its reason, none above {LINES} lines", files.len());
        return Ok(());
    }
    bail!("{}", faults.join("\n       "))
}

/// Whether a module of `tests/it` is missing from `tests/it/main.rs`.
fn is_forgotten(file: &Path) -> Result<bool> {
    let Some(dir) = file.parent().filter(|dir| dir.ends_with("tests/it")) else { return Ok(false) };
    let (Some(stem), main) = (file.file_stem().and_then(|stem| stem.to_str()), dir.join("main.rs")) else {
        return Ok(false);
    };
    if stem == "main" || !main.exists() {
        return Ok(false);
    }
    let text = fs::read_to_string(&main).with_context(|| main.display().to_string())?;
    Ok(!text.contains(&format!("mod {stem};")))
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
    Ok(())
}
