//! A lease about some of the files: what lies outside of it is kept by the kernel, whatever a command tries.

use std::fs;
use std::os::unix::fs::symlink;

use domain::{Grants, Pattern};
use kernel::Input;
use runner::config::NO_JAIL_ENV;
use serde_json::json;

use crate::bench::Bench;

fn patterns(texts: &[&str]) -> Vec<Pattern> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn bench(read: Option<&[&str]>, write: &[&str]) -> Bench {
    let mut bench = Bench::new();
    bench.config.paths = Grants::new(read.map(patterns), Some(patterns(write))).unwrap();
    bench.restart_daemon();
    bench.put("src/a.rs", "one\n");
    bench.put("docs/a.md", "a secret\n");
    bench.put("sum.sh", "echo sum\n");
    bench
}

fn command(text: &str) -> serde_json::Value {
    json!({"command": text})
}

#[test]
fn only_what_the_lease_names_can_be_written() {
    let mut bench = bench(None, &["src/**", "docs/a.md"]);
    let tries = "\
        echo x > sum.sh; echo x > new; rm -f sum.sh; mv sum.sh src/; mv src other; mkdir made; ln sum.sh src/hard; \
        ln -s ../sum.sh src/link && echo x > src/link; echo x > docs/new; chmod 777 sum.sh; rm -rf docs; rmdir src; \
        echo x > /workspace/src/../sum.sh; mount -o remount,rw /workspace 2>&1; touch .git/x; true";
    let told = bench.good("shell", command(tries));
    assert!(told.matches("Read-only file system").count() >= 5, "{told}");
    assert_eq!((bench.text("sum.sh"), bench.text("docs/a.md")), ("echo sum\n".into(), "a secret\n".into()));
    for absent in ["new", "made", "other", "docs/new", "src/hard"] {
        assert!(!bench.path(absent).exists(), "{absent}");
    }
    assert_eq!(
        bench.good("shell", command("cat sum.sh; echo x > src/new; mkdir src/deep; echo y >> docs/a.md")),
        "echo sum\n"
    );
    assert_eq!((bench.text("src/new"), bench.text("docs/a.md")), ("x\n".into(), "a secret\ny\n".into()));

    // File tools are held by the same mounts, through a link of the agent's too.
    for outside in ["sum.sh", "src/link", "new", "docs/new"] {
        bench.call("read", json!({"path": outside}));
        let told = bench.bad("write", json!({"path": outside, "content": "x"}));
        assert!(told.contains("cannot be written"), "{outside}: {told}");
    }
    bench.good("write", json!({"path": "src/b.rs", "content": "b"}));
    bench.good("read", json!({"path": "src/a.rs"}));
    bench.good("edit", json!({"path": "src/a.rs", "old": "one", "new": "two"}));
    assert_eq!((bench.text("src/a.rs"), bench.text("src/b.rs")), ("two\n".into(), "b".into()));
    assert_eq!(bench.text("sum.sh"), "echo sum\n");
}

#[test]
fn what_may_not_be_read_is_not_there() {
    let mut bench = bench(Some(&["sum.sh"]), &["src/**"]);
    assert_eq!(
        bench.good("shell", command("ls; cat docs/a.md src/a.rs 2>/dev/null; sh sum.sh")),
        "src\nsum.sh\none\nsum\n"
    );
    assert!(bench.bad("read", json!({"path": "docs/a.md"})).contains("docs/a.md"));
    assert_eq!(bench.good("search", json!({"pattern": "secret|sum"})), "sum.sh:1:echo sum\n");
    bench.bad("shell", command("echo x > new"));
    assert!(!bench.path("new").exists());
    bench.good("shell", command("echo x > src/new"));
    assert_eq!(bench.text("src/new"), "x\n");
}

#[test]
fn a_directory_that_is_named_is_made_and_no_link_of_the_agents_is_followed() {
    let mut bench = bench(None, &["target/deep/**", "trap/made/**"]);
    let elsewhere = bench.home.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, bench.path("trap")).unwrap();
    bench.good("shell", command("echo x > target/deep/file"));
    assert_eq!(bench.text("target/deep/file"), "x\n");
    bench.bad("shell", command("echo x > target/file"));
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn a_lease_for_what_is_gone_shows_nothing_and_says_so() {
    let mut bench = bench(Some(&["gone"]), &["gone/too"]);
    let work = bench.work("shell", command("true"));
    bench.start(&work);
    let Input::Refused(_, 1, refused) = bench.next() else { panic!("not refused") };
    assert!(refused.hint.contains("nothing that it names is there"), "{}", refused.hint);
}

#[test]
fn without_a_jail_such_a_lease_lets_nothing_begin() {
    let mut bench = bench(None, &["src/**"]);
    bench.config.posture = sandbox::Posture::Ask;
    bench.restart_daemon();
    bench.serve_with(NO_JAIL_ENV, "1");
    let work = bench.work("shell", command("echo x > sum.sh"));
    bench.start(&work);
    let Input::Refused(_, 1, refused) = bench.next() else { panic!("not refused") };
    assert!(refused.hint.contains("which nothing holds without a jail"), "{}", refused.hint);
    assert_eq!(bench.text("sum.sh"), "echo sum\n");
}
