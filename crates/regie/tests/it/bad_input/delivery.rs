//! What the owner does meanwhile is never lost: the branch is left alone, and one command takes the
//! merge over.

use std::process::Command;

use crate::world::{Ended, MEND, World, finish, until};

use super::{RUN, start};

/// Runs a mission to its gate, lets the owner do something, approves, and gives the end.
#[track_caller]
fn approved_after(world: &World, meanwhile: impl FnOnce()) -> Ended {
    assert_eq!(world.ask(&RUN).code, Some(3));
    meanwhile();
    let gate = world.ask(&["gate", "list", "--json"]).json()[0].clone();
    assert_eq!(world.ask(&["gate", "approve", gate["gate"].as_str().unwrap()]).code, Some(0));
    let ended = world.ended(gate["run"].as_str().unwrap());
    world.is_whole();
    ended
}

/// The command that the reason names works as it is printed.
#[track_caller]
fn taken_over(world: &World, ended: &Ended) {
    assert_eq!(ended.end, "done", "{ended:?}");
    assert!(ended.reason.contains("your branch was left alone"), "{ended:?}");
    let command = ended.reason.split_once("take it over with `").unwrap().1.split_once('`').unwrap().0;
    assert!(ended.shown.contains("git fetch"), "`regie show` prints it: {ended:?}");
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(world.project()).env("GIT_EDITOR", "true");
    let said = finish(shell);
    assert_eq!(said.code, Some(0), "{command}: {said:?}");
    assert_eq!(std::fs::read_to_string(world.project().join("sum.sh")).unwrap(), "echo $(($1 + $2))\n");
}

fn commit(world: &World, name: &str, content: &str) {
    std::fs::write(world.project().join(name), content).unwrap();
    assert!(world.git(&["add", "."]).status.success());
    assert!(world.git(&["commit", "-q", "-m", name]).status.success());
}

fn head(world: &World) -> Vec<u8> {
    world.git(&["rev-parse", "main"]).stdout
}

#[test]
fn the_branch_has_moved() {
    let world = World::new(MEND);
    let ended = approved_after(&world, || commit(&world, "mine", "mine\n"));
    assert!(ended.reason.contains("has commits that are not in Regie's line"), "{ended:?}");
    assert_eq!(world.git(&["log", "-1", "--format=%s", "main"]).stdout, b"mine\n");
    assert_eq!(std::fs::read_to_string(world.project().join("sum.sh")).unwrap(), "echo $(($1 - $2))\n");
    taken_over(&world, &ended);
    assert!(world.project().join("mine").exists());
}

#[test]
fn the_checkout_is_dirty_where_the_merge_would_write() {
    let world = World::new(MEND);
    let before = head(&world);
    let ended =
        approved_after(&world, || std::fs::write(world.project().join("sum.sh"), "# half done\n").unwrap());
    assert!(ended.reason.contains("sum.sh"), "{ended:?}");
    assert_eq!(std::fs::read_to_string(world.project().join("sum.sh")).unwrap(), "# half done\n");
    assert_eq!(head(&world), before);
    assert!(world.git(&["stash"]).status.success());
    taken_over(&world, &ended);
}

#[test]
fn the_checkout_is_on_another_branch() {
    let world = World::new(MEND);
    let before = head(&world);
    let ended = approved_after(&world, || {
        assert!(world.git(&["switch", "-q", "-c", "other"]).status.success());
    });
    assert!(ended.reason.contains("the checkout is on `other`"), "{ended:?}");
    assert_eq!(head(&world), before);
    assert!(world.git(&["switch", "-q", "main"]).status.success());
    taken_over(&world, &ended);
}

#[test]
fn a_hook_of_the_owner_is_not_run_and_not_changed() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new(MEND);
    let ran = world.scratch().join("ran");
    let hook = format!("#!/bin/sh\ntouch {}\n", ran.display());
    for name in ["pre-commit", "post-merge", "post-checkout", "reference-transaction", "post-index-change"] {
        let path = world.project().join(".git/hooks").join(name);
        std::fs::write(&path, &hook).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    super::mended(&world);
    assert!(!ran.exists());
    assert_eq!(std::fs::read_to_string(world.project().join(".git/hooks/pre-commit")).unwrap(), hook);
}

/// Two models on one repository, told apart by their goals.
fn two(first: &str, second: &str) -> World {
    let scenario = |goal: &str, call: &str| {
        format!(
            "[[scenario]]\nmatch = {goal:?}\n[[scenario.turn]]\n[[scenario.turn.call]]\nname = \"shell\"\n\
             input = {{ command = {call:?} }}\n{}",
            // It gives no definition of done, however often it is asked for one.
            "[[scenario.turn]]\ntext = \"Done.\"\n".repeat(3)
        )
    };
    World::new(&format!("{}{}", scenario("the first", first), scenario("the second", second)))
}

/// Brings both missions to their gates, approves both, and gives their ends.
fn both(world: &World) -> [Ended; 2] {
    let goals = ["Do the first thing", "Do the second thing"];
    let runs = goals.map(|goal| {
        let said = world.ask(&["run", goal]);
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
fn is_sound(world: &World) {
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
    let world = two("echo 1 > same", "echo 2 > same");
    let [first, second] = both(&world);
    assert_eq!(first.end, "done", "{first:?}");
    assert_eq!(second.end, "partial", "{second:?}");
    assert!(second.reason.contains("the merge was not made: conflicts in same"), "{second:?}");
    assert!(second.reason.contains("keeps the work at"), "{second:?}");
    assert_eq!(std::fs::read_to_string(world.project().join("same")).unwrap(), "1\n");
    is_sound(&world);
}

#[test]
fn two_missions_at_the_same_time() {
    let world = two("echo 1 > first", "echo 2 > second");
    let begin = |goal| {
        let said = world.ask(&["run", goal, "--yes", "--detach"]);
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
