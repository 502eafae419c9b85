//! Labels: what a run has read, what follows from it, and the answer to who has read a file.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::world::World;

fn call(tool: &str, input: &Value) -> String {
    format!("[[turn]]\n[[turn.call]]\nname = \"{tool}\"\njson = {}\n", json!(input.to_string()))
}

fn read(path: &str) -> String {
    call("read", &json!({ "path": path }))
}

/// Mends the project by file tools alone, after having read these.
fn mends(before: &[&str]) -> String {
    let mut scenario: Vec<String> = before.iter().map(|path| read(path)).collect();
    scenario.push(read("sum.sh"));
    scenario.push(call("edit", &json!({ "path": "sum.sh", "old": "$1 - $2", "new": "$1 + $2" })));
    scenario.push("[[turn]]\ntext = \"The sum is right now.\"\n".into());
    scenario.concat()
}

fn world(scenario: &str) -> World {
    let world = World::new(scenario);
    for (path, text) in [("import/mail.txt", "Dear agent\n"), ("secrets/token", "hunter2\n")] {
        let path = world.project().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    commit(&world);
    world
}

fn commit(world: &World) {
    for args in [&["add", "."][..], &["commit", "-q", "-m", "More files"]] {
        assert!(world.git(args).status.success());
    }
}

fn owner(world: &World, text: &str) {
    fs::create_dir_all(world.home()).unwrap();
    fs::set_permissions(world.home(), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(world.home().join("policy.toml"), text).unwrap();
}

fn mend(world: &World) -> crate::world::Said {
    world.ask(&["run", "Mend the sum", "--done", "sh check.sh", "--yes"])
}

fn reads(world: &World, run: &str) -> Value {
    let said = world.ask(&["audit", "reads", run, "--json"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    said.json()
}

#[test]
fn a_run_that_read_a_strangers_text_and_a_secret_is_merged_by_the_owner_alone() {
    // The criterion has all files before it, the import and the secret among them.
    let world = world(&mends(&["import/mail.txt"]));
    let said = mend(&world);
    assert_eq!(said.code, Some(3), "{said:?}");
    let gate = world.ask(&["gate", "list", "--json"]).json()[0].clone();
    assert!(gate.to_string().contains("rule of two"), "{gate}");

    let manifest = reads(&world, "last");
    assert_eq!(manifest["taint"], json!(["external", "sensitive"]));
    assert_eq!(manifest["read"][0]["what"], json!({ "file": "import/mail.txt" }));
    assert_eq!(manifest["read"][0]["labels"], json!(["external"]));
    assert_eq!(manifest["read"][1]["labels"], json!([]));
    assert!(manifest["read"].as_array().unwrap().iter().any(|entry| entry["what"] == "workspace"));
    let shown = world.ask(&["audit", "reads", "last"]).out;
    assert!(shown.contains("external, sensitive") && shown.contains("import/mail.txt"), "{shown}");
    assert!(world.ask(&["show"]).out.contains("has read  external, sensitive"));

    let gate = gate["gate"].as_str().unwrap();
    assert_eq!(world.ask(&["gate", "approve", gate]).code, Some(0));
    let run = world.ask(&["runs", "--json"]).json()[0]["run"].as_str().unwrap().to_owned();
    world.ended(&run);
    assert_eq!(fs::read_to_string(world.project().join("sum.sh")).unwrap(), "echo $(($1 + $2))\n");
    world.is_whole();
}

#[test]
fn a_run_of_a_project_without_strangers_or_secrets_is_as_before() {
    let world = World::new(&mends(&[]));
    let said = mend(&world);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(reads(&world, "last")["taint"], json!([]));
}

#[test]
fn a_read_is_refused_because_of_what_was_read_before() {
    const RULES: &str = "[labels]\nmarket = \"quotes/**\"\n\n[[rule]]\nname = \"no-mixing\"\nverdict = \"deny\"\n\
        tool = \"read\"\nlabels = \"sensitive\"\ntaint = \"market\"\nreason = \"Secrets and quotes stay apart\"\n\
        match = [{ action = \"read secrets/token\", labels = [\"sensitive\"], taint = [\"market\"] }]\n\
        not_match = [{ action = \"read secrets/token\", labels = [\"sensitive\"] }]\n";
    let scenario =
        [read("secrets/token"), read("quotes/today"), read("secrets/token"), read("sum.sh")].concat();
    let world = world(&format!("{scenario}[[turn]]\ntext = \"I have looked.\"\n"));
    fs::create_dir(world.project().join("quotes")).unwrap();
    fs::write(world.project().join("quotes/today"), "1\n").unwrap();
    commit(&world);
    owner(&world, RULES);
    assert_eq!(world.ask(&["policy", "test"]).code, Some(0));
    assert_eq!(world.ask(&["run", "Look", "--yes"]).code, Some(0));
    let run = world.ask(&["runs", "--json"]).json()[0]["run"].as_str().unwrap().to_owned();
    let events = world.events(&run);
    let denied: Vec<&Value> = events.iter().filter(|event| event["fact"]["fact"] == "step_denied").collect();
    assert_eq!(denied.len(), 1, "the first time it may: {denied:?}");
    assert!(denied[0].to_string().contains("Secrets and quotes stay apart"), "{denied:?}");
    let manifest = reads(&world, &run);
    assert_eq!(manifest["taint"], json!(["market", "sensitive"]));
    assert_eq!(manifest["read"][0]["steps"].as_array().unwrap().len(), 1, "what was denied was not read");
}

#[test]
fn labels_that_make_no_sense_refuse_the_file() {
    let world = World::empty();
    for (text, what) in [
        ("[labels]\nBad = \"a\"\n", "is no label"),
        ("[labels]\nown = 3\n", "expected a text"),
        ("[labels]\nown = \"a[\"\n", "is no pattern"),
        ("[[labels]]\nown = \"a\"\n", "there is no key `labels`"),
    ] {
        owner(&world, text);
        let said = world.ask(&["policy", "test"]);
        assert_eq!(said.code, Some(1), "{said:?}");
        let told = format!("{}{}", said.out, said.err);
        assert!(told.contains(what) && told.contains("policy.toml:"), "{told}");
    }
}

/// The owner's question after a night: who read this, who changed that, under which lease.
#[test]
fn the_audit_says_who_read_a_file_and_who_changed_a_line_under_which_lease() {
    let scenario = [
        call("read", &json!({ "path": "secrets/token" })),
        call("write", &json!({ "path": "check.sh", "content": "true\n" })),
        read("sum.sh"),
        call("edit", &json!({ "path": "sum.sh", "old": "$1 - $2", "new": "$1 + $2" })),
        "[[turn]]\ntext = \"The sum is right now.\"\n".to_owned(),
    ];
    let world = world(&scenario.concat());
    let said = world.ask(&["run", "Mend the sum", "--done", "sh check.sh", "--write", "sum.sh", "--yes"]);
    assert_eq!(said.code, Some(3), "the criterion saw the import: {said:?}");
    let gate = world.ask(&["gate", "list", "--json"]).json()[0]["gate"].as_str().unwrap().to_owned();
    assert_eq!(world.ask(&["gate", "approve", &gate]).code, Some(0));
    let run = world.ask(&["runs", "--json"]).json()[0]["run"].as_str().unwrap().to_owned();
    world.ended(&run);

    let who = |path: &str| world.ask(&["audit", "who-read", path, "--json"]).json();
    let readers = who("secrets/token");
    assert_eq!(readers[0]["how"], "file");
    assert_eq!((&readers[0]["run"], &readers[0]["principal"]), (&json!(run), &json!("agent:coder")));
    assert_eq!(readers[0]["steps"].as_array().unwrap().len(), 1);
    assert_eq!(readers[1]["how"], "workspace", "the criterion may have: {readers}");
    let lease = readers[0]["lease"].as_str().unwrap();
    assert!(lease.starts_with("lease_"), "{readers}");
    let changed = world.ask(&["audit", "who-changed", "sum.sh:1", "--json"]).json();
    assert_eq!(
        (&changed[0]["origin"]["lease"], &changed[0]["origin"]["gate"]),
        (&json!(lease), &json!(gate))
    );
    assert_eq!(who("import/mail.txt")[0]["how"], "workspace");
    assert_eq!(who("no/such/file"), json!([]));
    assert_eq!(world.ask(&["audit", "who-read", "no/such/file"]).out, "no run has read it\n");
    assert_eq!(world.ask(&["audit", "who-read", "../outside"]).code, Some(1));
    let shown = world.ask(&["audit", "who-read", "secrets/token"]).out;
    assert!(shown.contains("read it") && shown.contains(lease), "{shown}");
    let refused = world.ask(&["lease", "show", &run, "--json"]).json();
    assert!(refused["refused"][0]["rule"].as_str().unwrap().contains("`check.sh`"), "{refused}");
    world.is_whole();
}

#[test]
fn a_fork_has_read_what_the_other_run_had_by_then() {
    let scenario = [
        read("import/mail.txt"),
        read("sum.sh"),
        "[[turn]]\ntext = \"I have looked.\"\n".to_owned(),
        "[[turn]]\ntext = \"So have I.\"\n".to_owned(),
    ];
    let world = world(&scenario.concat());
    assert_eq!(world.ask(&["run", "Look", "--yes"]).code, Some(0));
    let first = world.ask(&["runs", "--json"]).json()[0]["run"].as_str().unwrap().to_owned();
    let forked = world.ask(&["fork", &first, "--at", "2", "--yes"]);
    assert_eq!(forked.code, Some(0), "{forked:?}");
    let manifest = reads(&world, "last");
    assert_eq!(manifest["read"][0]["inherited_from"], json!(first), "{manifest}");
    assert_eq!(manifest["taint"], json!(["external"]));
    let readers = world.ask(&["audit", "who-read", "import/mail.txt", "--json"]).json();
    assert_eq!(readers.as_array().unwrap().len(), 1, "the fork asked for nothing itself: {readers}");
}
