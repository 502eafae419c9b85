//! Missions that share a vendor which counts what they ask for.

use std::time::Duration;

use models::Wire;
use testkit::script::{Limits, Options};

use crate::world::{MEND, World, finish};

const RUN: [&str; 6] = ["run", "Make the check pass", "--done", "sh check.sh", "--yes", "--detach"];

/// Enough for one mission at a time, and not for all of them.
fn few() -> Options {
    let limits = Limits { requests: 5, tokens: 1_000_000, per: Duration::from_secs(2) };
    Options { limits: Some(limits), ..Options::default() }
}

#[test]
fn several_missions_share_what_their_vendor_lets_them_ask_for() {
    for (wire, model) in [(Wire::Messages, "scripted"), (Wire::Responses, "openai/scripted")] {
        let world = World::with(MEND, few());
        let runs: Vec<String> = (0..4)
            .map(|_| {
                let args = [&RUN[..], &["--json", "--model", model]].concat();
                let said = finish(world.regie_on(wire, "", &args));
                assert_eq!(said.code, Some(0), "{said:?}");
                said.json()["run"].as_str().unwrap().to_owned()
            })
            .collect();
        for run in &runs {
            assert_eq!(world.ended(run).end, "done", "{wire:?} {run}");
        }
        assert!(world.asked().len() >= 4 * 4, "{wire:?}");
        assert_eq!(world.limited(), 0, "{wire:?}: none was turned away");
        world.is_whole();
    }
}

#[test]
fn who_watches_a_run_is_told_that_it_waits_for_the_vendor() {
    let limits = Limits { requests: 1, tokens: 1_000_000, per: Duration::from_secs(3) };
    let world = World::with(MEND, Options { limits: Some(limits), ..Options::default() });
    let args = ["run", "Make the check pass", "--done", "sh check.sh", "--yes", "--model", "openai/scripted"];
    let said = finish(world.regie_on(Wire::Responses, "", &args));
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.err.contains("waiting for the vendor's limit until "), "{said:?}");
    assert_eq!(world.limited(), 0);
}
