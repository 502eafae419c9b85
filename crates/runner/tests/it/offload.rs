//! Long results are shown in part, and the whole is where the agent's own tools find it.

use domain::Outcome;
use serde_json::json;

use crate::bench::Bench;

#[test]
fn a_long_output_can_be_read_and_searched_by_later_steps_and_changed_by_none() {
    let mut bench = Bench::new();
    let (_, told) = bench.call("shell", json!({"command": "seq 1 20000; echo the needle; seq 1 20000"}));
    let path = told.path.unwrap();
    assert_eq!(path, "/outputs/1.txt");
    assert!(
        told.text.len() < (12 << 10) + 200 && told.text.contains("in /outputs/1.txt …]"),
        "{}",
        told.text
    );
    assert_eq!(
        bench.good("search", json!({"pattern": "needle", "path": path})),
        "/outputs/1.txt:20001:the needle\n"
    );
    assert!(bench.good("read", json!({"path": path, "offset": 20001, "limit": 1})).contains("the needle"));
    assert_eq!(bench.good("list", json!({"path": "/outputs"})), "1.txt\n");
    let refused = bench.bad("shell", json!({"command": "echo x > /outputs/1.txt"}));
    assert!(refused.contains("Read-only"), "{refused}");
    assert!(bench.bad("write", json!({"path": path, "content": "x"})).contains("outside of the workspace"));
    assert!(
        bench.bad("edit", json!({"path": path, "old": "x", "new": "y"})).contains("outside of the workspace")
    );
    for elsewhere in ["/outputs/../etc/passwd", "/outputs/9.txt", "/outputsx"] {
        bench.bad("read", json!({"path": elsewhere}));
    }
}

#[test]
fn a_long_list_of_matches_is_put_aside_and_a_long_file_is_read_in_pages() {
    let mut bench = Bench::new();
    let line = "x".repeat(300);
    bench.put("long", format!("{line}\n").repeat(100));
    let (outcome, told) = bench.call("search", json!({"pattern": "x"}));
    assert_eq!(outcome, Outcome::Succeeded);
    assert_eq!(told.path.as_deref(), Some("/outputs/1.txt"));
    let whole = bench.artifact(told.artifact.unwrap());
    assert_eq!(told.truncated_bytes as usize, whole.len() - (12 << 10));
    assert_eq!(String::from_utf8(whole).unwrap().lines().count(), 100);
    let (_, page) = bench.call("read", json!({"path": "long"}));
    assert!(page.path.is_none() && page.text.len() < 13 << 10, "{}", page.text.len());
    assert!(page.text.ends_with("go on with offset 41]\n"), "{}", page.text.rsplit('[').next().unwrap());
    // What was put aside is paged too, not put aside again.
    assert!(bench.call("read", json!({"path": "/outputs/1.txt"})).1.path.is_none());
}

#[test]
fn the_nearest_instructions_come_once_with_the_first_file_of_their_directory() {
    let mut bench = Bench::new();
    bench.put("AGENTS.md", "root rules");
    bench.put("web/CLAUDE.md", "web rules");
    bench.put("web/api/AGENTS.md", "api rules");
    bench.put("web/api/CLAUDE.md", "not these");
    for name in ["a.js", "web/a.js", "web/b.js", "web/api/v1/a.js", "web/api/b.js"] {
        bench.put(name, "x");
    }
    let mut told = |name: &str| {
        let (_, output) = bench.call("read", json!({"path": name}));
        output.instructions.map(|found| (found.path, found.text))
    };
    let found = |path: &str, text: &str| Some((path.to_owned(), text.to_owned()));
    assert_eq!(told("a.js"), None, "those of the root are in the system text");
    assert_eq!(told("web/a.js"), found("web/CLAUDE.md", "web rules"));
    assert_eq!(told("web/b.js"), None);
    assert_eq!(told("web/api/v1/a.js"), found("web/api/AGENTS.md", "api rules"));
    assert_eq!(told("web/api/AGENTS.md"), None);
    // Also when the results that told it are gone, and the runner is another one.
    bench.executor().forget(bench.config.run, domain::StepNo(4), bench.fence);
    crate::bench::until("the results are gone", || !bench.spool_file("4.result").exists());
    bench.kill_runner();
    bench.restart_daemon();
    let (_, output) = bench.call("read", json!({"path": "web/api/b.js"}));
    assert_eq!(output.instructions, None);
}

#[test]
fn instructions_behind_a_link_are_not_told() {
    let mut bench = Bench::new();
    bench.put("web/a.js", "x");
    std::os::unix::fs::symlink("/etc/passwd", bench.path("web/AGENTS.md")).unwrap();
    assert_eq!(bench.call("read", json!({"path": "web/a.js"})).1.instructions, None);
}
