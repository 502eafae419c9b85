//! What goes wrong is said in one line, with one line of how to mend it.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use crate::world::{MEND, Said, World};

/// An error of one line, and a hint.
#[track_caller]
fn check(said: &Said, code: i32, what: &str) {
    assert_eq!(said.code, Some(code), "{said:?}");
    let mut lines = said.err.lines();
    let error = lines.next().unwrap_or_default();
    assert!(error.starts_with("error: ") && error.contains(what), "{said:?}");
    assert!(lines.next().unwrap_or_default().starts_with("hint: "), "{said:?}");
    assert!(!said.err.contains("panicked") && said.out.is_empty(), "{said:?}");
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_starts() {
    let world = World::empty();
    check(&world.ask(&["run", "  "]), 2, "the goal is empty");
    check(&world.ask(&["run", "x", "--project", "nowhere"]), 1, "cannot be found");
    assert_eq!(world.ask(&["run", "x", "--max-dollars", "1,5"]).code, Some(2));
    assert_eq!(world.ask(&["run", "x", "--max-time", "5"]).code, Some(2));
    assert_eq!(world.ask(&["frobnicate"]).code, Some(2));
    assert!(!world.home().exists());
}

#[test]
fn a_directory_without_a_repository_is_refused() {
    let world = World::empty();
    let mut command = world.regie(&["run", "Mend it"]);
    let said = Said::of(command.env("ANTHROPIC_API_KEY", "sk-secret").output().unwrap());
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.starts_with("error: ") && said.err.contains("git init"), "{said:?}");
}

#[test]
fn names_of_nothing_are_refused() {
    let world = World::new(MEND);
    check(&world.ask(&["show", "run_nothing"]), 1, "run_nothing");
    check(&world.ask(&["gate", "approve", "gate_nothing"]), 1, "gate_nothing");
    check(&world.ask(&["show", "../x"]), 2, "is not an id");
    let runs = world.ask(&["runs"]);
    assert_eq!((runs.code, runs.out.as_str()), (Some(0), ""));
    assert_eq!(world.ask(&["runs", "--json"]).out, "[]\n");
}

#[test]
fn a_daemon_of_another_version_is_named() {
    let world = World::empty();
    std::fs::create_dir(world.home()).unwrap();
    std::fs::set_permissions(world.home(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let listener = UnixListener::bind(world.home().join("regie.sock")).unwrap();
    let daemon = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).unwrap();
        }
        let body = r#"{"api":99,"version":"9.9.9","pid":4242,"home":"/x","position":0}"#;
        let answer =
            format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
        reader.get_mut().write_all(answer.as_bytes()).unwrap();
    });
    let said = world.ask(&["runs"]);
    daemon.join().unwrap();
    check(&said, 1, "9.9.9 with API 99, this client speaks API 1");
    assert!(said.err.contains("kill 4242"), "{}", said.err);
}

#[test]
fn a_home_that_others_may_enter_is_refused() {
    let world = World::empty();
    std::fs::create_dir(world.home()).unwrap();
    std::fs::set_permissions(world.home(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let said = world.ask(&["runs"]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("is not this user's alone; run `chmod 700` on it"), "{}", said.err);
}

#[test]
fn a_daemon_that_cannot_start_is_quoted() {
    let world = World::empty();
    std::fs::create_dir_all(world.home().join("regie.db")).unwrap();
    std::fs::set_permissions(world.home(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let said = world.ask(&["runs"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains("its last words:"), "{}", said.err);
    assert!(said.err.contains("daemon.log"), "{}", said.err);
}

#[test]
fn the_doctor_needs_no_daemon_and_shows_no_key() {
    let world = World::empty();
    let mut command = world.regie(&["doctor", "--json"]);
    let said = Said::of(command.env("ANTHROPIC_API_KEY", "sk-secret").output().unwrap());
    assert!(!world.home().exists(), "the doctor changes nothing");
    assert!(!said.out.contains("sk-secret") && !said.err.contains("sk-secret"));
    let found = said.json();
    let check = |id: &str| {
        let all = found["checks"].as_array().unwrap();
        all.iter().find(|check| check["id"] == id).unwrap_or_else(|| panic!("no {id}: {found}")).clone()
    };
    assert_eq!(check("git.version")["status"], "ok");
    // Scripts know these by their names.
    for id in ["jail.namespaces", "jail.landlock", "jail.seccomp", "jail.rehearsal", "jail.proof"] {
        assert!(check(id)["evidence"].is_string(), "{id}");
    }
    assert_eq!(check("daemon")["status"], "info");
    assert_eq!(check("model.key")["evidence"], "ANTHROPIC_API_KEY is set");
    let ok = found["ok"].as_bool().unwrap();
    assert_eq!(said.code, Some(if ok { 0 } else { 1 }));
    // Whatever is wrong comes with its mend.
    for check in found["checks"].as_array().unwrap() {
        if check["status"] == "fail" && check["id"] != "jail.proof" {
            assert!(check["mend"].is_string(), "{check}");
        }
    }
}
