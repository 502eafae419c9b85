//! Caps and denials of the loop's own steps.

use domain::budget::Exhausted;
use domain::fact::Denial;
use domain::run::End;
use domain::{Outcome, StepKind};

use crate::world::{World, by_policy, calls, checkpoint, output, says, shell};

#[test]
fn a_cap_met_by_the_model_call_saves_what_there_is_and_names_the_cap() {
    let mut world = World::new(&["true"]);
    world.model(&calls(vec![shell("t1", "touch a")]));
    let step = world.one("shell");
    world.done(&step, Outcome::Succeeded, &output("", 0));
    let ask = world.one("claude-opus-5-5");
    world.deny(&ask, Denial::Budget { cap: Exhausted::Dollars });
    let save = world.one("checkpoint");
    world.done(&save, Outcome::Succeeded, &checkpoint(Some("c0ffee")));
    let (end, reason) = world.end();
    assert_eq!(end, End::BudgetExhausted);
    insta::assert_snapshot!(reason, @"the cap on dollars of $2.00 is reached; branch `coder/run` keeps the work at c0ffee");
}

#[test]
fn a_cap_on_calls_or_time_saves_what_there_is_as_any_other() {
    for cap in [Exhausted::Calls, Exhausted::Time] {
        let mut world = World::new(&["true"]);
        world.model(&calls(vec![shell("t1", "touch a"), shell("t2", "touch b")]));
        let steps = world.go();
        world.done(&steps[0], Outcome::Succeeded, &output("", 0));
        world.deny(&steps[1], Denial::Budget { cap });
        world.checkpoint(Some("c0ffee"));
        let (end, reason) = world.end();
        assert_eq!(end, End::BudgetExhausted);
        assert!(reason.contains(cap.noun()) && reason.contains("keeps the work at c0ffee"), "{reason}");
    }
}

#[test]
fn a_cap_met_while_saving_or_judging_or_merging_ends_with_the_first_reason() {
    let budget = Denial::Budget { cap: Exhausted::Tokens };
    let mut world = World::new(&["true", "true"]);
    world.model(&calls(vec![shell("t1", "touch a")]));
    let step = world.one("shell");
    world.done(&step, Outcome::Succeeded, &output("", 0));
    let ask = world.one("claude-opus-5-5");
    world.deny(&ask, budget);
    let save = world.one("checkpoint");
    world.deny(&save, Denial::Budget { cap: Exhausted::Calls });
    let (end, reason) = world.end();
    assert_eq!(end, End::BudgetExhausted);
    assert!(reason.starts_with("the cap on tokens"), "{reason}");

    let mut world = World::new(&["true", "true"]);
    world.model(&says("done"));
    world.checkpoint(Some("c0ffee"));
    let steps = world.go();
    world.deny(&steps[0], Denial::Budget { cap: Exhausted::Calls });
    world.deny(&steps[1], Denial::Budget { cap: Exhausted::Calls });
    assert_eq!(world.end().0, End::BudgetExhausted);

    let mut world = World::new(&["true"]);
    world.model(&says("done"));
    world.checkpoint(Some("c0ffee"));
    world.verdict(0, "");
    let merge = world.one("merge");
    world.deny(&merge, Denial::Budget { cap: Exhausted::Calls });
    let (end, reason) = world.end();
    assert_eq!(end, End::BudgetExhausted);
    assert!(reason.contains("keeps the work at c0ffee"), "{reason}");
}

#[test]
fn a_revoked_lease_blocks_and_says_by_which_rule() {
    let mut world = World::new(&["true"]);
    let ask = world.one("claude-opus-5-5");
    world.deny(&ask, by_policy("the lease of this run was revoked"));
    let (end, reason) = world.end();
    assert_eq!(end, End::Blocked);
    insta::assert_snapshot!(reason, @"asking the model was refused: denied by policy: the lease of this run was revoked; nothing was changed");
}

#[test]
fn reservations_cover_the_answer_and_say_when_the_price_is_unknown() {
    let mut world = World::new(&[]);
    let ask = world.one("claude-opus-5-5");
    assert_eq!(
        (ask.kind, ask.reserve.turns, ask.reserve.calls, ask.reserve.unpriced),
        (StepKind::ModelCall, 1, 1, 0)
    );
    assert!(ask.reserve.tokens > 16_000 && ask.reserve.nanodollars > 16_000 * 20_000);

    let config = engine::Config { price: None, ..crate::world::config() };
    let mut world = World::with(crate::world::mission(&[]), config);
    let ask = world.one("claude-opus-5-5");
    assert_eq!((ask.reserve.nanodollars, ask.reserve.unpriced), (0, 1));
}

#[test]
fn a_checkpoint_that_fails_is_a_failure_and_one_that_was_interrupted_is_made_again() {
    let mut world = World::new(&["true"]);
    world.model(&says("done"));
    let step = world.one("checkpoint");
    world.done_bytes(&step, Outcome::Cancelled, Vec::new());
    let step = world.one("checkpoint");
    world.done(&step, Outcome::Failed, &serde_json::json!({"message": "the tree is damaged"}));
    let (end, reason) = world.end();
    assert_eq!(end, End::Failed);
    assert!(reason.contains("the tree is damaged"), "{reason}");
}

#[test]
fn the_first_end_stands() {
    let mut world = World::new(&["true", "true"]);
    world.model(&says("done"));
    world.checkpoint(Some("c0ffee"));
    let steps = world.go();
    world.deny(&steps[0], by_policy("the first rule"));
    world.deny(&steps[1], by_policy("the second rule"));
    let (end, reason) = world.end();
    assert_eq!(end, End::Blocked);
    assert!(reason.contains("the first rule"), "{reason}");
}
