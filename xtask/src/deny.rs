//! Holds the dependency tree against `deny.toml`: licences, bans and sources. The same file serves
//! `cargo deny`, which knows more; this check needs nothing but cargo.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::metadata;

/// The one registry that dependencies come from.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

#[derive(Deserialize)]
struct Rules {
    licenses: Licenses,
    bans: Bans,
}

#[derive(Deserialize)]
struct Licenses {
    allow: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Ban>,
}

#[derive(Deserialize)]
struct Ban {
    name: String,
    reason: String,
}

/// Fails on the first thing that may not be there, naming all of them.
pub(crate) fn check() -> Result<()> {
    let text =
        std::fs::read_to_string("deny.toml").context("deny.toml is read from the repository's root")?;
    let rules: Rules = toml::from_str(&text).context("deny.toml is not what this check reads")?;
    let metadata = metadata::of_all()?;
    let mut faults = Vec::new();
    let mut seen = 0_u32;
    for package in &metadata.packages {
        let Some(source) = &package.source else { continue };
        seen += 1;
        let name = format!("{} {}", package.name, package.version);
        if source != REGISTRY {
            faults.push(format!("{name} comes from {source}: only crates.io is allowed"));
        }
        if let Some(ban) = rules.bans.deny.iter().find(|ban| ban.name == package.name) {
            faults.push(format!("{name} is banned: {}", ban.reason));
        }
        let licence = package.license.as_deref().unwrap_or("none");
        if !is_allowed(licence, &rules.licenses.allow) {
            faults.push(format!("{name} has the licence {licence}, which deny.toml does not allow"));
        }
    }
    if faults.is_empty() {
        println!("deny: {seen} dependencies, all licences, names and sources allowed");
        return Ok(());
    }
    bail!("{}", faults.join("\n       "))
}

/// Whether an SPDX expression of `OR`, `AND` and brackets leaves a choice that is allowed. `/` is an
/// old way to write `OR`.
fn is_allowed(expression: &str, allow: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let allowed = any(&words, &mut at, allow);
    allowed && at == words.len()
}

fn any(words: &[&str], at: &mut usize, allow: &BTreeSet<String>) -> bool {
    let mut allowed = all(words, at, allow);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        allowed |= all(words, at, allow);
    }
    allowed
}

fn all(words: &[&str], at: &mut usize, allow: &BTreeSet<String>) -> bool {
    let mut allowed = one(words, at, allow);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        allowed &= one(words, at, allow);
    }
    allowed
}

fn one(words: &[&str], at: &mut usize, allow: &BTreeSet<String>) -> bool {
    if words.get(*at) == Some(&"(") {
        *at += 1;
        let allowed = any(words, at, allow);
        *at += 1;
        return allowed;
    }
    let mut licence = words.get(*at).copied().unwrap_or_default().to_owned();
    *at += 1;
    if words.get(*at) == Some(&"WITH") {
        licence = format!("{licence} WITH {}", words.get(*at + 1).copied().unwrap_or_default());
        *at += 2;
    }
    allow.contains(&licence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_spdx_expressions() {
        let allow: BTreeSet<_> =
            ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned).into();
        for (expression, allowed) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("MIT AND GPL-3.0", false),
            ("(MIT OR GPL-3.0) AND Apache-2.0", true),
            ("Apache-2.0 WITH LLVM-exception OR GPL-3.0", true),
            ("MIT/Apache-2.0", true),
            ("", false),
        ] {
            assert_eq!(is_allowed(expression, &allow), allowed, "{expression}");
        }
    }
}
