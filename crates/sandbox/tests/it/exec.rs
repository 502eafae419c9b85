//! What may be executed (tier 0): one program and no other, or none at all.

use std::{
    io::Write as _,
    process::{Command, Output},
};

use sandbox::{Exec, LAUNCH_ARG, Launcher, Plan, Stdin};

use crate::jail::{Ground, finish, launcher, run, start};

/// A plan whose tool tries `what` on `on`.
fn tool(ground: &Ground, what: &str, on: &str) -> Plan {
    let mut plan = ground.shell("");
    plan.argv = ["attempt", what, on].map(Into::into).into();
    plan.exec = Exec::Resident;
    plan
}

/// The same, as an ordinary process.
#[expect(clippy::disallowed_methods, reason = "the comparison runs outside of any jail")]
fn outside(what: &str, on: &str) -> Output {
    let program = std::env::var_os("REGIE_LAUNCHER");
    let program = program.unwrap_or_else(|| env!("CARGO_BIN_EXE_sandbox-launch").into());
    Command::new(program).args(["attempt", what, on]).output().unwrap()
}

/// A plan whose program is the only one.
fn once(ground: &Ground, script: &str) -> Plan {
    let mut plan = ground.shell(script);
    plan.exec = Exec::Once;
    plan
}

#[test]
fn a_tool_does_its_work() {
    let ground = Ground::new();
    std::fs::write(ground.work().join("a"), "what is there").unwrap();
    assert_eq!(run(&tool(&ground, "read", "a")).good(), "reached what is there");
    assert_eq!(run(&tool(&ground, "write", "b")).good(), "reached b");
    assert_eq!(std::fs::read_to_string(ground.work().join("b")).unwrap(), "written");
    assert_eq!(run(&tool(&ground, "thread", "")).good(), "reached thread");
    let mut child = launcher().spawn(&tool(&ground, "echo", ""), Stdin::Piped).unwrap();
    child.stdin.take().unwrap().write_all(b"some input").unwrap();
    assert_eq!(finish(child).good(), "reached some input");
    assert_eq!(run(&tool(&ground, "panic", "")).status.code(), Some(101));
    // The listing itself holds the fourth.
    let open = run(&tool(&ground, "descriptors", "")).good();
    assert_eq!(open, r#"reached ["0", "1", "2", "3"]"#);
}

#[test]
fn a_tool_executes_nothing_and_makes_no_code() {
    let ground = Ground::new();
    let there = tempfile::tempdir().unwrap();
    let file = there.path().join("code");
    for (what, on, outside_on) in [
        ("exec", "/bin/true", "/bin/true"),
        ("exec", "/proc/self/exe", "/proc/self/exe"),
        ("exec-nameless", "", ""),
        ("start", "/bin/true", "/bin/true"),
        ("fork", "", ""),
        ("socket", "", ""),
        ("map-file", "code", file.to_str().unwrap()),
        ("map-file", "/tmp/code", ""),
        ("map-memory", "", ""),
        ("protect", "", ""),
    ] {
        let refused = run(&tool(&ground, what, on));
        assert_eq!((refused.status.code(), refused.out.as_str()), (Some(7), "refused 1\n"), "{what} {on}");
        if what != "map-file" || !outside_on.is_empty() {
            let reached = outside(what, outside_on);
            assert!(reached.status.success(), "{what} {on}: {reached:?}");
        }
    }
}

#[test]
fn a_tool_reaches_nothing_that_its_plan_does_not_show() {
    let ground = Ground::new();
    let secret = ground.outside().join("secret");
    std::fs::write(&secret, "host").unwrap();
    assert!(outside("read", secret.to_str().unwrap()).status.success());
    assert_eq!(run(&tool(&ground, "read", secret.to_str().unwrap())).bad().out, "refused 2\n");
    // Regie's own program, which it is, lies outside of its tree, and can be neither read nor written.
    // While it is executed the kernel says so first (`ETXTBSY`).
    let refused = run(&tool(&ground, "write", "/proc/self/exe")).bad().out;
    assert!(["refused 13\n", "refused 26\n"].contains(&refused.as_str()), "{refused}");
    assert_eq!(run(&tool(&ground, "read", "/proc/self/exe")).bad().out, "refused 13\n");
    let mut plan = tool(&ground, "write", "a");
    plan.mounts.retain(|mount| mount.target != ground.work());
    plan.mounts.push(sandbox::Mount::read(ground.work()));
    assert_eq!(run(&plan).bad().out, "refused 30\n");
}

#[test]
fn a_launcher_without_a_tool_starts_nothing() {
    let ground = Ground::new();
    let error = Launcher::at("/bin/sh", vec!["-c".into(), "exit 3".into(), LAUNCH_ARG.into()])
        .spawn(&tool(&ground, "write", "a"), Stdin::Null)
        .unwrap_err();
    assert!(matches!(error, sandbox::Error::Silent { .. }), "{error:?}");
    assert!(!ground.work().join("a").exists());
}

#[test]
fn one_program_is_executed_and_no_other() {
    let ground = Ground::new();
    std::fs::write(ground.work().join("script"), "#!/bin/sh\necho it runs\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(ground.work().join("script"), mode).unwrap();
    for script in [
        "/bin/echo it runs",
        "exec /bin/echo it runs",
        "(/bin/echo it runs)",
        "echo 'echo it runs' | sh",
        "./script",
        "/proc/self/exe -c 'echo it runs'",
        "cp /bin/echo e && ./e it runs",
        "for l in /lib64/ld-linux-x86-64.so.2 /lib/ld-linux-aarch64.so.1; do $l /bin/echo it runs; done",
    ] {
        let plan = once(&ground, &format!("{script}\ntrue"));
        let refused = run(&plan);
        assert_eq!(refused.out, "", "{script}: {refused:?}");
        assert!(refused.err.contains("not implemented") || refused.err.contains("not found"), "{refused:?}");
        let mut any = plan;
        any.exec = Exec::Any;
        assert!(run(&any).good().contains("it runs"), "{script}");
    }
    // What a shell does by itself goes on, in processes of its own too.
    assert_eq!(
        run(&once(&ground, "(echo one; (echo two)) > a; while read l; do echo $l; done < a")).good(),
        "one\ntwo\n"
    );
}

#[test]
fn a_script_and_a_dynamic_program_are_one_program() {
    let ground = Ground::new();
    let script = ground.work().join("script");
    std::fs::write(&script, "#!/bin/sh\necho $0 $1\n/bin/true\necho $?\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut plan = once(&ground, "");
    plan.argv = ["./script", "one"].map(Into::into).into();
    let outcome = run(&plan);
    assert_eq!(outcome.out, "./script one\n126\n", "{outcome:?}");
    // Found by its name, behind directories that have none of it.
    let mut plan = once(&ground, "");
    plan.env.retain(|(name, _)| name != "PATH");
    plan.env.push(("PATH".into(), "/nowhere:/usr/lib:/usr/bin:/bin".into()));
    plan.argv = ["uname", "-n"].map(Into::into).into();
    assert_eq!(run(&plan).good(), "regie\n");
    for missing in ["no-such-program", "/no/such/program", "/etc/passwd"] {
        plan.argv = vec![missing.into()];
        assert!(matches!(start(&plan), Err(sandbox::Error::Program(_))), "{missing}");
    }
}

#[test]
fn what_a_lone_program_has_written_cannot_be_loaded_as_code() {
    let ground = Ground::new();
    let map = "import mmap, sys, os; f = open(sys.argv[1], 'w+b'); f.write(b'x' * 4096); f.flush(); \
               mmap.mmap(f.fileno(), 4096, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC); print('mapped')";
    if !std::path::Path::new("/usr/bin/python3").exists() {
        return;
    }
    for place in ["/tmp/x", "/dev/shm/x", "/home/regie/x"] {
        let mut plan = once(&ground, "");
        plan.argv = ["/usr/bin/python3", "-c", map, place].map(Into::into).into();
        let refused = run(&plan).bad();
        assert!(refused.err.contains("PermissionError"), "{place}: {refused:?}");
        plan.exec = Exec::Any;
        assert_eq!(run(&plan).good(), "mapped\n");
        // Nor does a second program come of memory.
        let nameless = "import os; f = os.memfd_create('x', 0); os.write(f, open('/bin/true', 'rb').read()); \
                        os.execve(f, ['true'], {})";
        let mut plan = once(&ground, "");
        plan.argv = ["/usr/bin/python3", "-c", nameless].map(Into::into).into();
        let refused = run(&plan).bad();
        assert!(refused.err.contains("OSError") || refused.err.contains("PermissionError"), "{refused:?}");
        plan.exec = Exec::Any;
        run(&plan).good();
    }
}
