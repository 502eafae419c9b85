//! Merges that the owner's rules allow: only with the proofs that an approval in advance wants, too.

use std::sync::Arc;

use domain::{Labels, Verdict};
use kernel::port::Action;
use trust::policy::file::parse;
use trust::policy::{Book, Level, Ruling, Setting};
use trust::{Case, Policy, export};

use crate::world::{lease, merge};

const DOCS: &str = "[[rule]]\nname = \"docs\"\nverdict = \"allow\"\ntool = \"merge\"\npaths = [\"docs/\", \"*.md\"]\nlifts = \"merge\"\n";

fn judge(rules: &str, level: Level, request: &str, taint: &[&str]) -> Ruling {
    let book = Arc::new(Book::new(parse(rules, "policy.toml", level).unwrap()).unwrap());
    let taint: Labels = taint.iter().map(|label| label.parse().unwrap()).collect();
    let action = Action { request: request.as_bytes(), ..merge() };
    let export = export::Rules::default();
    let case = Case { action: &action, lease: &lease(), merge_approved: false, export: &export };
    Policy::built_in().judge_in(&case, &Setting { book, taint, ..Setting::default() })
}

#[test]
fn a_rule_that_names_its_paths_merges_what_was_checked() {
    let docs = r#"{"checks":["make test"],"files":[{"path":"docs/a"},{"path":"README.md"}]}"#;
    let ruling = judge(DOCS, Level::Owner, docs, &[]);
    assert_eq!((ruling.verdict, ruling.rule.as_str()), (Verdict::Allow, "rule \"docs\" in policy.toml:1"));
    for (what, request, rules, taint, why) in [
        (
            "unchecked",
            r#"{"checks":[],"files":[{"path":"docs/a"}]}"#,
            DOCS,
            &[][..],
            "rule \"docs\" in policy.toml:1 covers what passes",
        ),
        (
            "checked by what nobody saw fail",
            r#"{"checks":["true"],"proposed":[{"before":"passed"}],"files":[{"path":"docs/a"}]}"#,
            DOCS,
            &[],
            "does not cover criteria of the agent's",
        ),
        (
            "other paths",
            r#"{"checks":["t"],"files":[{"path":"docs/a"},{"path":"src/x"}]}"#,
            DOCS,
            &[],
            "a merge needs",
        ),
        ("nothing said", r#"{"checks":["t"]}"#, DOCS, &[], "a merge needs"),
        ("no paths", docs, &DOCS.replace("paths = [\"docs/\", \"*.md\"]\n", ""), &[], "a merge needs"),
        ("both labels", docs, DOCS, &["external", "sensitive"], "rule of two"),
        (
            "what is to be seen",
            docs,
            &format!(
                "{DOCS}\n[[rule]]\nname = \"see\"\nverdict = \"ask\"\ntool = \"merge\"\npaths = \"README.md\"\n"
            ),
            &[],
            "rule \"see\"",
        ),
    ] {
        let ruling = judge(rules, Level::Project, request, taint);
        assert_eq!(ruling.verdict, Verdict::Ask, "{what}: {ruling:?}");
        assert!(ruling.rule.contains(why), "{what}: {}", ruling.rule);
    }
    // A repository cannot merge its own changes.
    assert!(parse(DOCS, "regie-policy.toml", Level::Repository).is_err());
}
