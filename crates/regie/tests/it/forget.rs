//! `regie forget`: what a run was about is in no file of the home any more, and the record still holds.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::world::World;

/// Words that only this run has: in the goal, in what the model says, in files and in outputs.
const MARK: &str = "zanzibarquartz";
const MODEL: &str = r#"
[[scenario]]
name = "marked"
heard = "zanzibarquartz"
[[scenario.turn]]
text = "I look for zanzibarquartz."
[[scenario.turn.call]]
name = "shell"
input = { command = "seq 1 9000 | sed s/^/zanzibarquartz/; echo zanzibarquartz > secret" }
[[scenario.turn]]
text = "I mend it."
[[scenario.turn.call]]
name = "shell"
input = { command = "sed -i 's/-/+/' sum.sh" }
[[scenario.turn]]
text = "The zanzibarquartz is there."

[[scenario]]
name = "other"
[[scenario.turn]]
text = "I mend it."
[[scenario.turn.call]]
name = "shell"
input = { command = "sed -i 's/-/+/' sum.sh" }
[[scenario.turn]]
text = "The sum is right."
"#;

fn json(world: &World, args: &[&str]) -> Value {
    let said = world.ask(&[args, &["--json"]].concat());
    assert_eq!(said.code, Some(0), "{said:?}");
    said.json()
}

/// A run that has the mark, cancelled at its gate.
fn marked() -> (World, String) {
    let world = World::new(MODEL);
    let said = world.ask(&["run", &format!("Find the {MARK}"), "--done", "sh check.sh"]);
    assert_eq!(said.code, Some(3), "{said:?}");
    let run = json(&world, &["runs"])[0]["run"].as_str().unwrap().to_owned();
    assert_eq!(world.ask(&["cancel", &run]).code, Some(0));
    world.ended(&run);
    (world, run)
}

/// Files below a directory whose bytes have the mark.
fn having(dir: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            having(&path, found);
        } else if kind.is_file() {
            let bytes = fs::read(&path).unwrap_or_default();
            if bytes.windows(MARK.len()).any(|window| window == MARK.as_bytes()) {
                found.push(path.display().to_string());
            }
        }
    }
}

/// Where the mark is: in files, and in objects of git, which are compressed.
fn marks(world: &World) -> Vec<String> {
    let mut found = Vec::new();
    having(&world.home(), &mut found);
    for tree in fs::read_dir(world.home().join("trees")).unwrap().flatten() {
        let batch = ["cat-file", "--batch", "--batch-all-objects"];
        let out = Command::new("git").arg("--git-dir").arg(tree.path()).args(batch).output().unwrap();
        assert!(out.status.success(), "{out:?}");
        if out.stdout.windows(MARK.len()).any(|window| window == MARK.as_bytes()) {
            found.push("an object of git".into());
        }
    }
    found
}

#[test]
fn nothing_of_a_forgotten_run_is_left_in_the_home() {
    let (world, run) = marked();
    let other = world.ask(&["run", "Make the check pass", "--done", "sh check.sh", "--yes"]);
    assert_eq!(other.code, Some(0), "{other:?}");
    assert!(!json(&world, &["search", MARK]).as_array().unwrap().is_empty());
    let before = marks(&world);
    for place in ["regie.db", "artifacts", "work", "an object of git"] {
        assert!(before.iter().any(|found| found.contains(place)), "{place}: {before:?}");
    }

    let dry = json(&world, &["forget", &run, "--dry-run"]);
    assert_eq!((dry["dry_run"].as_bool(), dry["runs"][0]["run"].as_str()), (Some(true), Some(run.as_str())));
    assert!(dry["runs"][0]["artifacts"].as_u64().unwrap() > 0, "{dry}");
    assert_eq!(marks(&world), before, "a preview takes nothing");
    let unasked = world.ask(&["forget", &run]);
    assert_eq!((unasked.code, marks(&world)), (Some(2), before), "nobody was asked: {unasked:?}");

    let gone = world.ask(&["forget", &run, "--yes"]);
    assert_eq!(gone.code, Some(0), "{gone:?}");
    assert_eq!(marks(&world), Vec::<String>::new(), "{gone:?}");
    let audit = world.ask(&["audit", "verify"]);
    assert!(audit.code == Some(0) && audit.out.contains("contents erased"), "{audit:?}");
    let sought = world.ask(&["search", MARK]);
    assert!(sought.code == Some(1) && !sought.out.contains(MARK), "{sought:?}");
    assert!(!json(&world, &["search", "right"]).as_array().unwrap().is_empty(), "others are still found");
    // That it ran is still there to be looked at, and everything else works.
    let shown = json(&world, &["runs"]);
    assert!(shown.as_array().unwrap().iter().any(|one| one["run"] == run && one["goal"] == "(forgotten)"));
    for look in
        [vec!["runs"], vec!["show", &run], vec!["log", &run], vec!["costs"], vec!["gc"], vec!["bin", "list"]]
    {
        let said = world.ask(&look);
        assert_eq!(said.code, Some(0), "{look:?}: {said:?}");
    }
    let again = world.ask(&["forget", &run, "--yes"]);
    assert!(again.code == Some(1) && again.err.contains("forgotten already"), "{again:?}");
    world.is_whole();
}

#[test]
fn what_others_go_on_from_is_kept_until_they_go_too() {
    let (world, run) = marked();
    let forked = world.ask(&["fork", &run, "Look again", "--at", "1"]);
    assert_eq!(forked.code, Some(3), "{forked:?}");
    let fork = json(&world, &["runs"])[0]["run"].as_str().unwrap().to_owned();
    assert_ne!(fork, run);
    let refused = world.ask(&["forget", &run, "--yes"]);
    assert!(refused.code == Some(1) && refused.err.contains(&fork), "{refused:?}");
    let open = world.ask(&["forget", &run, "--with-forks", "--yes"]);
    assert!(open.code == Some(1) && open.err.contains("has not ended"), "{open:?}");
    assert_eq!(world.ask(&["cancel", &fork]).code, Some(0));
    world.ended(&fork);
    let gone = json(&world, &["forget", &run, "--with-forks", "--yes"]);
    assert_eq!(gone["runs"].as_array().unwrap().len(), 2, "{gone}");
    assert_eq!(marks(&world), Vec::<String>::new());
    world.is_whole();
}

#[test]
fn what_is_not_there_is_told_in_a_line() {
    let world = World::empty();
    for (name, what) in [("run_nothing", "there is no run"), ("last", "there is no run")] {
        let said = world.ask(&["forget", name, "--yes"]);
        assert!(said.code == Some(1) && said.err.contains(what), "{said:?}");
    }
}
