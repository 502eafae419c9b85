//! A patch for people: what changed in which file, then the lines, coloured and bounded.

use control::api;

use super::{style, text};

/// `src/sum.js  +1 −1`, one a line, aligned.
pub(crate) fn files(files: &[api::File], most: usize) -> Vec<String> {
    let shown: Vec<(String, &api::File)> =
        files.iter().take(most).map(|file| (text::short(&text::line(&file.path), 60), file)).collect();
    let wide = shown.iter().map(|(path, _)| path.chars().count()).max().unwrap_or_default();
    let mut all: Vec<String> = shown
        .into_iter()
        .map(|(path, file)| {
            let lines = match (file.added, file.removed) {
                (Some(added), Some(removed)) => {
                    format!("{} {}", style::ok(&format!("+{added}")), style::failed(&format!("−{removed}")))
                }
                _ => style::dim("binary"),
            };
            let status = match file.status.as_str() {
                "modified" => String::new(),
                other => format!("  {}", style::dim(&text::line(&other.replace('_', " ")))),
            };
            format!("{path:<wide$}  {lines}{status}")
        })
        .collect();
    let more = files.len().saturating_sub(most);
    if more > 0 {
        all.push(style::dim(&format!("and {more} more")));
    }
    all
}

/// `2 files changed, +12 −3`
pub(crate) fn summary(files: &[api::File]) -> String {
    let sum = |of: fn(&api::File) -> Option<u64>| files.iter().filter_map(of).sum::<u64>();
    let number = u64::try_from(files.len()).unwrap_or(u64::MAX);
    format!(
        "{} changed, +{} −{}",
        text::of(number, "file", "files"),
        text::count(sum(|file| file.added)),
        text::count(sum(|file| file.removed))
    )
}

/// The first `most` lines, each after `indent`, and how many were left out.
pub(crate) fn coloured(patch: &str, indent: &str, most: usize) -> (String, usize) {
    let clean = text::lines(patch);
    let mut shown = String::new();
    let mut left = 0;
    // Object ids say nothing to a person.
    let told = clean.lines().filter(|line| !line.starts_with("index "));
    for (place, line) in told.enumerate() {
        if place >= most {
            left += 1;
            continue;
        }
        let painted = match line.as_bytes().first() {
            _ if line.starts_with("diff --git ") => style::bold(line),
            _ if ["+++ ", "--- ", "new file", "deleted file", "similarity "]
                .iter()
                .any(|start| line.starts_with(start)) =>
            {
                style::dim(line)
            }
            Some(b'@') => style::hint(line),
            Some(b'+') => style::ok(line),
            Some(b'-') => style::failed(line),
            _ => line.to_owned(),
        };
        shown.push_str(indent);
        shown.push_str(&painted);
        shown.push('\n');
    }
    (shown, left)
}
