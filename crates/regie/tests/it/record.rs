//! A mission that is recorded, and replayed where nothing of it is left.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use domain::Digest;
use models::Wire;
use serde_json::Value;
use testkit::script::Options;

use crate::world::{MEND, Said, World, finish, until};

const SECRETS: [&str; 3] = ["sk-scripted", "0123456789abcdefABCDEF0123456789abcd", "t0k-en/of\\\"tests"];

fn model(wire: Wire) -> &'static str {
    match wire {
        Wire::Messages => "scripted-small",
        Wire::Responses => "openai/scripted-small",
        Wire::Chat => "local/scripted-small",
    }
}

/// The owner's home, whose path must not be seen.
fn owners_home(world: &World) -> PathBuf {
    let home = world.scratch().join("homes").join("zoe-the-owner");
    fs::create_dir_all(&home).unwrap();
    home
}

fn dir(world: &World) -> PathBuf {
    world.scratch().join("recording")
}

/// A command that knows the wire's server, with a home of its own.
fn regie(world: &World, wire: Wire, args: &[&str]) -> Command {
    let mut command = world.regie_on(wire, "", args);
    if wire == Wire::Chat {
        command.env(wire.key_env(), "sk-scripted");
    }
    command.env("HOME", owners_home(world)).env("TOKEN_OF_TESTS", "t0k-en/of\\\"tests");
    command
}

/// A world whose scenario names the owner's home, and whose project gives a token to steps.
fn world(scenario: &str) -> World {
    let scratch = tempfile::tempdir().unwrap();
    let home = scratch.path().canonicalize().unwrap().join("homes").join("zoe-the-owner");
    let world = World::at(scratch, &scenario.replace("HOME_DIR", home.to_str().unwrap()));
    fs::DirBuilder::new().mode(0o700).create(world.home()).unwrap();
    fs::write(world.home().join("config.toml"), "[env]\npass = [\"TOKEN_OF_TESTS\"]\n").unwrap();
    world
}

fn gate(world: &World) -> String {
    let open = || world.ask(&["gate", "list", "--json"]).json();
    until("a gate asks", || open()[0]["gate"].is_string());
    open()[0]["gate"].as_str().unwrap().to_owned()
}

/// A whole mission: a retry, a cut stream, a compaction, words at a gate that is refused, and one that is
/// approved.
fn mission(world: &World, wire: Wire) {
    let record = dir(world);
    let args = [
        "run",
        "Make the check pass",
        "--done",
        "sh check.sh",
        "--model",
        model(wire),
        "--record",
        record.to_str().unwrap(),
    ];
    let said = finish(regie(world, wire, &args));
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(said.err.contains("hint: regie replay "), "{said:?}");
    let first = gate(world);
    assert_eq!(finish(regie(world, wire, &["say", "last", "say so in a file"])).code, Some(0));
    // From the same environment: a local run is asked where the answer says that its server is.
    let answer = |how: &str, gate: &str| finish(regie(world, wire, &["gate", how, gate]));
    answer("refuse", &first);
    until("it asks again", || gate(world) != first);
    assert_eq!(answer("approve", &gate(world)).code, Some(0));
    assert_eq!(world.ended("last").end, "done");
    whole(&record);
}

/// Waits until the last event is in the recording.
fn whole(record: &Path) {
    let manifest =
        || serde_json::from_slice::<Value>(&fs::read(record.join("recording.json")).unwrap()).unwrap();
    until("the recording is whole", || manifest()["whole"].is_object());
}

/// Replays where there is no project, no home and no model.
fn replay(record: &Path, more: &[&str]) -> Said {
    let elsewhere = tempfile::tempdir().unwrap();
    let binary = std::env::var_os("REGIE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_regie").into());
    let mut command = Command::new(binary);
    command.arg("replay").arg(record).args(more).current_dir(elsewhere.path()).env_clear();
    finish(command)
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    for path in files(from) {
        let place = to.join(path.strip_prefix(from).unwrap());
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::copy(path, place).unwrap();
    }
}

#[test]
fn a_mission_on_each_wire_replays_where_nothing_of_it_is_left() {
    for wire in Wire::ALL {
        let mut world = world(include_str!("record.toml"));
        mission(&world, wire);
        let show = world.ask(&["show", "last", "--json"]).json();
        let record = dir(&world);
        let home = owners_home(&world);
        world.lose_model();
        world.end_all();
        fs::remove_dir_all(world.project()).unwrap();
        fs::remove_dir_all(world.home()).unwrap();

        let said = replay(&record, &[]);
        assert_eq!(said.code, Some(0), "{wire:?}: {said:?}");
        let events = show["events"].as_array().unwrap();
        let of = |fact: &str| events.iter().filter(|event| event["fact"]["fact"] == fact).count();
        let calls = files(&record.join("calls")).iter().filter(|path| path.ends_with("call.json")).count();
        let verdict = format!(
            "replayed {} steps, {calls} model calls: every request and every event is the same",
            of("step_planned")
        );
        assert!(said.out.contains(&verdict), "{wire:?}: {}", said.out);
        assert!(said.out.contains("FIRST SUMMARY") || said.out.contains("summarised"), "{}", said.out);
        assert!(said.out.contains("say so in a file"), "{}", said.out);
        let attempts = files(&record.join("calls/0001-1"));
        assert_eq!(attempts.iter().filter(|path| path.extension().unwrap() == "body").count(), 3, "{wire:?}");

        let replayed = replay(&record, &["--json"]).json();
        assert_eq!(replayed["difference"], Value::Null);
        let facts = |events: &Value| -> Vec<Value> {
            events.as_array().unwrap().iter().map(|event| event["fact"]["fact"].clone()).collect()
        };
        assert_eq!(facts(&replayed["events"]), facts(&show["events"]), "{wire:?}");
        for path in files(&record) {
            let bytes = fs::read(&path).unwrap();
            let text = String::from_utf8_lossy(&bytes);
            for secret in SECRETS.into_iter().chain([home.to_str().unwrap(), "zoe-the-owner"]) {
                assert!(!text.contains(secret), "{wire:?}: {secret} in {}", path.display());
            }
        }
    }
}

/// A short mission that was recorded.
fn recorded() -> (World, PathBuf) {
    let world = World::new(&MEND.replacen(
        "[[turn.call]]",
        "[[turn.fault]]\nkind = \"cut\"\nafter_events = 3\n\n[[turn.call]]",
        1,
    ));
    let record = dir(&world);
    let said = world.ask(&[
        "run",
        "Make the check pass",
        "--done",
        "sh check.sh",
        "--yes",
        "--record",
        record.to_str().unwrap(),
    ]);
    assert_eq!(said.code, Some(0), "{said:?}");
    (world, record)
}

#[test]
fn what_was_changed_since_is_found_and_named() {
    let (world, record) = recorded();
    let said = replay(&record, &[]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let flip = |name: &str| {
        let copied = world.scratch().join("copy");
        let _ = fs::remove_dir_all(&copied);
        copy(&record, &copied);
        let path = copied.join(name);
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, bytes).unwrap();
        replay(&copied, &[])
    };
    for name in [
        "calls/0001-1/attempt-1.body",
        "calls/0001-1/attempt-2.body",
        "calls/0003-1/request.json",
        "system.txt",
        "tools.json",
        "events.jsonl",
    ] {
        let said = flip(name);
        assert_eq!(said.code, Some(1), "{name}: {said:?}");
        assert!(
            said.err.starts_with(&format!("error: {name} of the recording is damaged: ")),
            "{name}: {said:?}"
        );
        assert_eq!(said.err.lines().count(), 2, "{said:?}");
    }
    let copied = world.scratch().join("copy");
    let change = |name: &str, change: &dyn Fn(String) -> String| {
        let _ = fs::remove_dir_all(&copied);
        copy(&record, &copied);
        let text = fs::read_to_string(copied.join(name)).unwrap();
        fs::write(copied.join(name), change(text)).unwrap();
    };
    let without = |n: usize| {
        move |text: String| -> String {
            text.lines().enumerate().filter(|(at, _)| *at != n).map(|(_, line)| format!("{line}\n")).collect()
        }
    };
    change("events.jsonl", &without(5));
    let said = replay(&copied, &[]);
    assert_eq!(
        said.err.lines().next().unwrap(),
        "error: events.jsonl of the recording is damaged: event 6 is missing: event 7 is in its place"
    );
    for (name, edit, line) in [
        ("recording.json", ("\"format\": 1", "\"format\": 7"), "error: the recording has format 7"),
        (
            "recording.json",
            (env!("CARGO_PKG_VERSION"), "99.0.0"),
            "error: the recording was made by Regie 99.0.0",
        ),
        ("recording.json", ("\"format\"", "\"forma"), "error: recording.json of the recording is damaged"),
    ] {
        change(name, &|text| text.replacen(edit.0, edit.1, 1));
        let said = replay(&copied, &[]);
        assert_eq!((said.code, said.err.lines().count()), (Some(1), 2), "{said:?}");
        assert!(said.err.starts_with(line), "{said:?}");
    }
    fs::remove_file(copied.join("recording.json")).unwrap();
    assert!(replay(&copied, &[]).err.contains("is no recording"));
    change("system.txt", &|text| text);
    fs::remove_dir_all(copied.join("calls/0003-1")).unwrap();
    let said = replay(&copied, &[]);
    assert!(said.err.starts_with("error: calls/0003-1 of the recording is damaged"), "{said:?}");
}

/// As if another Regie had written it: the digests are those of what is there.
fn forged(record: &Path, name: &str, change: impl Fn(String) -> String) {
    let path = record.join(name);
    let old = Digest::of(&fs::read(&path).unwrap()).to_string();
    let text = change(fs::read_to_string(&path).unwrap());
    fs::write(&path, &text).unwrap();
    let new = Digest::of(text.as_bytes()).to_string();
    for path in
        files(record).iter().filter(|path| path.ends_with("call.json") || path.ends_with("recording.json"))
    {
        let text = fs::read_to_string(path).unwrap();
        fs::write(path, text.replace(&old, &new)).unwrap();
    }
}

#[test]
fn the_first_difference_is_told_with_both_sides() {
    let (world, record) = recorded();
    let copied = world.scratch().join("copy");
    let differs = |name: &str, from: &str, to: &str| {
        let _ = fs::remove_dir_all(&copied);
        copy(&record, &copied);
        forged(&copied, name, |text| {
            assert!(text.contains(from), "{name} has no {from}");
            text.replacen(from, to, 1)
        });
        let said = replay(&copied, &["--json"]);
        assert_eq!(said.code, Some(1), "{said:?}");
        let text = replay(&copied, &[]);
        assert!(text.out.contains("the replay differs at step"), "{text:?}");
        said.json()["difference"].clone()
    };
    let said = differs("calls/0003-1/request.json", "Make the check pass", "Make the check fail");
    assert!(said["what"].as_str().unwrap().contains("request"), "{said}");
    assert_eq!(said["step"], 3, "{said}");
    let (recorded, replayed) = (said["recorded"].as_str().unwrap(), said["replayed"].as_str().unwrap());
    assert!(recorded.contains("check fail") && replayed.contains("check pass"), "{said}");
    assert!(said["offset"].as_u64().unwrap() > 0);

    let said = differs("calls/0001-1/attempt-2.body", "check", "chick");
    assert_eq!(
        (said["step"].as_u64(), said["what"].as_str().unwrap().contains("content")),
        (Some(1), true),
        "{said}"
    );
    let said = differs("events.jsonl", "\"risk\":\"workspace\"", "\"risk\":\"external\"");
    assert!(said["what"].as_str().unwrap().contains("fact"), "{said}");
}

#[test]
fn a_daemon_that_is_killed_goes_on_with_the_recording() {
    let slow = MEND.replacen(
        "[[turn]]\ntext = \"It subtracts.\"",
        "[[turn]]\npace_ms = 300\ntext = \"It subtracts.\"",
        1,
    );
    let world = World::new(&slow);
    let record = dir(&world);
    let said = world.ask(&[
        "run",
        "Make the check pass",
        "--done",
        "sh check.sh",
        "--yes",
        "--detach",
        "--record",
        record.to_str().unwrap(),
    ]);
    assert_eq!(said.code, Some(0), "{said:?}");
    until("the second call is made", || world.asked().len() == 2);
    rustix::process::kill_process(world.daemon().unwrap(), rustix::process::Signal::KILL).unwrap();
    let unfinished = replay(&record, &[]);
    assert_eq!(unfinished.code, Some(0), "{unfinished:?}");
    assert!(unfinished.out.contains("this is as far as it goes"), "{unfinished:?}");
    // Without a key nothing is written, for nothing could be masked.
    until("it rests", || world.ask(&["show", "last", "--json"]).json()["run"]["status"] == "parked");
    assert!(!fs::read_to_string(record.join("events.jsonl")).unwrap().contains("key_missing"));
    let resumed = world.ask(&["resume", "last"]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    whole(&record);
    assert!(fs::read_to_string(record.join("events.jsonl")).unwrap().contains("model_call_lost"));
    let said = replay(&record, &[]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.contains("every request and every event is the same"), "{said:?}");
}

#[test]
fn a_key_that_is_refused_and_a_recording_from_the_resume_on() {
    let world = World::with(MEND, Options { key: Some("sk-right".into()), ..Options::default() });
    let record = dir(&world);
    let run = [
        "run",
        "Make the check pass",
        "--done",
        "sh check.sh",
        "--yes",
        "--record",
        record.to_str().unwrap(),
    ];
    assert_eq!(world.ask(&run).code, Some(1));
    let second = world.scratch().join("second");
    let mut command = world.regie(&["resume", "last", "--record", second.to_str().unwrap()]);
    command.env("ANTHROPIC_API_KEY", "sk-right");
    let twice = finish(command);
    assert!(twice.err.contains("is being recorded in"), "{twice:?}");
    let mut command = world.regie(&["resume", "last"]);
    command.env("ANTHROPIC_API_KEY", "sk-right");
    assert_eq!(finish(command).code, Some(0));
    whole(&record);
    let said = replay(&record, &[]);
    assert_eq!(said.code, Some(0), "{said:?}");
    for path in files(&record) {
        assert!(!fs::read_to_string(&path).unwrap().contains("sk-right"), "{}", path.display());
    }

    let fork = world.scratch().join("fork");
    let mut command = world.regie(&[
        "fork",
        "last",
        "Again",
        "--at",
        "3",
        "--yes",
        "--max-turns",
        "1",
        "--record",
        fork.to_str().unwrap(),
    ]);
    command.env("ANTHROPIC_API_KEY", "sk-right");
    let forked = finish(command);
    assert_eq!(forked.code, Some(5), "{forked:?}");
    let said = replay(&fork, &[]);
    assert_eq!(said.code, Some(0), "{said:?}");
}

#[test]
fn a_directory_that_holds_something_is_refused_before_anything_begins() {
    let world = World::new(MEND);
    let project = world.project();
    let said = world.ask(&["run", "Make the check pass", "--record", project.to_str().unwrap()]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains("is not empty") && said.err.contains("hint: name a directory"), "{said:?}");
    assert!(world.asked().is_empty());
}
