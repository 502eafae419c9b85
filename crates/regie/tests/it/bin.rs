//! The recycle bin: branches that had their time, and what comes back out of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::world::{MEND, World};

const RUN: [&str; 4] = ["run", "Make the check pass", "--done", "sh check.sh"];
/// A home whose branches and bin have no time at all, and whose workspaces go at once.
const NO_TIME: &str = "[keep]\nworkspaces = \"0d\"\nbranches = \"0d\"\n";

/// A run that was cancelled at its gate, with something more in its workspace.
fn cancelled() -> (World, String) {
    let world = World::new(MEND);
    assert_eq!(world.ask(&RUN).code, Some(3));
    let run = world.ask(&["runs", "--json"]).json()[0]["run"].as_str().unwrap().to_owned();
    fs::write(world.workspace(&run).join("untracked"), "not committed\n").unwrap();
    assert_eq!(world.ask(&["cancel", &run]).code, Some(0));
    world.ended(&run);
    (world, run)
}

fn git(dir: &Path, args: &[&str]) -> Option<String> {
    let out = Command::new("git").current_dir(dir).args(args).output().unwrap();
    out.status.success().then(|| String::from_utf8(out.stdout).unwrap())
}

fn tree(world: &World) -> PathBuf {
    fs::read_dir(world.home().join("trees")).unwrap().flatten().next().unwrap().path()
}

fn refs(world: &World) -> String {
    git(&tree(world), &["for-each-ref", "--format=%(refname)"]).unwrap()
}

fn json(world: &World, args: &[&str]) -> Value {
    let said = world.ask(&[args, &["--json"]].concat());
    assert_eq!(said.code, Some(0), "{said:?}");
    said.json()
}

fn set(world: &World, rules: &str) {
    fs::write(world.home().join("config.toml"), rules).unwrap();
}

#[test]
fn a_branch_that_had_its_time_is_in_the_bin_and_comes_back_with_its_files() {
    let (world, run) = cancelled();
    let diff = world.ask(&["diff", &run]).out;
    assert_eq!(json(&world, &["bin", "list"]), Value::Array(vec![]));
    // Young branches stay, and so do those whose workspaces are still there.
    json(&world, &["gc"]);
    set(&world, "[keep]\nbranches = \"0d\"\n");
    json(&world, &["gc"]);
    assert!(refs(&world).contains(&format!("refs/heads/coder/{run}")), "{}", refs(&world));
    set(&world, NO_TIME);
    let dry = json(&world, &["gc", "--dry-run"]);
    assert!(dry["items"].as_array().unwrap().iter().any(|item| item["goes"] == true), "{dry}");
    assert!(refs(&world).contains(&format!("refs/heads/coder/{run}")));
    let swept = json(&world, &["gc"]);
    let branch = swept["items"].as_array().unwrap().iter().find(|item| item["what"] == "branch").unwrap();
    assert_eq!((branch["goes"].as_bool(), branch["name"].as_str()), (Some(true), Some(run.as_str())));
    assert!(!refs(&world).contains("refs/heads/coder/"), "{}", refs(&world));

    let entries = json(&world, &["bin", "list"]);
    assert_eq!(
        (entries[0]["run"].as_str(), entries[0]["what"].as_str()),
        (Some(run.as_str()), Some("branch"))
    );
    assert!(entries[0]["at"].as_u64().unwrap() > 1_700_000_000_000);
    let shown = json(&world, &["bin", "show", &run]);
    let names: Vec<_> = shown["files"].as_array().unwrap().iter().map(|file| file["path"].clone()).collect();
    assert!(names.contains(&"untracked".into()), "{shown}");
    assert_eq!(world.ask(&["diff", &run]).out, diff, "the run is shown as before");
    // A second sweep, within the time of the bin, takes nothing.
    json(&world, &["gc"]);
    assert_eq!(json(&world, &["bin", "list"]), entries);

    let back = json(&world, &["bin", "restore", &run]);
    assert_eq!(back["branch"], format!("restored/{run}"));
    let command = back["command"].as_str().unwrap();
    let typed = Command::new("sh").args(["-c", command]).current_dir(world.project()).output().unwrap();
    assert!(typed.status.success(), "{command}: {typed:?}");
    assert_eq!(fs::read_to_string(world.project().join("untracked")).unwrap(), "not committed\n");
    assert_eq!(json(&world, &["bin", "list"]), Value::Array(vec![]));
    assert_eq!(world.ask(&["diff", &run]).code, Some(0));
    let again = world.ask(&["bin", "restore", &run]);
    assert!(again.code == Some(1) && again.err.contains("nothing in the bin"), "{again:?}");
    // What came back is not swept again.
    json(&world, &["gc"]);
    assert!(refs(&world).contains(&format!("refs/heads/restored/{run}")));
    world.is_whole();
}

#[test]
fn what_has_been_in_the_bin_for_long_goes_and_stays_gone() {
    let (world, run) = cancelled();
    set(&world, NO_TIME);
    json(&world, &["gc"]);
    assert!(refs(&world).contains("refs/regie/bin/"), "{}", refs(&world));
    let nobody = world.ask(&["bin", "empty"]);
    assert_eq!(nobody.code, Some(2), "what goes for good is named: {nobody:?}");
    set(&world, &format!("{NO_TIME}bin = \"0d\"\n"));
    let swept = json(&world, &["gc"]);
    assert!(swept["items"].as_array().unwrap().iter().any(|item| item["what"] == "bin"), "{swept}");
    assert!(!refs(&world).contains(&run), "{}", refs(&world));
    let none = world.ask(&["bin", "restore", &run]);
    assert!(none.code == Some(1) && none.err.contains("nothing in the bin"), "{none:?}");
    json(&world, &["gc"]);
    assert!(!refs(&world).contains(&run), "a later sweep holds nothing of it anew");
    world.is_whole();
}

#[test]
fn emptying_takes_what_is_named_and_nothing_else() {
    let (world, run) = cancelled();
    set(&world, "[keep]\nworkspaces = \"0d\"\n");
    json(&world, &["gc"]);
    let entries = json(&world, &["bin", "list"]);
    assert_eq!(entries[0]["what"], "files", "the branch stands; its workspace held more: {entries}");
    for name in ["run_nobody", "..", "", "a/b"] {
        let refused = world.ask(&["bin", "empty", name]);
        assert!(refused.code != Some(0), "{name:?}: {refused:?}");
    }
    assert_eq!(json(&world, &["bin", "list"]), entries);
    let gone = json(&world, &["bin", "empty", &run]);
    assert_eq!(gone["gone"][0]["run"], run.as_str());
    assert_eq!(json(&world, &["bin", "list"]), Value::Array(vec![]));
    assert!(refs(&world).contains(&format!("refs/heads/coder/{run}")), "the branch stands");
    assert_eq!(world.ask(&["diff", &run]).code, Some(0));
}
