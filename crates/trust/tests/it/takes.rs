//! A lease takes in no content with labels beyond its own.

use std::sync::Arc;

use domain::{Effect, Label, Labels, Lease, Risk, StepKind, Verdict};
use kernel::port::{Action, Authority};
use proptest::prelude::*;
use trust::policy::Setting;
use trust::{Door, leases};

use crate::world::{Past, Shelf, action, lease};

fn labels(names: &[&str]) -> Labels {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

fn door(held: Option<Labels>, takes: Labels) -> Door<Past> {
    let shelf = Arc::new(Shelf::default());
    let tools = ["read", "shell", "setup"].map(String::from).to_vec();
    leases::grant(&*shelf, &Lease { labels: held, tools, ..lease() }).unwrap();
    let setting = Setting { takes, ..Setting::default() };
    Door::new(shelf, Arc::new(Past::default()), 1_000)
        .with_rules(Arc::new(move |_: &Action<'_>| Ok(setting.clone())))
}

fn act(kind: StepKind, tool: &str) -> Action<'_> {
    let risk = if tool == "setup" { Risk::External } else { Risk::Workspace };
    Action { request: b"{}", ..action(kind, Effect::WorkspaceWrite, risk, tool) }
}

#[test]
fn what_a_lease_does_not_take_in_is_denied_and_named() {
    let door = door(Some(labels(&["external"])), labels(&["external", "mine", "sensitive"]));
    for (kind, tool) in
        [(StepKind::ToolCall, "read"), (StepKind::ToolCall, "shell"), (StepKind::Verdict, "verdict")]
    {
        let decision = door.decide(&act(kind, tool)).unwrap();
        assert_eq!(decision.verdict, Verdict::Deny, "{tool}");
        assert!(decision.rule.contains("what is mine and sensitive,"), "{}", decision.rule);
    }
    // The owner approves a setup by its exact command.
    assert_eq!(door.decide(&act(StepKind::ToolCall, "setup")).unwrap().verdict, Verdict::Ask);
}

proptest! {
    /// It is denied exactly where a label is beyond, and never where the lease is not bounded.
    #[test]
    fn a_label_beyond_is_denied_and_nothing_else(
        held in prop::option::of(prop::sample::subsequence(vec![Label::EXTERNAL, Label::SENSITIVE, "mine"], 0..=3)),
        takes in prop::sample::subsequence(vec![Label::EXTERNAL, Label::SENSITIVE, "mine"], 0..=3),
    ) {
        let decision = door(held.as_deref().map(labels), labels(&takes))
            .decide(&act(StepKind::ToolCall, "shell"))
            .unwrap();
        let beyond = held.is_some_and(|held| takes.iter().any(|label| !held.contains(label)));
        prop_assert_eq!(decision.verdict == Verdict::Deny, beyond, "{}", decision.rule);
    }
}
