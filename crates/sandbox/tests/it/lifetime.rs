//! Everything that a step starts dies with it, however it ends.

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::process::ExitStatusExt,
    time::{Duration, Instant},
};

use sandbox::Stdin;

use crate::jail::{Ground, launcher, run, start};

/// Host processes that run `sleep` with this odd argument.
fn sleepers(seconds: &str) -> usize {
    let wanted = format!("sleep\0{seconds}\0");
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| {
            std::fs::read(entry.path().join("cmdline")).is_ok_and(|line| line == wanted.as_bytes())
        })
        .count()
}

/// Polls, bounded, until there are `count` sleepers.
#[track_caller]
fn until_sleepers(seconds: &str, count: usize) {
    let start = Instant::now();
    while sleepers(seconds) != count {
        assert!(start.elapsed() < Duration::from_secs(20), "{} sleepers", sleepers(seconds));
        std::thread::yield_now();
    }
}

fn odd_seconds(test: u32) -> String {
    format!("{}{test}", 100_000 + std::process::id())
}

#[test]
fn exit_codes_and_signals_come_through() {
    let ground = Ground::new();
    assert_eq!(run(&ground.shell("exit 0")).status.code(), Some(0));
    assert_eq!(run(&ground.shell("exit 3")).status.code(), Some(3));
    assert_eq!(run(&ground.shell("exit 255")).status.code(), Some(255));
    assert_eq!(run(&ground.shell("kill -TERM $$")).status.signal(), Some(15));
    assert_eq!(run(&ground.shell("kill -SEGV $$")).status.signal(), Some(11));
}

#[test]
fn what_runs_in_the_background_dies_with_the_step() {
    let ground = Ground::new();
    let seconds = odd_seconds(1);
    // A session of its own, twice forked, its output held open: and still no hang, no rest.
    let script = format!(
        "mkfifo fifo; setsid sleep {seconds} & \
         (setsid sh -c 'sleep {seconds} & echo up > fifo; wait' &); read -r line < fifo; echo $line"
    );
    let outcome = run(&ground.shell(&script));
    assert_eq!(outcome.good(), "up\n");
    assert_eq!(sleepers(&seconds), 0, "after wait() nothing of the jail is alive");
}

#[test]
fn a_child_that_holds_the_output_open_does_not_hang_the_wait() {
    let ground = Ground::new();
    let mut child = start(&ground.shell("sleep 1000 & exit 4")).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(4));
    let mut rest = String::new();
    child.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}

#[test]
fn a_killed_jail_is_gone_when_waited_for() {
    let ground = Ground::new();
    let seconds = odd_seconds(2);
    let child = start(&ground.shell(&format!("setsid sleep {seconds} & sleep {seconds} & echo up; wait")));
    let mut child = child.unwrap();
    first_line(&mut child);
    until_sleepers(&seconds, 2);
    let killer = child.killer();
    let ended = std::thread::spawn(move || child.wait().unwrap());
    killer.kill().unwrap();
    assert_eq!(ended.join().unwrap().signal(), Some(9));
    assert_eq!(sleepers(&seconds), 0);
    killer.kill().unwrap();
}

#[test]
fn a_dropped_jail_is_gone() {
    let ground = Ground::new();
    let seconds = odd_seconds(3);
    let mut child = start(&ground.shell(&format!("sleep {seconds} & echo up; wait"))).unwrap();
    first_line(&mut child);
    until_sleepers(&seconds, 1);
    drop(child);
    assert_eq!(sleepers(&seconds), 0);
}

#[test]
#[expect(unsafe_code, reason = "the test kills the launcher as anybody might")]
fn a_killed_launcher_takes_the_jail_with_it() {
    let ground = Ground::new();
    let seconds = odd_seconds(4);
    let mut child = start(&ground.shell(&format!("setsid sleep {seconds} & echo up; wait"))).unwrap();
    first_line(&mut child);
    until_sleepers(&seconds, 1);
    let launcher = i32::try_from(child.id()).unwrap();
    // SAFETY: it is this test's own, unreaped child.
    assert_eq!(unsafe { libc::kill(launcher, libc::SIGKILL) }, 0);
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    assert_eq!(sleepers(&seconds), 0);
}

#[test]
fn a_jail_outlives_the_thread_that_started_it() {
    let ground = Ground::new();
    let plan = ground.shell("read -r line; echo got $line");
    let mut child =
        std::thread::spawn(move || launcher().spawn(&plan, Stdin::Piped).unwrap()).join().unwrap();
    child.stdin.take().unwrap().write_all(b"word\n").unwrap();
    assert_eq!(crate::jail::finish(child).good(), "got word\n");
}

/// Not a test of its own: a caller that starts a jail and is killed.
#[test]
fn doomed_caller() {
    let Ok(seconds) = std::env::var("REGIE_DOOMED") else { return };
    let script = format!("setsid sleep {seconds} & echo up; wait");
    let work = std::env::var_os("REGIE_DOOMED_WORK").unwrap();
    let plan = sandbox::Plan::new(work, ["/bin/sh", "-c", &script]);
    let mut child = start(&plan).unwrap();
    first_line(&mut child);
    println!("running {}", child.id());
    // Waits for the kill.
    let _ = std::io::stdin().read(&mut [0]);
    panic!("the caller was not killed");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the caller that is killed runs outside of any jail")]
fn a_killed_caller_takes_the_jail_with_it() {
    let seconds = odd_seconds(5);
    let ground = Ground::new();
    let mut caller = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["lifetime::doomed_caller", "--exact", "--nocapture"])
        .env("REGIE_DOOMED", &seconds)
        .env("REGIE_DOOMED_WORK", ground.work())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(caller.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("running")));
    until_sleepers(&seconds, 1);
    caller.kill().unwrap();
    caller.wait().unwrap();
    until_sleepers(&seconds, 0);
}

fn first_line(child: &mut sandbox::Child) {
    let mut byte = [0];
    child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
}
