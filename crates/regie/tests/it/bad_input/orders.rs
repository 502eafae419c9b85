//! Orders and answers at every moment at which an owner can give them.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};

use crate::world::{MEND, World, alive, until};

use super::{RUN, start};

/// A model whose first command announces itself and then waits for the owner's file.
fn waiting(more: &str) -> World {
    let command = format!("{more} touch begun; while [ ! -e go ]; do sleep 0.01; done");
    World::new(&format!(
        "[[turn]]\n[[turn.call]]\nname = \"shell\"\ninput = {{ command = {command:?} }}\n{}",
        MEND.replacen("name = \"mend\"", "", 1)
    ))
}

/// Starts a mission and waits until its command runs.
fn begun(world: &World) -> String {
    let run = start(world, &["--yes"]);
    let mark = world.workspace(&run).join("begun");
    until("the command begins", || mark.exists());
    run
}

/// A world whose run waits at the gate of its merge; the run and the gate.
fn at_a_gate() -> (World, String, Value) {
    let world = World::new(MEND);
    assert_eq!(world.ask(&RUN).code, Some(3));
    let gate = world.ask(&["gate", "list", "--json"]).json()[0].clone();
    (world, gate["run"].as_str().unwrap().to_owned(), gate)
}

fn id(gate: &Value) -> &str {
    gate["gate"].as_str().unwrap()
}

/// The run is cancelled, at once, and nothing of it reaches the owner.
#[track_caller]
fn cancelled(world: &World, run: &str) {
    let before = world.git(&["rev-parse", "main"]).stdout;
    let said = world.ask(&["cancel", run]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let ended = world.ended(run);
    assert_eq!(ended.end, "cancelled", "{ended:?}");
    let again = world.ask(&["cancel", run]);
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(again.err.starts_with("error: "), "{again:?}");
    assert_eq!(world.git(&["rev-parse", "main"]).stdout, before);
    assert_eq!(world.ask(&["gate", "list", "--json"]).out, "[]\n");
    world.is_whole();
}

#[test]
fn cancel_during_a_model_call() {
    let world = World::new(
        "[[turn]]\ntext = \"Never said.\"\n[[turn.fault]]\nkind = \"silence\"\nafter_events = 2\ntimes = 0\n",
    );
    let run = start(&world, &[]);
    until("the model is asked", || !world.asked().is_empty());
    cancelled(&world, &run);
    assert_eq!(world.asked().len(), 1);
}

#[test]
fn cancel_during_a_command() {
    let mark = "735186302";
    let world = waiting(&format!("sleep {mark} & (setsid sleep {mark} &) ; trap '' TERM INT HUP;"));
    let run = begun(&world);
    assert!(!alive(mark).is_empty());
    cancelled(&world, &run);
    assert_eq!(alive(mark), Vec::<String>::new());
}

#[test]
fn cancel_at_a_gate() {
    let (world, run, gate) = at_a_gate();
    cancelled(&world, &run);
    let late = world.ask(&["gate", "approve", id(&gate)]);
    assert_eq!(late.code, Some(1), "{late:?}");
    assert_eq!(world.ended(&run).end, "cancelled");
}

#[test]
fn cancel_while_stopped() {
    let world = waiting("");
    let run = begun(&world);
    stopped(&world, &run);
    cancelled(&world, &run);
}

/// Pauses the run, and lets its command end.
#[track_caller]
fn stopped(world: &World, run: &str) {
    let said = world.ask(&["pause", run]);
    assert_eq!(said.code, Some(0), "{said:?}");
    std::fs::write(world.workspace(run).join("go"), "").unwrap();
    let status = || world.ask(&["runs", "--json"]).json()[0]["status"].clone();
    until("the run rests", || status() == "parked");
    assert_eq!(world.asked().len(), 1, "a run that rests asks nothing");
}

#[test]
fn stop_and_resume() {
    let world = waiting("");
    let run = begun(&world);
    stopped(&world, &run);
    let resumed = world.ask(&["resume", &run]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    assert_eq!(world.ended(&run).end, "done");
    world.is_whole();
}

#[test]
fn a_gate_that_is_refused() {
    let (world, run, gate) = at_a_gate();
    let before = world.git(&["rev-parse", "main"]).stdout;
    assert_eq!(world.ask(&["gate", "refuse", id(&gate)]).code, Some(0));
    let ended = world.ended(&run);
    assert_eq!(ended.end, "partial", "{ended:?}");
    assert!(ended.reason.contains("the owner refused it") && ended.reason.contains("branch `"), "{ended:?}");
    assert_eq!(world.git(&["rev-parse", "main"]).stdout, before);
    assert!(world.ask(&["diff", &run]).out.contains("+echo $(($1 + $2))"), "the work is kept");
    world.is_whole();
}

#[test]
fn a_gate_that_is_answered_twice() {
    let (world, run, gate) = at_a_gate();
    assert_eq!(world.ask(&["gate", "approve", id(&gate)]).code, Some(0));
    for answer in ["approve", "refuse"] {
        let again = world.ask(&["gate", answer, id(&gate)]);
        assert_eq!(again.code, Some(1), "{again:?}");
        assert!(again.err.starts_with("error: "), "{again:?}");
    }
    assert_eq!(world.ended(&run).end, "done");
    let answers = world.events(&run);
    let answers = answers.iter().filter(|event| event["fact"]["fact"] == "gate_answered").count();
    assert_eq!(answers, 1);
    world.is_whole();
}

#[test]
fn an_answer_to_another_action() {
    let (world, run, gate) = at_a_gate();
    let events = world.events(&run).len();
    let shown = gate["action"].as_str().unwrap();
    let flipped = if shown.ends_with('0') { "1" } else { "0" };
    let other = format!("{}{flipped}", shown.split_at(shown.len() - 1).0);
    for (action, status) in [(other.as_str(), "409"), ("", "422"), ("xyz", "422")] {
        let answer = answer_with(&world, id(&gate), action);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{action}: {answer}");
    }
    assert_eq!(world.events(&run).len(), events, "an answer that does not count is not on record");
    assert!(answer_with(&world, id(&gate), shown).starts_with("HTTP/1.1 200 "));
    assert_eq!(world.ended(&run).end, "done");
    world.is_whole();
}

/// Approves a gate on the daemon's socket, with the hash of an action.
fn answer_with(world: &World, gate: &str, action: &str) -> String {
    let body = json!({ "answer": "approve", "action": action }).to_string();
    let mut stream = UnixStream::connect(world.home().join("regie.sock")).unwrap();
    let request = format!(
        "POST /api/v1/gates/{gate}/answer HTTP/1.1\r\nhost: regie\r\n{}: {}\r\ncontent-type: \
         application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        server::HEADER,
        control::api::VERSION,
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_run_that_is_resumed_at_an_open_gate_asks_again() {
    let (world, run, gate) = at_a_gate();
    assert_eq!(world.ask(&["pause", &run]).code, Some(0));
    until("it rests", || world.ask(&["runs", "--json"]).json()[0]["status"] == "parked");
    let said = world.ask(&["resume", &run]);
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(said.err.contains(&format!("regie gate approve {}", id(&gate))), "{said:?}");
}
