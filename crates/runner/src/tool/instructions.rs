//! A directory's own instructions for agents: of the files above the one that was read or changed, the
//! nearest. The one in the root of the workspace is part of the system text already.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::output::{Instructions, cut};

/// The names, the first that is there counts.
const NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];
/// How much of a file is told, in bytes.
pub(super) const LONGEST: usize = 12 << 10;

/// The instructions nearest to `path`, which is relative to `root`; `None` when they were told already
/// or `path` is such a file itself, whose content the agent has in hand.
pub(super) fn nearest(root: &Path, path: &str, told: &BTreeSet<String>) -> Option<Instructions> {
    let path = Path::new(path);
    if path.is_absolute() || path.file_name().is_some_and(|name| NAMES.iter().any(|known| name == *known)) {
        return None;
    }
    let above = path.ancestors().skip(1).take_while(|dir| !dir.as_os_str().is_empty());
    let (path, text) = above.flat_map(|dir| NAMES.map(|name| dir.join(name))).find_map(|file| {
        let asked = root.join(&file);
        // A link could lead to a file that is no instruction of this project.
        let is_file = fs::symlink_metadata(&asked).is_ok_and(|meta| meta.is_file() && meta.len() < 1 << 20);
        let text = String::from_utf8_lossy(&is_file.then(|| fs::read(&asked).ok())??).into_owned();
        (!text.trim().is_empty()).then_some((file, text))
    })?;
    let path = path.to_string_lossy().into_owned();
    if told.contains(&path) {
        return None;
    }
    let kept = cut(&text, LONGEST);
    let note = if kept.len() < text.len() { "\n[cut here; read the file for the rest]" } else { "" };
    Some(Instructions { path, text: format!("{kept}{note}") })
}
