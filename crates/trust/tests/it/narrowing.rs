//! Whatever is narrowed from a lease, in however many steps, reaches nothing that its root denies.

use std::sync::Arc;

use domain::{
    Caps, Digest, Effect, Grants, Labels, Lease, LeaseId, Pattern, Risk, StepKind, Timestamp, Verdict,
};
use kernel::port::{Action, Authority};
use proptest::prelude::*;
use trust::leases::{self, Widening};
use trust::{Door, leases::narrow};

use crate::world::{Past, Shelf, action, lease};

const TOOLS: [&str; 6] = ["read", "list", "search", "edit", "write", "shell"];

fn pattern() -> impl Strategy<Value = Pattern> {
    prop::sample::select(vec!["**", "a/**", "a", "a/b", "*/b", "**/b", "a*", "b/**", "?"])
        .prop_map(|text| text.parse().unwrap())
}

/// A lease as anybody could ask for it, wider or not.
fn wanted() -> impl Strategy<Value = Lease> {
    let patterns = || prop::collection::vec(pattern(), 0..3);
    let tools = prop::sample::subsequence(TOOLS.to_vec(), 0..=6);
    let labels = prop::option::of(prop::sample::subsequence(vec!["external", "sensitive"], 0..=2));
    (
        patterns(),
        patterns(),
        tools,
        900_000_u64..2_000_001,
        prop::option::of(0_u64..3),
        labels,
        any::<[u8; 8]>(),
    )
        .prop_map(|(read, write, tools, expires, budget, labels, id)| Lease {
            id: LeaseId::new(1, [id[0], id[1], id[2], id[3], id[4], id[5], id[6], id[7], 0, 0]),
            tools: tools.into_iter().map(String::from).collect(),
            paths: Grants { read, write },
            budget: budget.map(|turns| Caps { turns, ..Caps::default() }),
            labels: labels.map(|names| names.iter().map(|name| name.parse().unwrap()).collect::<Labels>()),
            expires_at: Timestamp(expires),
            ..lease()
        })
}

fn request(path: &str) -> Vec<u8> {
    serde_json::to_vec(&serde_json::json!({ "tool": "x", "input": { "path": path } })).unwrap()
}

fn asks<'a>(tool: &'a str, request: &'a [u8], id: LeaseId) -> Action<'a> {
    let (effect, risk) = match tool {
        "read" | "list" | "search" => (Effect::Read, Risk::Read),
        _ => (Effect::WorkspaceWrite, Risk::Workspace),
    };
    let action = action(StepKind::ToolCall, effect, risk, tool);
    Action { lease: id, request, digest: Digest::of(request), ..action }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn no_sequence_of_narrowings_reaches_what_the_root_denies(
        root in wanted(),
        steps in prop::collection::vec(wanted(), 1..6),
        path in prop::sample::select(vec!["a", "a/b", "a/b/c", "b", "ab", "c/b", "../a", "/workspace/a", "."]),
    ) {
        let shelf = Arc::new(Shelf::default());
        let door = Door::new(shelf.clone(), Arc::new(Past::default()), 1_000);
        let root = leases::grant(&*shelf, &root).unwrap();
        let mut at = root.clone();
        for wanted in steps {
            prop_assume!(wanted.id != at.id && wanted.id != root.id);
            let Ok(Ok(child)) = narrow(&*shelf, at.id, &wanted) else { continue };
            prop_assert_eq!(leases::is_narrower(&root, &child), Ok(()));
            at = child;
        }
        let request = request(path);
        for tool in TOOLS {
            let reached = door.decide(&asks(tool, &request, at.id)).unwrap().verdict;
            let allowed = door.decide(&asks(tool, &request, root.id)).unwrap().verdict;
            prop_assert!(reached == Verdict::Deny || allowed != Verdict::Deny, "{} {} {:?}", tool, path, at);
        }
        for names in [&["external"][..], &["sensitive"], &["external", "sensitive"]] {
            let labels: Labels = names.iter().map(|name| name.parse().unwrap()).collect();
            prop_assert!(narrow::refuses(&at, &labels).is_some() || narrow::refuses(&root, &labels).is_none());
        }
    }
}

#[test]
fn each_further_kind_of_widening_is_refused() {
    let paths = |read: &[&str], write: &[&str]| Grants {
        read: read.iter().map(|text| text.parse().unwrap()).collect(),
        write: write.iter().map(|text| text.parse().unwrap()).collect(),
    };
    let labels: Labels = ["external".parse().unwrap()].into_iter().collect();
    let wide = Lease {
        paths: paths(&["**"], &["src/**"]),
        budget: Some(Caps::default()),
        labels: Some(labels.clone()),
        ..lease()
    };
    let child = Lease { paths: paths(&["docs"], &["src/a"]), ..wide.clone() };
    assert_eq!(leases::is_narrower(&wide, &child), Ok(()));
    let check = |child: Lease, why: Widening| assert_eq!(leases::is_narrower(&wide, &child), Err(why));
    check(Lease { paths: Grants::default(), ..child.clone() }, Widening::Path("**".into()));
    check(Lease { paths: paths(&[], &["src", "s*"]), ..child.clone() }, Widening::Path("s*".into()));
    check(Lease { budget: None, ..child.clone() }, Widening::Budget);
    let more = Caps { calls: Caps::default().calls + 1, ..Caps::default() };
    check(Lease { budget: Some(more), ..child.clone() }, Widening::Budget);
    check(Lease { labels: None, ..child.clone() }, Widening::Labels);
    let both = ["external", "sensitive"].iter().map(|name| name.parse().unwrap()).collect();
    check(Lease { labels: Some(both), ..child }, Widening::Labels);
}

#[test]
fn the_door_says_what_lies_outside_of_the_lease() {
    let shelf = Arc::new(Shelf::default());
    let door = Door::new(shelf.clone(), Arc::new(Past::default()), 1_000);
    let paths = Grants {
        read: ["docs/deep/**", "man/*.1"].map(|text| text.parse().unwrap()).to_vec(),
        write: vec!["src/**".parse().unwrap()],
    };
    let tools = TOOLS.map(String::from).to_vec();
    let lease = leases::grant(&*shelf, &Lease { paths, tools, ..lease() }).unwrap();
    let decide = |tool: &str, request: &[u8]| {
        let decision = door.decide(&asks(tool, request, lease.id)).unwrap();
        assert_eq!((decision.epoch, decision.lease), (1, lease.id));
        (decision.verdict, decision.rule)
    };
    for (tool, path) in [
        ("write", "src/new.rs"),
        ("edit", "/workspace/src/a"),
        ("read", "src/a"),
        ("read", "docs/deep/x"),
        ("list", "docs"),
        // What is in it by the pattern, the jail shows.
        ("list", "man"),
        ("read", "man/a.1"),
        ("list", "."),
        ("search", "src/../docs/deep"),
        // An output of an earlier step, and what the tool itself refuses: the jail has them.
        ("read", "/outputs/3.txt"),
        ("read", "../x"),
    ] {
        assert_eq!(decide(tool, &request(path)).0, Verdict::Allow, "{tool} {path}");
    }
    for (tool, path, named) in [
        ("write", "docs/deep/x", "src/**"),
        ("edit", "README.md", "src/**"),
        ("write", "src/../sum.sh", "src/**"),
        ("write", "srcs/a", "src/**"),
        ("read", "sum.sh", "docs/deep/**, man/*.1, src/**"),
        ("read", "docs", "docs/deep/**"),
        ("read", "man/b.2", "man/*.1"),
    ] {
        let (verdict, rule) = decide(tool, &request(path));
        assert_eq!(verdict, Verdict::Deny, "{tool} {path}");
        assert!(rule.starts_with("outside of the lease: `") && rule.contains(named), "{rule}");
        assert!(rule.contains("only the owner can grant it"), "{rule}");
    }
    assert_eq!(decide("list", br#"{"tool":"list","input":{}}"#).0, Verdict::Allow);
    for damaged in [&b""[..], b"{}", b"[]", br#"{"tool":"write","input":{}}"#] {
        assert_eq!(decide("write", damaged).0, Verdict::Deny, "{damaged:?}");
    }
    assert_eq!(decide("shell", b"{}").0, Verdict::Allow, "what a command may touch the jail says");
}
