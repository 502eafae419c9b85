//! Missions by the vendors' batch queues: half the price, and nothing is handed over twice, whatever dies when.

use std::collections::BTreeSet;

use models::Wire;
use rustix::process::{Signal, kill_process};

use crate::world::{MEND, Said, World, finish, until};

const QUEUED: [Wire; 2] = [Wire::Messages, Wire::Responses];
/// The calls of the mission.
const CALLS: usize = 4;

/// A model whose price is known, and the same on both wires.
fn model(wire: Wire) -> &'static str {
    match wire {
        Wire::Messages => "claude-haiku-5-5",
        Wire::Responses => "gpt-6-luna",
        Wire::Chat => "local/scripted",
    }
}

/// A mission whose batches are treated like this.
fn mend(queue: &str) -> String {
    let usage = "[[turn]]\nusage = { input = 1000, output = 100, cache_read = 0, cache_write = 0 }";
    format!("{}\n[batch]\n{queue}\n", MEND.replace("[[turn]]", usage))
}

fn ask(world: &World, wire: Wire, args: &[&str]) -> Said {
    let mut command = world.regie_on(wire, "", args);
    command.env("REGIE_BATCH_POLL_SECONDS", "0.05");
    finish(command)
}

fn run(world: &World, wire: Wire, more: &[&str]) -> Said {
    let run = ["run", "Make the check pass", "--done", "sh check.sh", "--yes", "--model", model(wire)];
    ask(world, wire, &[&run[..], more].concat())
}

/// The run has mended the sum, and every call was handed over once.
#[track_caller]
fn is_done(world: &World, batches: usize) {
    assert_eq!(world.ended("last").end, "done");
    let mended = std::fs::read_to_string(world.project().join("sum.sh")).unwrap();
    assert_eq!(mended, "echo $(($1 + $2))\n");
    let queued = world.queued();
    let items: BTreeSet<&String> = queued.iter().flat_map(|batch| &batch.items).collect();
    assert_eq!((queued.len(), items.len()), (batches, batches), "no call is in two batches");
    world.is_whole();
}

/// Lets a run go on whose key has died with its daemon.
fn goes_on(world: &World, wire: Wire) {
    until("it ends", || {
        // Whatever starts the daemon again says how often it is to ask.
        let row = ask(world, wire, &["runs", "--json"]).json()[0].clone();
        if row["status"] == "parked" {
            ask(world, wire, &["resume", "last"]);
        }
        row["status"] == "ended"
    });
}

fn kill_daemon(world: &World) {
    kill_process(world.daemon().unwrap(), Signal::KILL).unwrap();
}

/// What the run has cost, in nanodollars.
fn cost(world: &World) -> u64 {
    let spent = |event: &serde_json::Value| event["fact"]["spent"]["nanodollars"].as_u64();
    world.events("last").iter().filter_map(spent).sum()
}

#[test]
fn a_whole_mission_by_batch_costs_half_on_both_wires() {
    for wire in QUEUED {
        let at_once = World::new(&mend("polls = 2"));
        let said = run(&at_once, wire, &[]);
        assert_eq!(said.code, Some(0), "{wire:?}: {said:?}");
        assert!(at_once.queued().is_empty(), "{wire:?}");

        let world = World::new(&mend("polls = 2"));
        let said = run(&world, wire, &["--batch"]);
        assert_eq!(said.code, Some(0), "{wire:?}: {said:?}");
        assert!(said.err.contains("half the price, answers take minutes to hours"), "{}", said.err);
        is_done(&world, CALLS);
        // What is on record is what was composed; the stream alone is left out of the item.
        assert!(world.asked().iter().all(|request| request["stream"].is_null()), "{wire:?}");
        assert!(cost(&world) > 0 && cost(&world) * 2 == cost(&at_once), "{wire:?}: {}", cost(&world));
        let events = format!("{:?}", world.events("last"));
        assert!(events.contains("batch, half of the built-in table"), "{wire:?}");
        let calls = world.events("last").into_iter().filter(|event| event["fact"]["kind"] == "model_call");
        let timeouts: BTreeSet<u64> = calls.filter_map(|event| event["fact"]["timeout"].as_u64()).collect();
        assert_eq!(timeouts, BTreeSet::from([26 * 60 * 60 * 1000]), "{wire:?}");
    }
}

#[test]
fn a_repository_may_ask_for_it() {
    let world = World::new(&mend(""));
    std::fs::write(world.project().join("regie.toml"), "[mission]\nbatch = true\n").unwrap();
    let said = run(&world, Wire::Messages, &[]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(world.queued().len(), CALLS);
}

#[test]
fn a_daemon_that_is_killed_while_it_waits_goes_on_waiting() {
    for wire in QUEUED {
        let world = World::new(&mend("polls = 5"));
        let started = run(&world, wire, &["--batch", "--detach"]);
        assert_eq!(started.code, Some(0), "{started:?}");
        until("it waits", || world.queued().first().is_some_and(|batch| batch.polls > 0));
        kill_daemon(&world);
        goes_on(&world, wire);
        is_done(&world, CALLS);
        assert!(!format!("{:?}", world.events("last")).contains("model_call_lost"), "{wire:?}");
    }
}

#[test]
fn a_daemon_that_is_killed_before_it_is_told_the_name_of_its_batch_finds_it() {
    for wire in QUEUED {
        let world = World::new(&mend("polls = 2\n[[batch.fault]]\nkind = \"silent\""));
        let started = run(&world, wire, &["--batch", "--detach"]);
        assert_eq!(started.code, Some(0), "{started:?}");
        until("it is handed over", || !world.queued().is_empty());
        kill_daemon(&world);
        goes_on(&world, wire);
        is_done(&world, CALLS);
    }
}

#[test]
fn a_submission_whose_acknowledgement_is_lost_is_not_made_again() {
    for wire in QUEUED {
        // Of one that was not taken nobody can tell either, before it was looked for.
        for kind in ["unacknowledged", "broken"] {
            let world = World::new(&mend(&format!("[[batch.fault]]\nkind = \"{kind}\"\ntimes = 2")));
            let said = run(&world, wire, &["--batch"]);
            assert_eq!(said.code, Some(0), "{wire:?} {kind}: {said:?}");
            is_done(&world, CALLS);
        }
    }
}

#[test]
fn cancel_stop_and_a_word_at_once_reach_the_vendor() {
    for wire in QUEUED {
        for order in [&["cancel", "last"][..], &["stop", "last"], &["say", "last", "Hurry", "--now"]] {
            let world = World::new(&mend("polls = 1000000"));
            run(&world, wire, &["--batch", "--detach"]);
            until("it waits", || world.queued().first().is_some_and(|batch| batch.polls > 0));
            let said = ask(&world, wire, order);
            assert_eq!(said.code, Some(0), "{wire:?}: {said:?}");
            until("it is cancelled", || world.queued()[0].cancelled);
            if order.contains(&"--now") {
                // What was said is asked about at once.
                until("it waits again", || world.queued().len() == 2);
                assert!(world.asked()[1].to_string().contains("Hurry"), "{wire:?}");
                assert!(!world.queued()[1].cancelled, "{wire:?}");
            } else {
                assert_eq!(world.queued().len(), 1, "{wire:?} {order:?}");
            }
        }
    }
}

#[test]
fn an_expired_call_is_queued_again_and_one_cancelled_at_the_vendor_waits_for_the_owner() {
    for wire in QUEUED {
        let world = World::new(&mend("[[batch.fault]]\nkind = \"expired\""));
        let said = run(&world, wire, &["--batch"]);
        assert_eq!(said.code, Some(0), "{wire:?}: {said:?}");
        is_done(&world, CALLS + 1);

        let world = World::new(&mend("[[batch.fault]]\nkind = \"canceled\""));
        let said = run(&world, wire, &["--batch"]);
        let told = said.err.clone() + &said.out;
        assert_eq!(said.code, Some(1), "{wire:?}: {said:?}");
        assert!(told.contains("model.batch_withdrawn") || told.contains("was cancelled at"), "{told}");
        assert_eq!(world.queued().len(), 1, "{wire:?}");
        ask(&world, wire, &["resume", "last"]);
        is_done(&world, CALLS + 1);
    }
}

#[test]
fn a_local_model_has_no_batch_queue_and_that_is_said_before_anything_begins() {
    let world = World::new(MEND);
    let said = run(&world, Wire::Chat, &["--batch"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    let lines: Vec<&str> = said.err.lines().collect();
    assert_eq!(lines.len(), 2, "{said:?}");
    assert_eq!(lines[0], "error: `local/scripted` has no batch queue");
    assert!(lines[1].starts_with("hint: leave --batch and `[mission] batch` out"), "{said:?}");
    assert!(world.asked().is_empty());
}
