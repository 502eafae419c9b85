//! The owner's own toolchains at work in the jail, and their secrets out of its sight.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::world::{World, finish};

#[expect(clippy::print_stderr, reason = "a test that proved nothing has to say so")]
fn skipped(why: &str) {
    eprintln!("SKIPPED: {why}");
}

/// Whether this machine can run it; a test that cannot says so and proves nothing.
fn is_there(program: &str, args: &[&str]) -> bool {
    let ran = Command::new(program).args(args).stdin(Stdio::null()).output();
    let there = ran.is_ok_and(|output| output.status.success());
    if !there {
        skipped(&format!("this machine has no working `{program} {}`", args.join(" ")));
    }
    there
}

/// A turn that calls a tool.
fn call(tool: &str, input: &Value) -> String {
    format!("[[turn]]\n[[turn.call]]\nname = {:?}\njson = {}\n", tool, json!(input.to_string()))
}

fn done() -> String {
    "[[turn]]\ntext = \"It is mended.\"\n".into()
}

fn commit(world: &World, files: &[(&str, &str)]) {
    for (path, text) in files {
        let at = world.project().join(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(at, text).unwrap();
    }
    for args in [&["add", "."][..], &["commit", "-q", "-m", "A project"]] {
        assert!(world.git(args).status.success());
    }
}

/// The results that the model was sent, joined.
fn results(world: &World) -> String {
    world.asked().last().map(|request| request["messages"].to_string()).unwrap_or_default()
}

#[test]
fn a_rust_project_is_mended_with_the_owners_cargo() {
    if !is_there("cargo", &["--version"]) {
        return;
    }
    let test = "cargo test --offline --quiet";
    let edit = json!({ "path": "src/lib.rs", "old": "a - b", "new": "a + b" });
    let world = World::new(
        &[
            call("shell", &json!({ "command": test })),
            call("read", &json!({ "path": "src/lib.rs" })),
            call("edit", &edit),
            done(),
        ]
        .concat(),
    );
    commit(
        &world,
        &[
            ("Cargo.toml", "[package]\nname = \"cart\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
            (".gitignore", "/target\nCargo.lock\n"),
            (
                "src/lib.rs",
                "pub fn add(a: i32, b: i32) -> i32 { a - b }\n#[test]\nfn adds() { assert_eq!(add(1, 2), 3); }\n",
            ),
        ],
    );
    let said = world.ask(&["run", "Mend the sum", "--done", test, "--yes"]);
    assert_eq!(said.code, Some(0), "{said:?}\n{}", results(&world));
    assert!(results(&world).contains("assertion"), "the test was seen to fail: {}", results(&world));
    assert!(fs::read_to_string(world.project().join("src/lib.rs")).unwrap().contains("a + b"));
    world.is_whole();
}

#[test]
fn a_python_project_is_mended_with_the_owners_python() {
    if !is_there("python3", &["-c", "import unittest"]) {
        return;
    }
    let test = "python3 -m unittest -q";
    let edit = json!({ "path": "cart.py", "old": "a - b", "new": "a + b" });
    let world = World::new(
        &[
            call("shell", &json!({ "command": "python3 -c 'import sys; print(sys.executable)'" })),
            call("shell", &json!({ "command": test })),
            call("read", &json!({ "path": "cart.py" })),
            call("edit", &edit),
            done(),
        ]
        .concat(),
    );
    commit(
        &world,
        &[
            (".gitignore", "__pycache__/\n"),
            ("cart.py", "def add(a, b):\n    return a - b\n"),
            (
                "test_cart.py",
                "import unittest\nfrom cart import add\n\nclass Adds(unittest.TestCase):\n    def test(self):\n        \
                 self.assertEqual(add(1, 2), 3)\n",
            ),
        ],
    );
    let mut outside = Command::new("python3");
    outside.args(["-c", "import sys; print(sys.executable)"]).stdin(Stdio::null());
    let python = finish(outside).out;
    let said = world.ask(&["run", "Mend the sum", "--done", test, "--yes"]);
    assert_eq!(said.code, Some(0), "{said:?}\n{}", results(&world));
    assert!(results(&world).contains("AssertionError"), "{}", results(&world));
    assert!(results(&world).contains(python.trim()), "the owner's own python: {}", results(&world));
    world.is_whole();
}

#[test]
fn tokens_beside_the_programs_are_not_seen_and_caches_last() {
    let place = tempfile::tempdir().unwrap();
    let owner = place.path().canonicalize().unwrap().join("owner");
    let shell = |command: String| call("shell", &json!({ "command": command }));
    let home = owner.display();
    let look = format!(
        "tool; cat {home}/.cargo/credentials.toml {home}/.npmrc {home}/.config/gh/hosts.yml; \
         cat {home}/.pyenv/versions/3/pip.conf && echo blank; echo x > {home}/.cargo/bin/tool || echo kept"
    );
    let keep = "mkdir -p \"$XDG_CACHE_HOME\" && date > \"$XDG_CACHE_HOME/kept\" && echo cached";
    let again = "test -s \"$XDG_CACHE_HOME/kept\" && echo still there";
    let scenario = [shell(look), shell(keep.into()), shell(again.into()), done()].concat();
    let world = World::at(place, &scenario);
    for (path, text) in [
        (".cargo/bin/tool", "#!/bin/sh\necho the owner\\'s tool\n"),
        (".cargo/credentials.toml", "token = \"hidden-1\""),
        (".npmrc", "hidden-2"),
        (".config/gh/hosts.yml", "hidden-3"),
        (".pyenv/versions/3/pip.conf", "hidden-4"),
    ] {
        let at = owner.join(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(&at, text).unwrap();
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(&at, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut run = world.regie(&["run", "Look around", "--yes"]);
    run.env("HOME", &owner).env_remove("CARGO_HOME").env_remove("PYENV_ROOT");
    let said = finish(run);
    assert_eq!(said.code, Some(0), "{said:?}");
    let seen = results(&world);
    for wanted in ["the owner's tool", "blank", "kept", "cached", "still there"] {
        assert!(seen.contains(wanted), "{wanted}: {seen}");
    }
    assert!(!seen.contains("hidden-"), "{seen}");
    assert!(fs::read_to_string(owner.join(".cargo/bin/tool")).unwrap().contains("owner"));
}

#[test]
fn what_the_owners_registry_holds_is_built_without_a_network() {
    let world = World::new(
        &[call("shell", &json!({ "command": "cargo test --quiet && echo built" })), done()].concat(),
    );
    let files = [
        (
            "Cargo.toml",
            "[package]\nname = \"cart\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\nitoa = \"1\"\n",
        ),
        (".gitignore", "/target\n"),
        ("src/lib.rs", "#[test]\nfn writes() { assert_eq!(itoa::Buffer::new().format(1), \"1\"); }\n"),
    ];
    commit(&world, &files);
    let mut lock = Command::new("cargo");
    lock.args(["generate-lockfile", "--offline", "--quiet"])
        .current_dir(world.project())
        .stdin(Stdio::null());
    if !lock.status().is_ok_and(|status| status.success()) {
        skipped("the owner's registry does not hold `itoa`");
        return;
    }
    commit(&world, &[]);
    let said = world.ask(&["run", "Build it", "--yes"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(results(&world).contains("built\\n"), "{}", results(&world));
}
