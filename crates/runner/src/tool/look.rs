//! The tools that change nothing: `read`, `list`, `search`.

use std::fmt::Write as _;
use std::path::Path;

use globset::GlobBuilder;
use grep_regex::RegexMatcherBuilder;
use grep_searcher::sinks::Lossy;
use grep_searcher::{BinaryDetection, SearcherBuilder};
use ignore::{DirEntry, WalkBuilder};

use super::place::{Ground, content, find_to_look};
use super::{Answer, LONGEST, PAGE, picture};
use crate::call;
use crate::output::cut;

/// How much of a line `read` and `search` show, in bytes.
const LONGEST_LINE: usize = 2000;
const MOST_LINES: u64 = 2000;
const MOST_ENTRIES: usize = 1000;
const MOST_MATCHES: usize = 200;

pub(super) fn read(ground: Ground<'_>, input: &call::Read) -> Result<Answer, String> {
    let place = find_to_look(ground, &input.path)?;
    let bytes = content(&place)?;
    let known = |text| Ok(Answer::seen(text, place.shown.clone(), &bytes));
    if bytes.is_empty() {
        return known(format!("[`{}` is empty]", place.shown));
    }
    let is_binary = bytes.iter().take(8 << 10).any(|byte| *byte == 0);
    if (is_binary || std::str::from_utf8(&bytes).is_err())
        && let Some(answer) = picture::read(&place, &bytes)
    {
        return Ok(answer);
    }
    if is_binary {
        return known(format!("[`{}` is a binary file of {} bytes]", place.shown, bytes.len()));
    }
    let text = String::from_utf8_lossy(&bytes);
    let total = text.lines().count() as u64;
    let offset = input.offset.unwrap_or(1);
    if offset > total {
        return Err(format!("`{}` has {total} lines, so there is no line {offset}", place.shown));
    }
    let limit = input.limit.unwrap_or(MOST_LINES).min(MOST_LINES);
    let mut shown = String::new();
    let mut next = offset;
    for line in text.lines().skip(usize::try_from(offset - 1).unwrap_or(usize::MAX)) {
        if next >= offset.saturating_add(limit) || shown.len() >= PAGE {
            break;
        }
        let part = cut(line, LONGEST_LINE);
        let _ = write!(shown, "{next:>6}\t{part}");
        if part.len() < line.len() {
            let _ = write!(shown, " [… {} bytes of this line left out]", line.len() - part.len());
        }
        shown.push('\n');
        next += 1;
    }
    if next <= total {
        let _ = writeln!(shown, "[lines {offset} to {} of {total}; go on with offset {next}]", next - 1);
    }
    if std::str::from_utf8(&bytes).is_err() {
        shown.push_str(
            "[not UTF-8: unreadable bytes are shown as \u{fffd}; `edit` can change the text around them]\n",
        );
    }
    known(shown)
}

pub(super) fn list(ground: Ground<'_>, input: &call::List) -> Result<Answer, String> {
    let asked = input.path.as_deref().unwrap_or(".");
    let place = find_to_look(ground, asked)?;
    if !place.path.is_dir() {
        return Err(format!("there is no directory `{asked}`"));
    }
    let depth = usize::try_from(input.depth.unwrap_or(1)).unwrap_or(1);
    let mut shown = String::new();
    let mut count = 0;
    for entry in walk(&place.path).max_depth(Some(depth)).build() {
        let Ok(entry) = entry else { continue };
        if entry.depth() == 0 {
            continue;
        }
        count += 1;
        if count > MOST_ENTRIES || shown.len() >= LONGEST {
            shown.push_str("[there is more; list a directory below, or less deeply]\n");
            break;
        }
        let name = entry.path().strip_prefix(&place.path).unwrap_or(entry.path()).to_string_lossy();
        let mark = match entry.file_type() {
            Some(kind) if kind.is_dir() => "/",
            Some(kind) if kind.is_symlink() => "@",
            _ => "",
        };
        let _ = writeln!(shown, "{name}{mark}");
    }
    if count == 0 {
        shown = format!("[`{}` is empty]", place.shown);
    }
    Ok(Answer::plain(shown))
}

pub(super) fn search(
    ground: Ground<'_>,
    input: &call::Search,
    withheld: &[String],
) -> Result<Answer, String> {
    let asked = input.path.as_deref().unwrap_or(".");
    let place = find_to_look(ground, asked)?;
    if !place.path.exists() {
        return Err(format!("there is nothing at `{asked}`"));
    }
    let matcher = RegexMatcherBuilder::new()
        .case_insensitive(input.ignore_case.unwrap_or(false))
        .line_terminator(Some(b'\n'))
        .build(&input.pattern)
        .map_err(|error| format!("`pattern` is not a regular expression of one line: {error}"))?;
    let wanted = input.glob.as_deref().map(glob).transpose()?;
    let mut searcher = SearcherBuilder::new().binary_detection(BinaryDetection::quit(0)).build();
    let root = std::fs::canonicalize(ground.root)
        .map_err(|error| format!("the workspace cannot be reached: {error}"))?;
    let (mut shown, mut matches) = (String::new(), 0);
    for entry in walk(&place.path).build() {
        let Ok(entry) = entry else { continue };
        if !entry.file_type().is_some_and(|kind| kind.is_file()) {
            continue;
        }
        let path = entry.path().strip_prefix(&root).unwrap_or(entry.path());
        if wanted.as_ref().is_some_and(|wanted| !wanted(path)) {
            continue;
        }
        let path = path.to_string_lossy();
        if withheld.iter().any(|withheld| *withheld == path) {
            continue;
        }
        let sink = Lossy(|number, line: &str| {
            matches += 1;
            if matches > MOST_MATCHES || shown.len() >= LONGEST {
                return Ok(false);
            }
            let _ =
                writeln!(shown, "{path}:{number}:{}", cut(line.trim_end_matches(['\n', '\r']), LONGEST_LINE));
            Ok(true)
        });
        // A file that cannot be read has no match that could be shown.
        let _ = searcher.search_path(&matcher, entry.path(), sink);
        if matches > MOST_MATCHES || shown.len() >= LONGEST {
            shown.push_str("[there is more; narrow the pattern, the path or the glob]\n");
            break;
        }
    }
    if matches == 0 {
        shown = "[no match]".into();
    }
    Ok(Answer::plain(shown))
}

/// Whether a path relative to the workspace matches: by its name, or as a whole when the glob has a `/`.
fn glob(glob: &str) -> Result<impl Fn(&Path) -> bool, String> {
    let is_path = glob.contains('/');
    let matcher = GlobBuilder::new(glob.trim_start_matches("./"))
        .literal_separator(true)
        .build()
        .map_err(|error| format!("`glob` is not a glob: {error}"))?
        .compile_matcher();
    Ok(move |path: &Path| match path.file_name() {
        Some(name) if !is_path => matcher.is_match(name),
        _ => matcher.is_match(path),
    })
}

/// Walks in a fixed order, by the workspace's own rules alone.
fn walk(path: &Path) -> WalkBuilder {
    let mut walk = WalkBuilder::new(path);
    walk.hidden(false)
        .parents(false)
        .git_global(false)
        .git_exclude(false)
        .require_git(false)
        .follow_links(false)
        .sort_by_file_path(Path::cmp)
        .filter_entry(|entry: &DirEntry| entry.depth() == 0 || entry.file_name() != ".git");
    walk
}
