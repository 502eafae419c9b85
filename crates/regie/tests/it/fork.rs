//! `regie fork`, `regie run --follow`, `regie pause` and `regie stop`: another way from a point of a run.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::world::{World, until};

/// A model that takes the wrong way, until it is told to add.
const MODEL: &str = r#"
[[scenario]]
name = "told"
heard = "add them"
[[scenario.turn]]
text = "Never asked for."
[[scenario.turn]]
[[scenario.turn.call]]
name = "edit"
input = { path = "sum.sh", old = "$1 - $2", new = "$1 + $2" }
[[scenario.turn]]
text = "The sum is right now."

[[scenario]]
name = "next"
heard = "Now a note"
[[scenario.turn]]
text = "Never asked for."
[[scenario.turn]]
text = "Never asked for."
[[scenario.turn]]
text = "Never asked for."
[[scenario.turn]]
[[scenario.turn.call]]
name = "write"
input = { path = "NOTE", content = "noted\n" }
[[scenario.turn]]
text = "The note is there."

[[scenario]]
name = "wrong"
[[scenario.turn]]
text = "I look."
[[scenario.turn.call]]
name = "read"
input = { path = "sum.sh" }
[[scenario.turn.call]]
name = "shell"
input = { command = "seq 1 9000" }
[[scenario.turn]]
text = "I write it anew."
[[scenario.turn.call]]
name = "shell"
input = { command = "echo 'echo 3' > sum.sh; touch WRONG" }
[[scenario.turn]]
text = "It says 3 now."
"#;

const RUN: [&str; 5] = ["run", "Make the check pass", "--done", "sh check.sh", "--detach"];

/// A run that went the wrong way and asks at its gate.
fn wrong(world: &World) -> String {
    let said = world.ask(&RUN);
    assert_eq!(said.code, Some(0), "{said:?}");
    let run = said.out.trim().to_owned();
    world.ask(&["log", &run, "--json"]);
    until("it asks", || status(world, &run) == "waiting");
    run
}

fn status(world: &World, run: &str) -> String {
    world.ask(&["show", run, "--json"]).json()["run"]["status"].as_str().unwrap().to_owned()
}

fn head(world: &World) -> String {
    String::from_utf8(world.git(&["rev-parse", "main"]).stdout).unwrap().trim().to_owned()
}

/// The chain of a run: the hash of its last event.
fn chain(world: &World, run: &str) -> String {
    world.ask(&["show", run, "--json"]).json()["run"]["head"].as_str().unwrap().to_owned()
}

#[test]
fn a_run_that_went_wrong_is_forked_before_its_mistake_and_merged() {
    let world = World::new(MODEL);
    let parent = wrong(&world);
    let before = chain(&world, &parent);
    let timeline = world.ask(&["show", &parent]).flat();
    let wrong_way = timeline.find("I write it anew").unwrap();
    let numbers = timeline.find("#3").zip(timeline.find("#4")).unwrap();
    assert!(numbers.0 < wrong_way && wrong_way < numbers.1, "the steps have their numbers: {timeline}");
    // Steps: 1 the model, 2 read, 3 seq, 4 the model, 5 the wrong way.
    let said = world.ask(&["fork", &parent, "add them", "--at", "3", "--yes"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let file = |name: &str| std::fs::read_to_string(world.project().join(name)).unwrap_or_default();
    assert_eq!(
        (file("sum.sh").as_str(), world.project().join("WRONG").exists()),
        ("echo $(($1 + $2))\n", false)
    );
    assert_eq!((chain(&world, &parent), status(&world, &parent)), (before, "waiting".into()));

    let fork = world.ask(&["show", "last", "--json"]).json()["run"]["run"].as_str().unwrap().to_owned();
    let shown = world.ask(&["show", "last"]).flat();
    assert!(shown.contains(&format!("forked from {parent} at step 3")), "{shown}");
    let list = world.ask(&["runs"]).flat();
    assert!(
        list.contains(&format!("fork of {} at 3 · Make the check pass", &parent[parent.len() - 8..])),
        "{list}"
    );
    let mission = |run: &str| world.ask(&["show", run, "--json"]).json()["run"]["mission"].clone();
    assert_eq!(mission(&parent), mission(&fork));
    assert_eq!(world.ask(&["cancel", &parent]).code, Some(0));
    assert_eq!(world.ended(&parent).end, "cancelled");
    world.is_whole();
}

/// What its spool held is brought from where it is kept.
#[test]
fn a_run_that_is_over_is_forked_with_the_outputs_that_its_conversation_names() {
    let world = World::new(MODEL);
    let parent = wrong(&world);
    assert_eq!(world.ask(&["cancel", &parent]).code, Some(0));
    assert_eq!(world.ended(&parent).end, "cancelled");
    let spool = |run: &str| world.home().join("spool").join(run);
    until("the spool is gone", || !spool(&parent).exists());
    let said = world.ask(&["fork", &parent, "--at", "3", "--detach"]);
    let second = said.out.trim();
    until("it asks or ends", || status(&world, second) != "active");
    assert_eq!(status(&world, second), "waiting", "{:?}", world.ask(&["show", second]));
    let output = std::fs::read_to_string(spool(second).join("outputs").join("3.txt")).unwrap();
    assert!(output.ends_with("9000\n"), "the conversation names it");
    assert_eq!(world.ask(&["cancel", second]).code, Some(0));
    assert_eq!(world.ended(second).end, "cancelled");
    world.is_whole();
}

#[test]
fn a_daemon_that_is_killed_under_a_fork_loses_nothing_of_it() {
    let world = World::new(MODEL);
    let parent = wrong(&world);
    let mut child = world
        .regie(&["fork", &parent, "add them", "--at", "3", "--yes", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut events, mut last) = (Vec::new(), serde_json::Value::Null);
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        if line["type"] == "event" {
            events.push(line["seq"].as_u64().unwrap());
            if events.len() == 5 {
                let daemon = world.daemon().unwrap();
                rustix::process::kill_process(daemon, rustix::process::Signal::KILL).unwrap();
            }
        }
        last = line;
    }
    assert_eq!(child.wait().unwrap().code(), Some(0), "{last}");
    assert_eq!(events, (1..=events.len() as u64).collect::<Vec<_>>(), "each event once, in order");
    assert_eq!(last["end"], "done", "{last}");
    let file = std::fs::read_to_string(world.project().join("sum.sh")).unwrap();
    assert_eq!(file, "echo $(($1 + $2))\n");
    assert_eq!(world.ask(&["audit", "verify"]).code, Some(0));
}

#[test]
fn a_mission_follows_one_that_is_over() {
    let world = World::new(MODEL);
    let parent = wrong(&world);
    let early = world.ask(&["run", "--follow", &parent, "Now a note"]);
    assert_eq!(early.code, Some(1), "{early:?}");
    assert!(early.err.contains("has not ended") && early.err.contains("regie say"), "{}", early.err);
    let gate = world.ask(&["gate", "list", "--json"]).json()[0]["gate"].as_str().unwrap().to_owned();
    assert_eq!(world.ask(&["gate", "approve", &gate]).code, Some(0));
    assert_eq!(world.ended(&parent).end, "done");
    let merged = head(&world);
    // From anywhere: the repository is that of the run before, and so is the definition of done.
    let mut command = world.regie(&["run", "--follow", &parent, "Now a note", "--yes"]);
    command.current_dir(world.scratch());
    let said = crate::world::finish(command);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_ne!(head(&world), merged);
    assert_eq!(std::fs::read_to_string(world.project().join("NOTE")).unwrap(), "noted\n");
    let shown = world.ask(&["show", "last", "--json"]).json();
    assert_eq!(shown["run"]["forked"]["purpose"], "follow_up");
    let verdicts =
        shown["events"].as_array().unwrap().iter().filter(|event| event["line"]["kind"] == "verdict");
    assert_eq!(verdicts.count(), 1, "the criterion of the run before");
    assert!(world.ask(&["show", "last"]).flat().contains(&format!("follows {parent}: Now a note")));
    let asked = world.asked();
    let text = asked.last().unwrap()["messages"].to_string();
    assert!(text.contains("Make the check pass") && text.contains("merged into main"), "{text}");
    world.is_whole();
}

#[test]
fn what_cannot_be_forked_is_told_in_one_line() {
    let world = World::new(MODEL);
    let parent = wrong(&world);
    for (args, code, said) in [
        (vec!["fork", "last", "--at", "99"], 1, "has no step 99"),
        (vec!["fork", "last", "--at", "0"], 1, "has no step 0"),
        (vec!["fork", "last", "--at", "x"], 2, "invalid value"),
        (vec!["fork", "last", " "], 2, "there is nothing to say"),
        (vec!["fork", "zzzzzz"], 1, "there is no run"),
        (vec!["run", "--follow", "zzzzzz", "goal"], 1, "there is no run"),
        (vec!["run", "--follow", "last", "--project", ".", "goal"], 2, "cannot be used with"),
    ] {
        let refused = world.ask(&args);
        assert_eq!(refused.code, Some(code), "{args:?}: {refused:?}");
        assert!(refused.err.contains(said), "{args:?}: {}", refused.err);
    }
    assert_eq!(world.ask(&["runs", "--json"]).json().as_array().unwrap().len(), 1);
    assert_eq!(world.ask(&["cancel", &parent]).code, Some(0));
}

#[test]
fn stop_cuts_what_runs_and_the_run_goes_on_from_there() {
    let scenario = MODEL.replace("seq 1 9000", "touch began; sleep 600");
    let world = World::new(&scenario);
    let run = world.ask(&RUN).out.trim().to_owned();
    until("the command runs", || world.workspace(&run).join("began").exists());
    let said = world.ask(&["stop", &run]);
    assert!(said.code == Some(0) && said.err.contains("what runs is interrupted"), "{said:?}");
    until("the run rests", || status(&world, &run) == "parked");
    let shown = world.ask(&["show", &run]).flat();
    assert!(shown.contains("what runs is interrupted by human:owner"), "{shown}");
    assert_eq!(world.ask(&["resume", &run, "--detach"]).code, Some(0));
    until("it asks", || status(&world, &run) == "waiting");
    let told = world.asked()[1]["messages"].to_string();
    assert!(told.contains("interrupted by the owner"), "{told}");
    assert_eq!(world.ask(&["cancel", &run]).code, Some(0));
    assert_eq!(world.ended(&run).end, "cancelled");
    world.is_whole();
}
