//! A clock that is set back: what waits for a time waits for what was left of it, what is on record stays in
//! order, and nothing expires early or never.

use std::fs;
use std::path::PathBuf;

use testkit::script::Options;

use crate::world::{MEND, Said, World, finish};

use super::RUN;

const DAY: i64 = 24 * 3_600_000;

/// The same command on a machine whose clock is off by what a file says.
fn ask(world: &World, args: &[&str]) -> Said {
    let mut command = world.regie(args);
    command.env("REGIE_PRETEND_CLOCK", offset(world));
    finish(command)
}

fn offset(world: &World) -> PathBuf {
    world.scratch().join("offset")
}

fn set(world: &World, millis: i64) {
    // Renamed into place: a reader sees the old or the new.
    let new = world.scratch().join("offset.new");
    fs::write(&new, millis.to_string()).unwrap();
    fs::rename(new, offset(world)).unwrap();
}

#[track_caller]
fn in_order(world: &World) {
    let events = world.ask(&["log", "--json"]).lines();
    let times: Vec<_> = events.iter().map(|event| event["at"].as_u64().unwrap()).collect();
    assert!(times.len() > 10 && times.is_sorted(), "{times:?}");
}

#[test]
fn set_back_while_a_gate_waits_and_no_daemon_runs() {
    let world = World::new(MEND);
    set(&world, 0);
    assert_eq!(ask(&world, &RUN).code, Some(3));
    let gate = world.ask(&["gate", "list", "--json"]).json()[0].clone();
    assert_eq!(world.ask(&["serve", "--stop"]).code, Some(0));
    set(&world, -DAY);
    let approved = ask(&world, &["gate", "approve", gate["gate"].as_str().unwrap()]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    assert_eq!(world.ended(gate["run"].as_str().unwrap()).end, "done");
    in_order(&world);
    world.is_whole();
}

#[test]
fn set_back_while_the_daemon_runs() {
    let world = World::new(MEND);
    set(&world, 0);
    assert_eq!(ask(&world, &RUN).code, Some(3));
    set(&world, -DAY);
    let gate = world.ask(&["gate", "list", "--json"]).json()[0].clone();
    let approved = ask(&world, &["gate", "approve", gate["gate"].as_str().unwrap()]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    assert_eq!(world.ended(gate["run"].as_str().unwrap()).end, "done");
    in_order(&world);
    world.is_whole();
}

#[test]
fn a_vendor_that_asks_to_wait_is_not_waited_for_a_day_longer() {
    let scenario = MEND.replacen(
        "[[turn.call]]\n",
        "[[turn.fault]]\nkind = \"status\"\nstatus = 429\nretry_after = \"1\"\ntimes = 8\n[[turn.call]]\n",
        1,
    );
    let world = World::with(&scenario, Options::default());
    set(&world, 0);
    let begun = ask(&world, &super::with(&["--yes", "--detach"]));
    assert_eq!(begun.code, Some(0), "{begun:?}");
    crate::world::until("the vendor refused", || !world.asked().is_empty());
    set(&world, -DAY);
    let ended = world.ended(begun.out.trim());
    assert_eq!(ended.end, "done", "{ended:?}");
    in_order(&world);
    world.is_whole();
}

#[test]
fn a_run_from_a_clock_that_was_wrong_does_not_hold_up_the_next() {
    let world = World::new(MEND);
    set(&world, 400 * DAY);
    assert_eq!(ask(&world, &RUN).code, Some(3));
    assert_eq!(world.ask(&["serve", "--stop"]).code, Some(0));
    set(&world, 0);
    // The next run on the same repository has the right time, and the first one goes on.
    let said = ask(&world, &super::with(&["--yes"]));
    assert_eq!(said.code, Some(0), "{said:?}");
    let gate = world.ask(&["gate", "list", "--json"]).json()[0].clone();
    assert_eq!(ask(&world, &["gate", "refuse", gate["gate"].as_str().unwrap()]).code, Some(0));
    assert_eq!(world.ended(gate["run"].as_str().unwrap()).end, "partial");
    world.is_whole();
}
