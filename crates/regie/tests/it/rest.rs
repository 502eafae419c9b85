//! What rests or dies in the middle of a setup, of a service's start or of a trial ends as if it had not.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use crate::world::{Said, World, until};

/// Waits in the middle until a test lets it go on. It cannot do so where a service runs it, which sees
/// the files as well.
const HALF: &str = "touch begun; while [ ! -e go ]; do sleep 0.02; done";

fn shell(command: &str) -> String {
    let input = json!({ "command": command }).to_string();
    format!("[[turn]]\n[[turn.call]]\nname = \"shell\"\njson = {}\n", json!(input))
}

fn commit(world: &World, config: &str) {
    fs::write(world.project().join("regie.toml"), config).unwrap();
    fs::write(world.project().join(".gitignore"), "begun\ngo\ndeps/\n").unwrap();
    for args in [&["add", "."][..], &["commit", "-q", "-m", "A project"]] {
        assert!(world.git(args).status.success());
    }
}

fn kill_daemon(world: &World) {
    let _ = rustix::process::kill_process(world.daemon().unwrap(), rustix::process::Signal::KILL);
}

fn approve(world: &World) {
    let gate = world.ask(&["gate", "list", "--json"]).json()[0]["gate"].as_str().unwrap().to_owned();
    let said = world.ask(&["gate", "approve", &gate]);
    assert_eq!(said.code, Some(0), "{said:?}");
}

fn status(world: &World) -> String {
    world.ask(&["runs", "--json"]).json()[0]["status"].as_str().unwrap().to_owned()
}

/// Lets a run go on whose key may have died with its daemon.
fn goes_on(world: &World, run: &str, is_there: impl Fn(&World) -> bool) {
    until("it goes on", || {
        if status(world) == "parked" {
            world.ask(&["resume", run]);
        }
        is_there(world)
    });
}

fn gates(world: &World, run: &str) -> usize {
    world.events(run).iter().filter(|event| event["fact"]["fact"] == "gate_opened").count()
}

/// What is shown, without the breaks and bars that a width puts into it.
fn shown(said: &Said) -> String {
    said.err.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ")
}

/// A run in the middle of its setup.
fn setting_up() -> (World, String, PathBuf) {
    let world = World::new(&[shell("cat deps/lib"), "[[turn]]\ntext = \"It is there.\"\n".into()].concat());
    let setup =
        format!("mkdir -p deps; echo half > deps/half; {HALF}; rm deps/half; echo dependency > deps/lib");
    commit(&world, &format!("[run]\nsetup = {}\n", json!(setup)));
    let said = world.ask(&["run", "Look around", "--done", "test -e deps/lib"]);
    assert_eq!(said.code, Some(3), "{said:?}");
    let run = world.ask(&["runs", "--json"]).json()[0]["run"].as_str().unwrap().to_owned();
    approve(&world);
    let workspace = world.workspace(&run);
    until("the setup runs", || workspace.join("begun").exists());
    (world, run, workspace)
}

fn is_set_up(world: &World, run: &str) {
    let ended = world.ended(run);
    assert_eq!(ended.end, "done", "{ended:?}");
    let asked = world.asked();
    let told = asked.last().unwrap()["messages"].to_string();
    assert!(told.contains("The project was set up") && told.contains("dependency\\n"), "{told}");
    world.is_whole();
}

#[test]
fn a_daemon_that_dies_during_a_setup_goes_on_with_it() {
    let (world, run, workspace) = setting_up();
    kill_daemon(&world);
    fs::write(workspace.join("go"), "").unwrap();
    goes_on(&world, &run, |world| status(world) == "ended");
    is_set_up(&world, &run);
    assert_eq!(gates(&world, &run), 1, "its approval holds");
}

#[test]
fn a_run_that_is_paused_during_a_setup_has_it_when_it_goes_on() {
    let (world, run, workspace) = setting_up();
    assert_eq!(world.ask(&["pause", &run]).code, Some(0));
    fs::write(workspace.join("go"), "").unwrap();
    until("it rests", || status(&world) == "parked");
    assert!(world.asked().is_empty());
    assert_eq!(world.ask(&["resume", &run]).code, Some(0));
    is_set_up(&world, &run);
    assert_eq!(gates(&world, &run), 1);
}

#[test]
fn a_setup_that_a_stop_cut_is_cleaned_away_and_asked_for_again() {
    let (world, run, workspace) = setting_up();
    assert_eq!(world.ask(&["stop", &run]).code, Some(0));
    until("it rests", || status(&world) == "parked");
    assert!(!workspace.join("deps").exists(), "nothing that is half made stays");
    world.ask(&["resume", &run]);
    until("it asks again", || status(&world) == "waiting");
    approve(&world);
    until("the setup runs", || workspace.join("begun").exists());
    fs::write(workspace.join("go"), "").unwrap();
    is_set_up(&world, &run);
    assert_eq!(gates(&world, &run), 2);
}

#[test]
fn a_daemon_that_dies_while_a_service_starts_finds_it_again() {
    let work = shell("true < /dev/tcp/127.0.0.1/4714 && echo it answers");
    let world = World::new(&[shell("touch before"), work, "[[turn]]\ntext = \"Yes.\"\n".into()].concat());
    let serve = "while [ ! -e go ]; do sleep 0.02; done; exec python3 -m http.server 4714 --bind 127.0.0.1";
    let ready = "true < /dev/tcp/127.0.0.1/4714";
    commit(&world, &format!("[services.web]\ncommand = {}\nready = {}\n", json!(serve), json!(ready)));
    let said = world.ask(&["run", "Look", "--done", "test -e before", "--yes", "--detach"]);
    let run = said.out.trim().to_owned();
    let log = world.home().join("spool").join(&run).join("outputs/services/web.log");
    until("the service starts", || log.exists());
    kill_daemon(&world);
    fs::write(world.workspace(&run).join("go"), "").unwrap();
    goes_on(&world, &run, |world| status(world) == "ended");
    let ended = world.ended(&run);
    assert_eq!(ended.end, "done", "{ended:?}");
    let told = world.asked().last().unwrap()["messages"].to_string();
    assert!(told.contains("it answers"), "{told}");
    world.is_whole();
}

#[test]
fn a_trial_that_a_stop_cut_is_made_when_the_run_goes_on() {
    let check = format!("{HALF}; sh check.sh");
    let define = json!({ "criteria": [{ "command": check, "why": "It compares the sums." }] }).to_string();
    let world = World::new(
        &[
            format!("[[turn]]\n[[turn.call]]\nname = \"define_done\"\njson = {}\n", json!(define)),
            shell("sed -i s/-/+/ sum.sh"),
            "[[turn]]\ntext = \"The sum is right now.\"\n".into(),
        ]
        .concat(),
    );
    commit(&world, "");
    let said = world.ask(&["run", "Make the check pass", "--yes", "--detach"]);
    let run = said.out.trim().to_owned();
    let workspace = world.workspace(&run);
    until("the trial runs", || workspace.join("begun").exists());
    assert_eq!(world.ask(&["stop", &run]).code, Some(0));
    until("it rests", || status(&world) == "parked");
    fs::write(workspace.join("go"), "").unwrap();
    let said = world.ask(&["resume", &run]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let ended = world.ended(&run);
    assert_eq!(ended.end, "done", "{ended:?}");
    assert!(ended.reason.contains("proposed by the agent"), "{ended:?}");
    world.is_whole();
}

#[test]
fn what_nothing_checks_waits_in_spite_of_yes() {
    let no = "[[turn]]\ntext = \"It needs no check.\"\n".repeat(3);
    let world = World::new(&[shell("echo noted > NOTE"), no].concat());
    let said = world.ask(&["run", "Write a note", "--yes"]);
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(
        shown(&said)
            .contains("--yes covers what passes its criteria, and there are none: nothing was checked"),
        "{}",
        said.err
    );
    assert!(!world.project().join("NOTE").exists());
    approve(&world);
    assert_eq!(world.ended("last").end, "done");

    let define = json!({ "criteria": [{ "command": "true", "why": "It is true." }] }).to_string();
    let world = World::new(
        &[
            format!("[[turn]]\n[[turn.call]]\nname = \"define_done\"\njson = {}\n", json!(define)),
            shell("echo noted > NOTE"),
            "[[turn]]\ntext = \"It is written.\"\n".into(),
        ]
        .concat(),
    );
    let said = world.ask(&["run", "Write a note", "--yes"]);
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(
        shown(&said).contains("criteria of the agent's that nobody saw fail before the work"),
        "{}",
        said.err
    );
}
