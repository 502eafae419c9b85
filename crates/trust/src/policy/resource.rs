//! What an action is about: files, hosts, commands. Read from the exact bytes of its request.

use domain::StepKind;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::shell::Seen;
use super::{MERGE, SETUP};

/// Where a step in a jail sees its workspace.
pub const WORKSPACE: &str = "/workspace";

/// What an action is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resources {
    /// Files and folders, relative to the workspace where they lie in it. Those of a shell line are the words and
    /// redirections in it as they are written.
    pub paths: Vec<String>,
    /// Folders that are read with all that lies in them; empty for the workspace itself.
    pub trees: Vec<String>,
    /// Hosts of addresses that are named.
    pub hosts: Vec<String>,
    /// The exact shell line.
    pub line: Option<String>,
    /// What that would start.
    pub seen: Option<Seen>,
    /// Whether the request could not be read: it could be about anything.
    pub unread: bool,
}

/// The request of a tool call, of a criterion or of a merge, as far as it is looked at.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Request {
    input: Option<Input>,
    command: Option<String>,
    files: Option<Vec<File>>,
}

#[derive(Deserialize)]
struct File {
    path: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Input {
    command: Option<Value>,
    path: Option<Value>,
    paths: Option<Value>,
    file: Option<Value>,
    url: Option<Value>,
    uri: Option<Value>,
    #[serde(rename = "content")]
    _content: Option<IgnoredAny>,
}

/// Reads what an action is about. `workspace` is the folder that relative paths start from; empty when it is not
/// known.
pub fn of(kind: StepKind, tool: &str, request: &[u8], workspace: &str) -> Resources {
    if !matches!(kind, StepKind::ToolCall | StepKind::Verdict) {
        return Resources::default();
    }
    let Ok(request) = serde_json::from_slice::<Request>(request) else {
        return Resources { unread: true, ..Resources::default() };
    };
    let mut found = Resources::default();
    if let Some(files) = request.files.filter(|_| tool == MERGE) {
        found.paths = files.iter().flat_map(|file| normal(&file.path, workspace)).collect();
    }
    let input = request.input.unwrap_or_default();
    let line = request.command.or_else(|| texts(input.command).pop());
    if let Some(line) = line.filter(|_| kind == StepKind::Verdict || is_shell(tool)) {
        found.take_line(&line, workspace);
        return found;
    }
    let named = [input.path, input.paths, input.file].into_iter().flat_map(texts);
    let mut named = named.flat_map(|path| normal(&path, workspace)).peekable();
    match tool {
        "search" if named.peek().is_none() => found.trees.push(String::new()),
        "search" => found.trees.extend(named),
        _ => found.paths.extend(named),
    }
    found.hosts = [input.url, input.uri].into_iter().flat_map(texts).filter_map(|url| host(&url)).collect();
    found
}

impl Resources {
    /// What an action is about that is written in words, as the examples of rules are: a shell line, a path or an
    /// address.
    pub fn named(kind: StepKind, tool: &str, words: &str) -> Self {
        let mut found = Self::default();
        let words = words.trim();
        match tool {
            _ if kind == StepKind::Verdict || is_shell(tool) => found.take_line(words, ""),
            "search" => found.trees.extend(normal(words, "")),
            _ if words.is_empty() || kind != StepKind::ToolCall => {}
            _ => match host(words) {
                Some(host) => found.hosts.push(host),
                None => found.paths.extend(normal(words, "")),
            },
        }
        found
    }

    fn take_line(&mut self, line: &str, workspace: &str) {
        let seen = Seen::of(line);
        let words = seen.all().flat_map(|command| &command.words).filter(|word| word.known);
        let values = words.filter_map(|word| match word.text.split_once('=') {
            Some((_, value)) => Some(value),
            None => (!word.text.starts_with('-')).then_some(word.text.as_str()),
        });
        let values: Vec<&str> = values.chain(seen.redirected.iter().map(String::as_str)).collect();
        self.hosts.extend(values.iter().filter_map(|value| host(value)));
        self.paths.extend(
            values.iter().filter(|value| !value.is_empty()).flat_map(|value| normal(value, workspace)),
        );
        self.paths.sort_unstable();
        self.paths.dedup();
        self.line = Some(line.trim().to_owned());
        self.seen = Some(seen);
    }
}

fn is_shell(tool: &str) -> bool {
    tool == "shell" || tool == SETUP
}

fn texts(value: Option<Value>) -> Vec<String> {
    match value {
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(values)) => values.into_iter().flat_map(|value| texts(Some(value))).collect(),
        _ => Vec::new(),
    }
}

/// A path without detours, relative to the workspace where it lies in it: by its name on the machine, or by that in a
/// jail. A relative one that leads out is all that it can be. The file system is not asked: a link is another name.
pub(super) fn normal(path: &str, workspace: &str) -> Vec<String> {
    let bases = [workspace.trim_end_matches('/'), WORKSPACE];
    let mut outside = Vec::new();
    for base in bases.into_iter().filter(|base| !base.is_empty()) {
        let resolved = match path.starts_with('/') {
            true => resolved(path),
            false => resolved(&format!("{base}/{path}")),
        };
        if is_below(&resolved, base) {
            let inside = resolved.strip_prefix(base).unwrap_or(&resolved);
            return vec![inside.trim_start_matches('/').to_owned()];
        }
        if !outside.contains(&resolved) {
            outside.push(resolved);
        }
    }
    outside
}

/// An absolute path without detours.
fn resolved(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Whether a file is a folder, or is in it or below it; all are below the empty one.
#[must_use]
pub fn is_below(path: &str, folder: &str) -> bool {
    folder.is_empty()
        || path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The host of an address, in lower case; `None` where a text is none.
fn host(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let is_scheme = |letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter);
    if scheme.is_empty() || !scheme.chars().all(is_scheme) {
        return None;
    }
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = match host.strip_prefix('[') {
        Some(literal) => literal.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    Some(host.trim_end_matches('.').to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_made_normal() {
        for (path, normal_) in [
            ("src/x.rs", "src/x.rs"),
            ("./src//a/../x.rs", "src/x.rs"),
            ("/w/run/tree/.env", ".env"),
            ("/w/run/tree", ""),
            ("../tree/.env", ".env"),
            ("/w/run/tree/../tree/.env", ".env"),
            ("/w/run/tree/../other", "/w/run/other"),
            ("/workspace/a/../.env", ".env"),
            ("/workspace", ""),
            ("../workspace/.env", ".env"),
            ("/workspaces/x", "/workspaces/x"),
            ("/w/run/treehouse/x", "/w/run/treehouse/x"),
            ("/etc/../etc/passwd", "/etc/passwd"),
            ("/../x", "/x"),
            (".", ""),
        ] {
            assert_eq!(normal(path, "/w/run/tree"), [normal_], "{path}");
        }
        assert_eq!(normal("../../etc/passwd", "/w/run/tree"), ["/w/etc/passwd", "/etc/passwd"]);
        assert_eq!(normal("../x", ""), ["/x"]);
    }

    #[test]
    fn a_criterion_is_a_line() {
        let criterion = of(StepKind::Verdict, "verdict", br#"{"command":"make test"}"#, "");
        assert_eq!(criterion.line.as_deref(), Some("make test"));
    }

    #[test]
    fn requests_say_what_they_are_about() {
        let of = |tool, request: &str| of(StepKind::ToolCall, tool, request.as_bytes(), "/w");
        let read = of("read", r#"{"tool":"read","input":{"path":"./a/../.env","limit":3}}"#);
        assert_eq!(read.paths, [".env"]);
        let search = of("search", r#"{"tool":"search","input":{"pattern":"key"}}"#);
        assert_eq!(search.trees, [""]);
        let shell = of(
            "shell",
            r#"{"tool":"shell","input":{"command":"cat a >out/b --file=c https://u:p@EVIL.example.:8/x"}}"#,
        );
        assert_eq!(shell.hosts, ["evil.example"]);
        for path in ["a", "out/b", "c"] {
            assert!(shell.paths.iter().any(|own| own == path), "{path}: {:?}", shell.paths);
        }
        let fetch = of("fetch", r#"{"tool":"fetch","input":{"url":"HTTPS://[::1]:80/x","path":["a","b"]}}"#);
        assert_eq!((fetch.hosts, fetch.paths), (vec!["::1".to_owned()], vec!["a".into(), "b".into()]));
        let merge = of("merge", r#"{"files":[{"path":"a/b","status":"added"}]}"#);
        assert_eq!(merge.paths, ["a/b"]);
        for broken in ["", "[]x", r#"{"input":{"path":"a","path":"b"}}"#, r#"{"input":3}"#] {
            assert!(of("read", broken).unread, "{broken}");
        }
    }
}
