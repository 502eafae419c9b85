//! What a run starts from: HEAD, or the working tree; and the ignored files that come with it.

use std::fs;

use serde_json::json;

use crate::world::{MEND, World};

const RUN: [&str; 4] = ["run", "Make the check pass", "--done", "sh check.sh"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&RUN, more].concat()
}

#[test]
fn the_working_tree_is_taken_along_and_the_gate_says_so() {
    let world = World::new(MEND);
    fs::write(world.project().join("own.txt"), "not committed\n").unwrap();
    let before = world.git(&["rev-parse", "main"]).stdout;
    let said = world.ask(&with(&["--dirty"]));
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(said.err.contains("starts from your working tree"), "{}", said.err);
    assert!(said.err.contains("with") && said.err.contains("your uncommitted changes"), "{}", said.err);
    assert!(said.err.contains("own.txt"), "{}", said.err);
    let gates = world.ask(&["gate", "list", "--json"]).json();
    assert_eq!(gates[0]["request"]["uncommitted"], json!(["own.txt"]), "{gates}");
    assert_eq!(gates[0]["files"].as_array().unwrap().len(), 1, "the agent's own changes: {gates}");
    assert_eq!(world.git(&["rev-parse", "main"]).stdout, before);
    assert_eq!(world.git(&["status", "--porcelain"]).stdout, b"?? own.txt\n");

    // Nothing has changed meanwhile, so nothing can be lost.
    let gate = gates[0]["gate"].as_str().unwrap();
    assert_eq!(world.ask(&["gate", "approve", gate]).code, Some(0));
    let run = gates[0]["run"].as_str().unwrap();
    let ended = world.ended(run);
    assert_eq!(ended.end, "done", "{ended:?}");
    assert_eq!(world.git(&["status", "--porcelain"]).stdout, b"");
    assert_eq!(world.git(&["show", "HEAD:own.txt"]).stdout, b"not committed\n");

    // What was the owner's own stays when the merge is undone.
    assert_eq!(world.ask(&["undo", run, "--yes"]).code, Some(0));
    assert_eq!(fs::read_to_string(world.project().join("sum.sh")).unwrap(), "echo $(($1 - $2))\n");
    assert_eq!(fs::read_to_string(world.project().join("own.txt")).unwrap(), "not committed\n");
    world.is_whole();
}

#[test]
fn changes_made_meanwhile_are_left_alone_with_the_exact_command() {
    let world = World::new(MEND);
    fs::write(world.project().join("own.txt"), "as it was\n").unwrap();
    assert_eq!(world.ask(&with(&["--dirty"])).code, Some(3));
    fs::write(world.project().join("own.txt"), "as it is\n").unwrap();
    let gates = world.ask(&["gate", "list", "--json"]).json();
    assert_eq!(world.ask(&["gate", "approve", gates[0]["gate"].as_str().unwrap()]).code, Some(0));
    let ended = world.ended(gates[0]["run"].as_str().unwrap());
    assert!(ended.reason.contains("your branch was left alone"), "{ended:?}");
    let command = ended.reason.split('`').find(|part| part.starts_with("git stash")).unwrap();
    assert_eq!(fs::read_to_string(world.project().join("own.txt")).unwrap(), "as it is\n");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", command]).current_dir(world.project());
    let typed = crate::world::finish(shell);
    assert_eq!(typed.code, Some(0), "`{command}`: {typed:?}");
    assert_eq!(fs::read_to_string(world.project().join("sum.sh")).unwrap(), "echo $(($1 + $2))\n");
}

#[test]
fn head_is_the_default_and_says_what_it_leaves_out() {
    let world = World::new(MEND);
    fs::write(world.project().join("own.txt"), "not committed\n").unwrap();
    let said = world.ask(&with(&["--yes"]));
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(
        said.err.contains("left out (--dirty takes them along)") && said.err.contains("own.txt"),
        "{}",
        said.err
    );
    assert_eq!(world.git(&["status", "--porcelain"]).stdout, b"?? own.txt\n");
}

#[test]
fn included_files_serve_commands_and_values_are_not_shown() {
    let call = |tool: &str, input: serde_json::Value| {
        format!("[[turn]]\n[[turn.call]]\nname = {tool:?}\njson = {}\n", json!(input.to_string()))
    };
    let scenario = [
        call("shell", json!({ "command": "test \"$(cat .env.test)\" = KEY=hidden-1 && echo usable" })),
        call("read", json!({ "path": "./.env.test" })),
        call("search", json!({ "pattern": "hidden", "path": ".env.test" })),
        call("write", json!({ "path": ".env.test", "content": "x" })),
        call("read", json!({ "path": "fixtures/data" })),
        call("shell", json!({ "command": "echo > .gitignore" })),
        call("search", json!({ "pattern": "hidden" })),
        "[[turn]]\ntext = \"Looked.\"\n".to_owned(),
    ];
    let world = World::new(&scenario.concat());
    fs::write(world.project().join(".gitignore"), ".env.test\nfixtures\n").unwrap();
    fs::write(world.project().join(".worktreeinclude"), ".env.test\nfixtures\n").unwrap();
    for args in [&["add", "."][..], &["commit", "-q", "-m", "Rules"]] {
        assert!(world.git(args).status.success());
    }
    fs::write(world.project().join(".env.test"), "KEY=hidden-1\n").unwrap();
    fs::create_dir(world.project().join("fixtures")).unwrap();
    fs::write(world.project().join("fixtures/data"), "plain fixture\n").unwrap();
    let said = world.ask(&["run", "Look around", "--done", "true", "--yes"]);
    // That the values are no longer ignored is asked about.
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(said.err.contains(".gitignore (guard)"), "{}", said.err);
    let gate = world.ask(&["gate", "list", "--json"]).json()[0]["gate"].as_str().unwrap().to_owned();
    assert_eq!(world.ask(&["gate", "approve", &gate]).code, Some(0));
    assert_eq!(world.ended("last").end, "done");
    let seen = world.asked().last().unwrap()["messages"].to_string();
    assert!(seen.contains("usable") && seen.contains("plain fixture"), "{seen}");
    assert_eq!(seen.matches("values of the owner's environment").count(), 3, "{seen}");
    assert!(!seen.contains("KEY=hidden-1\\n") && !seen.contains(":KEY="), "{seen}");
    let merged = world.git(&["ls-tree", "-r", "--name-only", "HEAD"]).stdout;
    assert!(!String::from_utf8(merged).unwrap().contains(".env.test"));
}
