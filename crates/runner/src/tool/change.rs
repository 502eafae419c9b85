//! The tools that change a file: `edit`, `write`. Neither touches content that the agent has not
//! seen as it is now.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use domain::Digest;

use super::place::{Place, content, find};
use super::{Answer, LARGEST};
use crate::call;
use crate::output::cut;
use crate::spool::SeenFiles;

/// Lines of context around a change.
const AROUND: usize = 3;

pub(super) fn edit(root: &Path, input: &call::Edit, seen: &SeenFiles) -> Result<Answer, String> {
    let place = find(root, &input.path)?;
    let bytes = content(&place)?;
    is_fresh(&place, &bytes, seen)?;
    let shown = &place.shown;
    let text = String::from_utf8(bytes)
        .map_err(|_| format!("`{shown}` is not UTF-8, so its text cannot be edited; use `shell`"))?;
    let (old, new) = spelled(&text, input);
    let found = text.matches(old.as_str()).count();
    let is_all = input.replace_all.unwrap_or(false);
    if found == 0 {
        return Err(format!(
            "`old` does not occur in `{shown}`; read the file and copy the text exactly, without line numbers"
        ));
    }
    if found > 1 && !is_all {
        return Err(format!(
            "`old` occurs {found} times in `{shown}`; give more lines around it so that it is unique, or set \
             `replace_all`"
        ));
    }
    let first = text.find(old.as_str()).unwrap_or(0);
    let changed = text.replace(old.as_str(), &new);
    put(&place, changed.as_bytes())?;
    let mut report = format!("edited `{shown}`, {found} replacement{}\n", if found == 1 { "" } else { "s" });
    report.push_str(&around(&changed, first, new.len()));
    Ok(Answer::seen(report, place.shown, changed.as_bytes()))
}

pub(super) fn write(root: &Path, input: &call::Write, seen: &SeenFiles) -> Result<Answer, String> {
    let place = find(root, &input.path)?;
    let shown = &place.shown;
    if place.path.exists() {
        is_fresh(&place, &content(&place)?, seen)?;
    } else if let Some(parent) = place.path.parent() {
        fs::create_dir_all(parent)
            .map_err(|error| format!("the directory of `{shown}` cannot be created: {error}"))?;
    }
    put(&place, input.content.as_bytes())?;
    let report = format!("wrote `{shown}`, {} bytes", input.content.len());
    Ok(Answer::seen(report, place.shown, input.content.as_bytes()))
}

/// Whether the agent knows the content as it is.
fn is_fresh(place: &Place, bytes: &[u8], seen: &SeenFiles) -> Result<(), String> {
    let shown = &place.shown;
    match seen.get(shown) {
        Some(digest) if *digest == Digest::of(bytes) => Ok(()),
        Some(_) => Err(format!(
            "`{shown}` was changed since you last read it, so nothing was done; read it again, then repeat the \
             change if it still fits"
        )),
        None => Err(format!("you have not read `{shown}` yet, so nothing was done; read it first")),
    }
}

/// `old` and `new` with the file's own line ends: models see none and write `\n`.
fn spelled(text: &str, input: &call::Edit) -> (String, String) {
    let is_crlf = text.contains("\r\n") && !input.old.contains('\r') && !text.contains(&input.old);
    if is_crlf && input.old.contains('\n') {
        let crlf = |text: &str| text.replace("\r\n", "\n").replace('\n', "\r\n");
        return (crlf(&input.old), crlf(&input.new));
    }
    (input.old.clone(), input.new.clone())
}

/// Writes in place: mode, owner and further names of the file stay. A half-written file is undone by
/// the roll-back of the step.
fn put(place: &Place, content: &[u8]) -> Result<(), String> {
    let shown = &place.shown;
    if content.len() as u64 > LARGEST {
        return Err(format!("the content is longer than the {LARGEST} bytes that file tools take"));
    }
    fs::write(&place.path, content).map_err(|error| format!("`{shown}` cannot be written: {error}"))
}

/// The changed lines and a few around them, numbered.
fn around(text: &str, start: usize, length: usize) -> String {
    let line_of = |position: usize| text.bytes().take(position).filter(|byte| *byte == b'\n').count();
    let first = line_of(start).saturating_sub(AROUND);
    let last = line_of(start.saturating_add(length)).saturating_add(AROUND).min(first + 40);
    let mut shown = String::new();
    for (number, line) in text.lines().enumerate().skip(first).take(last + 1 - first) {
        let _ = writeln!(shown, "{:>6}\t{}", number + 1, cut(line, 400));
    }
    shown
}
