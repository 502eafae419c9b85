//! The owner's git, as people use it.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

/// Runs git in a directory, without anybody's configuration.
#[expect(clippy::disallowed_methods, reason = "what is measured against")]
pub(crate) fn git(dir: &Path, args: &[&str]) -> Result<()> {
    let output = Command::new("git")
        .current_dir(dir)
        .args(["-c", "user.name=Owner", "-c", "user.email=owner@example.org", "-c", "gc.auto=0"])
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()?;
    ensure!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
