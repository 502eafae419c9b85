//! Who changed a line: what the record says, whatever a commit says of itself.

use std::fs;

use serde_json::Value;

use crate::world::{MEND, World};

fn changed(world: &World, place: &str) -> Value {
    let said = world.ask(&["audit", "who-changed", place, "--json"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    said.json()
}

#[test]
fn a_line_leads_to_its_run_its_lease_and_who_approved_it() {
    let world = World::new(MEND);
    assert_eq!(world.ask(&["run", "Make the check pass", "--done", "sh check.sh"]).code, Some(3));
    let run = world.ask(&["runs", "--json"]).json()[0].clone();
    let before = changed(&world, "sum.sh:1");
    assert_eq!(
        (before[0]["by"].as_str(), &before[0]["origin"]),
        (Some("Owner"), &Value::Null),
        "not merged yet"
    );
    let gate = world.ask(&["gate", "list", "--json"]).json()[0]["gate"].as_str().unwrap().to_owned();
    assert_eq!(world.ask(&["gate", "approve", &gate]).code, Some(0));
    world.ended(run["run"].as_str().unwrap());

    let found = changed(&world, "sum.sh:1");
    let origin = &found[0]["origin"];
    assert_eq!(origin["run"], run["run"]);
    assert_eq!(
        (origin["principal"].as_str(), origin["on_behalf_of"].as_str()),
        (Some("agent:coder"), Some("human:owner"))
    );
    assert!(origin["lease"].as_str().unwrap().starts_with("lease_"), "{origin}");
    assert_eq!(origin["gate"], gate.as_str());
    assert_eq!(origin["approved_by"], "human:owner");
    let shown = world.ask(&["audit", "who-changed", "sum.sh:1"]).out;
    assert!(shown.contains(&gate) && shown.contains("approved by human:owner"), "{shown}");
    let owners = changed(&world, "check.sh");
    assert_eq!((owners[0]["lines"].as_u64(), &owners[0]["origin"]), (Some(1), &Value::Null));
    world.is_whole();
}

#[test]
fn a_forged_trailer_is_nobodys_word() {
    let world = World::new(MEND);
    let said = world.ask(&["run", "Make the check pass", "--done", "sh check.sh", "--yes"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let run = world.ask(&["runs", "--json"]).json()[0]["run"].as_str().unwrap().to_owned();
    let merged = changed(&world, "sum.sh");
    assert!(merged[0]["origin"]["rule"].is_string() && merged[0]["origin"]["gate"].is_null(), "{merged}");
    let told = world.git(&["log", "-1", "--format=%B", "HEAD^2"]);
    let told = String::from_utf8(told.stdout).unwrap();
    let trailers = told.trim().rsplit("\n\n").next().unwrap();
    assert!(trailers.contains(&format!("Regie-Run: {run}")), "{told}");
    // Somebody copies them onto a commit of their own.
    fs::write(world.project().join("planted"), "evil\n").unwrap();
    assert!(world.git(&["add", "."]).status.success());
    assert!(world.git(&["commit", "-q", "-m", &format!("Plant\n\n{trailers}")]).status.success());
    // The next mission brings the owner's branch into the line.
    world.ask(&["run", "Once more", "--done", "false", "--max-turns", "1"]);
    let found = changed(&world, "planted:1");
    assert_eq!((&found[0]["origin"], found[0]["subject"].as_str()), (&Value::Null, Some("Plant")));
    assert_eq!(changed(&world, "sum.sh")[0]["origin"]["run"], run.as_str());
}

#[test]
fn a_place_that_is_none_is_refused() {
    let world = World::new(MEND);
    let before = world.ask(&["audit", "who-changed", "sum.sh"]);
    assert!(before.code == Some(1) && before.err.contains("no line"), "{before:?}");
    assert_eq!(world.ask(&["run", "Make the check pass", "--done", "sh check.sh"]).code, Some(3));
    for place in [
        "none",
        "sum.sh:2",
        "sum.sh:99999999999999999999",
        ".",
        "../home/regie.db",
        "/etc/passwd",
        "sum.sh/x",
        ":1",
    ] {
        let said = world.ask(&["audit", "who-changed", place]);
        assert_eq!(said.code, Some(1), "{place}: {said:?}");
    }
}
