//! The straight line: turns, results in order, the stop hook, the merge and the delivery.

use domain::gate::Answer;
use domain::run::End;
use domain::{Effect, Outcome, Risk, StepKind};
use kernel::driver::Driver as _;
use serde_json::json;

use crate::world::{World, answer, at_gate, by_policy, call, calls, checkpoint, output, says, shell};

#[test]
fn a_mended_bug_is_checked_merged_behind_its_gate_and_delivered() {
    let mut world = World::new(&["node --test"]);
    world.model(&calls(vec![shell("t1", "node --test")]));
    let step = world.one("shell");
    assert_eq!(world.request(&step), json!({"tool": "shell", "input": {"command": "node --test"}}));
    assert_eq!((step.kind, step.effect), (StepKind::ToolCall, Effect::WorkspaceWrite));
    world.done(&step, Outcome::Failed, &output("1 failing", 1));
    world.model(&calls(vec![shell("t2", "sed -i s/-/+/ sum.js")]));
    let step = world.one("shell");
    world.done(&step, Outcome::Succeeded, &output("", 0));
    world.model(&says("The sum was a difference; I changed the sign and ran the tests."));

    let step = world.one("checkpoint");
    assert_eq!(
        (step.kind, step.effect, step.risk),
        (StepKind::Checkpoint, Effect::IdempotentWrite, Risk::Workspace)
    );
    world.done(&step, Outcome::Succeeded, &checkpoint(Some("c0ffee")));
    let step = world.one("verdict");
    assert_eq!((step.kind, step.effect), (StepKind::Verdict, Effect::WorkspaceWrite));
    assert_eq!(world.request(&step), json!({"command": "node --test"}));
    world.done(&step, Outcome::Succeeded, &output("ok", 0));

    let merge = world.one("merge");
    assert_eq!((merge.effect, merge.risk), (Effect::IdempotentWrite, Risk::External));
    let request = world.request(&merge);
    assert_eq!(request["head"], "c0ffee");
    assert_eq!(request["expected_line_head"], "b".repeat(40));
    assert_eq!(request["checked"], "checked: `node --test` passes");
    assert_eq!(request["message"]["subject"], "Merge: Make the failing test pass");
    world.done(&merge, Outcome::Succeeded, &json!({"commit": "decade"}));

    let deliver = world.one("deliver");
    assert_eq!(world.request(&deliver), json!({"commit": "decade", "line": "main"}));
    world.done(&deliver, Outcome::Succeeded, &json!({"delivery": "fast_forwarded", "commit": "decade"}));
    let (end, reason) = world.end();
    assert_eq!(end, End::Done);
    insta::assert_snapshot!(reason, @"merged into main as decade; checked: `node --test` passes");
}

#[test]
fn results_of_a_turn_are_one_message_in_the_order_of_the_calls() {
    let mut world = World::new(&[]);
    world.model(&calls(vec![
        call("t1", "read", json!({"path": "a"})),
        call("t2", "fly", json!({})),
        call("t3", "read", json!({"path": "b"})),
    ]));
    let steps = world.go();
    assert_eq!(steps.len(), 2);
    // They end in another order than they were asked for.
    world.done(&steps[1], Outcome::Succeeded, &output("second", 0));
    world.deny(&steps[0], by_policy("the lease does not hold this tool"));
    let messages = world.messages();
    insta::assert_json_snapshot!(messages[2], @r#"
    {
      "role": "user",
      "content": [
        {
          "type": "tool_result",
          "tool_use_id": "t1",
          "content": "denied by policy: the lease does not hold this tool",
          "is_error": true
        },
        {
          "type": "tool_result",
          "tool_use_id": "t2",
          "content": "there is no tool `fly`; the tools are: read, shell, post",
          "is_error": true
        },
        {
          "type": "tool_result",
          "tool_use_id": "t3",
          "content": "second",
          "cache_control": {
            "type": "ephemeral"
          }
        }
      ]
    }
    "#);
}

#[test]
fn a_failing_criterion_sends_the_loop_on_with_command_code_and_output() {
    let mut world = World::new(&["node --test"]);
    world.model(&says("done"));
    world.checkpoint(Some("c1"));
    world.verdict(1, "not ok 1 - adds");
    insta::assert_snapshot!(world.last_said(), @r"
    Not done yet. Regie ran the definition of done:

    `node --test`: exit code 1
    ```
    not ok 1 - adds
    ```

    Go on until it passes.
    ");
    world.model(&says("now it is"));
    world.checkpoint(Some("c2"));
    world.verdict(0, "ok 1 - adds");
    world.one("merge");
}

#[test]
fn every_criterion_is_run_and_all_failures_are_told() {
    let mut world = World::new(&["make lint", "make test", "make doc"]);
    world.model(&says("done"));
    world.checkpoint(Some("c1"));
    let steps = world.go();
    assert_eq!(steps.len(), 3);
    world.done(&steps[0], Outcome::Failed, &output("lint!", 2));
    world.done(&steps[1], Outcome::Succeeded, &output("", 0));
    world.done(&steps[2], Outcome::TimedOut, &output("slow", 137));
    let said = world.last_said();
    assert!(said.contains("`make lint`: exit code 2") && said.contains("lint!"), "{said}");
    assert!(said.contains("`make doc`: its time was up"), "{said}");
    assert!(!said.contains("make test"), "{said}");
}

#[test]
fn an_agent_in_circles_is_asked_to_plan_anew_once_then_blocked() {
    let mut world = World::new(&["false"]);
    for round in 1..=3 {
        world.model(&says("done"));
        world.checkpoint(Some("same"));
        world.verdict(1, "no");
        assert_eq!(world.last_said().contains("make a new plan"), round == 3, "round {round}");
    }
    world.model(&says("I give up"));
    world.checkpoint(Some("same"));
    world.verdict(1, "no");
    let (end, reason) = world.end();
    assert_eq!(end, End::Blocked);
    insta::assert_snapshot!(reason, @r"
    the definition of done does not pass and the agent is stuck, also after a new plan: `false` (exit code 1); branch `coder/run` keeps the work at same

    The agent's last words: I give up
    ");
}

#[test]
fn a_changed_commit_starts_the_count_again() {
    let mut world = World::new(&["false"]);
    for commit in ["a", "a", "b", "b", "c", "c"] {
        world.model(&says("done"));
        world.checkpoint(Some(commit));
        world.verdict(1, "no");
        assert!(!world.last_said().contains("make a new plan"));
    }
}

#[test]
fn a_refused_or_expired_merge_leaves_the_branch() {
    for (given, words) in
        [(Answer::Refused, "the owner refused it"), (Answer::Expired, "nobody answered in time")]
    {
        let mut world = World::new(&["true"]);
        world.model(&says("done"));
        world.checkpoint(Some("c0ffee"));
        world.verdict(0, "");
        let merge = world.one("merge");
        world.deny(&merge, at_gate(given));
        let (end, reason) = world.end();
        assert_eq!(end, End::Partial);
        assert!(reason.contains(words) && reason.contains("branch `coder/run` keeps the work"), "{reason}");
    }
}

#[test]
fn a_conflict_goes_back_to_the_agent_until_it_is_resolved() {
    let mut world = World::new(&["true"]);
    world.model(&says("done"));
    world.checkpoint(Some("c0ffee"));
    world.verdict(0, "");
    let merge = world.one("merge");
    world.done(&merge, Outcome::Failed, &json!({"message": "conflict", "conflicts": ["a.js", "b.js"]}));
    let step = world.one("checkpoint");
    assert_eq!(
        (&world.request(&step)["keep"], &world.request(&step)["follow"]),
        (&json!("c0ffee"), &json!(true))
    );
    let mut both = checkpoint(Some("decade"));
    both["base"] = json!("d".repeat(40));
    both["followed"] = json!(true);
    both["conflicts"] = json!(["a.js", "b.js"]);
    world.done(&step, Outcome::Succeeded, &both);
    assert!(world.last_said().contains("these hold both versions:\n- a.js\n- b.js"), "{}", world.last_said());
    world.model(&says("resolved"));
    // What it was asked to resolve is looked at, and its own changes are counted from the line on.
    let step = world.one("checkpoint");
    assert_eq!(world.request(&step)["unresolved"], json!(["a.js", "b.js"]));
    assert_eq!(world.request(&step)["base"], "d".repeat(40));
    assert_eq!(world.reloaded().next(&world.state), world.driver.next(&world.state));
    world.done(&step, Outcome::Succeeded, &checkpoint(Some("facade")));
    world.verdict(0, "");
    let merge = world.one("merge");
    assert_eq!(world.request(&merge)["head"], "facade");
}

#[test]
fn a_conflict_that_stays_is_partial_and_names_the_paths() {
    let mut world = World::new(&["true"]);
    let mut both = checkpoint(Some("c0ffee"));
    both["conflicts"] = json!(["a.js", "b.js"]);
    for _ in 0..6 {
        world.model(&says("done"));
        let step = world.one("checkpoint");
        world.done(&step, Outcome::Succeeded, &both);
    }
    let (end, reason) = world.end();
    assert_eq!(end, End::Partial);
    insta::assert_snapshot!(reason, @"the merge was not made: conflicts in a.js, b.js; branch `coder/run` keeps the work at c0ffee");
}

#[test]
fn a_branch_left_alone_is_done_and_says_what_to_type() {
    let mut world = World::new(&["true"]);
    world.model(&says("done"));
    world.checkpoint(Some("c0ffee"));
    world.verdict(0, "");
    let merge = world.one("merge");
    world.done(&merge, Outcome::Succeeded, &json!({"commit": "decade"}));
    let deliver = world.one("deliver");
    let left = json!({"delivery": "left", "reason": "the work tree is not clean", "command": "git fetch x && git merge FETCH_HEAD"});
    world.done(&deliver, Outcome::Succeeded, &left);
    let (end, reason) = world.end();
    assert_eq!(end, End::Done);
    assert!(reason.contains("take it over with `git fetch x && git merge FETCH_HEAD`"), "{reason}");
}

#[test]
fn without_criteria_the_gate_says_that_nothing_was_checked() {
    let mut world = World::new(&[]);
    assert!(world.last_said().contains("The owner gave no check"));
    world.model(&says("done"));
    world.checkpoint(Some("c0ffee"));
    let merge = world.one("merge");
    assert_eq!(
        world.request(&merge)["checked"],
        "nothing was checked: the mission has no definition of done"
    );
}

#[test]
fn nothing_to_change_is_done_without_a_merge() {
    let mut world = World::new(&["true"]);
    world.model(&says("It passes already."));
    world.checkpoint(None);
    world.verdict(0, "");
    let (end, reason) = world.end();
    assert_eq!(end, End::Done);
    assert!(reason.starts_with("nothing to change: checked: `true` passes"), "{reason}");
}

#[test]
fn prose_beside_calls_is_no_end() {
    let mut world = World::new(&[]);
    let blocks = vec![models::Block::text("Let me look."), shell("t1", "ls")];
    // A stop reason may lie: the calls count.
    world.model(&answer(models::Stop::EndTurn, blocks));
    world.one("shell");
}

/// A proposal whose merge finds that Regie's line has moved.
fn moved(world: &mut World) {
    let merge = world.one("merge");
    world.done(&merge, Outcome::Failed, &json!({"message": "the line has moved", "moved": true}));
}

#[test]
fn a_line_that_moved_is_followed_with_the_same_commit_and_asked_about_anew() {
    let mut world = World::new(&["true"]);
    world.model(&says("done"));
    world.checkpoint(Some("c0ffee"));
    world.verdict(0, "");
    moved(&mut world);
    assert_eq!(world.reloaded().next(&world.state), world.driver.next(&world.state));
    let interrupted = world.one("checkpoint");
    world.done_bytes(&interrupted, Outcome::Cancelled, Vec::new());
    let step = world.one("checkpoint");
    assert_eq!(world.request(&step)["keep"], "c0ffee");
    let mut now = checkpoint(Some("c0ffee"));
    now["line_head"] = json!("d".repeat(40));
    world.done(&step, Outcome::Succeeded, &now);
    world.verdict(0, "");
    let merge = world.one("merge");
    assert_eq!(world.request(&merge)["head"], "c0ffee");
    assert_eq!(world.request(&merge)["expected_line_head"], "d".repeat(40));
}

#[test]
fn a_line_that_never_stands_still_is_left_to_the_owner() {
    let mut world = World::new(&[]);
    world.model(&says("done"));
    world.checkpoint(Some("c0ffee"));
    for _ in 0..5 {
        moved(&mut world);
        world.checkpoint(Some("c0ffee"));
    }
    moved(&mut world);
    let (end, reason) = world.end();
    assert_eq!(end, End::Partial);
    insta::assert_snapshot!(reason, @"the merge was not made: the line has moved; branch `coder/run` keeps the work at c0ffee");
}
