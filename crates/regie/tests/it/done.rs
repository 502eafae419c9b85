//! When a mission is done, where its owner did not say; and when it gets nowhere.

use crate::world::{World, until};

/// A model that defines when it is done before it mends the sum.
const DEFINES: &str = r#"
[[turn]]
text = "I say first how to tell."
expect = ["call `define_done`"]
[[turn.call]]
name = "define_done"
input = { criteria = [{ command = "sh check.sh", why = "It compares the sum with what it should be." }, { command = "test -f sum.sh", why = "The script stays." }] }
[[turn.call]]
name = "read"
input = { path = "sum.sh" }
[[turn]]
expect = ["- `sh check.sh`: fails, as it should", "- `test -f sum.sh`: passes already"]
[[turn.call]]
name = "edit"
input = { path = "sum.sh", old = "$1 - $2", new = "$1 + $2" }
[[turn]]
text = "The sum is right now."
"#;

/// A model that does the same for ever.
fn loops(times: usize, then: &str) -> String {
    let same = "[[turn]]\nusage = { input = 1000, output = 100 }\n[[turn.call]]\nname = \"shell\"\n\
                input = { command = \"sh check.sh\" }\n";
    format!("{}{then}", same.repeat(times))
}

#[test]
fn an_agent_s_definition_is_tried_before_the_work_and_shown_at_the_gate() {
    let world = World::new(DEFINES);
    let said = world.ask(&["run", "Make the check pass"]);
    assert_eq!(said.code, Some(3), "{said:?}");
    let shown = &said.err;
    assert!(shown.contains("exit 1 · before the work"), "{shown}");
    assert!(shown.contains("[proposed by the agent; failed before] sh check.sh"), "{}", said.err);
    assert!(
        shown.contains("[proposed by the agent; passed already before the work] test -f sum.sh"),
        "{}",
        said.err
    );
    let gate = world.ask(&["gate", "list", "--json"]).json()[0].clone();
    assert_eq!(gate["request"]["proposed"][0]["before"], "failed", "{gate}");
    assert_eq!(world.ask(&["gate", "approve", gate["gate"].as_str().unwrap()]).code, Some(0));
    let ended = world.ended(gate["run"].as_str().unwrap());
    assert_eq!(ended.end, "done", "{ended:?}");
    assert!(ended.reason.contains("proposed by the agent; 1 of 2 passed already before"), "{ended:?}");
    let log = String::from_utf8(world.git(&["log", "-1", "--format=%B"]).stdout).unwrap();
    assert!(log.contains("- `sh check.sh` (failed before): It compares the sum"), "{log}");
    assert!(log.contains("\nRegie-Criteria: proposed by the agent"), "{log}");
    let show = world.ask(&["show", "last"]);
    assert!(show.out.contains("proposes as the definition of done"), "{}", show.out);
    world.is_whole();
}

#[test]
fn the_owner_s_criteria_leave_the_agent_nothing_to_define() {
    let world = World::new("[[turn]]\ntext = \"I look.\"\n");
    let said = world.ask(&["run", "Make the check pass", "--done", "true"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let request = world.asked()[0].to_string();
    assert!(!request.contains("define_done"), "{request}");
}

#[test]
fn a_model_that_loops_for_ever_rests_far_below_the_cap() {
    let world = World::new(&loops(100, ""));
    let said = world.ask(&["run", "Make the check pass", "--done", "sh check.sh", "--yes"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains("run.stalled"), "{said:?}");
    assert!(said.flat().contains("3 times in a row the same: shell: sh check.sh"), "{said:?}");
    assert_eq!(world.asked().len(), 6, "three turns, a warning, three turns");
    assert!(world.asked()[3].to_string().contains("You are repeating yourself"));
    assert!(said.err.contains("the agent is asked for a new plan: 3 times in a row"), "{}", said.err);
    let run = world.ask(&["runs", "--json"]).json()[0].clone();
    assert_eq!(run["status"], "parked", "{run}");
    assert!(run["spent"]["nanodollars"].as_u64().unwrap() < 200_000_000, "{run}");

    // Without a word it rests again, after as many turns.
    let name = run["run"].as_str().unwrap();
    let resumed = world.ask(&["resume", name]);
    assert!(resumed.err.contains("run.stalled"), "{resumed:?}");
    assert_eq!(world.asked().len(), 12);
    assert!(world.asked()[6].to_string().contains("The owner lets you go on"));
    assert_eq!(world.ask(&["cancel", name]).code, Some(0));
    assert_eq!(world.ended(name).end, "cancelled");
    world.is_whole();
}

#[test]
fn the_owner_s_word_lets_a_run_that_rests_go_on() {
    let mend = "[[turn]]\nexpect = [\"add them\"]\n[[turn.call]]\nname = \"shell\"\n\
                input = { command = \"sed -i s/-/+/ sum.sh\" }\n\
                [[turn]]\ntext = \"The sum is right now.\"\n";
    let world = World::new(&loops(6, mend));
    let said = world.ask(&["run", "Make the check pass", "--done", "sh check.sh", "--yes"]);
    assert!(said.err.contains("run.stalled"), "{said:?}");
    let name = world.ask(&["runs", "--json"]).json()[0]["run"].as_str().unwrap().to_owned();
    assert_eq!(world.ask(&["say", &name, "do not subtract, add them"]).code, Some(0));
    let resumed = world.ask(&["resume", &name]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    let ended = world.ended(&name);
    assert_eq!(ended.end, "done", "{ended:?}");
    world.is_whole();
}

#[test]
fn a_daemon_that_dies_during_the_trial_goes_on_with_it() {
    let slow = "touch begun; while [ ! -e go ]; do sleep 0.01; done; sh check.sh";
    let world = World::new(
        &DEFINES.replacen("command = \"sh check.sh\"", &format!("command = \"{slow}\""), 1).replacen(
            "- `sh check.sh`: fails",
            &format!("- `{slow}`: fails"),
            1,
        ),
    );
    // What a trial leaves and Git does not ignore is gone when it is over.
    std::fs::write(world.project().join(".gitignore"), "begun\ngo\n").unwrap();
    assert!(world.git(&["add", ".gitignore"]).status.success());
    assert!(world.git(&["commit", "-q", "-m", "Rules"]).status.success());
    let started = world.ask(&["run", "Make the check pass", "--yes", "--detach"]);
    let name = started.out.trim_end().to_owned();
    let workspace = world.workspace(&name);
    until("the trial begins", || workspace.join("begun").exists());
    let _ = rustix::process::kill_process(world.daemon().unwrap(), rustix::process::Signal::KILL);
    std::fs::write(workspace.join("go"), "").unwrap();
    // The first order may come before the new daemon has found that it lacks the key.
    until("it goes on", || {
        world.ask(&["resume", &name]);
        world.ask(&["show", &name, "--json"]).out.contains("\"ended\"")
    });
    let ended = world.ended(&name);
    assert_eq!(ended.end, "done", "{ended:?}");
    assert!(ended.reason.contains("proposed by the agent; 1 of 2 passed already before"), "{ended:?}");
    world.is_whole();
}
