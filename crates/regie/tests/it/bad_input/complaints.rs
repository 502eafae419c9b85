//! What users of agents report most, where no other test here has it. CONTRIBUTING has the whole table.

use serde_json::{Value, json};

use crate::world::{MEND, World, until};

use super::{results, start};

/// A model that makes these calls, a turn for each, and then mends the sum.
fn calling(calls: &[(&str, Value)]) -> World {
    let turns: String = calls
        .iter()
        .map(|(name, input)| {
            format!("[[turn]]\n[[turn.call]]\nname = {name:?}\njson = {:?}\n", input.to_string())
        })
        .collect();
    World::new(&format!("{turns}{}", MEND.replacen("name = \"mend\"", "", 1)))
}

/// What a vendor insists on: each tool use has its result in the very next message, and nothing else has.
#[track_caller]
fn is_taken_by_a_vendor(request: &Value) {
    let ids = |message: Option<&Value>, kind: &str, key: &str| -> Vec<String> {
        let blocks = message.and_then(|message| message["content"].as_array()).cloned().unwrap_or_default();
        let of_kind = blocks.iter().filter(|block| block["type"] == kind);
        of_kind.map(|block| block[key].as_str().unwrap().to_owned()).collect()
    };
    let messages = request["messages"].as_array().unwrap();
    for (at, message) in messages.iter().enumerate() {
        let used = ids(Some(message), "tool_use", "id");
        let answered = ids(messages.get(at + 1), "tool_result", "tool_use_id");
        assert_eq!(used, answered, "message {at}: {request}");
    }
}

/// A model whose first command never ends by itself.
fn stuck() -> World {
    calling(&[("shell", json!({ "command": "touch begun; while [ ! -e go ]; do sleep 0.01; done" }))])
}

fn begun(world: &World) -> String {
    let run = start(world, &["--yes"]);
    let mark = world.workspace(&run).join("begun");
    until("the command begins", || mark.exists());
    run
}

#[test]
fn an_interruption_leaves_no_call_without_its_result() {
    let world = stuck();
    let run = begun(&world);
    assert_eq!(world.ask(&["say", &run, "--now", "Leave that."]).code, Some(0));
    assert_eq!(world.ended(&run).end, "done");
    world.asked().iter().for_each(is_taken_by_a_vendor);
    assert!(world.asked().len() > 3);
}

#[test]
fn a_crash_in_a_call_leaves_none_either() {
    let world = stuck();
    let run = begun(&world);
    let daemon = world.daemon().unwrap();
    rustix::process::kill_process(daemon, rustix::process::Signal::KILL).unwrap();
    std::fs::write(world.workspace(&run).join("go"), "").unwrap();
    until("it is resumed", || {
        let said = world.ask(&["resume", &run, "--detach"]);
        said.code == Some(0) || world.ask(&["show", &run, "--json"]).out.contains("\"ended\"")
    });
    until("it ends", || {
        world.ask(&["resume", &run, "--detach"]);
        world.ask(&["show", &run, "--json"]).out.contains("\"status\":\"ended\"")
    });
    assert_eq!(world.ended(&run).end, "done");
    world.asked().iter().for_each(is_taken_by_a_vendor);
    world.is_whole();
}

#[test]
fn a_character_that_comes_in_two_pieces_is_one() {
    let split = "printf 'gr\\303'; sleep 0.3; printf '\\274n\\n'";
    // An odd prefix puts every cut of a long output into the middle of a character.
    let long = "printf x; yes '数字' | head -c 300000";
    let world = calling(&[("shell", json!({ "command": split })), ("shell", json!({ "command": long }))]);
    super::mended(&world);
    let asked = world.asked();
    assert_eq!(results(&asked[1]), [(false, "grün\n".to_owned())]);
    let (_, text) = results(&asked[2]).pop().unwrap();
    assert!(text.starts_with("x数字\n") && text.contains("bytes left out"), "{}", &text[..200]);
    // What is cut is cut between characters, but for the one that the command itself broke off.
    assert!(text.matches('\u{fffd}').count() <= 1, "{text}");
}

#[test]
fn an_edit_of_a_file_that_changed_meanwhile_is_refused() {
    let world = calling(&[
        ("read", json!({ "path": "sum.sh" })),
        ("shell", json!({ "command": "echo '# another hand' >> sum.sh" })),
        ("edit", json!({ "path": "sum.sh", "old": "$1 - $2", "new": "$1 * $2" })),
        ("write", json!({ "path": "sum.sh", "content": "gone\n" })),
        ("shell", json!({ "command": "cat sum.sh; echo 'echo $(($1 - $2))' > sum.sh" })),
    ]);
    super::mended(&world);
    let asked = world.asked();
    for at in [3, 4] {
        let (is_error, text) = results(&asked[at]).pop().unwrap();
        assert!(is_error && text.contains("changed"), "{text}");
    }
    let (_, kept) = results(&asked[5]).pop().unwrap();
    assert!(kept.contains("# another hand") && kept.contains("$1 - $2"), "{kept}");
}

#[test]
fn a_server_in_the_background_holds_nothing_up_and_does_not_outlive_its_step() {
    let mark = "735186309";
    let command = format!("sh -c 'while :; do sleep {mark}; done' & echo started; exit 0");
    let world = calling(&[("shell", json!({ "command": command }))]);
    super::mended(&world);
    assert_eq!(results(&world.asked()[1]), [(false, "started\n".to_owned())]);
    assert_eq!(crate::world::alive(mark), Vec::<String>::new());
}

#[test]
fn what_the_repository_brings_along_is_not_started() {
    let world = World::new(MEND);
    let ran = world.scratch().join("ran");
    let touch = format!("touch {}", ran.display());
    let put = |path: &str, text: &str| {
        let path = world.project().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    put(
        ".mcp.json",
        &json!({ "mcpServers": { "x": { "command": "sh", "args": ["-c", touch] } } }).to_string(),
    );
    put(".husky/post-merge", &format!("#!/bin/sh\n{touch}\n"));
    put(".envrc", &format!("{touch}\n"));
    put(".gitattributes", "*.sh filter=evil diff=evil merge=evil\n");
    for args in [
        &["config", "core.hooksPath", ".husky"][..],
        &["config", "filter.evil.clean", &touch],
        &["config", "filter.evil.smudge", &touch],
        &["config", "core.fsmonitor", &touch],
    ] {
        assert!(world.git(args).status.success());
    }
    // The owner's own commands would run what is configured; these do not.
    assert!(
        world
            .git(&[
                "-c",
                "core.hooksPath=/dev/null",
                "-c",
                "filter.evil.clean=cat",
                "-c",
                "core.fsmonitor=false",
                "add",
                "."
            ])
            .status
            .success()
    );
    assert!(
        world
            .git(&[
                "-c",
                "core.hooksPath=/dev/null",
                "-c",
                "filter.evil.clean=cat",
                "-c",
                "core.fsmonitor=false",
                "commit",
                "-q",
                "-m",
                "Traps"
            ])
            .status
            .success()
    );
    let _ = std::fs::remove_file(&ran);
    std::fs::create_dir(world.home()).unwrap();
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(world.home(), std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::write(world.home().join("config.toml"), "[delivery]\nhooks = true\n").unwrap();
    let run = start(&world, &["--yes"]);
    let ended = world.ended(&run);
    assert_eq!(ended.end, "done", "{ended:?}");
    assert!(!ran.exists(), "something of the repository's was started: {ended:?}");
    world.is_whole();
}
