//! The built-in rules, case by case, and what holds for all cases.

use domain::{Effect, GateId, Risk, StepKind, Timestamp, Verdict};
use kernel::port::Action;
use proptest::prelude::*;
use trust::export::Rules;
use trust::{Case, Policy, Ruling};

use crate::world::{action, deliver, lease, merge, model, strictness};

fn judge(action: &Action<'_>, merge_approved: bool) -> Ruling {
    Policy::built_in().judge(&Case { action, lease: &lease(), merge_approved, export: &Rules::default() })
}

#[track_caller]
fn check(action: Action<'_>, verdict: Verdict, rule: &str) {
    let ruling = judge(&action, false);
    assert_eq!((ruling.verdict, ruling.rule.as_str()), (verdict, rule), "{action:?}");
}

#[test]
fn work_in_the_jail_is_allowed() {
    use {Effect as E, Risk as R, StepKind as K};
    check(model(), Verdict::Allow, "model calls are allowed within the budget");
    check(
        action(K::ToolCall, E::Read, R::Read, "read"),
        Verdict::Allow,
        "reading inside the jail is allowed",
    );
    check(
        action(K::ToolCall, E::WorkspaceWrite, R::Workspace, "shell"),
        Verdict::Allow,
        "writing in the workspace is allowed",
    );
    check(
        action(K::Checkpoint, E::IdempotentWrite, R::Workspace, "checkpoint"),
        Verdict::Allow,
        "committing the workspace to the run's own branch is allowed",
    );
    check(
        action(K::Verdict, E::WorkspaceWrite, R::Workspace, "verdict"),
        Verdict::Allow,
        "the criteria are run inside the jail",
    );
}

#[test]
fn what_leaves_the_house_is_asked() {
    use {Effect as E, Risk as R, StepKind as K};
    check(merge(), Verdict::Ask, "a merge needs the owner's approval");
    let grave = "what leaves the house or cannot be taken back needs the owner's approval";
    check(action(K::ToolCall, E::NonIdempotent, R::Workspace, "post"), Verdict::Ask, grave);
    check(action(K::ToolCall, E::IdempotentWrite, R::Workspace, "post"), Verdict::Ask, grave);
    check(action(K::ToolCall, E::Read, R::External, "post"), Verdict::Ask, grave);
    let setup = action(K::ToolCall, E::WorkspaceWrite, R::External, "setup");
    check(setup, Verdict::Ask, "a setup has the network of this machine, which needs the owner's approval");
    // Nor does a milder word for its risk, or an approval of merges, let it pass.
    let mild = action(K::ToolCall, E::WorkspaceWrite, R::Workspace, "setup");
    assert_eq!(judge(&mild, true).verdict, Verdict::Ask);
    assert_eq!(
        judge(&action(K::ToolCall, E::WorkspaceWrite, R::External, "setup"), true).verdict,
        Verdict::Ask
    );
    // A step of the loop's own kinds with a grave effect is no way around.
    check(action(K::Checkpoint, E::NonIdempotent, R::Read, "checkpoint"), Verdict::Ask, grave);
}

#[test]
fn what_no_lease_or_rule_covers_is_denied() {
    use {Effect as E, Risk as R, StepKind as K};
    check(action(K::ToolCall, E::Read, R::Read, "peek"), Verdict::Deny, "the lease does not hold this tool");
    check(
        action(K::ToolCall, E::Read, R::Network, "read"),
        Verdict::Deny,
        "there is no way out to the network: this installation has no egress",
    );
    check(action(K::Spawn, E::Read, R::Read, "spawn"), Verdict::Deny, "no rule allows this kind of step");
}

#[test]
fn a_lease_that_does_not_hold_denies_even_what_was_approved() {
    let gate = GateId::from_bytes([1; 16]);
    let approved = Action { approved: Some(gate), ..merge() };
    for (lease, rule) in [
        (domain::Lease { revoked: true, ..lease() }, "the lease of this run was revoked"),
        (domain::Lease { expires_at: Timestamp(1_000_000), ..lease() }, "the lease of this run has expired"),
        (
            domain::Lease { principal: "agent:other".into(), ..lease() },
            "the lease was granted to another run or principal",
        ),
    ] {
        let export = Rules::default();
        let case = Case { action: &approved, lease: &lease, merge_approved: true, export: &export };
        let ruling = Policy::built_in().judge(&case);
        assert_eq!((ruling.verdict, ruling.rule.as_str()), (Verdict::Deny, rule));
    }
}

#[test]
fn an_approval_allows_what_was_asked_and_names_its_gate() {
    let gate = GateId::from_bytes([1; 16]);
    let ruling = judge(&Action { approved: Some(gate), ..merge() }, false);
    assert_eq!((ruling.verdict, ruling.gate), (Verdict::Allow, Some(gate)));
    assert!(ruling.rule.contains("approved at gate_"), "{}", ruling.rule);
}

#[test]
fn a_standing_approval_covers_merges_alone() {
    assert_eq!(judge(&merge(), true).verdict, Verdict::Allow);
    let post = action(StepKind::ToolCall, Effect::NonIdempotent, Risk::External, "post");
    assert_eq!(judge(&post, true).verdict, Verdict::Ask);
    // The host delivers only what is on Regie's line, and only an approved merge moves that.
    assert_eq!(judge(&deliver(), false).verdict, Verdict::Allow);
}

#[test]
fn a_standing_approval_asks_where_nothing_proves_the_work() {
    let asks = |request: &'static str| judge(&Action { request: request.as_bytes(), ..merge() }, true);
    for unproven in ["{}", r#"{"checks":[]}"#, r#"{"checks":["a"],"proposed":[{"before":"passed"}]}"#] {
        let ruling = asks(unproven);
        assert_eq!(ruling.verdict, Verdict::Ask, "{unproven}");
        assert!(ruling.rule.contains("--yes"), "the gate says why it asks all the same: {}", ruling.rule);
    }
    let agents = r#"{"checks":["a","b"],"proposed":[{"before":"failed"},{"before":"passed"}]}"#;
    assert_eq!(asks(agents).verdict, Verdict::Allow);
    // What a human approved at the gate holds.
    let approved = Action { approved: Some(GateId::from_bytes([1; 16])), request: b"{}", ..merge() };
    assert_eq!(judge(&approved, true).verdict, Verdict::Allow);
}

#[test]
fn what_others_would_execute_is_asked_in_spite_of_a_standing_approval_and_what_is_denied_never_passes() {
    let finding = r#"{"standing":"asks","kind":"ci","path":".github/workflows/ci.yml","change":"added","why":"w","content":"1"}"#;
    let request = format!(r#"{{"checks":["make test"],"export":{{"findings":[{finding}],"rules":""}}}}"#);
    let asked = Action { request: request.as_bytes(), ..merge() };
    let approved = Action { approved: Some(GateId::from_bytes([1; 16])), ..asked };
    let judge = |action: &Action<'_>, merge_approved, rules: &Rules| {
        Policy::built_in().judge(&Case { action, lease: &lease(), merge_approved, export: rules })
    };
    let said = judge(&asked, true, &Rules::default());
    assert_eq!(said.verdict, Verdict::Ask);
    assert!(
        said.rule.starts_with("--yes does not cover this: it changes what others execute"),
        "{}",
        said.rule
    );
    assert_eq!(judge(&asked, false, &Rules::default()).verdict, Verdict::Ask);
    assert_eq!(judge(&approved, true, &Rules::default()).verdict, Verdict::Allow);
    let of = |allow: &[String], deny: &[String]| Rules::parse(allow, &[], deny).unwrap();
    assert_eq!(judge(&asked, true, &of(&["ci".into()], &[])).verdict, Verdict::Allow);
    assert_eq!(
        judge(&asked, false, &of(&["ci".into()], &[])).verdict,
        Verdict::Ask,
        "the merge itself is asked"
    );
    for action in [&asked, &approved] {
        let said = judge(action, true, &of(&["ci".into()], &[".github/".into()]));
        assert_eq!(said.verdict, Verdict::Deny);
        assert!(said.rule.ends_with("(export.denied)"), "{}", said.rule);
    }
}

fn kinds() -> impl Strategy<Value = StepKind> {
    use StepKind as K;
    prop::sample::select(vec![
        K::ModelCall,
        K::Compaction,
        K::ToolCall,
        K::Spawn,
        K::Timer,
        K::Checkpoint,
        K::Verdict,
    ])
}

fn effects() -> impl Strategy<Value = Effect> {
    use Effect as E;
    prop::sample::select(vec![E::Read, E::WorkspaceWrite, E::IdempotentWrite, E::NonIdempotent, E::ModelCall])
}

fn risks() -> impl Strategy<Value = Risk> {
    prop::sample::select(vec![Risk::Read, Risk::Workspace, Risk::Network, Risk::External])
}

proptest! {
    /// The same case has the same ruling; nothing grave is allowed without an approval; and a lease
    /// with fewer tools and less time never allows more.
    #[test]
    fn decisions_are_repeatable_safe_and_monotone(
        kind in kinds(),
        effect in effects(),
        risk in risks(),
        tool in prop::sample::select(vec!["read", "shell", "post", "merge", "deliver", "peek"]),
        approved: bool,
        merge_approved: bool,
        keep in prop::collection::vec(any::<bool>(), 5),
        expires in 0u64..3_000_000,
    ) {
        let gate = approved.then(|| GateId::from_bytes([1; 16]));
        let action = Action { approved: gate, ..action(kind, effect, risk, tool) };
        let wide = lease();
        let export = Rules::default();
        let case = Case { action: &action, lease: &wide, merge_approved, export: &export };
        let ruling = Policy::built_in().judge(&case);
        prop_assert_eq!(&ruling, &Policy::built_in().judge(&case));
        if risk == Risk::Network {
            prop_assert_eq!(ruling.verdict, Verdict::Deny);
        }
        if ruling.verdict == Verdict::Allow && (risk == Risk::External || effect == Effect::NonIdempotent) {
            prop_assert!(approved || merge_approved || tool == "deliver");
        }
        let asked: Vec<String> =
            wide.tools.iter().zip(&keep).filter(|(_, keep)| **keep).map(|(tool, _)| tool.clone()).collect();
        let (tools, expires_at) = trust::leases::clip(&wide, &asked, Timestamp(expires));
        let narrow = domain::Lease { tools, expires_at, ..wide.clone() };
        prop_assert_eq!(trust::leases::is_narrower(&wide, &narrow), Ok(()));
        let narrowed = Policy::built_in().judge(&Case { lease: &narrow, ..case.clone() });
        prop_assert!(strictness(narrowed.verdict) >= strictness(ruling.verdict));
    }
}
