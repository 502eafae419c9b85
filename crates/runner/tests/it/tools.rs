//! The file tools through the jail, with good and bad input.

use domain::{Effect, Outcome, StepKind};
use serde_json::json;

use crate::bench::Bench;

#[test]
fn read_numbers_lines_and_goes_on() {
    let mut bench = Bench::new();
    bench.put("a.txt", "one\ntwo\nthree\n");
    assert_eq!(bench.good("read", json!({"path": "a.txt"})), "     1\tone\n     2\ttwo\n     3\tthree\n");
    assert_eq!(
        bench.good("read", json!({"path": "./a.txt", "offset": 2, "limit": 1})),
        "     2\ttwo\n[lines 2 to 2 of 3; go on with offset 3]\n"
    );
    assert_eq!(
        bench.bad("read", json!({"path": "a.txt", "offset": 9})),
        "`a.txt` has 3 lines, so there is no line 9"
    );
}

#[test]
fn read_tells_what_is_no_text() {
    let mut bench = Bench::new();
    bench.put("empty", "");
    bench.put("binary", b"\x7fELF\0\0");
    bench.put("latin1", b"caf\xe9\n");
    bench.put("long", "ä".repeat(3000));
    bench.put("dir/x", "");
    assert_eq!(bench.good("read", json!({"path": "empty"})), "[`empty` is empty]");
    assert_eq!(bench.good("read", json!({"path": "binary"})), "[`binary` is a binary file of 6 bytes]");
    assert!(bench.good("read", json!({"path": "latin1"})).contains("not UTF-8"));
    assert!(
        bench.good("read", json!({"path": "long"})).ends_with("ä [… 4000 bytes of this line left out]\n")
    );
    assert_eq!(bench.bad("read", json!({"path": "dir"})), "`dir` is a directory; use `list`");
    assert_eq!(
        bench.bad("read", json!({"path": "missing"})),
        "there is no file `missing`; `list` shows what is there"
    );
    bench.good("shell", json!({"command": "mkfifo pipe"}));
    assert_eq!(bench.bad("read", json!({"path": "pipe"})), "`pipe` is not a regular file");
}

#[test]
fn list_is_sorted_and_leaves_out_what_is_ignored() {
    let mut bench = Bench::new();
    for name in ["src/b.rs", "src/a.rs", "node_modules/x/y", ".git/config", "README", ".github/w.yml"] {
        bench.put(name, "x");
    }
    bench.put(".gitignore", "node_modules/\n");
    assert_eq!(bench.good("list", json!({})), ".github/\n.gitignore\nREADME\nsrc/\n");
    assert_eq!(
        bench.good("list", json!({"depth": 2})),
        ".github/\n.github/w.yml\n.gitignore\nREADME\nsrc/\nsrc/a.rs\nsrc/b.rs\n"
    );
    assert_eq!(bench.good("list", json!({"path": "src"})), "a.rs\nb.rs\n");
    assert_eq!(bench.bad("list", json!({"path": "nowhere"})), "there is no directory `nowhere`");
}

#[test]
fn search_finds_lines() {
    let mut bench = Bench::new();
    bench.put("src/b.rs", "fn one() {}\nfn two() {}\n");
    bench.put("src/a.js", "function One() {}\n");
    bench.put("ignored/a.js", "one\n");
    bench.put("binary", b"one\0one\n");
    bench.put(".gitignore", "ignored\n");
    assert_eq!(bench.good("search", json!({"pattern": r"fn \w+o\("})), "src/b.rs:2:fn two() {}\n");
    assert_eq!(
        bench.good("search", json!({"pattern": "ONE", "ignore_case": true})),
        "src/a.js:1:function One() {}\nsrc/b.rs:1:fn one() {}\n"
    );
    assert_eq!(bench.good("search", json!({"pattern": "one", "glob": "*.js"})), "[no match]");
    assert_eq!(
        bench.good("search", json!({"pattern": "o", "glob": "src/*.js", "path": "src"})),
        "src/a.js:1:function One() {}\n"
    );
    assert!(
        bench.bad("search", json!({"pattern": "("})).starts_with("`pattern` is not a regular expression")
    );
    assert_eq!(bench.bad("search", json!({"pattern": "x", "path": "no"})), "there is nothing at `no`");
}

#[test]
fn edit_replaces_what_is_unique_and_fresh() {
    let mut bench = Bench::new();
    bench.put("a.rs", "let a = 1;\nlet b = 1;\n");
    let edit = |old: &str, new: &str| json!({"path": "a.rs", "old": old, "new": new});
    assert!(bench.bad("edit", edit("a = 1", "a = 2")).contains("you have not read `a.rs` yet"));
    bench.good("read", json!({"path": "a.rs"}));
    assert!(bench.bad("edit", edit("= 1", "= 2")).contains("occurs 2 times"));
    assert!(bench.bad("edit", edit("nothing", "x")).contains("does not occur"));
    assert_eq!(
        bench.good("edit", edit("a = 1", "a = 2")),
        "edited `a.rs`, 1 replacement\n     1\tlet a = 2;\n     2\tlet b = 1;\n"
    );
    // Its own edit is known, and any spelling of the path means the same file.
    bench.good("edit", json!({"path": "/workspace/./a.rs", "old": "b = 1", "new": "b = 2"}));
    assert_eq!(bench.text("a.rs"), "let a = 2;\nlet b = 2;\n");
    bench.good("edit", json!({"path": "a.rs", "old": "= 2", "new": "= 3", "replace_all": true}));
    assert_eq!(bench.text("a.rs"), "let a = 3;\nlet b = 3;\n");
    // Something else changes it.
    bench.good("shell", json!({"command": "echo '// more' >> a.rs"}));
    assert!(bench.bad("edit", edit("a = 3", "a = 4")).contains("was changed since you last read it"));
    bench.good("read", json!({"path": "a.rs"}));
    bench.good("edit", edit("a = 3", "a = 4"));
    assert!(bench.text("a.rs").ends_with("// more\n"));
}

#[test]
fn edit_keeps_line_ends_and_mode() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut bench = Bench::new();
    bench.put("dos.bat", "a\r\nb\r\nc\r\n");
    std::fs::set_permissions(bench.path("dos.bat"), std::fs::Permissions::from_mode(0o755)).unwrap();
    bench.good("read", json!({"path": "dos.bat"}));
    bench.good("edit", json!({"path": "dos.bat", "old": "a\nb", "new": "x\ny"}));
    assert_eq!(bench.text("dos.bat"), "x\r\ny\r\nc\r\n");
    assert_eq!(std::fs::metadata(bench.path("dos.bat")).unwrap().permissions().mode() & 0o777, 0o755);
}

#[test]
fn edit_inserts_lines_with_the_ends_of_the_file() {
    let mut bench = Bench::new();
    bench.put("dos.bat", "a\r\nb\r\n");
    bench.put("mixed", "a\r\nb\n");
    for path in ["dos.bat", "mixed"] {
        bench.good("read", json!({"path": path}));
        bench.good("edit", json!({"path": path, "old": "b", "new": "x\ny"}));
    }
    assert_eq!(bench.text("dos.bat"), "a\r\nx\r\ny\r\n");
    assert_eq!(bench.text("mixed"), "a\r\nx\ny\n");
}

#[test]
fn edit_leaves_bytes_that_are_no_text_as_they_are() {
    let mut bench = Bench::new();
    bench.put("latin1", b"caf\xe9 \xff\r\none\r\ntwo \xfc\r\n");
    bench.good("read", json!({"path": "latin1"}));
    bench.good("edit", json!({"path": "latin1", "old": "one\ntwo", "new": "1\n2"}));
    let now = std::fs::read(bench.path("latin1")).unwrap();
    assert_eq!(now, b"caf\xe9 \xff\r\n1\r\n2 \xfc\r\n");
    // What is shown in the place of an unreadable byte is not in the file.
    assert!(
        bench
            .bad("edit", json!({"path": "latin1", "old": "caf\u{fffd}", "new": "x"}))
            .contains("does not occur")
    );
}

#[test]
fn write_creates_and_never_overwrites_the_unseen() {
    let mut bench = Bench::new();
    bench.put("old", "precious");
    assert_eq!(
        bench.good("write", json!({"path": "new/deep/file", "content": "hello"})),
        "wrote `new/deep/file`, 5 bytes"
    );
    assert_eq!(bench.text("new/deep/file"), "hello");
    bench.good("write", json!({"path": "new/deep/file", "content": "again"}));
    assert!(
        bench.bad("write", json!({"path": "old", "content": "x"})).contains("you have not read `old` yet")
    );
    assert_eq!(bench.text("old"), "precious");
    assert!(bench.bad("write", json!({"path": "new", "content": "x"})).contains("is a directory"));
}

#[test]
fn links_do_not_lead_out() {
    let mut bench = Bench::new();
    let secret = bench.home.path().join("secret");
    std::fs::write(&secret, "host").unwrap();
    std::os::unix::fs::symlink(&secret, bench.path("link")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", bench.path("passwd")).unwrap();
    std::os::unix::fs::symlink("..", bench.path("up")).unwrap();
    std::os::unix::fs::symlink("inside.txt", bench.path("good")).unwrap();
    let other = bench.home.path().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("secret"), "host").unwrap();
    std::os::unix::fs::symlink(&other, bench.path("dir")).unwrap();
    bench.put("inside.txt", "in\n");
    for path in [
        "link",
        "passwd",
        "dir/secret",
        "dir/new",
        "up/secret",
        "../secret",
        "/etc/passwd",
        secret.to_str().unwrap(),
    ] {
        for (tool, input) in [
            ("read", json!({"path": path})),
            ("edit", json!({"path": path, "old": "host", "new": "mine"})),
            ("write", json!({"path": path, "content": "mine"})),
        ] {
            let text = bench.bad(tool, input);
            assert!(
                text.contains("outside of the workspace") || text.contains("out of the workspace"),
                "{text}"
            );
            assert!(!text.contains("host"), "{text}");
        }
    }
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "host");
    // The tools' own checks are words; this is the wall.
    let (_, output) =
        bench.call("shell", json!({"command": "cat link; echo mine > link; echo mine > up/secret"}));
    assert!(output.is_error && !output.text.contains("host"), "{}", output.text);
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "host");
    // A link inside is a name like any other.
    bench.good("read", json!({"path": "good"}));
    bench.good("edit", json!({"path": "good", "old": "in", "new": "changed"}));
    assert_eq!(bench.text("inside.txt"), "changed\n");
}

#[test]
fn wrong_input_is_told_to_the_model() {
    let mut bench = Bench::new();
    assert_eq!(
        bench.bad("fly", json!({})),
        "there is no tool `fly`; the tools are read, list, search, edit, write, shell"
    );
    let missing = bench.bad("read", json!({}));
    assert!(missing.contains("missing field `path`") && missing.contains("send an object of this schema"));
    assert!(bench.bad("read", json!({"path": "a", "line": 3})).contains("unknown field `line`"));
    assert!(bench.bad("read", json!({"path": 3})).contains("invalid type"));
    assert!(bench.bad("read", json!("a")).contains("the input of `read` is wrong"));
    assert!(bench.bad("read", json!({"path": "a", "limit": 0})).contains("count from 1"));
    assert!(bench.bad("read", json!({"path": ""})).contains("the path is empty"));
    assert!(
        bench.bad("edit", json!({"path": "a", "old": "", "new": "x"})).contains("`old` of `edit` is empty")
    );
    assert!(bench.bad("edit", json!({"path": "a", "old": "x", "new": "x"})).contains("nothing to change"));
    assert!(bench.bad("shell", json!({"command": " "})).contains("the command is empty"));
    assert!(bench.bad("shell", json!({"command": "a\u{0}b"})).contains("NUL"));
    assert!(bench.bad("list", json!({"depth": 99})).contains("between 1 and 16"));
    let request = json!({"tool": "shell", "input": {"command": "touch x"}}).to_string();
    let work = bench.work_of(StepKind::ToolCall, Effect::WorkspaceWrite, "edit", &request);
    let (outcome, output) = bench.run(&work);
    assert_eq!(outcome, Outcome::Failed);
    assert_eq!(output.text, "the request names the tool `shell`, but the step is one of `edit`");
    assert!(!bench.path("x").exists());
    for request in ["", "{", "[]", r#"{"tool":"read"}"#, r#"{"tool":"read","input":{"path":"a"},"x":1}"#] {
        let work = bench.work_of(StepKind::ToolCall, Effect::Read, "read", request);
        let (outcome, output) = bench.run(&work);
        assert_eq!(outcome, Outcome::Failed);
        assert!(output.text.starts_with("the request is not what a step needs"), "{}", output.text);
    }
}
