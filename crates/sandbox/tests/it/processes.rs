//! Other processes, privileges, and the doors into the kernel.

use crate::{
    jail::{Ground, run},
    probe,
};

#[test]
fn only_the_jails_own_processes_are_seen() {
    let ground = Ground::new();
    let seen = run(&ground.shell("ls /proc | grep '^[0-9]' | sort -n | tr '\\n' ' '")).good();
    let pids: Vec<u32> = seen.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    assert!(pids.starts_with(&[1, 2]) && pids.len() < 10, "{seen}");
    let host = std::process::id();
    assert!(std::path::Path::new(&format!("/proc/{host}")).exists());
    run(&ground.shell(&format!("kill -0 {}", host + 100_000))).bad();
    // Even when the number exists in there, it is not the host's process.
    run(&ground.shell("kill -9 -1; true"));
}

#[test]
fn the_first_process_of_the_jail_is_out_of_reach() {
    let ground = Ground::new();
    let mut scripts =
        vec!["cat /proc/1/environ", "cat /proc/1/maps", "ls /proc/1/root/", "echo > /proc/1/mem"];
    if landlock_abi() >= 6 {
        scripts.push("kill -0 1");
    }
    for script in scripts {
        let refused = run(&ground.shell(script)).bad();
        let words = ["denied", "permitted", "Read-only"];
        assert!(words.iter().any(|word| refused.err.contains(word)), "{refused:?}");
    }
    run(&ground.shell("readlink /proc/1/fd/0")).bad();
    run(&ground.shell("kill -0 $$ && cat /proc/self/environ && readlink /proc/self/fd/0")).good();
}

#[test]
fn there_are_no_privileges_and_no_way_to_new_ones() {
    let ground = Ground::new();
    let status = run(&ground.shell("cat /proc/self/status; id -u; id -g; id -un")).good();
    for line in [
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
        "CapInh:\t0000000000000000",
        "CapPrm:\t0000000000000000",
        "CapEff:\t0000000000000000",
        "CapBnd:\t0000000000000000",
        "CapAmb:\t0000000000000000",
    ] {
        assert!(status.contains(line), "{line} is not in {status}");
    }
    assert!(status.ends_with("1000\n1000\nregie\n"), "{status}");
}

#[test]
fn dangerous_system_calls_are_refused() {
    let ground = Ground::new();
    for name in ["mount", "unshare_user", "unshare_net", "bpf", "io_uring", "keyctl", "ptrace", "tiocsti"] {
        let refused = run(&ground.probe("syscall", &[name])).bad();
        assert!(refused.out.contains("refused 1 "), "{name}: {refused:?}");
    }
    // The probes mean something: what is allowed gets through in there, and out here some do.
    run(&ground.probe("syscall", &["unshare_files"])).good();
    assert!(probe::outside("syscall", &["keyctl"]).status.success());
}

#[test]
fn memory_keeps_its_protection_and_pages_are_not_given_away() {
    let ground = Ground::new();
    for name in ["no_randomness", "read_implies_exec", "vmsplice"] {
        let refused = run(&ground.probe("syscall", &[name])).bad();
        assert!(refused.out.contains("refused 1 "), "{name}: {refused:?}");
    }
    run(&ground.probe("syscall", &["which_personality"])).good();
    assert!(probe::outside("syscall", &["no_randomness"]).status.success());
}

#[test]
fn no_file_passes_on_the_rights_of_regies_user() {
    use std::os::unix::fs::PermissionsExt as _;
    let ground = Ground::new();
    let script = "cp /bin/true x; chmod 700 x; mkdir -m 755 d; chmod u+s x; chmod g+s x; chmod g+s d; \
                  mkdir -m 2755 s; install -m 4755 /bin/true i; perl -e 'sysopen(F, \"o\", 65, 04755)'; true";
    run(&ground.shell(script)).good();
    let mut made = 0;
    for entry in std::fs::read_dir(ground.work()).unwrap().flatten() {
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o6000, 0, "{:?} {mode:o}", entry.path());
        made += 1;
    }
    assert!(made >= 2, "files are made, and their ordinary modes set");
    // Other modes, and opening without making, are as ever.
    run(&ground.shell("chmod 1777 d && chmod 755 x && cat < x > y && mktemp -p . && mkfifo p")).good();
}

#[test]
fn unknown_calls_are_said_to_be_unknown() {
    let ground = Ground::new();
    let refused = run(&ground.probe("syscall", &["clone3"]));
    assert!(refused.out.contains("refused 38 "), "{refused:?}");
    if cfg!(target_arch = "x86_64") {
        let refused = run(&ground.probe("syscall", &["x32_getpid"]));
        assert!(refused.out.contains("refused 38 "), "{refused:?}");
    }
}

#[test]
fn the_host_name_is_the_jails() {
    let ground = Ground::new();
    assert_eq!(run(&ground.shell("uname -n")).good(), "regie\n");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the comparison runs outside of any jail")]
fn new_namespaces_are_refused_to_ordinary_tools() {
    let tool = "/usr/bin/unshare";
    if std::path::Path::new(tool).exists() {
        let argv = [tool, "--user", "--map-root-user", "--mount", "true"];
        assert!(std::process::Command::new(tool).args(&argv[1..]).status().unwrap().success());
        let ground = Ground::new();
        let mut plan = ground.shell("");
        plan.argv = argv.map(Into::into).into();
        run(&plan).bad();
    }
}

/// What the doctor's evidence says of this machine.
fn landlock_abi() -> u32 {
    let checks = sandbox::support(&crate::jail::launcher());
    let check = checks.iter().find(|check| check.id == "jail.landlock").unwrap();
    check.evidence.split_whitespace().nth(2).unwrap().parse().unwrap()
}
