//! Authority and audit together: leases that take in no more than some labels, what a gate says of what was read, and
//! one agent under a narrow lease from its first refusal to the audit's last answer.

use std::fs;

use serde_json::{Value, json};

use crate::world::{World, until};

fn call(tool: &str, input: &Value) -> String {
    format!("[[turn]]\n[[turn.call]]\nname = \"{tool}\"\njson = {}\n", json!(input.to_string()))
}

fn done() -> String {
    "[[turn]]\ntext = \"I have looked.\"\n".into()
}

fn commit(world: &World, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = world.project().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    for args in [&["add", "-f", "."][..], &["commit", "-q", "-m", "A project"]] {
        assert!(world.git(args).status.success());
    }
}

fn last_run(world: &World) -> String {
    world.ask(&["runs", "--json"]).json()[0]["run"].as_str().unwrap().to_owned()
}

fn gates(world: &World) -> Vec<Value> {
    world.ask(&["gate", "list", "--json"]).json().as_array().unwrap().clone()
}

fn told(world: &World) -> String {
    world.asked().iter().map(Value::to_string).collect()
}

#[test]
fn a_run_that_may_see_nothing_labelled_reads_the_rest() {
    let looks = [
        call("read", &json!({ "path": "secrets/key" })),
        call("search", &json!({ "pattern": "hunter" })),
        call("shell", &json!({ "command": "cat secrets/../secrets/k*" })),
        call("read", &json!({ "path": "sum.sh" })),
        done(),
    ]
    .concat();
    let world = World::new(&[looks.clone(), looks].concat());
    commit(&world, &[("secrets/key", "hunter2\n")]);
    let said = world.ask(&["run", "Look around", "--sees", "none", "--yes"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.err.contains("nothing that has a label"), "{said:?}");
    let first = last_run(&world);
    let lease = world.ask(&["lease", "show", &first, "--json"]).json();
    assert_eq!((&lease["sees"], lease["refused"].as_array().unwrap().len()), (&json!([]), 3), "{lease}");
    assert!(lease["refused"][2]["rule"].as_str().unwrap().contains("what is sensitive"), "{lease}");
    assert!(world.ask(&["lease", "show", &first]).flat().contains("sees nothing that has a label"));
    let read = world.ask(&["audit", "reads", &first, "--json"]).json();
    assert_eq!((&read["taint"], read["read"].as_array().unwrap().len()), (&json!([]), 1), "{read}");

    // Who goes on from it is held to the same.
    world.ask(&["run", "Look again", "--follow", &first, "--yes"]);
    let second = last_run(&world);
    assert_eq!(world.ask(&["lease", "show", &second, "--json"]).json()["sees"], json!([]));
    let told = told(&world);
    assert!(told.contains("$1 - $2") && !told.contains("hunter2"), "{told}");
    // A narrower one cannot see more, and a label that is none is refused.
    let wider = world.ask(&["lease", "narrow", &second, "--sees", "sensitive"]);
    assert_ne!(wider.code, Some(0), "{wider:?}");
    let said = world.ask(&["run", "Look", "--sees", "Secret"]);
    assert!(said.code != Some(0) && said.err.contains("is no label"), "{said:?}");
    world.is_whole();
}

#[test]
fn a_gate_says_what_the_run_has_read_that_has_a_label() {
    let scenario = [
        call("read", &json!({ "path": "import/mail.txt" })),
        call("read", &json!({ "path": "sum.sh" })),
        call("write", &json!({ "path": "out.txt", "content": "x\n" })),
        done(),
    ];
    let world = World::new(&scenario.concat());
    commit(&world, &[("import/mail.txt", "Dear agent\n")]);
    let said = world.ask(&["run", "Answer the mail", "--done", "true"]);
    assert_eq!(said.code, Some(3), "{said:?}");
    let gate = gates(&world)[0]["gate"].as_str().unwrap().to_owned();
    let read = world.ask(&["gate", "show", &gate, "--json"]).json()["read"].clone();
    assert_eq!((&read["files"], &read["taint"][0]["label"]), (&json!(2), &json!("external")), "{read}");
    assert_eq!(read["taint"][0]["of"][0], "import/mail.txt", "{read}");
    let card = world.ask(&["gate", "show", &gate]).flat();
    assert!(
        card.contains("has read what is external: import/mail.txt") && card.contains("2 files, 1 command"),
        "{card}"
    );
    assert_eq!(world.ask(&["gate", "approve", &gate]).code, Some(0));
    assert_eq!(world.ended("last").end, "done");
    world.is_whole();
}

#[test]
fn a_narrow_lease_its_proposal_and_what_the_audit_says_of_all() {
    let scenario = [
        call("write", &json!({ "path": "check.sh", "content": "true\n" })),
        call("read", &json!({ "path": "sum.sh" })),
        call("edit", &json!({ "path": "sum.sh", "old": "$1 - $2", "new": "$1 + $2" })),
        done(),
    ];
    let world = World::new(&scenario.concat());
    let lease = ["--write", "sum.sh", "--tools", "read,edit,write", "--sees", "none"];
    let said = world.ask(&[&["run", "Mend the sum", "--done", "sh check.sh"][..], &lease].concat());
    assert_eq!(said.code, Some(3), "{said:?}");
    let run = last_run(&world);
    // Refused outside of the lease, asked for the merge.
    let lease = world.ask(&["lease", "show", &run, "--json"]).json();
    assert!(lease["refused"][0]["rule"].as_str().unwrap().contains("`check.sh`"), "{lease}");
    let gate = gates(&world)[0].clone();
    assert_eq!((gate["tool"].as_str(), gate["files"][0]["path"].as_str()), (Some("merge"), Some("sum.sh")));
    assert_eq!(world.ask(&["gate", "approve", gate["gate"].as_str().unwrap()]).code, Some(0));
    assert_eq!(world.ended(&run).end, "done");

    // Who read this file, who changed this line, under which lease, and who let it in.
    let readers = world.ask(&["audit", "who-read", "sum.sh", "--json"]).json();
    assert_eq!((&readers[0]["run"], &readers[0]["how"]), (&json!(run), &json!("file")), "{readers}");
    assert_eq!(readers[1]["how"], "workspace", "the criterion has all of it: {readers}");
    let changed = world.ask(&["audit", "who-changed", "sum.sh:1", "--json"]).json();
    let origin = &changed[0]["origin"];
    assert_eq!((&origin["run"], &origin["gate"]), (&json!(run), &gate["gate"]));
    assert_eq!((&readers[0]["lease"], &lease["lease"]), (&origin["lease"], &origin["lease"]));
    assert_eq!(
        (&origin["approved_by"], &readers[0]["principal"]),
        (&json!("human:owner"), &json!("agent:coder"))
    );
    until("its lease has ended with it", || {
        world.ask(&["lease", "show", &run, "--json"]).json()["state"] == "expired"
    });
    world.is_whole();
}
