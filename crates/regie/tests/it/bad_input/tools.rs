//! Tool calls that make no sense, and commands that do not behave: the model gets a result that it can
//! act on, and its next turn does.

use std::os::unix::fs::symlink;
use std::path::Path;

use crate::world::{MEND, World, alive};

use super::{mended, results};

/// A world whose model makes these calls (the name, and the input as JSON) in its first turn and then
/// mends the sum.
fn calling(calls: &[(&str, &str)]) -> World {
    let mut turn = String::from("[[turn]]\n");
    for (name, input) in calls {
        turn.push_str(&format!("[[turn.call]]\nname = {name:?}\njson = {input:?}\n"));
    }
    World::new(&format!("{turn}{}", MEND.replacen("name = \"mend\"", "", 1)))
}

/// Runs the mission, and gives what the model got back for the calls of its first turn.
#[track_caller]
fn answers(world: &World) -> Vec<(bool, String)> {
    mended(world);
    results(&world.asked()[1])
}

/// The single call comes back as an error with these parts.
#[track_caller]
fn refused(name: &str, input: &str, parts: &[&str]) {
    let world = calling(&[(name, input)]);
    let answers = answers(&world);
    let [(true, text)] = answers.as_slice() else { panic!("no error: {answers:?}") };
    for part in parts {
        assert!(text.contains(part), "no `{part}`: {text}");
    }
}

/// A shell command comes back with this output.
#[track_caller]
fn shell(command: &str) -> (World, bool, String) {
    let world = calling(&[("shell", &serde_json::json!({ "command": command }).to_string())]);
    let mut answers = answers(&world);
    let (is_error, text) = answers.pop().unwrap();
    (world, is_error, text)
}

#[test]
fn invalid_json_as_input() {
    refused("read", r#"{"path": "su"#, &["JSON"]);
}

#[test]
fn an_input_that_is_no_object() {
    refused("read", r#"["sum.sh"]"#, &["object"]);
}

#[test]
fn an_unknown_tool() {
    refused("frobnicate", "{}", &["there is no tool `frobnicate`", "read, list, search, edit, write, shell"]);
}

#[test]
fn an_input_of_the_wrong_type() {
    refused("read", r#"{"path": 3}"#, &["input of `read` is wrong", "expected a string", "\"required\""]);
}

#[test]
fn an_input_with_a_field_that_is_not_there() {
    refused("shell", r#"{"cmd": "true"}"#, &["input of `shell` is wrong", "cmd", "\"command\""]);
}

#[test]
fn a_link_out_of_the_workspace() {
    let calls = [
        ("read", r#"{"path": "link"}"#),
        ("edit", r#"{"path": "link", "old": "secret", "new": "mine"}"#),
        ("write", r#"{"path": "link", "content": "mine"}"#),
        ("read", r#"{"path": "dir/secret"}"#),
        ("write", r#"{"path": "dir/new", "content": "mine"}"#),
        ("read", r#"{"path": "../../../project/outside"}"#),
        ("search", r#"{"pattern": "secret", "path": "dir"}"#),
        ("list", r#"{"path": "dir"}"#),
    ];
    let world = calling(&calls);
    let outside = world.scratch().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "the secret\n").unwrap();
    symlink(outside.join("secret"), world.project().join("link")).unwrap();
    symlink(&outside, world.project().join("dir")).unwrap();
    assert!(world.git(&["add", "."]).status.success());
    assert!(world.git(&["commit", "-q", "-m", "Links"]).status.success());

    let answers = answers(&world);
    assert_eq!(answers.len(), calls.len());
    for ((name, input), (is_error, text)) in calls.iter().zip(&answers) {
        assert!(is_error, "{name} {input}: {text}");
        assert!(text.contains("workspace"), "{name} {input}: {text}");
        assert!(!text.contains("the secret"), "{name} {input}: {text}");
    }
    assert_eq!(std::fs::read_to_string(outside.join("secret")).unwrap(), "the secret\n");
    assert!(!outside.join("new").exists());
}

#[test]
fn a_link_that_the_agent_makes() {
    let secret = tempfile::tempdir().unwrap();
    let file = secret.path().join("secret");
    std::fs::write(&file, "the secret\n").unwrap();
    let command = format!("ln -s {} made", file.display());
    let world = calling(&[
        ("shell", &serde_json::json!({ "command": command }).to_string()),
        ("read", r#"{"path": "made"}"#),
    ]);
    // A link out of the tree is asked about; this owner lets it pass.
    crate::export::write_rules(&world, "[export]\nallow = [\"link_out\"]\n");
    let answers = answers(&world);
    assert!(!answers[0].0 && answers[1].0, "{answers:?}");
    // It is delivered as the link that it is: nobody followed it.
    assert_eq!(std::fs::read_link(world.project().join("made")).unwrap(), file);
    let blob = world.git(&["cat-file", "-p", "main:made"]).stdout;
    assert_eq!(blob, file.as_os_str().as_encoded_bytes());
}

#[test]
fn a_child_that_keeps_the_outputs_open() {
    let mark = "735186301";
    let (_world, is_error, text) = shell(&format!("sleep {mark} & (setsid sleep {mark} &) ; echo started"));
    assert_eq!((is_error, text.as_str()), (false, "started\n"));
    assert_eq!(alive(mark), Vec::<String>::new());
}

#[test]
fn a_command_that_reads_its_input() {
    let (_world, is_error, text) = shell("cat; read line || echo \"nothing to read\"");
    assert_eq!((is_error, text.as_str()), (false, "nothing to read\n"));
}

#[test]
fn a_gigabyte_of_output() {
    let (world, is_error, text) =
        shell("echo the beginning; head -c 1G /dev/zero | tr '\\0' 'x'; echo; echo the end");
    assert!(!is_error && text.len() < 40_000, "{} bytes", text.len());
    assert!(text.starts_with("the beginning\n") && text.ends_with("the end\n"), "{} bytes", text.len());
    assert!(text.contains("bytes left out"));
    let home = size(&world.home());
    assert!(home < 64 << 20, "the home has grown to {home} bytes");
}

/// The bytes of the files below a directory.
fn size(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).unwrap().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => size(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    });
    sizes.sum()
}
