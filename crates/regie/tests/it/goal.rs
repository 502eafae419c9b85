//! A goal from a file or from stdin.

use std::io::Write as _;
use std::process::Stdio;

use crate::world::{MEND, Said, World};

const DONE: [&str; 3] = ["--done", "sh check.sh", "--yes"];

fn with_stdin(world: &World, args: &[&str], bytes: &[u8]) -> Said {
    let mut child = world
        .regie(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A refusal may come before all of it was read.
    let _ = child.stdin.take().unwrap().write_all(bytes);
    Said::of(child.wait_with_output().unwrap())
}

#[test]
fn a_goal_is_read_from_a_file_and_from_stdin() {
    let world = World::new(MEND);
    let file = world.scratch().join("goal.md");
    std::fs::write(&file, b"\xef\xbb\xbfMake the check pass\r\n\r\n- and nothing else\r\n").unwrap();
    let said = world.ask(&[&["run", "-f", file.to_str().unwrap()], &DONE[..]].concat());
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(world.events("last")[0]["content"]["goal"], "Make the check pass\n\n- and nothing else");

    let said = with_stdin(&world, &[&["run", "-"], &DONE[..]].concat(), "Grüße,\nmake it pass\n".as_bytes());
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(world.events("last")[0]["content"]["goal"], "Grüße,\nmake it pass");
    world.is_whole();
}

#[test]
fn a_goal_that_is_no_text_starts_nothing() {
    let world = World::new(MEND);
    let long = "x".repeat((256 << 10) + 1);
    for (bytes, what) in [
        (&b"caf\xe9"[..], "stdin is not UTF-8: byte 3 "),
        (b"", "the goal is empty"),
        (b" \r\n", "the goal is empty"),
        (long.as_bytes(), "stdin has more than 256 KiB"),
    ] {
        let said = with_stdin(&world, &["run", "-"], bytes);
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.err.contains(what), "{}", said.err);
    }
    let missing = world.ask(&["run", "--goal-file", "nowhere.md"]);
    assert!(missing.code == Some(2) && missing.err.contains("nowhere.md cannot be read"), "{missing:?}");
    let dir = world.ask(&["run", "-f", "."]);
    assert!(dir.code == Some(2) && dir.err.contains("is a directory"), "{dir:?}");
    let both = world.ask(&["run", "words", "-f", "goal.md"]);
    assert_eq!(both.code, Some(2), "{both:?}");
    assert_eq!(world.ask(&["run"]).code, Some(2));
    assert_eq!(world.ask(&["runs", "--json"]).out, "[]\n");
}
