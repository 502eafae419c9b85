//! Events as lines.

use domain::Outcome;
use domain::run::{Command, End};
use engine::timeline;
use engine::words::dollars;
use serde_json::json;

use crate::world::{World, by_policy, call, calls, output, says, shell};

#[test]
fn a_run_reads_as_lines() {
    let mut world = World::new(&["node --test"]);
    world.model(&calls(vec![shell("t1", "node --test"), call("t2", "read", json!({"path": "a.js"}))]));
    let steps = world.go();
    world.done(&steps[0], Outcome::Failed, &output("1 failing", 1));
    world.deny(&steps[1], by_policy("the lease does not hold this tool"));
    world.model(&says("done"));
    world.checkpoint(Some("c0ffee"));
    world.verdict(0, "ok");
    let merge = world.one("merge");
    let gate = domain::GateId::from_bytes([4; 16]);
    world.gate(&merge, gate);
    let answer = domain::gate::Answer::Approved;
    let by = "human:owner".into();
    world.tell_bytes(Command::AnswerGate { gate, action: Some(merge.request), answer, by }, Vec::new());
    world.done(&merge, Outcome::Succeeded, &json!({"commit": "decade"}));
    let deliver = world.one("deliver");
    world.done(&deliver, Outcome::Succeeded, &json!({"delivery": "already_there"}));
    let (_, reason) = world.end();
    world.tell_bytes(Command::End(End::Done), reason.into_bytes());
    let lines: Vec<String> = timeline::items(&world.events).iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    started: Make the failing test pass
    turn 1 · model: claude-opus-5-5 · 120 tokens · 10 ms
    turn 1 · shell: node --test · exit 1 · 0.4 s
    turn 1 · read: a.js · denied
    turn 2 · model: claude-opus-5-5 · 120 tokens · 10 ms
    checkpoint · 1 file, +1 −1 · 10 ms
    check: node --test · exit 0 · 0.4 s
    gate: merge this proposal into main?
    gate: approved by human:owner
    merge this proposal into main · merged as decade · 10 ms
    deliver to main · your branch has it · 10 ms
    ended: done
    ");
}

#[test]
fn what_strangers_wrote_can_neither_steer_nor_hide() {
    let mut world = World::new(&[]);
    let hidden = "ls\u{1b}[2J\n\u{202e}rm -rf /\u{200b}";
    world.model(&calls(vec![shell("t1", hidden)]));
    let step = world.one("shell");
    world.done(&step, Outcome::Succeeded, &output("\u{1b}]0;owned\u{7}\nok", 0));
    let items = timeline::items(&world.events);
    let item = items.last().unwrap();
    for text in [item.to_string(), item.detail.clone()] {
        assert!(!text.contains(['\u{1b}', '\u{202e}', '\u{200b}', '\u{7}']), "{text:?}");
    }
    assert!(item.title.contains("rm -rf /"), "{}", item.title);
}

#[test]
fn what_runs_is_named_until_it_ends() {
    let mut world = World::new(&[]);
    world.model(&calls(vec![shell("t1", "sleep 9")]));
    let step = world.one("shell");
    world.intend(&step);
    let mut timeline = engine::Timeline::default();
    for event in &world.events {
        timeline.fold(&event.header, event.payload.as_ref());
    }
    let running: Vec<&str> = timeline.running().map(|(_, title, _)| title).collect();
    assert_eq!(running, ["shell: sleep 9"]);
}

#[test]
fn money_is_shown_without_hiding_small_sums() {
    let shown: Vec<String> = [0, 1, 99_999, 12_300_000, 2_000_000_000, 12_345_678_901].map(dollars).to_vec();
    assert_eq!(shown, ["$0.00", "<$0.0001", "<$0.0001", "$0.0123", "$2.00", "$12.34"]);
}

#[test]
fn a_step_that_no_jail_held_says_so() {
    let mut world = World::new(&[]);
    world.model(&calls(vec![shell("t1", "ls"), call("t2", "read", json!({"path": "a"}))]));
    for step in world.go() {
        let mut told = output("there", 0);
        told["jail"] = json!({"state": "degraded", "reason": "no jail: no Landlock"});
        if step.tool == "read" {
            told["exit_code"] = json!(null);
        }
        world.done(&step, Outcome::Succeeded, &told);
    }
    let lines: Vec<String> = timeline::items(&world.events).iter().map(ToString::to_string).collect();
    let said: Vec<&str> = lines.iter().filter_map(|line| Some(line.split_once(" · ")?.1)).collect();
    assert!(said.iter().any(|line| line.starts_with("shell: ls · exit 0 · no jail · ")), "{said:?}");
    assert!(said.iter().any(|line| line.starts_with("read: a · no jail · ")), "{said:?}");
}
