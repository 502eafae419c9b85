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
    let (old, new) = spelled(&bytes, input);
    let found = places(&bytes, &old);
    let (count, is_all) = (found.len(), input.replace_all.unwrap_or(false));
    let Some(first) = found.first().copied() else {
        return Err(format!(
            "`old` does not occur in `{shown}`; read the file and copy the text exactly, without line numbers"
        ));
    };
    if count > 1 && !is_all {
        return Err(format!(
            "`old` occurs {count} times in `{shown}`; give more lines around it so that it is unique, or set \
             `replace_all`"
        ));
    }
    let changed = replaced(&bytes, &found, old.len(), &new);
    put(&place, &changed)?;
    let mut report = format!("edited `{shown}`, {count} replacement{}\n", if count == 1 { "" } else { "s" });
    report.push_str(&around(&changed, first, new.len()));
    Ok(Answer::seen(report, place.shown, &changed))
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

/// Where `text` begins in `bytes`, without overlaps. Bytes, as a file may hold some that are no UTF-8:
/// those stay as they are.
fn places(bytes: &[u8], text: &[u8]) -> Vec<usize> {
    let (mut found, mut from) = (Vec::new(), 0);
    while let Some(at) = bytes.get(from..).and_then(|rest| position(rest, text)) {
        found.push(from + at);
        from += at + text.len();
    }
    found
}

fn position(bytes: &[u8], text: &[u8]) -> Option<usize> {
    // No window is empty, and no call without a text to replace gets here.
    bytes.windows(text.len().max(1)).position(|window| window == text)
}

fn replaced(bytes: &[u8], found: &[usize], length: usize, new: &[u8]) -> Vec<u8> {
    let (mut changed, mut from) = (Vec::with_capacity(bytes.len()), 0);
    for at in found {
        changed.extend_from_slice(bytes.get(from..*at).unwrap_or_default());
        changed.extend_from_slice(new);
        from = at + length;
    }
    changed.extend_from_slice(bytes.get(from..).unwrap_or_default());
    changed
}

/// `old` and `new` with the file's own line ends: models see none and write `\n`.
fn spelled(bytes: &[u8], input: &call::Edit) -> (Vec<u8>, Vec<u8>) {
    let (old, new) = (input.old.as_str(), input.new.as_str());
    let crlf = |text: &str| text.replace("\r\n", "\n").replace('\n', "\r\n").into_bytes();
    let as_given = || (old.as_bytes().to_vec(), new.as_bytes().to_vec());
    let ends = places(bytes, b"\r\n").len();
    if ends == 0 || old.contains('\r') {
        return as_given();
    }
    if old.contains('\n') {
        let is_there = position(bytes, old.as_bytes()).is_some();
        return if is_there { as_given() } else { (crlf(old), crlf(new)) };
    }
    let is_uniform = bytes.iter().filter(|byte| **byte == b'\n').count() == ends;
    if is_uniform { (old.as_bytes().to_vec(), crlf(new)) } else { as_given() }
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
fn around(bytes: &[u8], start: usize, length: usize) -> String {
    let text = String::from_utf8_lossy(bytes);
    let line_of = |position: usize| bytes.iter().take(position).filter(|byte| **byte == b'\n').count();
    let first = line_of(start).saturating_sub(AROUND);
    let last = line_of(start.saturating_add(length)).saturating_add(AROUND).min(first + 40);
    let mut shown = String::new();
    for (number, line) in text.lines().enumerate().skip(first).take(last + 1 - first) {
        let _ = writeln!(shown, "{:>6}\t{}", number + 1, cut(line, 400));
    }
    shown
}
