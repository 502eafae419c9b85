//! A machine that sleeps stops all of Regie at once; here it is the daemon that is stopped, in the middle
//! of a call to the model, while the vendor goes on and gives up.

use std::process::Stdio;

use rustix::process::{Signal, kill_process};

use crate::world::{MEND, Said, World, until};

fn count(world: &World, fact: &str) -> usize {
    world.events("last").iter().filter(|event| event["fact"]["fact"] == fact).count()
}

fn stopped_mid_call(scenario: &str) -> World {
    let world = World::new(scenario);
    let child = world
        .regie(&["run", "Make the check pass", "--done", "sh check.sh", "--yes", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("the model is asked", || !world.asked().is_empty());
    let daemon = world.daemon().unwrap();
    kill_process(daemon, Signal::STOP).unwrap();
    until("it stands still", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", daemon.as_raw_nonzero())).unwrap();
        stat.contains(") T ")
    });
    // The vendor's answer, or its end, lies in the socket by now or arrives later: both is right.
    kill_process(daemon, Signal::CONT).unwrap();
    let said = Said::of(child.wait_with_output().unwrap());
    assert_eq!(said.code, Some(0), "{said:?}");
    world
}

#[test]
fn a_daemon_that_slept_during_a_call_goes_on_and_claims_nothing_twice() {
    let world = stopped_mid_call(&MEND.replacen("[[turn]]\n", "[[turn]]\ndelay_ms = 300\n", 1));
    assert_eq!((count(&world, "claimed"), count(&world, "model_call_lost")), (1, 0));
    assert_eq!(world.asked().len(), 4, "each turn was asked for once");
    world.is_whole();
}

#[test]
fn a_call_whose_connection_died_in_sleep_is_made_again() {
    let fault = "[[turn]]\ndelay_ms = 300\nfault = [{ kind = \"cut\", after_events = 2 }]\n";
    let world = stopped_mid_call(&MEND.replacen("[[turn]]\n", fault, 1));
    assert_eq!(count(&world, "claimed"), 1);
    assert_eq!(world.asked().len(), 5, "the one that was cut was asked for again");
    world.is_whole();
}
