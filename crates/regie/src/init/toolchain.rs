//! Toolchains and test commands, by the files at a project's root. Nothing is executed to find out.

mod python;

use std::fs;
use std::io::Read as _;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::reach::{self, Reach};
use crate::screen::{style, text};

/// The most bytes of a file that are looked at.
const MOST_BYTES: u64 = 1 << 20;
/// How many directories below the root are looked at.
const MOST_BELOW: usize = 100;
/// How many toolchains below the root are named.
const NAMED_BELOW: usize = 6;
/// Directories that hold the work of others.
const FOREIGN: [&str; 5] = ["node_modules", "vendor", "third_party", "target", "dist"];
/// What npm writes where there is no test yet.
const NPM_PLACEHOLDER: &str = "no test specified";

/// A toolchain that a project uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Toolchain {
    /// Its name, for people.
    pub(crate) name: &'static str,
    /// The file that it is known by.
    pub(crate) evidence: String,
    /// The program that its commands need.
    pub(crate) program: &'static str,
    /// What prepares a fresh checkout.
    pub(crate) setup: Option<String>,
    /// What runs the tests.
    pub(crate) test: Option<String>,
    /// A directory of installed dependencies that runs do not see, as `.worktreeinclude` does not name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unseen: Option<&'static str>,
}

impl Toolchain {
    fn new(name: &'static str, evidence: &str, program: &'static str) -> Self {
        Self { name, evidence: evidence.to_owned(), program, setup: None, test: None, unseen: None }
    }

    fn test(self, command: impl Into<String>) -> Self {
        Self { test: Some(command.into()), ..self }
    }

    fn setup(self, command: impl Into<String>) -> Self {
        Self { setup: Some(command.into()), ..self }
    }

    /// The same, whose commands need what is installed in `dir`.
    fn needs(self, root: &Path, dir: Option<&'static str>) -> Self {
        let included = text_of(root, ".worktreeinclude").unwrap_or_default();
        let unseen = dir.filter(|dir| !included.lines().any(|line| line.trim().trim_matches('/') == *dir));
        Self { unseen, ..self }
    }

    /// The same, in a directory below the root.
    fn inside(self, dir: &str) -> Self {
        let there = |command: Option<String>| command.map(|command| format!("cd {dir} && {command}"));
        Self {
            evidence: format!("{dir}/{}", self.evidence),
            setup: there(self.setup).map(|command| format!("({command})")),
            test: there(self.test),
            // `.worktreeinclude` of the root is what counts, and it may name this in many ways.
            unseen: None,
            ..self
        }
    }

    /// For people.
    pub(super) fn shown(&self) -> String {
        let test = self.test.as_deref().unwrap_or("no test command");
        let mut said = format!("{} · {}", self.evidence, text::line(test));
        if let Some(out_of_reach) = out_of_reach(self.program, &reach::of(self.program)) {
            said.push_str(&format!(" · {}", style::waiting(&out_of_reach)));
        }
        said
    }
}

/// Why a step cannot use a program; `None` when it can.
pub(crate) fn out_of_reach(program: &str, reach: &Reach) -> Option<String> {
    match reach {
        Reach::Jail(_) => None,
        Reach::Owner(path) => {
            let path = text::path(&path.display().to_string());
            Some(format!("{path} is out of reach of the jail"))
        }
        Reach::Absent => Some(format!("`{program}` is not installed")),
    }
}

/// The toolchains of a project, those that say most about its tests first; those one directory below
/// when the root knows no test command.
pub(crate) fn detect(root: &Path) -> Vec<Toolchain> {
    let mut found = at(root);
    if found.iter().all(|found| found.test.is_none()) {
        let below = below(root).into_iter().flat_map(|name| {
            at(&root.join(&name))
                .into_iter()
                .filter(|found| found.test.is_some())
                .map(move |found| found.inside(&name))
        });
        found.extend(below.take(NAMED_BELOW));
    }
    found
}

/// Directories right below the root that are the project's own, with names that a shell takes as they
/// are.
fn below(root: &Path) -> Vec<String> {
    let plain = |name: &str| {
        !name.starts_with(['.', '-']) && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    };
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut names: Vec<String> = dirs
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| plain(name) && !FOREIGN.contains(&name.as_str()))
        .collect();
    names.sort();
    names.truncate(MOST_BELOW);
    names
}

fn at(root: &Path) -> Vec<Toolchain> {
    let all = [cargo(root), node(root), python::find(root), go(root), maven(root), gradle(root), make(root)];
    all.into_iter().flatten().collect()
}

fn cargo(root: &Path) -> Option<Toolchain> {
    let manifest = text_of(root, "Cargo.toml")?;
    let is_workspace = manifest.lines().any(|line| line.trim().starts_with("[workspace"));
    let test = if is_workspace { "cargo test --workspace" } else { "cargo test" };
    Some(Toolchain::new("Cargo", "Cargo.toml", "cargo").setup("cargo fetch").test(test))
}

fn node(root: &Path) -> Option<Toolchain> {
    let manifest: Value = serde_json::from_str(&text_of(root, "package.json")?).unwrap_or_default();
    let declared = manifest["packageManager"].as_str().unwrap_or_default();
    let (is, has) =
        (|name: &str| declared.starts_with(&format!("{name}@")), |file: &str| is_file(root, file));
    let (name, setup) = if is("pnpm") || (declared.is_empty() && has("pnpm-lock.yaml")) {
        ("pnpm", "pnpm install --frozen-lockfile")
    } else if is("yarn") || (declared.is_empty() && has("yarn.lock")) {
        // The first yarn has another word for it than its successors.
        (
            "yarn",
            if has(".yarnrc.yml") { "yarn install --immutable" } else { "yarn install --frozen-lockfile" },
        )
    } else if has("package-lock.json") || has("npm-shrinkwrap.json") {
        ("npm", "npm ci")
    } else {
        ("npm", "npm install")
    };
    let installed = root.join("node_modules").is_dir().then_some("node_modules");
    let found = Toolchain::new(name, "package.json", name).setup(setup).needs(root, installed);
    match manifest["scripts"]["test"].as_str() {
        Some(script) if !script.trim().is_empty() && !script.contains(NPM_PLACEHOLDER) => {
            Some(found.test(format!("{name} test")))
        }
        _ => Some(found),
    }
}

fn go(root: &Path) -> Option<Toolchain> {
    is_file(root, "go.mod")
        .then(|| Toolchain::new("Go", "go.mod", "go").setup("go mod download").test("go test ./..."))
}

fn maven(root: &Path) -> Option<Toolchain> {
    is_file(root, "pom.xml").then(|| {
        // The wrapper fetches what it runs, and needs Java alone.
        let (command, program) = if is_file(root, "mvnw") { ("./mvnw", "java") } else { ("mvn", "mvn") };
        Toolchain::new("Maven", "pom.xml", program)
            .setup(format!("{command} -B dependency:go-offline"))
            .test(format!("{command} -B test"))
    })
}

fn gradle(root: &Path) -> Option<Toolchain> {
    let marks = ["build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"];
    let evidence = marks.into_iter().find(|name| is_file(root, name))?;
    let (command, program) =
        if is_file(root, "gradlew") { ("./gradlew", "java") } else { ("gradle", "gradle") };
    Some(Toolchain::new("Gradle", evidence, program).test(format!("{command} test")))
}

fn make(root: &Path) -> Option<Toolchain> {
    let (name, text) = ["GNUmakefile", "makefile", "Makefile"]
        .into_iter()
        .find_map(|name| Some((name, text_of(root, name)?)))?;
    let has = |target: &str| {
        text.lines().any(|line| {
            let Some((targets, rest)) = line.split_once(':') else { return false };
            // `test := x` is a variable, and an indented line a command.
            !line.starts_with(char::is_whitespace)
                && !rest.starts_with('=')
                && targets.split_whitespace().any(|name| name == target)
        })
    };
    let found = Toolchain::new("Make", name, "make");
    match ["test", "check"].into_iter().find(|target| has(target)) {
        Some(target) => Some(found.test(format!("make {target}"))),
        None => Some(found),
    }
}

/// Whether a plain file of this name is there; links are not followed.
fn is_file(root: &Path, name: &str) -> bool {
    fs::symlink_metadata(root.join(name)).is_ok_and(|found| found.is_file())
}

/// The beginning of a plain file, what is no UTF-8 in it replaced.
fn text_of(root: &Path, name: &str) -> Option<String> {
    if !is_file(root, name) {
        return None;
    }
    let mut bytes = Vec::new();
    fs::File::open(root.join(name)).ok()?.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found among files, as `name: test | setup`.
    fn check(files: &[(&str, &str)]) -> Vec<String> {
        let scratch = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = scratch.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let said = |found: Toolchain| {
            let or_none = |command: Option<String>| command.unwrap_or_else(|| "-".into());
            format!("{} ({}): {} | {}", found.name, found.program, or_none(found.test), or_none(found.setup))
        };
        detect(scratch.path()).into_iter().map(said).collect()
    }

    #[test]
    fn cargo() {
        assert_eq!(check(&[("Cargo.toml", "[package]\n")]), ["Cargo (cargo): cargo test | cargo fetch"]);
        let workspace = check(&[("Cargo.toml", "[workspace]\nmembers = []\n")]);
        assert_eq!(workspace, ["Cargo (cargo): cargo test --workspace | cargo fetch"]);
    }

    #[test]
    fn node_with_its_three_managers() {
        let tested = r#"{"scripts":{"test":"node --test"}}"#;
        let with = |lock: &'static str| check(&[("package.json", tested), (lock, "")]);
        assert_eq!(check(&[("package.json", tested)]), ["npm (npm): npm test | npm install"]);
        assert_eq!(with("package-lock.json"), ["npm (npm): npm test | npm ci"]);
        assert_eq!(with("pnpm-lock.yaml"), ["pnpm (pnpm): pnpm test | pnpm install --frozen-lockfile"]);
        assert_eq!(with("yarn.lock"), ["yarn (yarn): yarn test | yarn install --frozen-lockfile"]);
        let declared = r#"{"packageManager":"yarn@4.1.0","scripts":{"test":"jest"}}"#;
        let found = check(&[("package.json", declared), ("package-lock.json", ""), (".yarnrc.yml", "")]);
        assert_eq!(found, ["yarn (yarn): yarn test | yarn install --immutable"]);
    }

    #[test]
    fn a_script_that_only_fails_is_no_test() {
        let placeholder = r#"{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}"#;
        for manifest in [placeholder, "{}", "not json", r#"{"scripts":{"test":3}}"#] {
            assert_eq!(check(&[("package.json", manifest)]), ["npm (npm): - | npm install"], "{manifest}");
        }
    }

    #[test]
    fn python_with_its_three_managers() {
        let pytest = "[project]\nname = \"x\"\n[tool.pytest.ini_options]\n";
        assert_eq!(
            check(&[("pyproject.toml", pytest), ("uv.lock", "")]),
            ["Python with uv (uv): uv run pytest | uv sync"]
        );
        assert_eq!(
            check(&[("pyproject.toml", "[tool.poetry]\n"), ("tests/test_a.py", "")]),
            ["Python with poetry (poetry): poetry run python -m unittest discover -s tests | poetry install"]
        );
        assert_eq!(
            check(&[("requirements.txt", "pytest==8\n")]),
            ["Python with venv (python3): python3 -m pytest | \
             python3 -m venv .venv && .venv/bin/pip install -r requirements.txt"]
        );
        assert_eq!(check(&[("tox.ini", "")]), ["Python (python3): - | -"]);
    }

    #[test]
    fn python_as_its_files_are_laid_out() {
        let test = |files: &[(&str, &str)]| check(files).remove(0).split_once(": ").unwrap().1.to_owned();
        let unittest = test(&[("setup.py", ""), ("tests/__init__.py", ""), ("tests/test_a.py", "")]);
        assert!(unittest.starts_with("python3 -m unittest discover -s tests -t . |"), "{unittest}");
        let top = test(&[("setup.py", ""), ("test_a.py", "import unittest")]);
        assert!(top.starts_with("python3 -m unittest |"), "{top}");
        let told_by_a_test = test(&[("setup.py", ""), ("test_a.py", "import pytest")]);
        assert!(told_by_a_test.starts_with("python3 -m pytest |"), "{told_by_a_test}");
        let other_name = test(&[("setup.py", ""), ("test/test_a.py", "")]);
        assert!(other_name.starts_with("python3 -m unittest discover -s test |"), "{other_name}");
        let no_tests = test(&[("setup.py", ""), ("test/notes", "")]);
        assert!(no_tests.starts_with("- |"), "{no_tests}");
        let src = test(&[("setup.py", "pytest"), ("src/x/__init__.py", "")]);
        assert!(src.starts_with("PYTHONPATH=src python3 -m pytest |"), "{src}");
        let venv = [("setup.py", "pytest"), (".venv/pyvenv.cfg", ""), (".venv/bin/python", "")];
        assert!(test(&venv).starts_with(".venv/bin/python -m pytest |"), "{}", test(&venv));
    }

    #[test]
    fn what_is_installed_and_not_seen_is_named() {
        let unseen = |files: &[(&str, &str)]| {
            let scratch = tempfile::tempdir().unwrap();
            for (name, text) in files {
                let path = scratch.path().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            detect(scratch.path()).remove(0).unseen
        };
        let node = ("package.json", "{}");
        assert_eq!(unseen(&[node]), None);
        assert_eq!(unseen(&[node, ("node_modules/a", "")]), Some("node_modules"));
        assert_eq!(
            unseen(&[node, ("node_modules/a", ""), (".worktreeinclude", ".env\n/node_modules/\n")]),
            None
        );
        let venv = [("setup.py", ""), ("venv/pyvenv.cfg", ""), ("venv/bin/python", "")];
        assert_eq!(unseen(&venv), Some("venv"));
    }

    #[test]
    fn go_maven_and_gradle() {
        assert_eq!(check(&[("go.mod", "module x\n")]), ["Go (go): go test ./... | go mod download"]);
        assert_eq!(check(&[("pom.xml", "")]), ["Maven (mvn): mvn -B test | mvn -B dependency:go-offline"]);
        assert_eq!(
            check(&[("pom.xml", ""), ("mvnw", "")]),
            ["Maven (java): ./mvnw -B test | ./mvnw -B dependency:go-offline"]
        );
        assert_eq!(check(&[("build.gradle.kts", "")]), ["Gradle (gradle): gradle test | -"]);
        assert_eq!(check(&[("build.gradle", ""), ("gradlew", "")]), ["Gradle (java): ./gradlew test | -"]);
    }

    #[test]
    fn make_by_its_targets() {
        assert_eq!(
            check(&[("Makefile", "all: x\n\ncheck test: all\n\ttrue\n")]),
            ["Make (make): make test | -"]
        );
        assert_eq!(check(&[("GNUmakefile", "check::\n")]), ["Make (make): make check | -"]);
        let none = "test := x\n.PHONY: test\n\ttest: no\ntesting: x\n";
        assert_eq!(check(&[("makefile", none)]), ["Make (make): - | -"]);
    }

    #[test]
    fn one_directory_below_where_the_root_knows_no_test() {
        let web = r#"{"scripts":{"test":"jest"}}"#;
        let below = [
            ("api/go.mod", ""),
            ("web/package.json", web),
            ("node_modules/x/package.json", web),
            ("web/deep/Cargo.toml", ""),
            ("vendor/go.mod", ""),
            ("a b/go.mod", ""),
            (".ci/go.mod", ""),
        ];
        let expected = [
            "Go (go): cd api && go test ./... | (cd api && go mod download)",
            "npm (npm): cd web && npm test | (cd web && npm install)",
        ];
        assert_eq!(check(&below), expected);
        let with_root = [&below[..], &[("Makefile", "all:\n")]].concat();
        assert_eq!(check(&with_root).len(), 3);
        let tested = [&below[..], &[("Makefile", "test:\n")]].concat();
        assert_eq!(check(&tested), ["Make (make): make test | -"]);
    }

    #[test]
    fn several_are_all_found_and_links_are_not_followed() {
        let found = check(&[("Makefile", "test:\n"), ("Cargo.toml", ""), ("go.mod", "")]);
        assert_eq!(
            found.iter().filter_map(|found| found.split(' ').next()).collect::<Vec<_>>(),
            ["Cargo", "Go", "Make"]
        );
        assert!(check(&[("README.md", "")]).is_empty());
        let scratch = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/zero", scratch.path().join("Makefile")).unwrap();
        fs::create_dir(scratch.path().join("Cargo.toml")).unwrap();
        assert!(detect(scratch.path()).is_empty());
    }
}
