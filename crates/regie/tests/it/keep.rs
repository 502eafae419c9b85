//! What lies in the home, and cleaning up without losing anything.

use std::fs;

use serde_json::Value;

use crate::world::{MEND, World, until};

const RUN: [&str; 4] = ["run", "Make the check pass", "--done", "sh check.sh"];

/// A run that was cancelled at its gate, before or after somebody went on in its workspace.
fn cancelled(touch: impl FnOnce(&std::path::Path)) -> (World, String) {
    let world = World::new(MEND);
    assert_eq!(world.ask(&RUN).code, Some(3));
    let run = world.ask(&["runs", "--json"]).json()[0]["run"].as_str().unwrap().to_owned();
    touch(&world.workspace(&run));
    assert_eq!(world.ask(&["cancel", &run]).code, Some(0));
    world.ended(&run);
    (world, run)
}

fn swept(world: &World, more: &[&str]) -> Value {
    let said = world.ask(&[&["gc", "--json"], more].concat());
    assert_eq!(said.code, Some(0), "{said:?}");
    said.json()
}

fn of<'a>(swept: &'a Value, what: &str) -> Vec<&'a Value> {
    swept["items"].as_array().unwrap().iter().filter(|item| item["what"] == what).collect()
}

/// A file as it stays in Regie's git directory.
fn left(world: &World, run: &str, path: &str) -> Option<String> {
    let trees = fs::read_dir(world.home().join("trees")).unwrap();
    let tree = trees.flatten().next().unwrap().path();
    let shown = std::process::Command::new("git")
        .arg("--git-dir")
        .arg(tree)
        .args(["show", &format!("refs/regie/left/{run}:{path}")])
        .output()
        .unwrap();
    shown.status.success().then(|| String::from_utf8(shown.stdout).unwrap())
}

#[test]
fn worktree_clean_up_never_deletes_dirty_or_untracked_work() {
    let (world, run) = cancelled(|workspace| {
        fs::write(workspace.join("check.sh"), "dirty\n").unwrap();
        fs::create_dir(workspace.join("new")).unwrap();
        fs::write(workspace.join("new/untracked"), "not committed\n").unwrap();
        fs::remove_file(workspace.join("sum.sh")).unwrap();
    });
    let before = world.ask(&["diff", &run]).out;
    let young = swept(&world, &[]);
    assert_eq!(of(&young, "workspace").len(), 0, "{young}");
    let dry = swept(&world, &["--older-than", "0d", "--dry-run"]);
    assert_eq!(of(&dry, "workspace")[0]["goes"], true, "{dry}");
    assert!(world.workspace(&run).exists() && left(&world, &run, "new/untracked").is_none());

    let gone = swept(&world, &["--older-than", "0d"]);
    assert_eq!(of(&gone, "workspace")[0]["goes"], true, "{gone}");
    assert!(!world.home().join("work").join(&run).exists());
    assert_eq!(left(&world, &run, "check.sh").as_deref(), Some("dirty\n"));
    assert_eq!(left(&world, &run, "new/untracked").as_deref(), Some("not committed\n"));
    assert_eq!(left(&world, &run, "sum.sh"), None);
    assert_eq!(world.ask(&["diff", &run]).out, before, "what was proposed is shown as before");
    let again = swept(&world, &["--older-than", "0d"]);
    assert_eq!(of(&again, "workspace").len(), 0, "{again}");
    world.is_whole();
}

#[test]
fn worktree_clean_up_never_deletes_unpushed_work() {
    let (world, run) = cancelled(|workspace| {
        let nested = workspace.join("nested");
        fs::create_dir(&nested).unwrap();
        fs::write(nested.join("file"), "x").unwrap();
        for args in [
            &["init", "-q"][..],
            &["add", "."],
            &["-c", "user.name=A", "-c", "user.email=a@b", "commit", "-q", "-m", "Only here"],
        ] {
            let git = std::process::Command::new("git").args(args).current_dir(&nested).output().unwrap();
            assert!(git.status.success(), "{git:?}");
        }
    });
    let swept = swept(&world, &["--older-than", "0d"]);
    let item = of(&swept, "workspace")[0];
    assert_eq!(item["goes"], false, "{item}");
    assert!(item["note"].as_str().unwrap().contains("nested/.git"), "{item}");
    assert!(world.workspace(&run).join("nested/.git/HEAD").exists());
}

#[test]
fn what_a_run_did_before_its_first_checkpoint_is_shown_when_its_workspace_is_gone() {
    let world = World::new(MEND);
    assert_eq!(world.ask(&RUN).code, Some(3));
    let before = world.ask(&["diff", "last"]).out;
    assert!(before.contains("+echo $(($1 + $2))"), "{before}");
    let said = world.ask(&["run", "Once more", "--done", "false", "--max-turns", "1"]);
    assert!(said.code != Some(0), "{said:?}");
    let run = world.ask(&["runs", "--json"]).json()[0]["run"].as_str().unwrap().to_owned();
    fs::write(world.workspace(&run).join("late"), "work\n").unwrap();
    let before = world.ask(&["diff", &run]).out;
    assert!(before.contains("+work"), "{before}");
    swept(&world, &["--older-than", "0d"]);
    assert!(!world.workspace(&run).exists());
    assert_eq!(world.ask(&["diff", &run]).out, before);
}

#[test]
fn a_run_that_has_not_ended_is_never_touched() {
    let world = World::new(MEND);
    assert_eq!(world.ask(&RUN).code, Some(3));
    let run = world.ask(&["runs", "--json"]).json()[0]["run"].as_str().unwrap().to_owned();
    let spool = world.home().join("spool").join(&run);
    for what in ["waits at its gate", "is parked"] {
        let swept = swept(&world, &["--older-than", "0d"]);
        assert!(world.workspace(&run).exists() && spool.exists(), "{what}: {swept}");
        assert_eq!(of(&swept, "workspace").len() + of(&swept, "spool").len(), 0, "{what}: {swept}");
        world.ask(&["stop", &run]);
    }
    assert_eq!(world.ask(&["cancel", &run]).code, Some(0));
    world.ended(&run);
    until("the spool goes right after the end", || !spool.exists());
    assert!(world.workspace(&run).exists(), "the workspace stays for its time");
}

/// A crash after the rename leaves a directory that is nobody's workspace any more.
#[test]
fn a_crash_in_the_middle_is_harmless() {
    let (world, run) = cancelled(|_| {});
    let work = world.home().join("work");
    swept(&world, &["--older-than", "0d"]);
    let kept = left(&world, &run, "sum.sh");
    fs::create_dir_all(work.join(format!(".gone-{run}/tree"))).unwrap();
    let swept = swept(&world, &["--older-than", "0d"]);
    assert_eq!(of(&swept, "left_over").len(), 1, "{swept}");
    assert_eq!(fs::read_dir(&work).unwrap().count(), 0);
    assert_eq!(left(&world, &run, "sum.sh"), kept, "half a workspace was not recorded over the whole");
}

#[test]
fn artifacts_go_when_nothing_refers_to_them_and_nothing_else_does() {
    let (world, run) = cancelled(|_| {});
    let artifacts = world.home().join("artifacts");
    let all = || {
        let dirs = fs::read_dir(&artifacts).unwrap().flatten().filter(|dir| dir.file_name() != "tmp");
        let files = dirs.flat_map(|dir| fs::read_dir(dir.path()).unwrap().flatten());
        let mut paths: Vec<_> = files.map(|file| file.path()).collect();
        paths.sort();
        paths
    };
    let named = all();
    let stray = artifacts.join("ab").join("c".repeat(62));
    fs::create_dir_all(stray.parent().unwrap()).unwrap();
    fs::write(&stray, "nobody's").unwrap();
    swept(&world, &["--older-than", "0d"]);
    assert!(stray.exists(), "what was just put may not be on record yet");
    let old = fs::metadata(&stray).unwrap().modified().unwrap() - std::time::Duration::from_secs(200_000);
    for path in all() {
        fs::File::options().append(true).open(path).unwrap().set_modified(old).unwrap();
    }
    let swept = swept(&world, &["--older-than", "0d"]);
    assert_eq!(of(&swept, "artifacts").len(), 1, "{swept}");
    assert_eq!(all(), named);
    assert_eq!(world.ask(&["show", &run]).code, Some(0));
}

#[test]
fn du_says_what_takes_how_much() {
    let (world, run) = cancelled(|workspace| fs::write(workspace.join("big"), vec![7; 300_000]).unwrap());
    let usage = world.ask(&["du", "--json"]).json();
    let parts: u64 =
        usage["parts"].as_array().unwrap().iter().map(|part| part["bytes"].as_u64().unwrap()).sum();
    assert_eq!(usage["bytes"], parts);
    let of_run = &usage["runs"][0];
    assert_eq!(of_run["run"], run.as_str());
    assert!(
        of_run["work"].as_u64().unwrap() > 300_000 && of_run["artifacts"].as_u64().unwrap() > 0,
        "{usage}"
    );
    assert!(usage["projects"][0]["tree"].as_u64().unwrap() > 0, "{usage}");
    // The objects that came by links are no room that Regie takes.
    assert!(usage["projects"][0]["shared"].as_u64().unwrap() > 0, "{usage}");
    let shown = world.ask(&["du"]);
    for word in ["journal", "PROJECT", "ARTIFACTS", "Make the check pass"] {
        assert!(shown.out.contains(word), "{}", shown.out);
    }
}
