//! The orderly end of all runners of a home.

use domain::Outcome;
use kernel::port::Status;
use serde_json::json;

use crate::bench::{Bench, assert_gone, output, until};

#[test]
fn an_idle_runner_leaves_and_its_results_stay() {
    let mut bench = Bench::new();
    let work = bench.work("shell", json!({"command": "echo x >> ledger; echo went"}));
    bench.start(&work);
    assert_eq!(bench.finished(&work).outcome, Outcome::Succeeded);
    bench.end();
    bench.restart_daemon();
    let Status::Spooled(finished) = bench.status(&work) else { panic!("the result is lost") };
    assert_eq!((output(&finished).text.as_str(), bench.text("ledger").as_str()), ("went\n", "x\n"));
}

#[test]
fn a_runner_that_an_earlier_daemon_left_is_ended_too() {
    let mut bench = Bench::new();
    let work = bench.work("shell", json!({"command": "echo went"}));
    bench.start(&work);
    bench.finished(&work);
    let runner = bench.runner_pid();
    bench.restart_daemon();
    assert!(runner.is_some() && bench.runner_pid() == runner, "it outlives its daemon");
    bench.end();
}

#[test]
fn a_step_that_does_not_end_is_ended_with_all_of_its_jail() {
    let mut bench = Bench::new();
    let work = bench.work("shell", json!({"command": "echo x >> ledger; exec sleep 1007.1001"}));
    bench.start(&work);
    until("the step begins", || bench.path("ledger").exists());
    bench.end();
    assert_gone("1007.1001");
    bench.restart_daemon();
    assert_eq!(bench.status(&work), Status::Unknown, "nobody says that it was done");
}

#[test]
fn nothing_is_started_any_more() {
    let mut bench = Bench::new();
    bench.end();
    let work = bench.work("shell", json!({"command": "echo x >> ledger"}));
    bench.start(&work);
    bench.end();
    assert!(!bench.path("ledger").exists());
}

#[test]
fn a_runner_that_stands_still_is_ended_with_what_it_runs() {
    let mut bench = Bench::new();
    let work = bench.work("shell", json!({"command": "echo x >> ledger; exec sleep 1007.1002"}));
    bench.start(&work);
    until("the step begins", || bench.path("ledger").exists());
    let runner = bench.runner_pid().and_then(rustix::process::Pid::from_raw).unwrap();
    rustix::process::kill_process(runner, rustix::process::Signal::STOP).unwrap();
    bench.end();
    assert_gone("1007.1002");
    bench.restart_daemon();
    assert_eq!(bench.status(&work), Status::Unknown);
}
