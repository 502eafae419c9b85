//! Proposals: merged, asked or refused by the owner's rules; answered together; counted.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::world::{MEND, World};

fn owner(world: &World, text: &str) {
    fs::create_dir_all(world.home()).unwrap();
    fs::set_permissions(world.home(), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(world.home().join("policy.toml"), text).unwrap();
}

fn proposal(world: &World) -> Value {
    let said = world.ask(&["proposal", "show", "last", "--json"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    said.json()[0].clone()
}

const SUMS: &str = "[[rule]]\nname = \"sums\"\nverdict = \"allow\"\ntool = \"merge\"\npaths = \"./sum.sh\"\n\
    lifts = \"merge\"\nmatch = [\"merge sum.sh\"]\nnot_match = [\"merge check.sh\"]\n";

#[test]
fn what_passes_its_checks_is_merged_by_the_owners_rule() {
    let world = World::new(MEND);
    owner(&world, SUMS);
    let said = world.ask(&["run", "Make the check pass", "--done", "sh check.sh"]);
    assert_eq!(said.code, Some(0), "nobody was asked: {said:?}");
    assert_eq!(fs::read_to_string(world.project().join("sum.sh")).unwrap(), "echo $(($1 + $2))\n");
    let shown = proposal(&world);
    assert_eq!((&shown["state"], &shown["gate"]), (&json!("merged"), &Value::Null));
    assert!(shown["rule"].as_str().unwrap().contains("rule \"sums\" in policy.toml:1"), "{shown}");
    assert_eq!(shown["files"][0]["path"], "sum.sh");
    assert_eq!(world.ask(&["proposal", "list"]).err.trim(), "no proposal waits");
    let all = world.ask(&["proposal", "list", "--all", "--json"]).json();
    assert_eq!(all.as_array().unwrap().len(), 1);
    let whose = world.ask(&["audit", "who-changed", "sum.sh:1"]).out;
    assert!(whose.contains("merged by rule") && whose.contains("sums"), "{whose}");
    world.is_whole();
}

#[test]
fn what_no_rule_names_is_asked_all_the_same() {
    let plain = SUMS.split("match = ").next().unwrap();
    for rules in [plain.replace("./sum.sh", "docs/**"), plain.replace("lifts = \"merge\"\n", "")] {
        let world = World::new(MEND);
        owner(&world, &rules);
        let args = ["run", "Make the check pass", "--done", "sh check.sh"];
        let said = world.ask(&args);
        assert_eq!(said.code, Some(3), "{rules}: {said:?}");
        let shown = proposal(&world);
        assert_eq!(shown["state"], "waits");
        assert!(shown["rule"].as_str().unwrap().contains("a merge needs"), "{shown}");
        assert_eq!(world.ask(&["proposal", "list", "--json"]).json()[0]["state"], "waits");
        let gate = world.ask(&["gate", "list", "--json"]).json()[0]["gate"].as_str().unwrap().to_owned();
        assert_eq!(world.ask(&["gate", "refuse", &gate]).code, Some(0));
        world.ended(shown["run"].as_str().unwrap());
        let refused = proposal(&world);
        assert_eq!((&refused["state"], &refused["by"]), (&json!("refused"), &json!("human:owner")));
    }
}

#[test]
fn a_merge_that_a_rule_denies_is_refused_and_says_why() {
    let world = World::new(MEND);
    owner(
        &world,
        "[[rule]]\nname = \"frozen\"\nverdict = \"deny\"\ntool = \"merge\"\npaths = \"sum.sh\"\nreason = \"Frozen until May\"\n",
    );
    let said = world.ask(&["run", "Make the check pass", "--done", "sh check.sh", "--yes"]);
    assert_ne!(said.code, Some(0), "{said:?}");
    let shown = proposal(&world);
    assert_eq!(shown["state"], "denied");
    assert!(shown["rule"].as_str().unwrap().contains("Frozen until May"), "{shown}");
    assert!(fs::read_to_string(world.project().join("sum.sh")).unwrap().contains("$1 - $2"));
    let card = world.ask(&["proposal", "show"]).out;
    assert!(card.contains("denied") && card.contains("sum.sh"), "{card}");
    world.is_whole();
}

#[test]
fn a_run_that_proposed_nothing_says_so() {
    let world = World::new("[[turn]]\ntext = \"I have looked.\"\n");
    assert_eq!(world.ask(&["run", "Look", "--yes"]).code, Some(0));
    let said = world.ask(&["proposal", "show"]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("has proposed no merge"), "{said:?}");
}

/// Questions of one run are answered together, and what leaves the house is not among them.
#[test]
fn gates_are_answered_together_and_counted() {
    let shell = |line: &str| {
        let input = json!({ "command": line }).to_string();
        format!("[[turn.call]]\nname = \"shell\"\njson = {}\n", json!(input))
    };
    let world = World::new(&format!(
        "[[turn]]\n{}{}[[turn]]\ntext = \"Both are done.\"\n",
        shell("echo publish one"),
        shell("echo publish two")
    ));
    owner(&world, "[[rule]]\nname = \"ask\"\nverdict = \"ask\"\ncommand = \"echo publish *\"\n");
    assert_eq!(world.ask(&["run", "Publish"]).code, Some(3));
    let run = world.ask(&["runs", "--json"]).json()[0]["run"].as_str().unwrap().to_owned();
    let mut answered = 0;
    while !world.ask(&["gate", "list", "--json"]).json().as_array().unwrap().is_empty() {
        let said = world.ask(&["gate", "approve", "--run", "last"]);
        assert_eq!(said.code, Some(0), "{said:?}");
        answered += 1;
        assert!(answered < 5, "{said:?}");
        crate::world::until("it asks again or ends", || {
            let waits = !world.ask(&["gate", "list", "--json"]).json().as_array().unwrap().is_empty();
            waits || world.ask(&["runs", "--json"]).json()[0]["end"].is_string()
        });
    }
    world.ended(&run);
    let report = world.ask(&["gate", "report", "--json"]).json();
    let expected = json!({ "asked": 2, "approved": 2, "refused": 0, "expired": 0, "waiting": 0 });
    for (name, number) in expected.as_object().unwrap() {
        assert_eq!(&report["all"][name], number, "{name}: {report}");
    }
    assert_eq!((&report["by"][0]["tool"], &report["too_frequent"]), (&json!("shell"), &Value::Null));
    assert!(report["by"][0]["rule"].as_str().unwrap().contains("\"ask\""), "{report}");
    let shown = world.ask(&["gate", "report"]).out;
    assert!(shown.contains("APPROVED") && shown.contains("shell"), "{shown}");
    assert_eq!(world.ask(&["gate", "report", "--since", "0s"]).code, Some(0));
    let nothing = world.ask(&["gate", "approve", "--run", "last"]);
    assert_eq!(nothing.code, Some(1));
    assert!(nothing.err.contains("no gate of this run waits"), "{nothing:?}");
    // Twice, and by nobody.
    let gate = world.ask(&["gate", "list", "--all", "--json"]).json()[0]["gate"].as_str().unwrap().to_owned();
    assert_eq!(world.ask(&["gate", "refuse", &gate]).code, Some(1));
    assert_eq!(world.ask(&["gate", "approve"]).code, Some(2));
}
