//! What one step may use up with all that it starts: it ends, says why, and the next one works.

use domain::Outcome;
use serde_json::json;

use crate::bench::{Bench, assert_gone};

const MIB: u64 = 1 << 20;

#[track_caller]
fn ended(bench: &mut Bench, script: &str, said: &str) {
    let (outcome, told) = bench.call("shell", json!({"command": script}));
    assert_eq!((outcome, told.exit_code, told.is_error), (Outcome::Failed, None, true), "{}", told.text);
    let note = format!("{said} reached by the step as a whole: it and all that it started were ended; ");
    assert!(told.text.starts_with("begun\n[") && told.text.contains(&note), "{}", told.text);
    assert_eq!(bench.good("shell", json!({"command": "echo on > next; cat next"})), "on\n");
    bench.good("read", json!({"path": "next"}));
}

fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.config.limits.memory_bytes = 96 * MIB;
    bench.config.limits.disk_bytes = 32 * MIB;
    bench.config.limits.disk_files = 1_000;
    bench.restart_daemon();
    bench
}

#[test]
fn memory_of_all_processes() {
    let mark = "20.735186";
    // `tail` keeps what it has read until its input ends.
    let one = format!("(head -c 30000000 /dev/zero; exec sleep {mark}) | tail -c 30000000");
    let script = format!("echo begun; for i in 1 2 3 4 5 6 7 8; do ({one}) & done; wait");
    ended(&mut bench(), &script, "memory limit of 96 MiB");
    assert_gone(mark);
}

#[test]
fn what_is_written_to_disk() {
    let mut bench = bench();
    let fill = "echo begun; for i in 1 2 3 4 5 6; do head -c 10000000 /dev/zero > f$i; done; sleep 20";
    ended(&mut bench, fill, "disk limit of 32 MiB of new data");
    // It is there, counts for no other step, and can be removed.
    let kept = bench.good(
        "shell",
        json!({"command": "wc -c < f1; head -c 9000000 /dev/zero > more; sleep 0.3; rm f* more"}),
    );
    assert_eq!(kept, "10000000\n");
}

#[test]
fn new_files() {
    let script = "echo begun; mkdir d; for i in $(seq 30000); do : > d/$i; done; sleep 20";
    ended(&mut bench(), script, "limit of 1000 new files");
}
