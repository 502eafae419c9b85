//! What cargo knows of the workspace.

use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

#[derive(Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
}

#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) description: Option<String>,
    pub(crate) license: Option<String>,
    /// `None` for a crate of this repository.
    pub(crate) source: Option<String>,
    pub(crate) dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: Option<String>,
    pub(crate) path: Option<String>,
}

/// The crates of this repository.
pub(crate) fn of_workspace() -> Result<Metadata> {
    ask(&["--no-deps"])
}

/// They, and all that they are built from.
pub(crate) fn of_all() -> Result<Metadata> {
    ask(&["--locked", "--all-features"])
}

#[expect(clippy::disallowed_methods, reason = "a chore that asks cargo about the workspace")]
fn ask(args: &[&str]) -> Result<Metadata> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1"])
        .args(args)
        .output()
        .context("`cargo metadata` cannot be run")?;
    if !output.status.success() {
        bail!("`cargo metadata` failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("`cargo metadata` printed something else")
}
