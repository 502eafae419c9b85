//! Who dies when, and what is known afterwards.

use domain::{Outcome, StepKind, StepNo};
use kernel::Input;
use kernel::port::Status;
use serde_json::json;

use crate::bench::{Bench, assert_gone, output, until};

fn waits(mark: &str) -> serde_json::Value {
    json!({"command": format!("echo x >> ledger; while [ ! -e go ]; do sleep 0.0{mark}; done; echo went")})
}

fn begun(bench: &Bench) {
    until("the step begins", || std::fs::read(bench.path("ledger")).is_ok_and(|ledger| ledger == b"x\n"));
}

#[test]
fn a_result_is_taken_over_after_the_daemon_died() {
    let mut bench = Bench::new();
    let work = bench.work("shell", waits("10010861"));
    bench.start(&work);
    begun(&bench);
    bench.stop_daemon();
    bench.put("go", "");
    until("the result is spooled", || bench.spool_file("1.result").exists());
    bench.restart_daemon();
    let finished = match bench.status(&work) {
        Status::Spooled(finished) => finished,
        // The file is there a moment before the runner has finished with the step.
        Status::Running => bench.finished(&work),
        Status::Unknown => panic!("the result is lost"),
    };
    assert_eq!(finished.outcome, Outcome::Succeeded);
    assert_eq!(output(&finished).text, "went\n");
    // Starting it again gives the same result and does not run it.
    bench.start(&work);
    assert_eq!(bench.finished(&work), finished);
    assert_eq!(bench.text("ledger"), "x\n");
    // So it is when the runner has gone as well.
    bench.kill_runner();
    bench.restart_daemon();
    assert_eq!(bench.status(&work), Status::Spooled(finished));
}

#[test]
fn a_running_step_is_taken_over() {
    let mut bench = Bench::new();
    let work = bench.work("shell", waits("10010862"));
    bench.start(&work);
    begun(&bench);
    let pid = bench.runner_pid();
    bench.restart_daemon();
    assert_eq!(bench.status(&work), Status::Running);
    bench.put("go", "");
    assert_eq!(bench.finished(&work).outcome, Outcome::Succeeded);
    assert_eq!((bench.text("ledger").as_str(), bench.runner_pid()), ("x\n", pid));
}

#[test]
fn a_killed_runner_loses_its_step_and_leaves_no_child() {
    let mut bench = Bench::new();
    let mark = "10010863";
    let work = bench.work("shell", waits(mark));
    bench.start(&work);
    begun(&bench);
    bench.kill_runner();
    assert_eq!(bench.next(), Input::Lost(work.step, 1));
    assert_gone(mark);
    assert_eq!(bench.status(&work), Status::Unknown);
    // The next attempt finds a new runner.
    let again = kernel::port::Work { attempt: 2, ..work };
    bench.put("go", "");
    assert_eq!(bench.run(&again).0, Outcome::Succeeded);
    assert_eq!(bench.text("ledger"), "x\nx\n");
}

#[test]
fn a_step_of_a_dead_runner_is_unknown_only_when_its_children_are_gone() {
    let mut bench = Bench::new();
    let mark = "10010864";
    let work = bench.work("shell", waits(mark));
    bench.start(&work);
    begun(&bench);
    bench.stop_daemon();
    bench.kill_runner();
    bench.restart_daemon();
    assert_eq!(bench.status(&work), Status::Unknown);
    assert_gone(mark);
    bench.kill(&work);
    assert_eq!(bench.next(), Input::Killed(work.step));
}

#[test]
fn a_new_attempt_runs_again_where_that_is_safe() {
    let mut bench = Bench::new();
    let mut work = bench.work("shell", json!({"command": "echo x >> ledger"}));
    bench.run(&work);
    work.attempt = 2;
    assert_eq!(bench.status(&work), Status::Unknown);
    bench.run(&work);
    assert_eq!(bench.text("ledger"), "x\nx\n");
    // The key of an effect that must not be repeated gives the result that is there.
    let request = json!({"tool": "shell", "input": {"command": "echo y >> ledger2"}}).to_string();
    let mut once = bench.work_of(StepKind::ToolCall, domain::Effect::IdempotentWrite, "shell", &request);
    bench.run(&once);
    once.attempt = 2;
    assert!(matches!(bench.status(&once), Status::Spooled(_)));
    bench.run(&once);
    assert_eq!(bench.text("ledger2"), "y\n");
}

#[test]
fn a_repeated_edit_starts_from_what_was_known_before_it() {
    let mut bench = Bench::new();
    bench.put("a", "one\n");
    bench.good("read", json!({"path": "a"}));
    let mut edit = bench.work("edit", json!({"path": "a", "old": "one", "new": "two"}));
    assert_eq!(bench.run(&edit).0, Outcome::Succeeded);
    // The kernel rolls the workspace back and tries again.
    bench.put("a", "one\n");
    edit.attempt = 2;
    let (outcome, told) = bench.run(&edit);
    assert_eq!(outcome, Outcome::Succeeded, "{}", told.text);
    assert_eq!(bench.text("a"), "two\n");
}

#[test]
fn what_was_seen_outlives_runner_and_results() {
    let mut bench = Bench::new();
    bench.put("a", "one\n");
    bench.good("read", json!({"path": "a"}));
    bench.good("shell", json!({"command": "seq 1 20000"}));
    assert!(bench.spool_file("outputs/2.txt").exists());
    bench.executor().forget(bench.config.run, StepNo(2), 1);
    until("results are forgotten", || !bench.spool_file("2.result").exists());
    assert!(bench.spool_file("outputs/2.txt").exists(), "later steps may read it");
    assert!(!bench.spool_file("1.result").exists() && !bench.spool_file("2.result").exists());
    bench.kill_runner();
    bench.restart_daemon();
    bench.good("edit", json!({"path": "a", "old": "one", "new": "two"}));
}

#[test]
fn an_older_fence_is_refused_for_ever() {
    let mut bench = Bench::new();
    bench.fence = 5;
    bench.good("shell", json!({"command": "true"}));
    bench.fence = 4;
    let work = bench.work("shell", json!({"command": "touch zombie"}));
    for _ in 0..2 {
        bench.start(&work);
        let Input::Refused(_, 1, refused) = bench.next() else { panic!("not refused") };
        assert_eq!(refused.code, "runner.fenced");
        // The fence is on disk: it holds in the next runner too.
        bench.kill_runner();
        bench.restart_daemon();
    }
    assert!(!bench.path("zombie").exists());
}

#[test]
fn an_older_daemon_cannot_kill_and_is_told_nothing_new() {
    let mut bench = Bench::new();
    bench.fence = 5;
    let work = bench.work("shell", waits("10010865"));
    bench.start(&work);
    begun(&bench);
    let old = kernel::port::Work { fence: 4, ..work.clone() };
    bench.kill(&old);
    assert_eq!(bench.status(&old), Status::Running);
    bench.restart_daemon();
    assert_eq!(bench.status(&work), Status::Running);
    bench.put("go", "");
    assert_eq!(bench.finished(&work).outcome, Outcome::Succeeded);
}

#[test]
fn a_damaged_result_counts_as_unknown() {
    let mut bench = Bench::new();
    let work = bench.work("shell", json!({"command": "true"}));
    bench.run(&work);
    std::fs::write(bench.spool_file("1.result"), "{").unwrap();
    assert_eq!(bench.status(&work), Status::Unknown);
    assert!(bench.log().contains("1.result is damaged"), "{}", bench.log());
    bench.kill_runner();
    bench.restart_daemon();
    assert_eq!(bench.status(&work), Status::Unknown);
}

#[test]
fn a_home_may_lie_deep() {
    let deep = std::path::PathBuf::from("d".repeat(80)).join("e".repeat(80));
    let mut bench = Bench::below(&deep);
    assert_eq!(bench.good("shell", json!({"command": "echo deep"})), "deep\n");
}

#[test]
fn the_spool_is_the_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut bench = Bench::new();
    bench.good("shell", json!({"command": "true"}));
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(bench.config.spool.clone()), 0o700);
    assert_eq!(mode(bench.spool_file("1.result")), 0o600);
}

#[test]
fn a_runner_leaves_when_it_is_told_or_left_alone() {
    let mut bench = Bench::new();
    bench.good("shell", json!({"command": "true"}));
    let mark = format!("/proc/{}", bench.runner_pid().unwrap());
    bench.executor().close(bench.config.run);
    until("it leaves", || !std::path::Path::new(&mark).exists());
    bench.config.idle = 1;
    bench.restart_daemon();
    bench.good("shell", json!({"command": "true"}));
    let mark = format!("/proc/{}/fd", bench.runner_pid().unwrap());
    bench.stop_daemon();
    // Its parent no longer collects it, so what is left may be a shell without content.
    until("it leaves", || std::fs::read_dir(&mark).map_or(true, |mut fds| fds.next().is_none()));
}

#[test]
fn a_run_that_goes_on_at_once_loses_nothing_to_the_goodbye() {
    let mut bench = Bench::new();
    for _ in 0..30 {
        bench.good("shell", json!({"command": "true"}));
        bench.executor().close(bench.config.run);
    }
}

#[test]
fn a_stuck_or_foreign_listener_is_replaced() {
    let mut bench = Bench::new();
    bench.good("shell", json!({"command": "true"}));
    let first = bench.runner_pid().unwrap();
    bench.stop_daemon();
    let pid = rustix::process::Pid::from_raw(first).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    bench.restart_daemon();
    assert_eq!(bench.good("shell", json!({"command": "echo on"})), "on\n");
    assert_ne!(bench.runner_pid(), Some(first));
}

#[test]
fn what_no_runner_takes_is_refused() {
    let mut bench = Bench::new();
    let mut work = bench.work_of(StepKind::ModelCall, domain::Effect::ModelCall, "model", "{}");
    bench.start(&work);
    let Input::Refused(_, 1, refused) = bench.next() else { panic!("not refused") };
    assert_eq!(refused.code, "runner.request");
    work.kind = StepKind::ToolCall;
    bench.config.program = "/nowhere/regie".into();
    bench.restart_daemon();
    bench.start(&work);
    let Input::Refused(_, 1, refused) = bench.next() else { panic!("not refused") };
    assert_eq!(refused.code, "runner.unavailable");
    assert!(refused.hint.contains("/nowhere/regie"), "{}", refused.hint);
}

#[test]
fn a_missing_workspace_is_refused_not_lost() {
    let mut bench = Bench::new();
    std::fs::remove_dir_all(&bench.config.workspace).unwrap();
    let work = bench.work("shell", json!({"command": "true"}));
    bench.start(&work);
    let Input::Refused(_, 1, refused) = bench.next() else { panic!("not refused") };
    assert_eq!(refused.code, "jail.plan");
}
