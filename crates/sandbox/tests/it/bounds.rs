//! What a step may use up as a whole, with all its processes and files.

use std::{
    io::Write as _,
    os::unix::process::ExitStatusExt as _,
    sync::atomic::{AtomicBool, Ordering},
};

use sandbox::{Bound, Plan};

use crate::jail::{Ground, Outcome, finish, run, start};

const MIB: u64 = 1 << 20;

/// Follows a step that must not reach its end, and another one after it in the same place.
#[track_caller]
fn ended(ground: &Ground, plan: &Plan) -> Bound {
    let Outcome { status, bound, out, err } = run(plan);
    let bound = bound.unwrap_or_else(|| panic!("{status:?} {out} {err}"));
    assert_eq!(status.signal(), Some(libc::SIGKILL));
    let next = Plan { argv: ground.shell("echo on > next && cat next").argv, ..plan.clone() };
    assert_eq!(run(&next).good(), "on\n", "the next step works");
    bound
}

fn memory(mut plan: Plan) -> Plan {
    plan.limits.memory_bytes = 64 * MIB;
    plan
}

#[test]
fn memory_of_many_processes_is_bounded() {
    let ground = Ground::new();
    let plan = memory(ground.probe("many", &["20", "own", "16"]));
    assert_eq!(ended(&ground, &plan), Bound::Memory(64 * MIB));
}

#[test]
fn shared_memory_is_bounded_however_it_is_had() {
    let ground = Ground::new();
    for name in ["mapped", "nameless", "segment"] {
        let plan = memory(ground.probe(name, &["128"]));
        assert_eq!(ended(&ground, &plan), Bound::Memory(64 * MIB), "{name}");
    }
}

#[test]
fn scratch_is_memory() {
    let ground = Ground::new();
    let fill = "head -c 50000000 /dev/zero > /tmp/a; head -c 50000000 /dev/zero > /dev/shm/a; sleep 20";
    assert_eq!(ended(&ground, &memory(ground.shell(fill))), Bound::Memory(64 * MIB));
}

#[test]
fn memory_that_processes_share_counts_once() {
    let ground = Ground::new();
    // Each of 20 has 30 MiB, and all together have little more.
    let seen = run(&memory(ground.probe("family", &["20", "30"])));
    assert_eq!(seen.bound, None, "{seen:?}");
    seen.good();
}

fn disk(mut plan: Plan) -> Plan {
    plan.limits.disk_bytes = 32 * MIB;
    plan.limits.disk_files = 2_000;
    plan
}

#[test]
fn what_is_written_is_bounded() {
    let ground = Ground::new();
    let fill =
        "for i in 1 2 3 4 5 6 7 8; do mkdir -p d/$i; head -c 10000000 /dev/zero > d/$i/f; done; sleep 20";
    assert_eq!(ended(&ground, &disk(ground.shell(fill))), Bound::Disk(32 * MIB));
    // What was there before counts for nothing, and what is written beside it does.
    assert!(ground.work().join("d").exists());
    run(&disk(ground.shell("head -c 1000000 /dev/zero > more; sleep 0.3"))).good();
    assert_eq!(ended(&ground, &disk(ground.shell(&fill.replace("d/", "e/")))), Bound::Disk(32 * MIB));
}

#[test]
fn what_is_written_and_removed_while_open_is_bounded() {
    let ground = Ground::new();
    let fill = "exec 3> f; rm f; head -c 100000000 /dev/zero >&3; sleep 20";
    assert_eq!(ended(&ground, &disk(ground.shell(fill))), Bound::Disk(32 * MIB));
}

#[test]
fn what_is_written_where_nobody_may_look_is_bounded() {
    let ground = Ground::new();
    let fill = "mkdir shut; head -c 100000000 /dev/zero > shut/f; chmod 0 shut; sleep 20";
    let plan = disk(ground.shell(fill));
    assert_eq!(run(&plan).bound, Some(Bound::Disk(32 * MIB)));
}

#[test]
fn files_are_bounded() {
    let ground = Ground::new();
    assert_eq!(ended(&ground, &disk(ground.probe("files", &["20000"]))), Bound::Files(2_000));
    // So many were there before the next one, which makes fewer.
    run(&disk(ground.shell("mkdir more; cd more; i=0; while [ $i -lt 99 ]; do : > $i; i=$((i+1)); done")))
        .good();
}

#[test]
fn what_others_write_is_not_the_steps() {
    let ground = Ground::new();
    std::fs::write(ground.work().join("ready"), "").unwrap();
    let child =
        start(&disk(ground.shell("rm ready; while [ ! -e go ]; do sleep 0.05; done; cat go"))).unwrap();
    let is_over = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        scope.spawn(|| {
            while ground.work().join("ready").exists() && !is_over.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            let mut file = std::fs::File::create(ground.outside().join("big")).unwrap();
            for _ in 0..100 {
                file.write_all(&vec![1; MIB as usize]).unwrap();
            }
            std::fs::write(ground.work().join("new"), "gone").unwrap();
            std::fs::rename(ground.work().join("new"), ground.work().join("go")).unwrap();
        });
        let seen = finish(child);
        is_over.store(true, Ordering::SeqCst);
        seen
    });
    assert_eq!((seen.bound, seen.good().as_str()), (None, "gone"));
}

#[test]
fn a_bound_is_told_to_whoever_asks_and_nothing_is_told_of_others() {
    let ground = Ground::new();
    assert_eq!(run(&ground.shell("true")).bound, None);
    assert_eq!(run(&ground.shell("kill -9 $$")).bound, None);
    let child = start(&ground.shell("sleep 20")).unwrap();
    child.kill().unwrap();
    assert_eq!(finish(child).bound, None);
}
