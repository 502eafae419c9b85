//! A daemon that is asked to end leaves nothing alive and loses nothing.

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use crate::world::{Said, World, alive, until};

/// The first try of the command does not come to its end; the next one finds that it was tried.
const SLOW: &str = r#"
[[turn]]
text = "This takes long."
[[turn.call]]
name = "shell"
input = { command = "if [ -e tried ]; then echo again >> note; else touch tried; exec sleep MARK; fi" }

[[turn]]
text = "The sum."
[[turn.call]]
name = "shell"
input = { command = "echo 'echo $(($1 + $2))' > sum.sh" }

[[turn]]
text = "Done."
"#;

const MISSION: [&str; 5] = ["run", "Make the check pass", "--done", "sh check.sh", "--json"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&MISSION, more].concat()
}

/// A world whose files of the name `tried` stay when a workspace is rolled back, and whose command can be
/// told from others by how long it takes.
fn world(mark: &str) -> World {
    let world = World::new(&SLOW.replace("MARK", mark));
    fs::write(world.project().join(".gitignore"), "tried\n").unwrap();
    assert!(world.git(&["add", "."]).status.success());
    assert!(world.git(&["commit", "-qm", "Ignore"]).status.success());
    world
}

fn facts(world: &World, run: &str, fact: &str) -> Vec<Value> {
    let events = world.events(run).into_iter().map(|event| event["fact"].clone());
    events.filter(|found| found["fact"] == fact).collect()
}

#[track_caller]
fn stop(world: &World) {
    let stopped = world.ask(&["serve", "--stop"]);
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    // Everything that is started for a home names it, or a place below it.
    assert_eq!(alive(world.home().to_str().unwrap()), Vec::<String>::new());
    let log = world.home().join("regie.db-wal");
    assert_eq!(fs::metadata(log).map_or(0, |log| log.len()), 0, "the journal is in its file");
}

fn parked(world: &World, run: &str) -> bool {
    world.ask(&["show", run, "--json"]).out.contains("model.key_missing")
}

#[test]
fn a_run_that_moves_goes_on_after_the_next_start_and_is_done_once() {
    let mark = "1007.2001";
    let world = world(mark);
    let started = world.ask(&with(&["--yes", "--detach"]));
    assert_eq!(started.code, Some(0), "{started:?}");
    until("the command runs", || !alive(mark).is_empty());
    stop(&world);
    assert_eq!(alive(mark), Vec::<String>::new(), "nor does what ran in a jail");
    // The next command starts a daemon; the key is handed over again.
    until("the run has gone on", || parked(&world, "last"));
    let resumed = world.ask(&["resume", "last"]);
    assert_eq!(resumed.code, Some(0), "{resumed:?} {:?}", world.ask(&["log", "last"]));
    assert_eq!(world.ended("last").end, "done");
    let tries = facts(&world, "last", "step_intended").iter().filter(|fact| fact["step"] == 2).count();
    let results = facts(&world, "last", "step_completed").iter().filter(|fact| fact["step"] == 2).count();
    assert_eq!((tries, results), (2, 1), "cut once, done once");
    assert_eq!(fs::read_to_string(world.project().join("note")).unwrap(), "again\n");
    world.is_whole();
    stop(&world);
}

#[test]
fn the_runner_of_a_run_that_rests_does_not_outlive_the_daemon() {
    let world = World::new(crate::world::MEND);
    let asked = world.ask(&with(&[]));
    assert_eq!(asked.code, Some(3), "{asked:?}");
    let gate = world.ask(&["gate", "list", "--json"]).json()[0].clone();
    let runner = || alive(world.home().join("spool").to_str().unwrap());
    assert!(!runner().is_empty(), "one that waits at a gate keeps its runner");
    stop(&world);
    assert_eq!(world.ask(&["pause", "last"]).code, Some(0));
    stop(&world);
    // Also one that a daemon which was killed has left.
    assert_eq!(world.ask(&["resume", "last", "--detach"]).code, Some(0));
    assert_eq!(world.ask(&["gate", "approve", gate["gate"].as_str().unwrap()]).code, Some(0));
    assert_eq!(world.ended("last").end, "done");
    stop(&world);
}

#[test]
fn a_client_that_follows_brings_the_daemon_back_and_misses_nothing() {
    let mark = "1007.2003";
    let world = world(mark);
    let mut client = world.regie(&with(&["--yes"]));
    let client = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the command runs", || !alive(mark).is_empty());
    let stopped = world.ask(&["serve", "--stop"]);
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    let said = Said::of(client.wait_with_output().unwrap());
    assert_eq!(said.code, Some(0), "{said:?}");
    let events = said.lines().into_iter().filter(|line| line["type"] == "event");
    let seen: Vec<_> = events.map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(seen, (1..=seen.len() as u64).collect::<Vec<_>>(), "each event once, in order");
    assert_eq!(facts(&world, "last", "ended").len(), 1);
    stop(&world);
}

#[test]
fn a_daemon_that_follows_at_once_waits_for_the_end_of_the_one_before() {
    let mark = "1007.2002";
    let world = world(mark);
    assert_eq!(world.ask(&with(&["--yes", "--detach"])).code, Some(0));
    until("the command runs", || !alive(mark).is_empty());
    let first = world.daemon().unwrap();
    // The end takes a while, as the command has to be cut; the next client does not wait to ask.
    rustix::process::kill_process(first, rustix::process::Signal::TERM).unwrap();
    until("it does not listen any more", || {
        std::os::unix::net::UnixStream::connect(world.home().join("regie.sock")).is_err()
    });
    let runs = world.ask(&["runs", "--json"]);
    assert_eq!(runs.code, Some(0), "{runs:?}");
    assert_ne!(world.daemon(), Some(first));
    assert_eq!(world.ask(&["cancel", "last"]).code, Some(0));
    assert_eq!(world.ended("last").end, "cancelled");
    stop(&world);
}

#[test]
fn a_run_whose_driver_cannot_be_made_any_more_is_cancelled() {
    let world = World::new(crate::world::MEND);
    assert_eq!(world.ask(&with(&[])).code, Some(3));
    let run = world.ask(&["runs", "--json"]).json()[0]["run"].as_str().unwrap().to_owned();
    let system = facts(&world, &run, "run_started")[0]["system"].as_str().unwrap().to_owned();
    stop(&world);
    let lost = files(&world.home().join("artifacts")).into_iter().find(|file| {
        let path = file.to_string_lossy().replace('/', "");
        path.ends_with(&system) || path.contains(&system)
    });
    fs::remove_file(lost.expect("the system prompt is an artifact")).unwrap();
    let resumed = world.ask(&["resume", &run]);
    assert_eq!(resumed.code, Some(1), "{resumed:?}");
    let cancelled = world.ask(&["cancel", &run]);
    assert_eq!(cancelled.code, Some(0), "{cancelled:?}");
    let ended = world.ended(&run);
    assert_eq!((ended.end.as_str(), ended.reason.as_str()), ("cancelled", "cancelled by the owner"));
    assert_eq!(world.ask(&["gate", "list", "--json"]).out, "[]\n");
    let again = world.ask(&["cancel", &run]);
    assert!(again.err.contains("regie run --follow RUN"), "{again:?}");
    world.is_whole();
    stop(&world);
}

fn files(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(files(&path)),
            path => found.push(path),
        }
    }
    found
}
