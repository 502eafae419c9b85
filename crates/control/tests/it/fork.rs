//! Forks and follow-ups: another way from a point of a run, and a new mission that knows it.

use control::api::{Fork, Resume, StartMission};
use serde_json::Value;

use crate::world::{World, git};

/// A model that first writes a note, then breaks the sum, unless it is told otherwise.
const MODEL: &str = r#"
[[scenario]]
name = "told"
heard = "use addition"
[[scenario.turn]]
text = "Never asked for."
[[scenario.turn]]
[[scenario.turn.call]]
name = "shell"
input = { command = "cp right.sh sum.sh" }
[[scenario.turn]]
text = "It adds now."

[[scenario]]
name = "next"
heard = "Write a second note"
[[scenario.turn]]
text = "Never asked for."
[[scenario.turn]]
text = "Never asked for."
[[scenario.turn]]
text = "Never asked for."
[[scenario.turn]]
[[scenario.turn.call]]
name = "shell"
input = { command = "cat NOTE; echo second > SECOND" }
[[scenario.turn]]
text = "There are two notes."

[[scenario]]
name = "else"
match = "Write elsewhere"
[[scenario.turn]]
[[scenario.turn.call]]
name = "shell"
input = { command = "echo else > ELSE" }
[[scenario.turn]]
text = "It is written."

[[scenario]]
name = "wrong"
[[scenario.turn]]
text = "A note first."
[[scenario.turn.call]]
name = "shell"
input = { command = "echo noted > NOTE" }
[[scenario.turn]]
text = "Now the sum."
[[scenario.turn.call]]
name = "shell"
input = { command = "echo broken > sum.sh; rm right.sh" }
[[scenario.turn.call]]
name = "shell"
input = { command = "echo twice > TWICE" }
[[scenario.turn]]
text = "I am not sure."
"#;

fn world() -> World {
    World::with(MODEL)
}

/// A run that has gone wrong and asks to be merged: no criterion saw it.
fn wrong(world: &World) -> String {
    let mission = StartMission { done: vec!["true".into()], ..world.mission() };
    world.asked(mission).0
}

fn fork(world: &World, run: &str, at: Option<u64>, words: &str) -> Result<String, control::Error> {
    let wanted = Fork { at, words: words.into(), vendor: world.vendor(), ..Fork::default() };
    world.block(world.control().run_fork(run, wanted)).map(|started| started.run)
}

fn file(world: &World, run: &str, name: &str) -> String {
    std::fs::read_to_string(world.workspace(run).join(name)).unwrap_or_default()
}

/// A value without the marks of the vendor's cache, which move along.
fn unmarked(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, _)| *name != "cache_control");
            kept.map(|(name, value)| (name.clone(), unmarked(value))).collect()
        }
        Value::Array(values) => values.iter().map(unmarked).collect(),
        other => other.clone(),
    }
}

/// With how many messages of the one the other begins.
fn common(one: &Value, other: &Value) -> usize {
    let (one, other) = (one["messages"].as_array().unwrap(), other["messages"].as_array().unwrap());
    one.iter().zip(other).take_while(|(one, other)| unmarked(one) == unmarked(other)).count()
}

#[test]
fn a_fork_goes_another_way_from_the_files_as_they_were() {
    let world = world();
    let parent = wrong(&world);
    let (events, head) = (world.facts(&parent), world.until(&parent, |_| true).head);
    // Step 2 wrote the note; what follows broke the sum.
    let run = fork(&world, &parent, Some(2), "use addition").unwrap();
    let gate = world.gate(&run);
    assert_eq!((file(&world, &run, "NOTE").as_str(), file(&world, &run, "TWICE").as_str()), ("noted\n", ""));
    assert_eq!(file(&world, &run, "sum.sh"), "echo $(($1 + $2))\n");
    let paths: Vec<_> = gate.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["NOTE", "sum.sh"], "what the parent wrote before the fork is part of the proposal");
    // What the parent was sent comes first, message for message.
    let requests = world.model_requests();
    let forked = requests.iter().find(|request| request.to_string().contains("use addition")).unwrap();
    assert_eq!(common(&requests[1], forked), 2);
    let last = forked["messages"].as_array().unwrap().last().unwrap()["content"].clone();
    assert_eq!((&last[0]["type"], &last[1]["type"]), (&"tool_result".into(), &"text".into()));
    // The parent has not moved, and both can be merged.
    assert_eq!((world.facts(&parent), world.until(&parent, |_| true).head), (events, head));
    world.answer(&gate, "approve").unwrap();
    assert_eq!(world.ended(&run).0, "done");
    assert_eq!(std::fs::read_to_string(world.project().join("sum.sh")).unwrap(), "echo $(($1 + $2))\n");
    let shown = world.until(&run, |_| true);
    let origin = shown.forked.unwrap();
    assert_eq!((origin.run, origin.step, origin.purpose.as_str()), (parent.clone(), 2, "fork"));
    assert_eq!(shown.mission, world.until(&parent, |_| true).mission);
    let first = world.block(world.control().run_events(&run, 0, 1)).unwrap().remove(0);
    let title = first.line.unwrap().title;
    assert_eq!(title, format!("forked from {parent} at step 2: Make the check pass"));
    assert!(world.block(world.control().audit_verify()).unwrap().intact);
}

#[test]
fn calls_that_had_no_result_are_made_by_the_fork_itself() {
    let world = world();
    let parent = wrong(&world);
    let before = world.daemon().bare.lines().len();
    // Step 4 is the first of two calls of one answer.
    let run = fork(&world, &parent, Some(4), "").unwrap();
    world.gate(&run);
    assert_eq!(file(&world, &run, "sum.sh"), "broken\n");
    assert_eq!(file(&world, &run, "TWICE"), "twice\n");
    let lines = world.daemon().bare.lines();
    assert_eq!(lines[before..], ["broken | echo twice > TWICE", "broken | true"]);
    let told = fork(&world, &parent, Some(4), "use addition").unwrap();
    let asked = world.model_requests();
    let said = asked.last().unwrap().to_string();
    world.until(&told, |run| run.turns > 0);
    assert!(
        world.model_requests().iter().any(|request| {
            let text = request.to_string();
            text.contains("not run: the owner took another way from here") && text.contains("use addition")
        }),
        "{said}"
    );
    assert_eq!(file(&world, &told, "TWICE"), "");
}

#[test]
fn without_a_step_it_goes_on_from_the_last_result() {
    let world = world();
    let parent = wrong(&world);
    let run = fork(&world, &parent, None, "").unwrap();
    let gate = world.gate(&run);
    assert_eq!(gate.files.len(), 4, "{:?}", gate.files);
    assert_eq!(file(&world, &run, "TWICE"), "twice\n");
    // A fork can be forked, and only its own steps have numbers in it.
    let again = fork(&world, &run, Some(1), "").unwrap();
    world.gate(&again);
    assert_eq!(world.until(&again, |_| true).forked.unwrap().run, run);
}

#[test]
fn a_fork_survives_the_daemon_and_the_move_of_the_line() {
    let mut world = world();
    let parent = wrong(&world);
    world.daemon().bare.hold();
    let run = fork(&world, &parent, Some(2), "use addition").unwrap();
    let started = world.daemon().bare.lines().len();
    world.block(world.daemon().bare.started(started + 1));
    world.restart();
    world.block(world.control().run_resume(&run, Resume { vendor: world.vendor(), record: None })).unwrap();
    let resumed = |run: &control::api::Run| run.status != "active";
    if world.until(&run, resumed).status == "parked" {
        world
            .block(world.control().run_resume(&run, Resume { vendor: world.vendor(), record: None }))
            .unwrap();
    }
    let gate = world.gate(&run);
    assert_eq!(file(&world, &run, "sum.sh"), "echo $(($1 + $2))\n");
    // Another mission moves the line under the proposal: it is checked and asked for again.
    let elsewhere =
        StartMission { goal: "Write elsewhere".into(), done: vec!["true".into()], ..world.mission() };
    let (other, asked) = world.asked(elsewhere);
    world.answer(&asked, "approve").unwrap();
    assert_eq!(world.ended(&other).0, "done");
    world.answer(&gate, "approve").unwrap();
    let again = world.until(&run, |run| run.gates.first().is_some_and(|open| *open != gate.gate));
    let again = world.block(world.control().gate_fetch(&again.gates[0])).unwrap();
    world.answer(&again, "approve").unwrap();
    assert_eq!(world.ended(&run).0, "done");
    let file = |name: &str| std::fs::read_to_string(world.project().join(name)).unwrap();
    assert_eq!((file("ELSE").as_str(), file("sum.sh").as_str()), ("else\n", "echo $(($1 + $2))\n"));
    assert!(world.block(world.control().audit_verify()).unwrap().intact);
}

#[test]
fn the_snapshot_of_a_fork_survives_a_collection_of_what_is_unreachable() {
    let world = world();
    let parent = wrong(&world);
    let run = fork(&world, &parent, Some(2), "").unwrap();
    world.gate(&run);
    let events = world.block(world.control().run_events(&run, 0, 1)).unwrap();
    let snapshot = events[0].fact["forked"]["snapshot"].as_str().unwrap().to_owned();
    let dir = world.tree().git_dir().to_owned();
    git(&dir, &["gc", "-q", "--prune=now"]);
    assert_eq!(git(&dir, &["cat-file", "-t", &snapshot]), "tree");
    // Those that no fork refers to are gone by now, which is said.
    let gone = fork(&world, &parent, Some(4), "").unwrap_err();
    assert_eq!((gone.code, gone.status()), ("fork.files_gone", 409), "{gone:?}");
    assert!(gone.hint.is_some());
}

#[test]
fn what_cannot_be_forked_is_refused_with_the_mend() {
    let world = world();
    world.daemon().bare.hold();
    let mission = StartMission { done: vec!["true".into()], ..world.mission() };
    let young = world.start(mission).unwrap().run;
    world.block(world.daemon().bare.started(1));
    let refused = |run: &str, at, code| {
        let error = fork(&world, run, at, "").unwrap_err();
        assert_eq!(error.code, code, "{error:?}");
        assert!(error.hint.is_some(), "{error:?}");
    };
    refused(&young, Some(2), "fork.no_result");
    refused(&young, Some(0), "fork.no_step");
    refused(&young, Some(99), "fork.no_step");
    refused("zzzz", None, "run.not_found");
    world.daemon().bare.release();
    let gate = world.gate(&young);
    refused(&young, Some(gate.step), "fork.after_merge");
    let long = fork(&world, &young, None, &"x".repeat(70_000)).unwrap_err();
    assert_eq!(long.code, "say.too_long");
    let zero = Fork {
        caps: control::api::CapsWanted { turns: Some(0), ..Default::default() },
        vendor: world.vendor(),
        ..Fork::default()
    };
    let zero = world.block(world.control().run_fork(&young, zero)).unwrap_err();
    assert_eq!(zero.code, "mission.cap_zero");
    let rows = world.block(world.control().run_list(false)).unwrap();
    assert_eq!(rows.len(), 1, "nothing has begun");
    assert_eq!(std::fs::read_dir(world.layout().work).unwrap().count(), 1, "nothing is left behind");
}

/// Every ref of the project's store, with what it holds.
fn refs(world: &World) -> String {
    git(world.tree().git_dir(), &["for-each-ref", "--format=%(refname) %(objectname)"])
}

#[test]
fn what_fails_late_leaves_no_branch_and_no_hold() {
    let world = world();
    let parent = wrong(&world);
    let before = refs(&world);
    // The last thing that is made for a fork is its spool.
    let spool = world.layout().spool;
    let _ = std::fs::remove_dir_all(&spool);
    std::fs::write(&spool, "in the way").unwrap();
    let failed = fork(&world, &parent, Some(2), "use addition").unwrap_err();
    assert_eq!(failed.code, "spool.failed");
    assert_eq!(refs(&world), before);
    assert_eq!(std::fs::read_dir(world.layout().work).unwrap().count(), 1);
    std::fs::remove_file(&spool).unwrap();
    // And a mission whose last part cannot be written.
    world.daemon().artifacts.break_now(true);
    world.start(world.mission()).unwrap_err();
    world.daemon().artifacts.break_now(false);
    assert_eq!(refs(&world), before);
    let run = fork(&world, &parent, Some(2), "use addition").unwrap();
    assert_ne!(refs(&world), before, "one that begins has its branch");
    world.gate(&run);
}

fn follow(world: &World, run: &str) -> Result<control::api::Started, control::Error> {
    let mission = StartMission {
        goal: "Write a second note".into(),
        done: vec!["true".into()],
        follow: Some(run.into()),
        ..world.mission()
    };
    world.start(mission)
}

#[test]
fn a_follow_up_of_what_was_merged_starts_from_the_owners_head_and_knows_the_conversation() {
    let world = world();
    let parent = wrong(&world);
    let open = follow(&world, &parent).unwrap_err();
    assert_eq!((open.code, open.status()), ("follow.run_open", 409));
    assert!(open.hint.unwrap().contains("regie say"));
    world.answer(&world.gate(&parent), "approve").unwrap();
    world.ended(&parent);
    world.write("OTHER", "other\n");
    world.commit("Other");
    let run = follow(&world, &parent).unwrap();
    assert_eq!(run.base, world.git(&["rev-parse", "HEAD"]));
    let gate = world.gate(&run.run);
    assert_eq!(file(&world, &run.run, "OTHER"), "other\n");
    let paths: Vec<_> = gate.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["SECOND"]);
    let asked = world.model_requests();
    let first = asked.iter().find(|request| request.to_string().contains("Write a second note")).unwrap();
    assert_eq!(common(&asked[2], first), asked[2]["messages"].as_array().unwrap().len());
    let said = first["messages"].as_array().unwrap().last().unwrap().to_string();
    assert!(said.contains("That mission is over: done: merged into main"), "{said}");
    assert_ne!(world.until(&run.run, |_| true).mission, world.until(&parent, |_| true).mission);
    world.answer(&gate, "approve").unwrap();
    assert_eq!(world.ended(&run.run).0, "done");
}

#[test]
fn a_follow_up_of_what_was_not_merged_goes_on_from_its_files() {
    let world = world();
    let parent = wrong(&world);
    world.answer(&world.gate(&parent), "refuse").unwrap();
    world.ended(&parent);
    let run = follow(&world, &parent).unwrap();
    let gate = world.gate(&run.run);
    let paths: Vec<_> = gate.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["NOTE", "SECOND", "TWICE", "right.sh", "sum.sh"], "all that would be merged is shown");
    let asked = world.model_requests();
    let first = asked.iter().find(|request| request.to_string().contains("Write a second note")).unwrap();
    let said = first["messages"].as_array().unwrap().last().unwrap().to_string();
    assert!(said.contains("nothing of it was merged") && said.contains("the owner refused it"), "{said}");
    let dirty = StartMission { follow: Some(parent.clone()), dirty: true, ..world.note() };
    assert_eq!(world.start(dirty).unwrap_err().code, "follow.dirty");
    let elsewhere = world.scratch().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    git(&elsewhere, &["init", "-q"]);
    git(&elsewhere, &["commit", "-q", "--allow-empty", "-m", "Other"]);
    let other =
        StartMission { follow: Some(parent), project: elsewhere.display().to_string(), ..world.note() };
    assert_eq!(world.start(other).unwrap_err().code, "follow.other_project");
}
