//! A jail that was begun before its plan was known is the same jail.

use std::{
    os::unix::process::ExitStatusExt,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use sandbox::{Access, Child, Error, Exec, Launcher, Limits, Mount, Plan, Stdin};

use crate::jail::{Ground, Outcome, finish, launcher, start};

/// What a jailed process can tell of what holds it; ids of mounts and processes differ from jail to jail.
const TELL: &str = "cut -d' ' -f4-6,8- /proc/self/mountinfo | sed 's/master:[0-9]* //' | sort; \
    grep -E 'Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp' /proc/self/status; ulimit -a; stat -c '%A %u %g %n' /* /etc/* /dev/* /home/*; \
    cat /etc/passwd /etc/hosts /etc/resolv.conf /etc/nsswitch.conf /proc/sys/kernel/pid_max; hostname; \
    df -k /tmp /dev/shm /home/regie | tr -s ' '; cut -d: -f1 /proc/net/dev; ls /proc/self/fd; cat /proc/self/uid_map";

/// The processes that this thread has started: one is the spare, if there is one.
fn children() -> Vec<i32> {
    let list = std::fs::read_to_string("/proc/thread-self/children").unwrap();
    list.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// Waits until there are so many: the launcher of a jail that has ended takes the jail down before it ends.
#[track_caller]
fn children_are(count: usize) -> Vec<i32> {
    let began = Instant::now();
    loop {
        let children = children();
        if children.len() == count {
            return children;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{children:?}");
        std::thread::yield_now();
    }
}

/// A launcher with a spare, and the spare's process.
fn prepared() -> (Launcher, i32) {
    children_are(0);
    let launcher = launcher();
    launcher.prepare(&Limits::default());
    let children = children();
    assert_eq!(children.len(), 1);
    (launcher, children[0])
}

fn kill(pid: i32) {
    #[expect(clippy::disallowed_methods, reason = "a test that kills its own launcher")]
    let killed = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
    assert!(killed.unwrap().success());
}

fn is_the_spare(child: Result<Child, Error>, spare: i32) -> Outcome {
    let child = child.unwrap();
    assert_eq!(child.id().cast_signed(), spare);
    finish(child)
}

#[test]
fn it_is_held_as_any_other() {
    let ground = Ground::new();
    let plan = ground.shell(TELL);
    let alone = finish(start(&plan).unwrap()).good();
    assert!(alone.contains("Seccomp:\t2") && alone.contains("tmpfs"), "{alone}");
    let (launcher, spare) = prepared();
    assert_eq!(is_the_spare(launcher.spawn(&plan, Stdin::Null), spare).good(), alone);
    children_are(0);
}

/// What is mounted where, and how.
fn mounts(outcome: Outcome) -> Vec<String> {
    let told = outcome.good();
    let lines = told.strip_prefix("reached ").unwrap_or(&told);
    let mut shown: Vec<String> =
        lines.lines().map(|line| line.split(' ').skip(3).take(3).collect::<Vec<_>>().join(" ")).collect();
    shown.sort();
    shown
}

/// A program alone in its jail has nothing else to execute, and who says so is there before it.
#[test]
fn a_plan_of_one_program_starts_without_it() {
    let ground = Ground::new();
    let mut plan = Plan::new(ground.work(), ["/bin/cat", "/proc/self/mountinfo"]);
    plan.exec = Exec::Once;
    let (launcher, spare) = prepared();
    let child = launcher.spawn(&plan, Stdin::Null).unwrap();
    assert_ne!(child.id().cast_signed(), spare);
    let shown = mounts(finish(child));
    assert!(shown.iter().any(|line| line.contains(" /tmp ") && line.contains("noexec")), "{shown:?}");
}

/// No file system of its own may hold anything to execute, whichever tree was taken.
#[test]
fn a_tool_has_nothing_to_execute() {
    let ground = Ground::new();
    let mut plan = Plan::new(ground.work(), ["tool", "read", "/proc/self/mountinfo"]);
    plan.exec = Exec::Resident;
    for is_bare in [false, true] {
        if is_bare {
            plan.mounts.retain(|mount| mount.target == ground.work());
        }
        let alone = mounts(finish(start(&plan).unwrap()));
        let own = alone.iter().filter(|line| {
            ["/", "/tmp", "/dev/shm", "/home/regie"].contains(&line.split(' ').nth(1).unwrap())
        });
        assert_eq!(own.filter(|line| line.contains("noexec")).count(), 4, "{alone:?}");
        let (launcher, spare) = prepared();
        assert_eq!(mounts(is_the_spare(launcher.spawn(&plan, Stdin::Null), spare)), alone);
        children_are(0);
    }
}

/// Each plan is completed from the tree that suits it, and none shows more or less than without.
#[test]
fn plans_of_all_kinds_show_what_they_show_alone() {
    let ground = Ground::new();
    let other = |source: &str, target: &str| Mount {
        source: source.into(),
        target: target.into(),
        access: Access::Read,
    };
    type Change<'a> = &'a dyn Fn(&mut Plan);
    let changes: [Change<'_>; 7] = [
        &|_| {},
        // Less of the system than was made ready.
        &|plan| plan.mounts.retain(|mount| !mount.target.starts_with("/etc/ssl")),
        // Something else at a place of it, and around it.
        &|plan| plan.mounts.push(other("/usr/share", "/etc/ssl/certs")),
        &|plan| {
            plan.mounts.retain(|mount| !mount.target.starts_with("/etc"));
            plan.mounts.push(other("/etc", "/etc"));
        },
        // Something in it.
        &|plan| plan.mounts.push(Mount { access: Access::Cover, ..other("/usr/share", "/usr/share") }),
        &|plan| plan.mounts.push(Mount { access: Access::ReadNoExec, ..other("/usr/share", "/usr/share") }),
        &|plan| plan.mounts.push(Mount::private("/usr/share")),
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let mut plan = ground.shell(TELL);
        change(&mut plan);
        let alone = start(&plan).map(finish).map_err(|error| error.to_string());
        let (launcher, spare) = prepared();
        let started = launcher.spawn(&plan, Stdin::Null);
        if let Ok(child) = &started {
            assert_eq!(child.id().cast_signed(), spare, "{at}");
        }
        let with = started.map(finish).map_err(|error| error.to_string());
        assert_eq!(with.map(|it| (it.status, it.out)), alone.map(|it| (it.status, it.out)), "{at}");
        drop(launcher);
        children_are(0);
    }
}

#[test]
fn a_plan_with_other_limits_has_those() {
    let ground = Ground::new();
    let mut plan = ground.shell("df -k /tmp | tail -1 | awk '{print $2}'; ulimit -n");
    plan.limits.scratch_bytes = 4 << 20;
    plan.limits.open_files = 77;
    let (launcher, spare) = prepared();
    let child = launcher.spawn(&plan, Stdin::Null).unwrap();
    assert_ne!(child.id().cast_signed(), spare);
    assert_eq!(finish(child).good(), "4096\n77\n");
    // The next one is made for these.
    launcher.prepare(&plan.limits);
    let [spare] = children_are(1)[..] else { unreachable!() };
    assert_eq!(is_the_spare(launcher.spawn(&plan, Stdin::Null), spare).good(), "4096\n77\n");
}

#[test]
fn input_ends_and_failures_come_through() {
    let ground = Ground::new();
    let (launcher, spare) = prepared();
    let mut child = launcher.spawn(&ground.shell("cat; exit 3"), Stdin::Piped).unwrap();
    assert_eq!(child.id().cast_signed(), spare);
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"given").unwrap();
    let outcome = finish(child);
    assert_eq!((outcome.status.code(), outcome.out.as_str()), (Some(3), "given"));
    launcher.prepare(&Limits::default());
    let child = launcher.spawn(&ground.shell("kill -SEGV $$"), Stdin::Null).unwrap();
    assert_eq!(finish(child).status.signal(), Some(11));
    launcher.prepare(&Limits::default());
    let missing = Plan::new(ground.work(), ["no-such-program"]);
    assert!(matches!(launcher.spawn(&missing, Stdin::Null), Err(Error::Program(_))));
    children_are(0);
}

#[test]
fn what_it_does_not_suit_starts_as_without_it() {
    let ground = Ground::new();
    let (launcher, spare) = prepared();
    let network = launcher.network().unwrap();
    let child = launcher.spawn_in(Some(&network), &ground.shell("echo joined"), Stdin::Null).unwrap();
    assert_ne!(child.id().cast_signed(), spare);
    assert_eq!(finish(child).good(), "joined\n");
    assert_eq!(children_are(1), [spare], "it waits for what it suits");
    assert_eq!(is_the_spare(launcher.spawn(&ground.shell("echo up"), Stdin::Null), spare).good(), "up\n");
}

#[test]
fn one_that_has_died_is_done_without() {
    let ground = Ground::new();
    let (launcher, spare) = prepared();
    kill(spare);
    let began = Instant::now();
    // Until its socket is closed it looks alive, and a plan that it is given is lost with it.
    while std::fs::read_to_string(format!("/proc/{spare}/stat")).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(began.elapsed() < Duration::from_secs(20));
        std::thread::yield_now();
    }
    let outcome = finish(launcher.spawn(&ground.shell("echo up"), Stdin::Null).unwrap());
    assert_eq!(outcome.good(), "up\n");
}

#[test]
fn it_goes_with_its_launcher() {
    let (launcher, spare) = prepared();
    let copy = launcher.clone();
    drop(launcher);
    assert_eq!(children(), [spare]);
    copy.prepare(&Limits::default());
    assert_eq!(children(), [spare], "one is enough");
    drop(copy);
    assert!(!Path::new(&format!("/proc/{spare}")).exists());
}

/// What the machine mounts meanwhile is what the plan means.
#[test]
fn it_sees_what_was_mounted_since() {
    let ground = Ground::new();
    let shown = ground.outside();
    let (launcher, spare) = prepared();
    #[expect(clippy::disallowed_methods, reason = "a test that mounts")]
    let mounted = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&shown).output();
    if !mounted.is_ok_and(|mounted| mounted.status.success()) {
        // Only root can: the tests run as root too.
        return;
    }
    std::fs::write(shown.join("new"), "").unwrap();
    let mut plan = ground.shell(&format!("ls {}", shown.display()));
    plan.mounts.push(Mount::read(&shown));
    let outcome = is_the_spare(launcher.spawn(&plan, Stdin::Null), spare);
    #[expect(clippy::disallowed_methods, reason = "a test that has mounted")]
    let unmounted = Command::new("umount").arg(&shown).status();
    assert!(unmounted.unwrap().success());
    assert_eq!(outcome.good(), "new\n");
}
