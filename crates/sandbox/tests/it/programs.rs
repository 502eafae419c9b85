//! Ordinary work goes on in there: shells, interpreters, pipes, a clean environment.

use std::{io::Write, path::Path};

use sandbox::{Launcher, Status, Stdin, overall, support};

use crate::jail::{Ground, finish, launcher, run};

#[test]
fn the_environment_is_the_plans_and_nothing_else() {
    let ground = Ground::new();
    let mut plan = ground.shell("unset PWD OLDPWD SHLVL _; env | sort");
    plan.env = vec![("PATH".into(), "/usr/bin:/bin".into()), ("ONLY".into(), "this one".into())];
    assert_eq!(run(&plan).good(), "ONLY=this one\nPATH=/usr/bin:/bin\n");
}

#[test]
#[expect(unsafe_code, reason = "the standard library makes no descriptor that would leak")]
fn no_descriptor_is_inherited() {
    let ground = Ground::new();
    // SAFETY: descriptor 2 is open; the copy is never closed, and is not closed on exec.
    assert!(unsafe { libc::dup(2) } > 2);
    // The listing itself holds the fourth.
    assert_eq!(run(&ground.shell("ls /proc/self/fd")).good(), "0\n1\n2\n3\n");
}

#[test]
fn input_is_empty_or_what_the_caller_writes() {
    let ground = Ground::new();
    assert_eq!(run(&ground.shell("cat; echo end")).good(), "end\n");
    let mut child = launcher().spawn(&ground.shell("cat"), Stdin::Piped).unwrap();
    child.stdin.take().unwrap().write_all(b"some input").unwrap();
    assert_eq!(finish(child).good(), "some input");
}

#[test]
fn output_and_errors_come_apart() {
    let ground = Ground::new();
    let outcome = run(&ground.shell("echo out; echo err >&2; echo more > /dev/stderr"));
    assert_eq!((outcome.out.as_str(), outcome.err.as_str()), ("out\n", "err\nmore\n"));
}

#[test]
fn names_are_looked_up_in_the_plans_path() {
    let ground = Ground::new();
    let mut plan = ground.shell("");
    plan.argv = vec!["echo".into(), "a b".into(), "".into(), "c".into()];
    assert_eq!(run(&plan).good(), "a b  c\n");
}

#[test]
fn a_large_plan_gets_through() {
    let ground = Ground::new();
    let mut plan = ground.shell("printf %s \"$1\" | wc -c");
    plan.argv.extend(["sh".into(), "x".repeat(100_000).into()]);
    assert_eq!(run(&plan).good().trim(), "100000");
}

#[test]
fn python_runs_where_it_is_installed() {
    if Path::new("/usr/bin/python3").exists() {
        let ground = Ground::new();
        let mut plan = ground.shell("");
        let code = "import tempfile, subprocess, os; tempfile.mkdtemp(); \
                    subprocess.run(['true'], check=True); print(os.getpid() > 1, os.getuid())";
        plan.argv = ["/usr/bin/python3", "-c", code].map(Into::into).into();
        assert_eq!(run(&plan).good(), "True 1000\n");
    }
}

#[test]
fn node_runs_where_it_is_installed() {
    let installed = ["/usr/bin/node", "/usr/local/bin/node"]
        .into_iter()
        .find(|path| Path::new(path).canonicalize().is_ok_and(|real| real.starts_with("/usr")));
    if let Some(node) = installed {
        let ground = Ground::new();
        std::fs::write(
            ground.work().join("a.test.js"),
            "const t = require('node:test'), net = require('node:net');\n\
             t('serves', (_, done) => { const s = net.createServer(c => c.end()).listen(0, \
             '127.0.0.1', () => net.connect(s.address().port).on('close', () => \
             { s.close(); done(); }).resume()); });\n",
        )
        .unwrap();
        let mut plan = ground.shell("");
        plan.argv = [node, "--test"].map(Into::into).into();
        assert!(run(&plan).good().contains("pass 1"));
    }
}

#[test]
fn this_machine_is_said_to_enforce_and_does() {
    let checks = support(&launcher());
    assert_eq!(overall(&checks), Status::Enforced, "{checks:?}");
    let ground = Ground::new();
    let mut child = launcher().spawn(&ground.shell("true"), Stdin::Null).unwrap();
    assert_eq!(*child.status(), Status::Enforced);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_launcher_that_is_none_is_said_so() {
    let checks = support(&Launcher::at("/bin/false", vec![]));
    assert!(matches!(overall(&checks), Status::Unsupported(_)), "{checks:?}");
}
