//! Manifests and lock files: which of their keys make others run or fetch something, and which of those
//! have changed. What cannot be read as what it says it is counts as changed.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use toml::de::{DeTable, DeValue};

/// Keys that a finding names.
const NAMED: usize = 12;

/// What has changed in a manifest that matters; empty where nothing of that has.
pub(super) type Changed = Vec<String>;

/// The form of a manifest.
#[derive(Clone, Copy)]
enum Form {
    Json,
    Toml,
    GoMod,
    Lock,
}

/// Of `package.json`: what npm and its kin run, fetch, or put on the path.
const NODE: [&str; 27] = [
    "scripts",
    "bin",
    "dependencies",
    "devDependencies",
    "peerDependencies",
    "optionalDependencies",
    "bundleDependencies",
    "bundledDependencies",
    "overrides",
    "resolutions",
    "packageManager",
    "workspaces",
    "main",
    "module",
    "browser",
    "exports",
    "imports",
    "type",
    "gypfile",
    "config",
    "publishConfig",
    "husky",
    "lint-staged",
    "simple-git-hooks",
    "pre-commit",
    "pnpm",
    "trustedDependencies",
];

const CARGO: [&str; 14] = [
    "dependencies",
    "dev-dependencies",
    "build-dependencies",
    "dev_dependencies",
    "build_dependencies",
    "target",
    "patch",
    "replace",
    "workspace",
    "lib",
    "bin",
    "package.build",
    "package.links",
    "package.metadata",
];

const PYTHON: [&str; 8] = [
    "build-system",
    "dependency-groups",
    "project.dependencies",
    "project.optional-dependencies",
    "project.scripts",
    "project.gui-scripts",
    "project.entry-points",
    "tool",
];

/// Tools of `pyproject.toml` that read settings and run nothing.
const QUIET: [&str; 8] = [
    "tool.black",
    "tool.isort",
    "tool.ruff",
    "tool.pyright",
    "tool.pydocstyle",
    "tool.codespell",
    "tool.typos",
    "tool.bumpversion",
];

const COMPOSER: [&str; 8] =
    ["scripts", "require", "require-dev", "repositories", "config", "bin", "autoload", "autoload-dev"];

const DENO: [&str; 7] = ["tasks", "imports", "importMap", "links", "nodeModulesDir", "scopes", "workspace"];

/// Registries: of what they serve, the name says enough; of another place, all of the address.
const REGISTRIES: [&str; 15] = [
    "registry.npmjs.org",
    "registry.yarnpkg.com",
    "pypi.org",
    "files.pythonhosted.org",
    "static.crates.io",
    "index.crates.io",
    "proxy.golang.org",
    "rubygems.org",
    "api.github.com",
    "repo.packagist.org",
    "packagist.org",
    "hex.pm",
    "repo.hex.pm",
    "pub.dev",
    "api.nuget.org",
];

/// Whether a file of this name is a manifest or lock file, and what of it has changed. `None`: neither.
pub(super) fn changed(path: &str, before: Option<&[u8]>, after: &[u8]) -> Option<Changed> {
    let name = path.rsplit('/').next().unwrap_or_default().to_lowercase();
    let (form, roots): (Form, &[&str]) = match name.as_str() {
        "package.json" | "package.json5" => (Form::Json, &NODE),
        "composer.json" => (Form::Json, &COMPOSER),
        "deno.json" => (Form::Json, &DENO),
        "cargo.toml" => (Form::Toml, &CARGO),
        "pyproject.toml" => (Form::Toml, &PYTHON),
        "go.mod" => (Form::GoMod, &[]),
        "package-lock.json"
        | "npm-shrinkwrap.json"
        | "yarn.lock"
        | "pnpm-lock.yaml"
        | "bun.lock"
        | "deno.lock"
        | "cargo.lock"
        | "poetry.lock"
        | "uv.lock"
        | "pdm.lock"
        | "pipfile.lock"
        | "pylock.toml"
        | "gemfile.lock"
        | "composer.lock"
        | "flake.lock"
        | "packages.lock.json"
        | "mix.lock"
        | "pubspec.lock"
        | "gradle.lockfile"
        | "podfile.lock"
        | "package.resolved"
        | "module.bazel.lock" => (Form::Lock, &[]),
        _ => return None,
    };
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
    let Some(new) = text(after) else { return Some(vec!["it is not UTF-8".into()]) };
    let old = before.and_then(text).unwrap_or_default();
    let found = match form {
        Form::GoMod => directives(&old, &new),
        Form::Lock => sources(&old, &new),
        Form::Json | Form::Toml => {
            let read = |text: &str| match form {
                Form::Json => json(text),
                _ => toml_of(text),
            };
            match read(&new) {
                None => vec!["it cannot be read as what it is".into()],
                // What was there before and could not be read had no keys that counted.
                Some(new) => differing(&read(&old).unwrap_or_default(), &new, roots),
            }
        }
    };
    Some(bounded(found))
}

fn bounded(mut found: Changed) -> Changed {
    let more = found.len().saturating_sub(NAMED);
    if more > 0 {
        found.truncate(NAMED);
        found.push(format!("and {more} more"));
    }
    found
}

fn json(text: &str) -> Option<Value> {
    serde_json::from_str(text.trim_start_matches('\u{feff}')).ok()
}

fn toml_of(text: &str) -> Option<Value> {
    let table = DeTable::parse(text).ok()?;
    Some(Value::Object(table_of(table.get_ref())))
}

fn table_of(table: &DeTable<'_>) -> Map<String, Value> {
    table.iter().map(|(key, value)| (key.get_ref().to_string(), value_of(value.get_ref()))).collect()
}

fn value_of(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(number) => Value::String(number.as_str().to_owned()),
        DeValue::Float(number) => Value::String(number.as_str().to_owned()),
        DeValue::Boolean(on) => Value::Bool(*on),
        DeValue::Datetime(moment) => Value::String(moment.to_string()),
        DeValue::Array(items) => items.iter().map(|item| value_of(item.get_ref())).collect(),
        DeValue::Table(table) => Value::Object(table_of(table)),
    }
}

/// The keys below `roots` that differ, as `scripts.postinstall`.
fn differing(before: &Value, after: &Value, roots: &[&str]) -> Changed {
    let mut found = Vec::new();
    for root in roots {
        let of =
            |value: &Value| root.split('.').try_fold(value.clone(), |value, key| value.get(key).cloned());
        compare(root, of(before).as_ref(), of(after).as_ref(), &mut found);
    }
    found.retain(|key| {
        !QUIET
            .iter()
            .any(|quiet| key.strip_prefix(quiet).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
    });
    found
}

/// Goes down as long as both, or the one that is there, are tables: two levels say enough.
fn compare(at: &str, before: Option<&Value>, after: Option<&Value>, found: &mut Changed) {
    if before == after {
        return;
    }
    let none = Map::new();
    let of = |value: Option<&'_ Value>| match value {
        None => Some(none.clone()),
        Some(Value::Object(map)) => Some(map.clone()),
        Some(_) => None,
    };
    match (of(before), of(after)) {
        (Some(old), Some(new)) if at.matches('.').count() < 3 && !(old.is_empty() && new.is_empty()) => {
            let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for key in keys {
                compare(&format!("{at}.{key}"), old.get(key), new.get(key), found);
            }
        }
        _ => found.push(at.chars().take(100).collect()),
    }
}

/// The directives of a `go.mod` whose lines differ: all but its own name.
fn directives(before: &str, after: &str) -> Changed {
    fn lines(text: &str) -> BTreeSet<String> {
        let mut block = String::new();
        let mut all = BTreeSet::new();
        for line in text.lines() {
            let bare = line.split("//").next().unwrap_or_default();
            let words: Vec<&str> = bare.split_whitespace().collect();
            match words.as_slice() {
                [] => {}
                ["module", ..] if block.is_empty() => {}
                [")"] => block.clear(),
                [name, "("] => block = (*name).to_owned(),
                words if block.is_empty() => {
                    all.insert(words.join(" "));
                }
                words => {
                    all.insert(format!("{block} {}", words.join(" ")));
                }
            }
        }
        all
    }
    let (old, new) = (lines(before), lines(after));
    new.symmetric_difference(&old).map(|line| line.chars().take(100).collect()).collect()
}

/// The places that a lock file fetches from and did not before.
fn sources(before: &str, after: &str) -> Changed {
    let known = places(before);
    let new = places(after).into_iter().filter(|place| !known.contains(place));
    new.map(|place| format!("fetches from {place}")).collect()
}

/// Whatever looks like an address, and paths outside of a registry.
fn places(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let is_end = |c: char| {
        c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | ')' | '}' | ']' | ',' | '#' | '?')
    };
    for (at, _) in text.match_indices("://") {
        let head = text.get(..at).unwrap_or_default();
        let begin = head
            .rfind(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.')))
            .map_or(0, |at| {
                at + head.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8)
            });
        let scheme = head.get(begin..).unwrap_or_default();
        let rest = text.get(at + 3..).unwrap_or_default();
        let rest = rest.get(..rest.find(is_end).unwrap_or(rest.len())).unwrap_or_default();
        let host = rest.split('/').next().unwrap_or_default();
        let is_registry = scheme == "https" && REGISTRIES.contains(&host);
        let whole = if is_registry { host } else { rest };
        found.insert(format!("{scheme}://{}", whole.chars().take(120).collect::<String>()));
    }
    for mark in ["\"file:", "\"link:", "\"git@", "\"github:", "\"portal:", " file:", "@file:"] {
        for (at, _) in text.match_indices(mark) {
            let rest = text.get(at + 1..).unwrap_or_default();
            let rest = rest.get(..rest.find(is_end).unwrap_or(rest.len())).unwrap_or_default();
            found.insert(rest.chars().take(120).collect());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, before: &str, after: &str, wanted: &[&str]) {
        let found = changed(path, Some(before.as_bytes()), after.as_bytes()).unwrap();
        assert_eq!(found, wanted, "{path}: {after}");
    }

    #[test]
    fn keys_of_a_package_that_run_or_fetch_are_named() {
        let old = r#"{"name":"a","version":"1","scripts":{"test":"node --test"},"dependencies":{"x":"1"}}"#;
        check("package.json", old, &old.replace("\"1\",\"s", "\"2\",\"s"), &[]);
        check(
            "a/package.json",
            old,
            r#"{"name":"a","scripts":{"test":"node --test","postinstall":"sh x"},"dependencies":{"x":"2"},"bin":"x"}"#,
            &["scripts.postinstall", "bin", "dependencies.x"],
        );
        check("package.json", old, "{", &["it cannot be read as what it is"]);
        check("composer.json", "{}", r#"{"scripts":{"a":"b"},"description":"c"}"#, &["scripts.a"]);
        check("deno.json", "{}", r#"{"fmt":{},"tasks":{"a":"b"}}"#, &["tasks.a"]);
        assert_eq!(changed("other.json", None, b"{}"), None);
    }

    #[test]
    fn keys_of_cargo_and_python_too() {
        let old = "[package]\nname = \"a\"\nversion = \"1\"\n[dependencies]\nx = \"1\"\n";
        check("Cargo.toml", old, &old.replace("version = \"1\"", "version = \"2\""), &[]);
        check(
            "Cargo.toml",
            old,
            &format!(
                "{}y.git = \"https://e\"\n[patch.crates-io]\nx.path = \"../x\"\n",
                old.replace("name", "build = \"b.rs\"\nname")
            ),
            &["dependencies.y.git", "patch.crates-io.x.path", "package.build"],
        );
        check("Cargo.toml", old, "[", &["it cannot be read as what it is"]);
        let python = "[project]\nname = \"a\"\n[tool.black]\nline-length = 90\n";
        check("pyproject.toml", python, &python.replace("90", "100"), &[]);
        check(
            "pyproject.toml",
            python,
            &format!(
                "{python}[build-system]\nbuild-backend = \"evil\"\n[tool.pytest.ini_options]\naddopts = \"-p x\"\n"
            ),
            &["build-system.build-backend", "tool.pytest.ini_options.addopts"],
        );
    }

    #[test]
    fn directives_of_go_and_sources_of_lock_files() {
        let old = "module a\n\ngo 1.22\n\nrequire (\n\tx v1 // indirect\n)\n";
        check("go.mod", old, &old.replace("module a", "module b").replace("// indirect", ""), &[]);
        check(
            "go.mod",
            old,
            &format!("{old}\ntoolchain go1.99\nreplace x => ../x\n"),
            &["replace x => ../x", "toolchain go1.99"],
        );
        let lock = r#"{"a":{"resolved":"https://registry.npmjs.org/a/-/a-1.tgz"}}"#;
        check("package-lock.json", lock, &lock.replace("a-1", "a-2"), &[]);
        check(
            "package-lock.json",
            lock,
            &lock.replace("registry.npmjs.org", "evil.example"),
            &["fetches from https://evil.example/a/-/a-1.tgz"],
        );
        check(
            "yarn.lock",
            "",
            "resolved \"git+ssh://git@github.com/e/a.git#123\"",
            &["fetches from git+ssh://git@github.com/e/a.git"],
        );
        check(
            "package-lock.json",
            lock,
            &lock.replace("https://registry.npmjs.org/a/-/a-1.tgz", "file:../a"),
            &["fetches from file:../a"],
        );
        assert_eq!(changed("Cargo.lock", None, b"\xff").unwrap(), ["it is not UTF-8"]);
    }

    #[test]
    fn there_is_a_bound() {
        let many: String = (0..100).map(|number| format!("k{number} = \"1\"\n")).collect();
        let found = changed("Cargo.toml", None, format!("[dependencies]\n{many}").as_bytes()).unwrap();
        assert_eq!((found.len(), found.last().map(String::as_str)), (NAMED + 1, Some("and 88 more")));
    }
}
