//! Thousands of random schedules of the very machine that the daemon runs.

use std::collections::BTreeMap;

use testkit::sim::{self, Options};

const SCHEDULES: u64 = 10_000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs the schedules of these seeds on two threads, each of which is a simulation of its own.
fn run_all(seeds: std::ops::Range<u64>) -> BTreeMap<&'static str, u64> {
    let half = |part: u64| {
        let seeds = seeds.clone();
        move || {
            let mut counts = BTreeMap::new();
            for seed in seeds.filter(|seed| seed % 2 == part) {
                let report = sim::run(Options { seed, ..Options::default() });
                let report = report.unwrap_or_else(|failure| panic!("{failure}"));
                for (what, count) in report.counts {
                    *counts.entry(what).or_default() += count;
                }
            }
            counts
        }
    };
    let other = std::thread::spawn(half(1));
    let mut counts: BTreeMap<&'static str, u64> = half(0)();
    match other.join() {
        Ok(more) => more.into_iter().for_each(|(what, count)| *counts.entry(what).or_default() += count),
        Err(panic) => std::panic::resume_unwind(panic),
    }
    counts
}

#[test]
fn every_schedule_keeps_every_promise() {
    if let Some(seed) = number("SEED") {
        sim::run(Options { seed, ..Options::default() }).unwrap_or_else(|failure| panic!("{failure}"));
        return;
    }
    let schedules = number("REGIE_SIM_SCHEDULES").unwrap_or(SCHEDULES);
    let counts = run_all(0..schedules);
    println!("{counts:#?}");
    if schedules < SCHEDULES {
        return;
    }
    // Schedules that never come near a rule prove nothing about it.
    for what in [
        "ack lost",
        "cancel_requested",
        "crash in the middle of a roll-back",
        "daemon crash",
        "fenced",
        "fenced append",
        "gate_answered",
        "interruption",
        "late start refused by fence",
        "model_call_lost",
        "parked",
        "probe done",
        "probe not done",
        "probe unknown",
        "refused",
        "reload",
        "resumed",
        "revocation",
        "runner crash",
        "said",
        "running step taken over",
        "spooled result taken",
        "step_denied",
        "step_returned",
        "step_uncertain",
        "stop_requested",
        "storage failure",
        "timer_fired",
        "workspace failure",
        "workspace_restored",
    ] {
        assert!(counts.get(what).is_some_and(|count| *count >= 10), "`{what}` hardly ever happens");
    }
}

#[test]
fn a_seed_is_the_whole_schedule() {
    for seed in 0..20 {
        let options = Options { seed, ..Options::default() };
        assert_eq!(sim::run(options).unwrap(), sim::run(options).unwrap());
    }
}
