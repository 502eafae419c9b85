//! The owner is told of gates, ends and rests, whatever happens to the daemon.

use std::os::unix::fs::PermissionsExt as _;

use crate::receiver::Receiver;
use crate::world::{MEND, World, finish, until};

const RUN: [&str; 4] = ["run", "Make the check pass", "--done", "sh check.sh"];

fn owners_file(world: &World, text: &str) {
    std::fs::create_dir_all(world.home()).unwrap();
    std::fs::set_permissions(world.home(), std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::write(world.home().join("config.toml"), text).unwrap();
}

fn hook(receiver: &Receiver) -> String {
    format!("[notify]\nwebhook = \"{}\"\n", receiver.address())
}

/// Kills the daemon and waits until it is dead: only then the next command starts another one.
fn kill_daemon(world: &World) {
    let pid = world.daemon().unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    until("the daemon is dead", || !lives(pid));
}

fn lives(pid: rustix::process::Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    !(stat.is_empty() || stat.contains(") Z ") || stat.contains(") X "))
}

#[test]
fn a_gate_and_an_end_are_posted_signed_and_without_secrets() {
    let (world, receiver) = (World::new(MEND), Receiver::start());
    owners_file(&world, &format!("{}webhook_secret_env = \"HOOK_SECRET\"\n", hook(&receiver)));
    let mut run = world.regie(&RUN);
    run.env("HOOK_SECRET", "between-us");
    assert_eq!(finish(run).code, Some(3));
    let gate = receiver.wait(1).remove(0);
    let told = gate.json();
    let open = world.ask(&["gate", "list", "--json"]).json();
    assert_eq!((&told["event"], &told["run"]), (&"gate".into(), &open[0]["run"]), "{told}");
    assert_eq!((&told["goal"], &told["title"]), (&"Make the check pass".into(), &open[0]["title"]), "{told}");
    assert!(told["body"].as_str().unwrap().contains(open[0]["gate"].as_str().unwrap()), "{told}");
    assert_eq!(gate.header("regie-delivery"), told["id"].as_str());
    assert_eq!(gate.header("content-type"), Some("application/json"));
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"between-us");
    let signature = gate.header("regie-signature").unwrap().strip_prefix("sha256=").unwrap();
    ring::hmac::verify(&key, &gate.body, &hex::decode(signature).unwrap()).unwrap();

    assert_eq!(world.ask(&["gate", "approve", open[0]["gate"].as_str().unwrap()]).code, Some(0));
    let ended = receiver.wait(2).remove(1).json();
    assert_eq!((&ended["event"], &ended["title"]), (&"ended".into(), &"Done".into()), "{ended}");
    assert_ne!(ended["id"], told["id"]);
    for posted in receiver.wait(2) {
        let all = format!("{} {}", posted.head, String::from_utf8(posted.body).unwrap());
        assert!(!all.contains("between-us") && !all.contains("sk-scripted"), "{all}");
    }
    world.is_whole();
}

#[test]
fn a_run_that_rests_is_told_and_only_what_was_asked_for() {
    let (world, receiver) = (World::new(MEND), Receiver::start());
    owners_file(&world, &format!("{}events = [\"parked\"]\n", hook(&receiver)));
    assert_eq!(world.ask(&RUN).code, Some(3));
    assert_eq!(world.ask(&["stop", "last"]).code, Some(0));
    let told = receiver.wait(1).remove(0).json();
    assert_eq!(told["event"], "parked", "the gate before was not asked for: {told}");
    assert!(told["body"].as_str().unwrap().contains("regie resume"), "{told}");
}

#[test]
fn a_daemon_that_is_killed_between_post_and_cursor_tells_again_under_the_same_id() {
    let (world, receiver) = (World::new(MEND), Receiver::start());
    owners_file(&world, &hook(&receiver));
    receiver.mute(true);
    assert_eq!(world.ask(&RUN).code, Some(3));
    let first = receiver.wait(1).remove(0).json();
    kill_daemon(&world);
    receiver.mute(false);
    // Any command starts a daemon again.
    assert_eq!(world.ask(&["runs"]).code, Some(0));
    let again = receiver.wait(2).remove(1).json();
    assert_eq!(first, again);
    // What was taken is not told a third time.
    kill_daemon(&world);
    assert_eq!(world.ask(&["cancel", "last"]).code, Some(0));
    assert_eq!(receiver.wait(3).remove(2).json()["event"], "ended");
    world.is_whole();
}

#[test]
fn a_receiver_that_fails_is_tried_again_shown_by_the_doctor_and_holds_nothing_up() {
    let (world, receiver) = (World::new(MEND), Receiver::start());
    owners_file(&world, &hook(&receiver));
    receiver.fail(true);
    let said = world.ask(&[&RUN[..], &["--yes"]].concat());
    assert_eq!(said.code, Some(0), "{said:?}");
    receiver.wait(1);
    let check = || {
        let doctor = world.ask(&["doctor", "--json"]).json();
        let checks = doctor["checks"].as_array().unwrap().clone();
        checks.into_iter().find(|check| check["id"] == "notify.webhook").unwrap()
    };
    until("the failure is noted", || check()["status"] == "warn");
    let shown = check()["evidence"].as_str().unwrap().to_owned();
    assert!(shown.contains("503") && !shown.contains("very-secret"), "{shown}");
    receiver.fail(false);
    until("it is taken", || check()["status"] == "ok");
    let log = std::fs::read_to_string(world.home().join("log/daemon.log")).unwrap();
    assert!(!log.contains("very-secret"), "{log}");
}

#[test]
fn a_way_that_is_new_begins_now() {
    let (world, receiver) = (World::new(MEND), Receiver::start());
    assert_eq!(world.ask(&[&RUN[..], &["--yes"]].concat()).code, Some(0));
    kill_daemon(&world);
    owners_file(&world, &hook(&receiver));
    let said = world.ask(&["run", "Something else", "--detach"]);
    let second = said.out.trim_end();
    assert_eq!(receiver.wait(1).remove(0).json()["run"], second, "nothing of the run before");
}

#[test]
fn a_test_goes_every_way_and_says_how_it_fared() {
    let (world, receiver, other) = (World::empty(), Receiver::start(), Receiver::start());
    let nowhere = world.ask(&["notify", "test"]);
    assert!(nowhere.code == Some(2) && nowhere.err.contains("config.toml"), "{nowhere:?}");
    let both = format!("[notify]\nwebhook = [\"{}\", \"{}\"]\n", receiver.address(), other.address());
    owners_file(&world, &both);
    other.fail(true);
    let said = world.ask(&["notify", "test"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.out.contains("✓") && said.out.contains("503"), "{said:?}");
    assert!(!said.out.contains("very-secret"), "{said:?}");
    assert_eq!(receiver.wait(1).remove(0).json()["event"], "test");
}

#[test]
fn the_desktop_is_told_and_its_absence_is_no_error() {
    let world = World::new(MEND);
    owners_file(&world, "[notify]\ndesktop = true\n");
    let bin = world.scratch().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let told = world.scratch().join("told");
    let script = format!("#!/bin/sh\nprintf '%s\\n' \"$@\" >> {}\n", told.display());
    std::fs::write(bin.join("notify-send"), script).unwrap();
    std::fs::set_permissions(bin.join("notify-send"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut run = world.regie(&[&RUN[..], &["--yes"]].concat());
    run.env("PATH", path).env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere");
    assert_eq!(finish(run).code, Some(0));
    until("the desktop is told", || {
        std::fs::read_to_string(&told).is_ok_and(|told| told.contains("--\nDone\nMake the check pass\n"))
    });
    let mut doctor = world.regie(&["doctor", "--json"]);
    doctor.env("PATH", "/nowhere").env_remove("DBUS_SESSION_BUS_ADDRESS").env_remove("XDG_RUNTIME_DIR");
    let said = finish(doctor).json();
    let checks = said["checks"].as_array().unwrap();
    let desktop = checks.iter().find(|check| check["id"] == "notify.desktop").unwrap();
    assert_eq!(desktop["status"], "info", "{desktop}");
}

#[test]
fn a_repository_cannot_have_anything_sent() {
    let world = World::new(MEND);
    std::fs::write(world.project().join("regie.toml"), "[notify]\nwebhook = \"https://example.org\"\n")
        .unwrap();
    let said = world.ask(&RUN);
    assert!(said.code == Some(2) && said.err.contains("`notify.webhook` does not belong here"), "{said:?}");
    std::fs::remove_file(world.project().join("regie.toml")).unwrap();
    owners_file(&world, "[notify]\nwebhook = \"http://example.org\"\n");
    let said = world.ask(&RUN);
    assert!(said.code == Some(2) && said.err.contains("in the clear"), "{said:?}");
}
