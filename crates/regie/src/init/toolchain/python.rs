//! Python: its package managers, the environments of a project, and what runs its tests.

use std::fs;
use std::path::Path;

use super::{Toolchain, is_file, text_of};

/// How many files of tests are looked into.
const MOST_TESTS: usize = 20;

pub(super) fn find(root: &Path) -> Option<Toolchain> {
    const MARKS: [&str; 7] =
        ["pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "tox.ini", "pytest.ini", "Pipfile"];
    let evidence = MARKS.into_iter().find(|name| is_file(root, name))?;
    let project = text_of(root, "pyproject.toml").unwrap_or_default();
    let tables = |name: &str| project.lines().any(|line| line.trim().starts_with(&format!("[tool.{name}")));
    let (name, program, setup, python) = if is_file(root, "uv.lock") || tables("uv") {
        ("Python with uv", "uv", Some("uv sync"), "uv run")
    } else if is_file(root, "poetry.lock") || tables("poetry") {
        ("Python with poetry", "poetry", Some("poetry install"), "poetry run")
    } else if is_file(root, "requirements.txt") {
        let setup = "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt";
        ("Python with venv", "python3", Some(setup), "")
    } else if evidence == "pyproject.toml" || evidence == "setup.py" {
        let setup = "python3 -m venv .venv && .venv/bin/pip install -e .";
        ("Python with venv", "python3", Some(setup), "")
    } else {
        ("Python", "python3", None, "")
    };
    // Without a package manager's word there is the project's own environment, else the owner's Python.
    let venv = [".venv", "venv"].into_iter().find(|dir| has_python(root, dir)).filter(|_| python.is_empty());
    let run = venv.map_or_else(|| "python3".to_owned(), |dir| format!("{dir}/bin/python"));
    let sources = if python.is_empty() && is_src_layout(root) { "PYTHONPATH=src " } else { "" };
    let test = match (tests_of_python(root, &project), python) {
        (None, _) => None,
        (Some(tests), "") => Some(format!("{sources}{run} -m {tests}")),
        (Some(tests), run) if tests == "pytest" => Some(format!("{run} pytest")),
        (Some(tests), run) => Some(format!("{run} python -m {tests}")),
    };
    let found = Toolchain::new(name, evidence, program);
    let found = Toolchain { setup: setup.map(str::to_owned), ..found }.needs(root, venv);
    Some(Toolchain { test, ..found })
}

/// The module that runs a Python project's tests, with its arguments.
fn tests_of_python(root: &Path, project: &str) -> Option<String> {
    let mentions =
        ["requirements.txt", "requirements-dev.txt", "setup.py", "setup.cfg", "tox.ini", "Pipfile"];
    let says_pytest = |name: &str| text_of(root, name).is_some_and(|text| text.contains("pytest"));
    let dir = ["tests", "test"].into_iter().find(|dir| root.join(dir).is_dir());
    let files = |dir: &str| {
        let names = names_in(&root.join(dir)).into_iter();
        let tests = names.filter(|name| name.starts_with("test_") && name.ends_with(".py"));
        tests.map(|name| if dir.is_empty() { name } else { format!("{dir}/{name}") }).collect::<Vec<_>>()
    };
    let (inside, top) = (dir.map(files).unwrap_or_default(), files(""));
    let is_pytest = project.contains("pytest")
        || ["pytest.ini", "conftest.py", "tests/conftest.py"].iter().any(|name| is_file(root, name))
        || mentions.iter().any(|name| says_pytest(name))
        || inside.iter().chain(&top).take(MOST_TESTS).any(|name| says_pytest(name));
    match dir {
        _ if is_pytest => Some("pytest".into()),
        // Tests that are a package import each other by its name.
        Some(dir) if is_file(root, &format!("{dir}/__init__.py")) => {
            Some(format!("unittest discover -s {dir} -t ."))
        }
        Some(dir) if dir == "tests" || !inside.is_empty() => Some(format!("unittest discover -s {dir}")),
        _ => (!top.is_empty()).then(|| "unittest".into()),
    }
}

/// Whether a directory is an environment of Python: its program is a link to one elsewhere.
fn has_python(root: &Path, dir: &str) -> bool {
    root.join(dir).join("pyvenv.cfg").is_file()
        && root.join(dir).join("bin/python").symlink_metadata().is_ok()
}

/// Whether the packages lie in `src`, where nothing finds them that is not installed.
fn is_src_layout(root: &Path) -> bool {
    names_in(&root.join("src")).iter().any(|name| is_file(root, &format!("src/{name}/__init__.py")))
}

/// The names in a directory, sorted.
fn names_in(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}
