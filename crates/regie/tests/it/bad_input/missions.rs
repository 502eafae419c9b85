//! Several missions in one repository at once: all of them come to their merges, conflicts go back to their
//! agents, and what is judged is what is merged.

use crate::world::{Ended, MEND, World, until};

use super::start;

/// Models on one repository, told apart by their goals: each runs its commands one after another, and
/// says that it is done after each.
fn models(goals: &[(&str, &[&str])]) -> World {
    let scenario = |(goal, commands): &(&str, &[&str])| {
        let turns: String = commands
            .iter()
            .map(|command| {
                format!(
                    "[[scenario.turn]]\n[[scenario.turn.call]]\nname = \"shell\"\ninput = {{ command = {command:?} }}\n\
                     [[scenario.turn]]\ntext = \"Done.\"\n"
                )
            })
            .collect();
        format!("[[scenario]]\nmatch = {goal:?}\n{turns}")
    };
    World::new(&goals.iter().map(scenario).collect::<String>())
}

/// Two of them, with one command each.
fn two(first: &str, second: &str) -> World {
    models(&[("the first", &[first]), ("the second", &[second])])
}

/// Brings both missions to their gates, approves both, and gives their ends.
fn both(world: &World) -> [Ended; 2] {
    let goals = ["Do the first thing", "Do the second thing"];
    let runs = goals.map(|goal| {
        let said = world.ask(&["run", goal, "--done", "true"]);
        assert_eq!(said.code, Some(3), "{said:?}");
        world.ask(&["runs", "--json"]).json()[0]["run"].as_str().unwrap().to_owned()
    });
    runs.map(|run| approved_until_ended(world, &run))
}

/// Approves whatever a run asks: a proposal to a line that has moved is asked about again.
#[track_caller]
fn approved_until_ended(world: &World, run: &str) -> Ended {
    until("the run ends", || {
        let gates = world.ask(&["gate", "list", "--json"]).json();
        for gate in gates.as_array().unwrap().iter().filter(|gate| gate["run"] == run) {
            // It may have been taken back since it was listed.
            world.ask(&["gate", "approve", gate["gate"].as_str().unwrap()]);
        }
        world.ask(&["show", run, "--json"]).out.contains("\"ended\"")
    });
    world.ended(run)
}

/// The repository is sound, and clean.
#[track_caller]
pub(super) fn is_sound(world: &World) {
    assert!(world.git(&["fsck", "--strict"]).status.success());
    assert_eq!(world.git(&["status", "--porcelain"]).stdout, b"");
    world.is_whole();
}

#[test]
fn two_missions_that_get_on_are_both_merged() {
    let world = two("echo 1 > first", "echo 2 > second");
    let ends = both(&world);
    assert!(ends.iter().all(|ended| ended.end == "done"), "{ends:?}");
    assert!(world.project().join("first").exists() && world.project().join("second").exists());
    is_sound(&world);
}

#[test]
fn two_missions_in_conflict() {
    let world = models(&[
        ("the first", &["echo 1 > same"]),
        ("the second", &["echo 2 > same", "cat same; printf '1\\n2\\n' > same"]),
    ]);
    let [first, second] = both(&world);
    assert_eq!((first.end.as_str(), second.end.as_str()), ("done", "done"), "{first:?} {second:?}");
    let seen: String = world.asked().iter().map(|request| request["messages"].to_string()).collect();
    assert!(seen.contains("<<<<<<< ") && seen.contains("these hold both versions"), "{seen}");
    assert_eq!(std::fs::read_to_string(world.project().join("same")).unwrap(), "1\n2\n");
    is_sound(&world);
}

#[test]
fn a_conflict_that_the_agent_leaves() {
    // Commands of its own each time: an agent that repeats itself is stopped for that.
    let again = ["true 1", "true 2", "true 3", "true 4", "true 5", "true 6", "true 7"];
    let second: Vec<&str> = ["echo 2 > same"].iter().chain(&again).copied().collect();
    let world = models(&[("the first", &["echo 1 > same"]), ("the second", &second)]);
    let [first, second] = both(&world);
    assert_eq!(first.end, "done", "{first:?}");
    assert_eq!(second.end, "partial", "{second:?}");
    assert!(second.reason.contains("the merge was not made: conflicts in same"), "{second:?}");
    assert!(second.reason.contains("keeps the work at"), "{second:?}");
    assert_eq!(std::fs::read_to_string(world.project().join("same")).unwrap(), "1\n");
    is_sound(&world);
}

#[test]
fn three_missions_at_once_one_in_conflict() {
    // Each waits for the others, so that all three start from the same commit.
    let hold = |command: &str| format!("while [ ! -e go ]; do sleep 0.01; done; rm go; {command}");
    let (first, second, third) =
        (hold("echo 1 > same"), hold("echo 2 > other"), hold("echo 3 > same; echo 3 > third"));
    // Whoever comes second to `same` is told, and keeps both; who comes first never gets there.
    let both = "sort -n same | grep -v '[<=>]' > tmp; mv tmp same";
    let world =
        models(&[("the first", &[&first, both]), ("the second", &[&second]), ("the third", &[&third, both])]);
    let runs = ["the first", "the second", "the third"].map(|goal| {
        let said = world.ask(&["run", &format!("Do {goal} thing"), "--done", "true", "--yes", "--detach"]);
        assert_eq!(said.code, Some(0), "{said:?}");
        said.out.trim_end().to_owned()
    });
    for run in &runs {
        std::fs::write(world.workspace(run).join("go"), "").unwrap();
    }
    for run in &runs {
        let ended = world.ended(run);
        assert_eq!(ended.end, "done", "{ended:?}");
        assert!(ended.reason.starts_with("merged into main as"), "{ended:?}");
    }
    let read = |name: &str| std::fs::read_to_string(world.project().join(name)).unwrap();
    assert_eq!(
        (read("same").as_str(), read("other").as_str(), read("third").as_str()),
        ("1\n3\n", "2\n", "3\n")
    );
    let merges = world.git(&["log", "--first-parent", "--format=%s", "main"]).stdout;
    assert_eq!(String::from_utf8(merges).unwrap().matches("Merge: Do the").count(), 3);
    is_sound(&world);
}

/// What a criterion says counts for what is merged, not for what the agent had in front of it.
#[test]
fn criteria_are_judged_on_what_the_merge_gives() {
    // Each alone is well under the limit of three files; both together are not.
    let world = models(&[("the first", &["touch a b"]), ("the second", &["touch c d", "rm d"])]);
    let done = ["--done", "test $(ls | grep -c '^[a-d]$') -le 3"];
    let runs = ["the first", "the second"].map(|goal| {
        let said = world.ask(&[&["run", &format!("Do {goal} thing")], &done[..]].concat());
        assert_eq!(said.code, Some(3), "{said:?}");
        world.ask(&["runs", "--json"]).json()[0]["run"].as_str().unwrap().to_owned()
    });
    for run in runs {
        let ended = approved_until_ended(&world, &run);
        assert_eq!(ended.end, "done", "{ended:?}");
    }
    let there = ["a", "b", "c", "d"].map(|name| world.project().join(name).exists());
    assert_eq!(there, [true, true, true, false]);
    let told = world.asked().iter().map(|request| request["messages"].to_string()).collect::<String>();
    assert!(told.contains("Others have merged changes while you worked"), "{told}");
    is_sound(&world);
}

#[test]
fn two_missions_at_the_same_time() {
    let world = two("echo 1 > first", "echo 2 > second");
    let begin = |goal| {
        let said = world.ask(&["run", goal, "--done", "true", "--yes", "--detach"]);
        assert_eq!(said.code, Some(0), "{said:?}");
        said.out.trim_end().to_owned()
    };
    let runs = [begin("Do the first thing"), begin("Do the second thing")];
    let ends = runs.map(|run| world.ended(&run));
    assert!(ends.iter().all(|ended| ended.end == "done"), "{ends:?}");
    assert!(world.project().join("first").exists() && world.project().join("second").exists());
    is_sound(&world);
}

#[test]
fn a_mission_on_a_branch_that_another_one_moved() {
    let world = World::new(MEND);
    super::mended(&world);
    // The next one starts from what the first one has left.
    let run = start(&world, &["--yes"]);
    let ended = world.ended(&run);
    assert_eq!(ended.end, "done", "{ended:?}");
    world.is_whole();
}
