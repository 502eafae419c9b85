//! Every cap ends the run with a type of its own, keeps what was done, and is never passed.

use crate::world::{MEND, World, alive};

use super::with;

/// A model that edits, and then takes a turn more than the cap allows.
const GREEDY: &str = r#"
[[turn]]
usage = { input = 1000, output = 10000 }
[[turn.call]]
name = "read"
input = { path = "sum.sh" }
[[turn.call]]
name = "edit"
input = { path = "sum.sh", old = "echo", new = "echo --" }
[[turn]]
[[turn.call]]
name = "shell"
input = { command = "sleep 1.2" }
[[turn]]
text = "Done."
"#;

/// The cap ends the run after so many requests; the work is on the run's branch or in its workspace.
#[track_caller]
fn check(cap: [&str; 2], requests: usize, what: &str) -> serde_json::Value {
    let world = World::new(GREEDY);
    let said = world.ask(&with(&["--yes", cap[0], cap[1]]));
    assert_eq!(said.code, Some(5), "{said:?}");
    assert!(said.out.contains("budget exhausted") && said.flat().contains(what), "{said:?}");
    assert_eq!(world.asked().len(), requests);
    let run = world.ask(&["runs", "--json"]).json()[0].clone();
    assert_eq!(run["end"], "budget_exhausted");
    let diff = world.ask(&["diff"]);
    assert!(diff.out.contains("+echo -- "), "the work is kept: {diff:?}");
    assert_eq!(std::fs::read_to_string(world.project().join("sum.sh")).unwrap(), "echo $(($1 - $2))\n");
    world.is_whole();
    run
}

#[test]
fn dollars() {
    let run = check(["--max-dollars", "0.45"], 1, "the cap on dollars of $0.45");
    assert!(run["spent"]["nanodollars"].as_u64().unwrap() <= 450_000_000, "{run}");
}

#[test]
fn turns() {
    let run = check(["--max-turns", "1"], 1, "the cap on turns of 1");
    assert_eq!(run["turns"], 1);
}

#[test]
fn tokens() {
    let run = check(["--max-tokens", "25000"], 1, "the cap on tokens of 25000");
    assert!(run["spent"]["tokens"].as_u64().unwrap() <= 25_000, "{run}");
}

#[test]
fn time() {
    check(["--max-time", "1s"], 2, "the cap on time");
}

/// The cap on time ends what is running, however long that would have gone on.
#[track_caller]
fn cut_short(turn: &str) {
    let world = World::new(turn);
    let said = world.ask(&with(&["--yes", "--max-time", "1s"]));
    assert_eq!(said.code, Some(5), "{said:?}");
    assert!(said.flat().contains("the cap on time"), "{said:?}");
    world.is_whole();
}

#[test]
fn time_during_a_command() {
    let mark = "735186303";
    cut_short(&format!(
        "[[turn]]\n[[turn.call]]\nname = \"shell\"\ninput = {{ command = \"sleep {mark}\" }}\n[[turn]]\ntext = \"Done.\"\n"
    ));
    assert_eq!(alive(mark), Vec::<String>::new());
}

#[test]
fn time_during_a_model_call() {
    cut_short(
        "[[turn]]\ntext = \"Never said.\"\n[[turn.fault]]\nkind = \"silence\"\nafter_events = 2\ntimes = 0\n",
    );
}

#[test]
fn a_cap_that_not_even_the_first_call_fits_in_spends_nothing() {
    let world = World::new(MEND);
    let said = world.ask(&with(&["--yes", "--max-dollars", "0.01"]));
    assert_eq!(said.code, Some(5), "{said:?}");
    assert!(world.asked().is_empty());
    assert_eq!(world.ask(&["runs", "--json"]).json()[0]["spent"]["nanodollars"], 0);
    world.is_whole();
}

#[test]
fn most_of_a_cap_being_spent_is_said_once() {
    let world = World::new(&GREEDY.replace("output = 10000", "output = 16000"));
    let said = world.ask(&with(&["--yes", "--max-dollars", "0.40"]));
    assert_eq!(said.code, Some(5), "{said:?}");
    let told = |text: &str| text.matches("81 % of the cap of $0.4000 is spent").count();
    assert_eq!(told(&said.err), 1, "{said:?}");
    assert_eq!(told(&world.ask(&["show", "last"]).out), 1);
}
