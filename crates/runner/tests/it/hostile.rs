//! What models, and repositories that somebody else wrote, have file tools do: each tool, at each place where
//! it has no business, says so in words, at once, and nothing is changed.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use domain::Outcome;
use serde_json::{Value, json};

use crate::bench::Bench;

/// A call of each tool at a path.
fn calls(path: &str) -> [(&'static str, Value); 5] {
    [
        ("read", json!({"path": path})),
        ("list", json!({"path": path})),
        ("search", json!({"pattern": ".", "path": path})),
        ("edit", json!({"path": path, "old": "secret", "new": "mine"})),
        ("write", json!({"path": path, "content": "mine"})),
    ]
}

/// A bench with a host beside its workspace that holds a secret.
fn bench() -> Bench {
    let bench = Bench::new();
    for file in ["secret", "outside/secret"] {
        let path = bench.home.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "secret").unwrap();
    }
    bench.put("dir/file", "text\n");
    bench
}

#[track_caller]
fn is_as_it_was(bench: &Bench) {
    for file in ["secret", "outside/secret"] {
        assert_eq!(fs::read_to_string(bench.home.path().join(file)).unwrap(), "secret");
    }
    assert_eq!(fs::read_dir(bench.home.path().join("outside")).unwrap().count(), 1);
}

/// Every tool refuses every path, in one short text.
#[track_caller]
fn all_refused(bench: &mut Bench, paths: &[&str]) {
    for path in paths {
        for (tool, input) in calls(path) {
            let (outcome, output) = bench.call(tool, input);
            assert!(outcome == Outcome::Failed && output.is_error, "{tool} {path:?}: {}", output.text);
            assert!(!output.text.is_empty() && output.text.len() < 9_000, "{tool} {path:?}");
            assert!(!output.text.contains("secret\n") && output.image.is_none(), "{}", output.text);
        }
    }
    is_as_it_was(bench);
}

#[test]
fn paths_that_lead_out_are_refused_by_every_tool() {
    let mut bench = bench();
    symlink(bench.home.path().join("outside"), bench.path("l")).unwrap();
    symlink("/proc/self/root", bench.path("root")).unwrap();
    symlink("/proc/self/environ", bench.path("environ")).unwrap();
    symlink("..", bench.path("dir/up")).unwrap();
    let secret = bench.home.path().join("secret");
    let by_root = format!("/proc/self/root{}", secret.display());
    let by_link = format!("root{}", secret.display());
    all_refused(
        &mut bench,
        &[
            "..",
            "../",
            "../../secret",
            "dir/../../secret",
            "dir/up/../secret",
            "l",
            "l/",
            "l/secret",
            "l/../secret",
            secret.to_str().unwrap(),
            &by_root,
            &by_link,
            "environ",
            "/proc/self/environ",
            "/proc/1/environ",
            "/proc/self/mem",
            "/proc/self/fd/0",
            "/dev/zero",
            "/dev/full",
            "/",
            "//",
            "/workspace/..",
            "/.regie/regie",
            "/etc/passwd",
            "/outputs/..",
            "/outputs/../etc/passwd",
            "/outputs/../../spool/fence",
        ],
    );
}

#[test]
fn git_is_refused_by_every_tool_in_every_spelling() {
    let mut bench = bench();
    bench.put("sub/.git/config", "secret\n");
    bench.put(".GIT/config", "secret\n");
    symlink("sub/.git", bench.path("g")).unwrap();
    symlink(".git/hooks", bench.path("dir/hooks")).unwrap();
    all_refused(
        &mut bench,
        &[
            ".git",
            ".git/",
            ".git/.",
            ".git/config",
            ".git//hooks///x",
            "./.git/config",
            "dir/../.git/config",
            ".GIT/config",
            ".Git/new",
            ".git/new/deep/er",
            "sub/.git/config",
            "sub/.gIT/x",
            "g/config",
            "/workspace/.git/config",
        ],
    );
    assert_eq!(bench.text("sub/.git/config"), "secret\n");
    assert!(!bench.good("search", json!({"pattern": "secret"})).contains(".git/"));
    // Names that other systems take for it are caught where they leave: `docs/security.md`.
    bench.good("write", json!({"path": ".git ", "content": "x"}));
}

#[test]
fn names_that_no_file_has_are_refused_by_every_tool() {
    let mut bench = bench();
    let (name, deep) = ("n".repeat(256), "d/".repeat(3_000));
    all_refused(
        &mut bench,
        &["", "a\0b", "\0", &name, &deep, &format!("dir/file/{name}"), "dir/file/x", "dir/file/"],
    );
    for (tool, input) in calls("no\nsuch\nfile").into_iter().take(4) {
        assert!(bench.bad(tool, input).contains("no\nsuch\nfile"));
    }
    // A newline in a name is a name.
    bench.good("write", json!({"path": "new\nline/-rf", "content": "x\n"}));
    assert_eq!(bench.good("read", json!({"path": "new\nline/-rf"})), "     1\tx\n");
    assert_eq!(bench.text("new\nline/-rf"), "x\n");
}

#[test]
fn pipes_sockets_and_links_without_end_are_refused_at_once() {
    let mut bench = bench();
    rustix::fs::mkfifoat(rustix::fs::CWD, bench.path("pipe"), rustix::fs::Mode::RWXU).unwrap();
    symlink("pipe", bench.path("image.png")).unwrap();
    drop(UnixListener::bind(bench.path("socket")).unwrap());
    symlink("loop", bench.path("loop")).unwrap();
    symlink("../dir/self", bench.path("dir/self")).unwrap();
    symlink("/dev/zero", bench.path("zero")).unwrap();
    symlink("nowhere", bench.path("dangling")).unwrap();
    for path in
        ["pipe", "image.png", "socket", "loop", "loop/x", "dir/self", "zero", "dangling", "dangling/x"]
    {
        for (tool, input) in calls(path) {
            let (outcome, output) = bench.call(tool, input);
            let is_found = outcome == Outcome::Failed || (tool == "search" && output.text == "[no match]");
            assert!(is_found && output.image.is_none(), "{tool} {path}: {}", output.text);
        }
    }
    // What goes through all files passes them by.
    assert_eq!(bench.good("search", json!({"pattern": "text"})), "dir/file:1:text\n");
    assert!(bench.good("list", json!({})).contains("pipe\n"));
    assert!(!bench.path("nowhere").exists());
    is_as_it_was(&bench);
}

#[test]
fn an_image_through_a_link_is_looked_at_inside_and_not_outside() {
    let mut bench = bench();
    let png = |size: u8| {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0".to_vec();
        bytes.extend([size, 0, 0, 0, size]);
        bytes.resize(200, 7);
        bytes
    };
    bench.put("inside", png(3));
    fs::write(bench.home.path().join("outside/shot.png"), png(5)).unwrap();
    symlink("inside", bench.path("good.png")).unwrap();
    symlink(bench.home.path().join("outside/shot.png"), bench.path("bad.png")).unwrap();
    let (_, told) = bench.call("read", json!({"path": "good.png"}));
    assert_eq!(told.image.map(|image| image.width), Some(3), "{}", told.text);
    let (outcome, told) = bench.call("read", json!({"path": "bad.png"}));
    assert_eq!((outcome, told.image), (Outcome::Failed, None), "{}", told.text);
}

#[test]
fn a_second_name_of_a_withheld_file_is_the_only_way_to_it_and_a_command_had_to_make_it() {
    let mut bench = bench();
    bench.put(".env", "secret\n");
    bench.config.withheld = vec![".env".into()];
    bench.restart_daemon();
    symlink(".env", bench.path("link")).unwrap();
    for path in [".env", "./.env", "dir/../.env", "link", "/workspace/.env", ".env/", ".env/."] {
        for (tool, input) in calls(path) {
            let (_, output) = bench.call(tool, input);
            assert!(!output.text.contains("secret"), "{tool} {path}: {}", output.text);
        }
    }
    assert_eq!(bench.text(".env"), "secret\n");
    assert_eq!(bench.good("search", json!({"pattern": "secret"})), "[no match]");
}

#[test]
fn very_many_files_are_listed_and_searched_in_part() {
    let mut bench = bench();
    let many = if std::env::var_os("REGIE_PROOF").is_some() { 1_000_000 } else { 100_000 };
    fs::create_dir(bench.path("many")).unwrap();
    for number in 0..many {
        fs::write(bench.path("many").join(number.to_string()), "x").unwrap();
    }
    for (tool, input) in [
        ("list", json!({"path": "many"})),
        ("list", json!({"depth": 16})),
        ("search", json!({"pattern": "x"})),
    ] {
        let (outcome, output) = bench.call(tool, input);
        assert_eq!(outcome, Outcome::Succeeded, "{}", output.text);
        let told = output.path.map_or(output.text.clone(), |_| "[there is more".to_owned() + &output.text);
        assert!(
            told.contains("[there is more") && output.text.len() < 40_000,
            "{tool}: {}",
            output.text.len()
        );
    }
    assert_eq!(bench.good("shell", json!({"command": "ls many | wc -l"})), format!("{many}\n"));
}

#[test]
fn a_workspace_at_the_end_of_the_longest_path_works() {
    // The bench adds `/work`, and the spool a run and a name.
    let room = 4_095 - tempfile::tempdir().unwrap().path().as_os_str().len() - 60;
    let deep = format!("{}/", "d".repeat(250)).repeat(room / 251);
    let mut bench = Bench::below(Path::new(&deep));
    assert!(bench.config.workspace.as_os_str().len() > 3_700);
    bench.good("write", json!({"path": "a/b", "content": "text\n"}));
    assert_eq!(
        bench.good("shell", json!({"command": "cat a/b; mkdir c && mv a c/ && pwd"})),
        "text\n/workspace\n"
    );
    // In there a path is as long as anywhere, though no path of the host leads to its end.
    let name = "n".repeat(250);
    let long = format!("{name}/{name}/{name}/file");
    bench.good("write", json!({"path": long, "content": "x\n"}));
    assert_eq!(bench.good("read", json!({"path": long})), "     1\tx\n");
    assert!(bench.good("search", json!({"pattern": "x"})).ends_with("/file:1:x\n"));
    bench.good("shell", json!({"command": "rm -rf n*"}));
}
