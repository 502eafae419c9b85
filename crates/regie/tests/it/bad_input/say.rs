//! Words to a run on its way, through the real runner and its jail.

use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use crate::world::{MEND, Said, World, alive, until};

use super::{RUN, results, start};

/// A model whose first command announces itself and then waits for the owner's file; a second call of
/// the same turn waits behind it.
fn waiting() -> World {
    let call =
        |command: &str| format!("[[turn.call]]\nname = \"shell\"\ninput = {{ command = {command:?} }}\n");
    let first = call("echo so far; touch begun; while [ ! -e go ]; do sleep 0.01; done");
    let mend = MEND.replacen("name = \"mend\"", "", 1);
    World::new(&format!("[[turn]]\n{first}{}{mend}", call("touch second")))
}

/// Starts a mission and waits until its command runs.
fn begun(world: &World) -> String {
    let run = start(world, &["--yes"]);
    let mark = world.workspace(&run).join("begun");
    until("the command begins", || mark.exists());
    run
}

/// The words of the owner in the last message of a request.
fn owners(request: &Value) -> String {
    let last =
        request["messages"].as_array().and_then(|messages| messages.last()).cloned().unwrap_or_default();
    let blocks = last["content"].as_array().cloned().unwrap_or_default();
    blocks.iter().filter_map(|block| block["text"].as_str()).collect()
}

#[test]
fn a_word_waits_for_the_running_call() {
    let world = waiting();
    let run = begun(&world);
    let said = world.ask(&["say", &run, "mind the sign"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.err.contains("read when the running tool calls have ended"), "{said:?}");
    std::fs::write(world.workspace(&run).join("go"), "").unwrap();
    assert_eq!(world.ended(&run).end, "done");
    let second = &world.asked()[1];
    assert!(owners(second).contains("mind the sign"), "{second}");
    assert!(results(second).iter().all(|(is_error, _)| !is_error));
    let show = world.ask(&["show", &run]);
    assert!(show.out.contains("said") && show.out.contains("mind the sign"), "{}", show.out);
    world.is_whole();
}

#[test]
fn now_ends_the_running_call_and_drops_the_next() {
    let world = waiting();
    let run = begun(&world);
    let said = world.ask(&["say", &run, "--now", "not that way", "--json"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(world.ended(&run).end, "done");
    let second = &world.asked()[1];
    assert!(owners(second).contains("not that way"), "{second}");
    let results = results(second);
    assert!(results[0].0 && results[0].1.contains("so far"), "{results:?}");
    assert!(results[0].1.ends_with("[interrupted by the owner before it ended]"), "{results:?}");
    assert_eq!(results[1], (true, "not run: the owner interrupted".to_owned()));
    assert!(!world.workspace(&run).join("second").exists());
    assert_eq!(alive("while [ ! -e go ]").len(), 0);
    world.is_whole();
}

#[test]
fn now_ends_a_call_to_the_model_which_counts_as_spent() {
    let mend = MEND.replacen("name = \"mend\"", "", 1);
    let world = World::new(&format!(
        "[[turn]]\ntext = \"Never said.\"\n[[turn.fault]]\nkind = \"silence\"\nafter_events = 2\n{mend}"
    ));
    let run = start(&world, &["--yes"]);
    until("the model is asked", || world.asked().len() == 1);
    let said = world.ask(&["say", &run, "--now", "look at sum.sh"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    until("the model is asked again", || world.asked().len() > 1);
    assert!(owners(&world.asked()[1]).contains("look at sum.sh"));
    let events = world.events(&run);
    let cut = events.iter().find(|event| event["fact"]["outcome"] == "cancelled").unwrap();
    let planned = events.iter().find(|event| event["fact"]["fact"] == "step_planned").unwrap();
    assert_eq!(cut["fact"]["spent"], planned["fact"]["reserve"]);
    world.ask(&["cancel", &run]);
    world.is_whole();
}

/// Says words that come from stdin.
fn piped(world: &World, args: &[&str], words: &[u8]) -> Said {
    let mut child = world
        .regie(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that refuses early reads nothing.
    let _ = child.stdin.take().unwrap().write_all(words);
    Said::of(child.wait_with_output().unwrap())
}

#[test]
fn words_at_a_gate_come_from_stdin_and_keep_a_refused_run_going() {
    let world = World::new(MEND);
    assert_eq!(world.ask(&RUN).code, Some(3));
    let said = piped(&world, &["say", "last", "-"], "rename it\nto \u{1b}[2Jtotal.sh\n".as_bytes());
    assert_eq!(said.code, Some(0), "{said:?}");
    let gate = world.ask(&["gate", "list", "--json"]).json()[0]["gate"].as_str().unwrap().to_owned();
    assert!(said.err.contains(&format!("hint: regie gate refuse {gate}")), "{said:?}");
    let asked = world.asked().len();
    world.ask(&["gate", "refuse", &gate, "--json"]);
    until("the model is asked again", || world.asked().len() > asked);
    assert!(owners(&world.asked()[asked]).contains("rename it\nto"));
    let show = world.ask(&["show", "last"]);
    assert!(!show.out.contains('\x1b'), "{}", show.out);
    world.ask(&["cancel", "last"]);
}

#[test]
fn nothing_bytes_that_are_no_text_and_a_run_that_is_over_are_refused() {
    let world = World::new(MEND);
    let run = super::mended(&world);
    assert_eq!(run.code, Some(0));
    assert_eq!(piped(&world, &["say", "last", "-"], b"  \n").code, Some(2));
    let bytes = piped(&world, &["say", "last", "-"], b"\xff\xfe");
    assert_eq!((bytes.code, bytes.err.starts_with("error: the words cannot be read")), (Some(1), true));
    let late = world.ask(&["say", "last", "one more thing"]);
    assert_eq!(late.code, Some(1), "{late:?}");
    assert!(
        late.err.contains("the run has ended") && late.err.contains("hint: start a new mission"),
        "{late:?}"
    );
}
