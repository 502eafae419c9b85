//! Machines that cannot hold a jail (X6): refused, or degraded and visibly so.

use domain::Outcome;
use kernel::Input;
use runner::config::NO_JAIL_ENV;
use sandbox::{Posture, Status};
use serde_json::json;

use crate::bench::{Bench, assert_gone};

#[test]
fn deny_refuses_and_says_how_to_mend_it() {
    let mut bench = Bench::new();
    bench.serve_with(NO_JAIL_ENV, "1");
    for (tool, input) in
        [("shell", json!({"command": "touch x"})), ("write", json!({"path": "x", "content": ""}))]
    {
        let work = bench.work(tool, input);
        bench.start(&work);
        let Input::Refused(_, 1, refused) = bench.next() else { panic!("not refused") };
        assert_eq!(refused.code, "jail.unsupported");
        assert!(refused.hint.contains("regie doctor"), "{}", refused.hint);
    }
    assert!(!bench.path("x").exists());
}

#[test]
fn ask_runs_with_a_visible_warning() {
    let mut bench = Bench::new();
    bench.config.posture = Posture::Ask;
    bench.restart_daemon();
    bench.serve_with(NO_JAIL_ENV, "1");
    let (outcome, told) = bench.call("shell", json!({"command": "pwd; touch x"}));
    assert_eq!(outcome, Outcome::Succeeded, "{}", told.text);
    assert!(told.text.starts_with("[warning: this step ran without a jail"), "{}", told.text);
    assert!(told.text.ends_with(&format!("\n{}\n", bench.config.workspace.display())), "{}", told.text);
    assert!(matches!(told.jail, Status::Degraded(_)));
    assert!(bench.path("x").exists());
    let text = bench.good("write", json!({"path": "y", "content": "z"}));
    assert!(text.starts_with("[warning") && text.ends_with("wrote `y`, 1 bytes"), "{text}");
    let secret = bench.home.path().join("secret");
    std::fs::write(&secret, "host").unwrap();
    std::os::unix::fs::symlink(&secret, bench.path("link")).unwrap();
    assert!(bench.bad("write", json!({"path": "link", "content": "mine"})).contains("of the workspace"));
}

#[test]
fn a_jail_is_said_to_be_one() {
    let mut bench = Bench::new();
    let (_, told) = bench.call("shell", json!({"command": "true"}));
    assert_eq!(told.jail, Status::Enforced);
}

#[test]
fn a_machine_without_namespaces_degrades_in_earnest() {
    let mut bench = Bench::new();
    bench.config.posture = Posture::Ask;
    bench.restart_daemon();
    let none = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
    bench.serve_through(&["unshare", "--user", "--map-root-user", "sh", "-c", none, "sh"]);
    let mark = "735110871";
    let (outcome, told) = bench.call("shell", json!({"command": format!("setsid sleep {mark} & pwd")}));
    assert_eq!(outcome, Outcome::Succeeded, "{}", told.text);
    assert!(told.text.ends_with(&format!("\n{}\n", bench.config.workspace.display())), "{}", told.text);
    let Status::Degraded(reason) = told.jail else { panic!("not degraded") };
    assert!(reason.contains("namespaces"), "{reason}");
    // Even so, what a step started ends with it.
    assert_gone(mark);
    let work = bench.work(
        "shell",
        json!({"command": format!("setsid sleep {mark} & sleep {mark}"), "timeout_seconds": 1}),
    );
    assert_eq!(bench.run(&work).0, Outcome::TimedOut);
    assert_gone(mark);
    bench.good("write", json!({"path": "y", "content": "z"}));
    assert!(bench.good("read", json!({"path": "y"})).ends_with("     1\tz\n"));
}

#[test]
fn a_service_that_no_jail_holds_is_told_of_once() {
    let mut bench = Bench::new();
    bench.config.posture = Posture::Ask;
    bench.config.services = vec![domain::Service {
        name: "db".into(),
        command: "exec sleep 1000".into(),
        ready: Some("true".into()),
        ready_timeout: 60_000,
    }];
    bench.restart_daemon();
    bench.serve_with(NO_JAIL_ENV, "1");
    let first = bench.good("shell", json!({"command": "true"}));
    assert!(first.contains("[warning: service `db` runs without a jail: "), "{first}");
    let then = bench.good("shell", json!({"command": "true"}));
    assert!(!then.contains("service `db`") && then.contains("this step ran without a jail"), "{then}");
}
