//! Missions from the first word to the merge.

use std::io::Read;
use std::process::Stdio;

use crate::world::{MEND, Said, World};

const RUN: [&str; 4] = ["run", "Make the check pass", "--done", "sh check.sh"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&RUN, more].concat()
}

#[test]
fn without_a_terminal_a_gate_is_left_to_be_answered() {
    let world = World::new(MEND);
    let said = world.ask(&RUN);
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(said.err.contains("Merge this proposal into main?"), "{}", said.err);
    assert!(said.err.contains("+echo $(($1 + $2))"), "{}", said.err);
    let waiting = world.ask(&["gate", "list", "--json"]).json();
    let gate = waiting[0]["gate"].as_str().unwrap();
    assert!(said.err.contains(&format!("hint: regie gate approve {gate}")), "{}", said.err);

    let approved = world.ask(&["gate", "approve", gate, "--json"]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    let log = world.ask(&["log", "last", "--follow", "--json"]);
    assert_eq!(log.lines().last().unwrap()["fact"]["end"], "done", "{log:?}");
    let again = world.ask(&["gate", "approve", gate]);
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(again.err.starts_with("error: "), "{}", again.err);
}

#[test]
fn approved_in_advance_it_runs_to_the_merge() {
    let world = World::new(MEND);
    let said = world.ask(&with(&["--yes"]));
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.contains("✓ done"), "{}", said.out);
    assert!(said.out.contains("Regie-Run:"), "{}", said.out);
    for next in ["regie show ", "regie diff ", "regie audit verify"] {
        assert!(said.err.contains(next), "{}", said.err);
    }
    assert!(!said.err.contains('\x1b') && !said.out.contains('\x1b'), "colours without a terminal");

    let runs = world.ask(&["runs"]);
    assert!(runs.out.lines().next().unwrap().starts_with("RUN"), "{}", runs.out);
    let id = runs.out.lines().nth(1).unwrap().split(' ').next().unwrap();
    for name in [id, "last"] {
        let show = world.ask(&["show", name]);
        assert_eq!(show.code, Some(0), "{show:?}");
        assert!(show.out.contains("sh check.sh"), "{}", show.out);
    }
    let diff = world.ask(&["diff", id]);
    assert!(diff.out.starts_with("diff --git a/sum.sh b/sum.sh\n"), "{}", diff.out);
    let audit = world.ask(&["audit", "verify"]);
    assert_eq!((audit.code, audit.out.contains("every link holds")), (Some(0), true), "{audit:?}");
}

#[test]
fn json_lines_tell_the_same() {
    let world = World::new(MEND);
    let said = world.ask(&with(&["--yes", "--json"]));
    assert_eq!(said.code, Some(0), "{said:?}");
    let lines = said.lines();
    assert_eq!(lines.first().unwrap()["type"], "started");
    assert_eq!(lines.last().unwrap()["type"], "result");
    assert_eq!(lines.last().unwrap()["end"], "done");
    let seqs: Vec<u64> = lines
        .iter()
        .filter(|line| line["type"] == "event")
        .map(|line| line["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "each event once, in order");
    assert!(!said.out.contains("sk-scripted") && !said.err.contains("sk-scripted"));
}

#[test]
fn a_cap_has_its_own_exit_code() {
    let world = World::new(MEND);
    let said = world.ask(&with(&["--max-turns", "1", "--yes"]));
    assert_eq!(said.code, Some(5), "{said:?}");
    assert!(said.out.contains("budget exhausted"), "{}", said.out);
}

#[test]
fn a_detached_run_prints_its_id_alone() {
    let world = World::new(MEND);
    let said = world.ask(&with(&["--yes", "--detach"]));
    assert_eq!(said.code, Some(0), "{said:?}");
    let id = said.out.trim_end();
    assert!(id.starts_with("run_") && !id.contains('\n'), "{}", said.out);
    let log = world.ask(&["log", id, "--follow"]);
    assert_eq!(log.code, Some(0), "{log:?}");
    assert!(log.out.lines().last().unwrap().contains("end=done"), "{}", log.out);
}

#[test]
fn a_reader_who_leaves_is_no_failure() {
    let world = World::new(MEND);
    assert_eq!(world.ask(&with(&["--yes"])).code, Some(0));
    let mut child =
        world.regie(&["log", "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0]).unwrap();
    drop(out);
    let said = Said::of(child.wait_with_output().unwrap());
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
}

/// A world with a run that waits at the gate of its merge, and the gate.
fn waiting() -> (World, String) {
    let world = World::new(MEND);
    assert_eq!(world.ask(&RUN).code, Some(3));
    let gates = world.ask(&["gate", "list", "--json"]).json();
    let gate = gates[0]["gate"].as_str().unwrap().to_owned();
    (world, gate)
}

#[test]
fn a_refused_merge_is_not_merged() {
    let (world, gate) = waiting();
    let before = world.git(&["rev-parse", "main"]).stdout;
    let end = gate.split_at(gate.len() - 8).1;
    let refused = world.ask(&["gate", "refuse", end]);
    assert_eq!(refused.code, Some(0), "{refused:?}");
    let log = world.ask(&["log", "--follow", "--json"]);
    assert_eq!(log.lines().last().unwrap()["fact"]["end"], "partial", "{log:?}");
    assert_eq!(world.git(&["rev-parse", "main"]).stdout, before);
    let show = world.ask(&["gate", "show", &gate]);
    assert!(show.out.contains("human:owner"), "{show:?}");
    assert!(world.ask(&["show"]).out.contains("partial"));
}

#[test]
fn a_cancelled_run_is_over() {
    let (world, _) = waiting();
    let cancelled = world.ask(&["cancel", "last", "--json"]);
    assert_eq!((cancelled.code, cancelled.json()["did"].as_str()), (Some(0), Some("cancelled")));
    let log = world.ask(&["log", "--follow", "--json"]);
    assert_eq!(log.lines().last().unwrap()["fact"]["end"], "cancelled", "{log:?}");
    assert_eq!(world.ask(&["gate", "list", "--json"]).out, "[]\n");
    let resumed = world.ask(&["resume"]);
    assert_eq!(resumed.code, Some(1), "{resumed:?}");
    assert!(resumed.err.starts_with("error: "), "{resumed:?}");
    assert_eq!(world.ask(&["runs", "--open", "--json"]).out, "[]\n");
}

#[test]
fn an_interrupt_without_a_terminal_detaches() {
    let world = World::new(&MEND.replacen("[[turn]]\n", "[[turn]]\ndelay_ms = 3000\n", 1));
    let mut child = world
        .regie(&with(&["--yes", "--json"]))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = child.stdout.take().unwrap();
    // The first event shows that it is followed; before it is the line of the start.
    for _ in 0..2 {
        let mut byte = [0];
        while byte != *b"\n" {
            out.read_exact(&mut byte).unwrap();
        }
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let said = Said::of(child.wait_with_output().unwrap());
    assert_eq!(said.code, Some(130), "{said:?}");
    let log = world.ask(&["log", "--follow", "--json"]);
    assert_eq!(log.lines().last().unwrap()["fact"]["end"], "done", "the run goes on without its client");
}
