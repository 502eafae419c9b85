//! The runner dies at each of its named points.

use domain::Outcome;
use kernel::Input;
use kernel::port::{Status, Work};
use serde_json::json;

use crate::bench::Bench;

/// Starts a runner that dies when it first reaches a point.
fn arm(bench: &Bench, point: &str) {
    let mark = bench.home.path().join("died");
    bench.serve_with("REGIE_FAULT", &format!("{point}:1:{}", mark.display()));
}

#[test]
fn a_death_before_the_spool_loses_the_step() {
    for point in ["runner_received", "runner_before_spawn", "runner_running", "runner_before_spool"] {
        let mut bench = Bench::new();
        arm(&bench, point);
        let work = bench.work("shell", json!({"command": "touch done"}));
        bench.start(&work);
        assert_eq!(bench.next(), Input::Lost(work.step, 1), "{point}");
        assert_eq!(bench.status(&work), Status::Unknown, "{point}");
        let again = Work { attempt: 2, ..work };
        assert_eq!(bench.run(&again).0, Outcome::Succeeded, "{point}");
    }
}

#[test]
fn a_death_after_the_spool_loses_nothing() {
    let mut bench = Bench::new();
    arm(&bench, "runner_after_spool");
    let work = bench.work("shell", json!({"command": "echo x >> ledger"}));
    assert_eq!(bench.run(&work).0, Outcome::Succeeded);
    assert_eq!(bench.text("ledger"), "x\n");
}
