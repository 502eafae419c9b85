//! Whether what a file tool asks for lies within the paths of a lease.
//!
//! This is for clear words, and for a refusal on record: what holds a step is the jail, whose mounts are made of
//! the same lease. So what cannot be told from the text alone (a link, an output of an earlier step) is let pass
//! here, and is met there.

use domain::{Grants, Lease, StepKind};
use kernel::port::Action;
use serde::Deserialize;

use crate::policy::resource::WORKSPACE;

/// The tools that look at a path, and those that change one.
const LOOKS: [&str; 3] = ["read", "list", "search"];
const CHANGES: [&str; 2] = ["edit", "write"];
/// How many patterns a refusal names.
const NAMED: usize = 6;

#[derive(Deserialize)]
struct Request {
    input: Input,
}

#[derive(Deserialize)]
struct Input {
    #[serde(default)]
    path: Option<String>,
}

/// Why a tool call does not lie within the paths of its lease, in words for the agent; `None` where it does.
#[must_use]
pub fn outside(lease: &Lease, action: &Action<'_>) -> Option<String> {
    let grants = &lease.paths;
    if grants.is_everything() || action.kind != StepKind::ToolCall {
        return None;
    }
    let changes = CHANGES.contains(&action.tool);
    if !changes && !LOOKS.contains(&action.tool) {
        return None;
    }
    let Ok(Request { input }) = serde_json::from_slice(action.request) else {
        return Some("outside of the lease: it cannot be told which path is asked for".into());
    };
    let Some(asked) = input.path else {
        // Of the whole workspace the jail shows what may be read.
        return (changes).then(|| "outside of the lease: no path is named".into());
    };
    let path = plain(&asked)?;
    let is_granted = match (changes, path.is_empty()) {
        (false, true) => true,
        (false, false) => grants.may_read(&path) || (action.tool != "read" && leads_to(grants, &path)),
        (true, _) => grants.may_write(&path),
    };
    (!is_granted).then(|| refusal(lease, &path, changes))
}

/// A path as one of the workspace, without detours; `None` for one elsewhere.
fn plain(asked: &str) -> Option<String> {
    let asked = match asked.strip_prefix(WORKSPACE) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest.trim_start_matches('/'),
        _ if asked.starts_with('/') => return None,
        _ => asked,
    };
    let mut names: Vec<&str> = Vec::new();
    for name in asked.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                names.pop()?;
            }
            name => names.push(name),
        }
    }
    Some(names.join("/"))
}

/// Whether something that may be read could lie below a directory: it can be listed then, and shows that alone.
fn leads_to(grants: &Grants, directory: &str) -> bool {
    let below = |top: &str| top.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'));
    grants.readable().any(|pattern| below(pattern.top()) || pattern.top().contains(['*', '?']))
}

fn refusal(lease: &Lease, path: &str, changes: bool) -> String {
    let grants = &lease.paths;
    let shown: String = path.chars().take(120).collect();
    let (may, patterns): (_, Vec<&str>) = match changes {
        true => ("writable", grants.write.iter().map(|pattern| pattern.as_str()).collect()),
        false => ("readable", grants.readable().map(|pattern| pattern.as_str()).collect()),
    };
    let more = patterns.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let named: Vec<&str> = patterns.iter().take(NAMED).copied().collect();
    let named = if named.is_empty() { "nothing".to_owned() } else { named.join(", ") };
    format!(
        "outside of the lease: `{shown}` is not {may}, {named}{more} is. Work within that; if the goal needs more, say \
         so at the end: only the owner can grant it"
    )
}
