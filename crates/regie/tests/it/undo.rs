//! `regie undo`: what was merged can be taken back, once.

use crate::world::{MEND, World};

fn merged() -> World {
    let world = World::new(MEND);
    let said = world.ask(&["run", "Make the check pass", "--done", "sh check.sh", "--yes"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    world
}

fn head(world: &World) -> String {
    String::from_utf8(world.git(&["rev-parse", "main"]).stdout).unwrap().trim().to_owned()
}

#[test]
fn a_merge_is_taken_back_once_and_says_whose_it_was() {
    let world = merged();
    let merge = head(&world);
    let unasked = world.ask(&["undo", "last"]);
    assert_eq!((unasked.code, head(&world)), (Some(2), merge.clone()), "nobody was asked: {unasked:?}");

    let said = world.ask(&["undo", "last", "--yes", "--json"]).json();
    assert_eq!(said["merge"], merge.as_str());
    assert_eq!(said["delivered"]["delivery"], "fast_forwarded");
    assert_eq!(said["commit"], head(&world).as_str());
    let file = std::fs::read_to_string(world.project().join("sum.sh")).unwrap();
    assert_eq!(file, "echo $(($1 - $2))\n");
    let message = String::from_utf8(world.git(&["log", "-1", "--format=%B"]).stdout).unwrap();
    assert!(message.contains(&format!("Regie-Undoes: {merge}")), "{message}");
    assert_eq!(world.git(&["status", "--porcelain"]).stdout, b"");

    let again = world.ask(&["undo", "last", "--yes"]);
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(again.err.contains("undone already"), "{}", again.err);
    world.is_whole();
}

#[test]
fn a_mission_is_undone_by_its_id_and_a_changed_checkout_is_left_alone() {
    let world = merged();
    std::fs::write(world.project().join("sum.sh"), "echo mine\n").unwrap();
    let runs = world.ask(&["runs", "--json"]).json();
    let mission = runs[0]["mission"].as_str().unwrap();
    let said = world.ask(&["undo", mission, "--yes"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.contains("your branch was left alone"), "{said:?}");
    assert!(said.err.contains("git fetch "), "{said:?}");
    assert_eq!(std::fs::read_to_string(world.project().join("sum.sh")).unwrap(), "echo mine\n");
}

#[test]
fn what_merged_nothing_or_is_unknown_is_refused() {
    let world = World::new(MEND);
    assert_eq!(world.ask(&["run", "Make the check pass", "--done", "sh check.sh"]).code, Some(3));
    let open = world.ask(&["undo", "last", "--yes"]);
    assert!(open.code == Some(1) && open.err.contains("has not ended"), "{open:?}");
    assert_eq!(world.ask(&["cancel", "last"]).code, Some(0));
    world.ask(&["log", "last", "--follow"]);
    let nothing = world.ask(&["undo", "last", "--yes"]);
    assert!(nothing.code == Some(1) && nothing.err.contains("merged nothing"), "{nothing:?}");
    let unknown = world.ask(&["undo", "mission_00000000000000000000000000", "--yes"]);
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
}
