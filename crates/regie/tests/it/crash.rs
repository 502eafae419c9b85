//! The daemon dies under a client that follows a run.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::world::{MEND, World};

#[test]
fn a_killed_daemon_is_started_again_and_the_run_goes_on() {
    let world = World::new(MEND);
    let mut child = world
        .regie(&["run", "Make the check pass", "--done", "sh check.sh", "--yes", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut events = Vec::new();
    let mut last = serde_json::Value::Null;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        if line["type"] == "event" {
            events.push(line["seq"].as_u64().unwrap());
            if events.len() == 6 {
                rustix::process::kill_process(world.daemon().unwrap(), rustix::process::Signal::KILL)
                    .unwrap();
            }
        }
        last = line;
    }
    let ended = child.wait().unwrap();
    assert_eq!(events, (1..=events.len() as u64).collect::<Vec<_>>(), "each event once, in order");
    assert_eq!((last["type"].as_str(), last["end"].as_str()), (Some("result"), Some("done")), "{last}");
    assert_eq!(ended.code(), Some(0));
    assert_eq!(world.ask(&["audit", "verify"]).code, Some(0));
}
