//! Shell commands and verdicts: whatever they do with time, outputs and children.

use domain::{Amount, Effect, Outcome, StepKind};
use kernel::Input;
use serde_json::json;

use crate::bench::{Bench, assert_gone, output, until};

fn command(text: &str) -> serde_json::Value {
    json!({"command": text})
}

#[test]
fn output_and_exit_code_come_back() {
    let mut bench = Bench::new();
    let work = bench.work("shell", command("echo out; echo err >&2; pwd; exit 3"));
    bench.start(&work);
    let finished = bench.finished(&work);
    let told = output(&finished);
    assert_eq!(finished.outcome, Outcome::Failed);
    assert_eq!(finished.spent, Amount::CALL);
    assert_eq!(told.exit_code, Some(3));
    for part in ["out\n", "err\n", "/workspace\n", "[exit code 3]"] {
        assert!(told.text.contains(part), "{}", told.text);
    }
    assert_eq!(bench.good("shell", command("true")), "[no output]");
    assert!(bench.bad("shell", command("kill -9 $$")).contains("signal 9"));
    assert!(bench.bad("shell", command("no-such-program")).contains("[exit code 127]"));
    assert_eq!(bench.good("shell", command(r"printf 'a\377b'")), "a\u{fffd}b");
}

#[test]
fn a_gigabyte_of_output_is_counted_not_kept() {
    let mut bench = Bench::new();
    let (outcome, told) =
        bench.call("shell", command("head -c 1G /dev/zero | tr '\\0' 'x'; echo; echo the end"));
    assert_eq!(outcome, Outcome::Succeeded);
    assert!(told.text.len() < 40_000 && told.text.ends_with("the end\n"), "{}", told.text.len());
    assert_eq!(told.truncated_bytes, (1 << 30) + 9 - (12 << 10));
    assert_eq!(bench.artifact(told.artifact.unwrap()).len(), 16 << 20);
    let status = std::fs::read_to_string(format!("/proc/{}/status", bench.runner_pid().unwrap())).unwrap();
    let peak: u64 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok())
        .unwrap();
    assert!(peak < 100_000, "the runner grew to {peak} kB");
}

#[test]
fn long_output_becomes_an_artifact() {
    let mut bench = Bench::new();
    let (_, told) = bench.call("shell", command("seq 1 20000"));
    let all: String = (1..=20_000).map(|number| format!("{number}\n")).collect();
    assert_eq!(bench.artifact(told.artifact.unwrap()), all.as_bytes());
    assert!(told.text.starts_with("1\n2\n") && told.text.ends_with("\n20000\n"));
    assert_eq!(told.truncated_bytes as usize, all.len() - (12 << 10));
}

#[test]
fn a_child_that_keeps_the_outputs_open_dies_with_the_step() {
    let mut bench = Bench::new();
    let mark = "735186391";
    let text = bench.good("shell", command(&format!("setsid sleep {mark} & (sleep {mark} &) ; echo done")));
    assert_eq!(text, "done\n");
    assert_gone(mark);
}

#[test]
fn standard_input_is_empty() {
    let mut bench = Bench::new();
    assert_eq!(bench.good("shell", command("cat; read line || echo nothing")), "nothing\n");
}

#[test]
fn a_closed_pipe_ends_its_writer_quietly() {
    let mut bench = Bench::new();
    assert_eq!(bench.good("shell", command("yes | head -n 1")), "y\n");
}

#[test]
fn time_ends() {
    let mut bench = Bench::new();
    let mark = "735186392";
    let mut work = bench.work("shell", command(&format!("echo begun; setsid sleep {mark} & sleep {mark}")));
    work.timeout = 1500;
    let (outcome, told) = bench.run(&work);
    assert_eq!((outcome, told.exit_code), (Outcome::TimedOut, None));
    assert!(told.text.starts_with("begun\n[timed out after 1.5 s"), "{}", told.text);
    assert_gone(mark);
    let (outcome, _) = bench.call("shell", json!({"command": "sleep 735186393", "timeout_seconds": 1}));
    assert_eq!(outcome, Outcome::TimedOut);
}

#[test]
fn a_killed_step_is_cancelled_and_then_gone() {
    let mut bench = Bench::new();
    let mark = "735186394";
    let work = bench.work("shell", command(&format!("trap '' TERM INT; touch begun; sleep {mark}")));
    bench.start(&work);
    until("the step begins", || bench.path("begun").exists());
    bench.kill(&work);
    let finished = bench.finished(&work);
    assert_eq!(finished.outcome, Outcome::Cancelled);
    assert_eq!(bench.next(), Input::Killed(work.step));
    assert_gone(mark);
    // Killing what is not there leads to that one answer alone.
    bench.kill(&work);
    assert_eq!(bench.next(), Input::Killed(work.step));
}

#[test]
fn a_verdict_is_its_exit_code() {
    let mut bench = Bench::new();
    for (line, outcome) in [
        ("test -e done", Outcome::Failed),
        ("touch done", Outcome::Succeeded),
        ("test -e done", Outcome::Succeeded),
    ] {
        let request = json!({"command": line}).to_string();
        let work = bench.work_of(StepKind::Verdict, Effect::WorkspaceWrite, "verdict", &request);
        assert_eq!(bench.run(&work).0, outcome, "{line}");
    }
}

#[test]
fn a_read_step_cannot_write() {
    let mut bench = Bench::new();
    let request = json!({"tool": "shell", "input": {"command": "touch x"}}).to_string();
    let work = bench.work_of(StepKind::ToolCall, Effect::Read, "shell", &request);
    assert_eq!(bench.run(&work).0, Outcome::Failed);
    assert!(!bench.path("x").exists());
}

#[test]
fn the_environment_is_clean() {
    let mut bench = Bench::new();
    bench.config.env = vec![("EXTRA".into(), "1".into()), ("LANG".into(), "C".into())];
    bench.restart_daemon();
    let text = bench.good("shell", command("env | cut -d= -f1 | sort | tr '\\n' ' '"));
    let names: Vec<_> =
        text.split_whitespace().filter(|name| !["_", "PWD", "SHLVL", "OLDPWD"].contains(name)).collect();
    assert_eq!(
        names,
        [
            "CI",
            "EXTRA",
            "GIT_PAGER",
            "GIT_TERMINAL_PROMPT",
            "HOME",
            "LANG",
            "NO_COLOR",
            "PAGER",
            "PATH",
            "TERM",
            "TMPDIR",
            "USER"
        ]
    );
    assert_eq!(
        bench.good("shell", command("echo $LANG; touch $HOME/x /tmp/y && echo writable")),
        "C\nwritable\n"
    );
}

#[test]
fn live_output_is_passed_on() {
    let mut bench = Bench::new();
    let mut progress = bench.executor().progress();
    let work = bench.work("shell", command("echo live; while [ ! -e more ]; do sleep 0.01; done; printf 1; sleep 0.02; printf 2; while [ ! -e go ]; do sleep 0.01; done"));
    bench.start(&work);
    let live = progress.blocking_recv().unwrap();
    assert_eq!((live.step, live.text.as_str()), (work.step, "live\n"));
    // What comes too soon after the last message waits, but not for the next output.
    bench.put("more", "");
    let mut text = String::new();
    while text != "12" {
        text += &progress.blocking_recv().unwrap().text;
    }
    bench.put("go", "");
    assert_eq!(bench.finished(&work).outcome, Outcome::Succeeded);
}

#[test]
fn steps_run_side_by_side() {
    let mut bench = Bench::new();
    let first = bench.work("shell", command("touch a; while [ ! -e b ]; do sleep 0.01; done"));
    let second = bench.work("shell", command("touch b; while [ ! -e a ]; do sleep 0.01; done"));
    bench.start(&first);
    bench.start(&second);
    for _ in 0..2 {
        assert!(
            matches!(bench.next(), Input::Finished(_, 1, finished) if finished.outcome == Outcome::Succeeded)
        );
    }
}

#[test]
fn further_mounts_are_seen() {
    let mut bench = Bench::new();
    let objects = bench.home.path().join("objects");
    std::fs::create_dir(&objects).unwrap();
    std::fs::write(objects.join("pack"), "packed\n").unwrap();
    let (source, target) = (objects, "/objects".into());
    bench.config.mounts = vec![sandbox::Mount { source, target, access: sandbox::Access::Read }];
    bench.restart_daemon();
    assert_eq!(
        bench.good("shell", command("cat /objects/pack; touch /objects/x 2>/dev/null || echo held")),
        "packed\nheld\n"
    );
}

#[test]
fn what_is_regies_own_in_a_workspace_is_read_and_not_changed() {
    let mut bench = Bench::new();
    bench.put(".regie-own/file", "own");
    bench.put("text", "text");
    assert_eq!(
        bench.good("shell", command("cat .regie-own/file && echo x > text && mkdir -p a/.regie")),
        "own"
    );
    for attempt in [
        "echo x > .regie-own/file",
        "echo x > .regie-own/new",
        "mv .regie-own away",
        "rm -rf .regie-own",
        "mkdir z && mv -T z .regie-own",
    ] {
        bench.bad("shell", command(attempt));
    }
    bench.bad("write", json!({"path": ".regie-own/file", "content": "x"}));
    assert_eq!(bench.good("shell", command("cat .regie-own/file text")), "ownx\n");
}
