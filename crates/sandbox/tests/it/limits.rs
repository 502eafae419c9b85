//! What a step may use up.

use std::os::unix::process::ExitStatusExt;

use crate::jail::{Ground, run};

#[test]
fn a_written_file_is_bounded() {
    let ground = Ground::new();
    let write = |bytes| {
        let mut plan = ground.shell("head -c 100000 /dev/zero > file");
        plan.limits.file_size_bytes = bytes;
        run(&plan)
    };
    write(10_000).bad();
    assert!(std::fs::metadata(ground.work().join("file")).unwrap().len() <= 10_000);
    write(1_000_000).good();
}

#[test]
fn open_files_are_bounded() {
    let ground = Ground::new();
    let mut plan = ground.shell("ulimit -n; ulimit -c");
    plan.limits.open_files = 77;
    assert_eq!(run(&plan).good(), "77\n0\n");
}

#[test]
fn memory_is_bounded() {
    let ground = Ground::new();
    let fill = |bytes| {
        let mut plan = ground.shell("x=$(head -c 50000000 /dev/zero | tr '\\0' x); echo ${#x}");
        plan.limits.memory_bytes = bytes;
        run(&plan)
    };
    // Some shells say that memory is exhausted, some crash on it.
    assert!(!fill(20 << 20).status.success());
    assert_eq!(fill(2 << 30).good(), "50000000\n");
}

#[test]
fn cpu_time_is_bounded() {
    let ground = Ground::new();
    let mut plan = ground.shell("while :; do :; done");
    plan.limits.cpu_seconds = Some(1);
    let ended = run(&plan).status;
    assert!(matches!(ended.signal(), Some(libc::SIGKILL | libc::SIGXCPU)), "{ended:?}");
}

#[test]
fn a_fork_bomb_is_bounded() {
    let ground = Ground::new();
    // Each background sleeper is one process; the shell says when it can have no more.
    let script = "i=0; while [ $i -lt 400 ]; do (sleep 1000 &) || exit 3; i=$((i+1)); done";
    let mut plan = ground.shell(script);
    plan.limits.processes = 20;
    run(&plan).bad();
    plan.limits.processes = 600;
    run(&plan).good();
}
