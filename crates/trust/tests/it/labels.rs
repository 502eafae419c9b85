//! Labels of files, and what labels do to decisions.

use domain::{Label, Labels, Lease, Verdict};
use kernel::port::Action;
use proptest::prelude::*;
use trust::policy::file::read;
use trust::policy::{Book, Example, Level, Setting};
use trust::{Case, Policy, export};

use crate::world::{lease, merge, strictness};

/// From the usual list and a file's own.
#[test]
fn files_are_labelled_by_their_paths() {
    let text = "[labels]\nmarket = [\"quotes/**\", \"*.csv\"]\nexternal = \"./vendor\"\n";
    let said = read(text, "regie-policy.toml", Level::Repository).unwrap();
    assert!(said.rules.is_empty());
    let book = Book::new(said.rules).unwrap().labelled(said.labels);
    for (path, labels) in [
        ("src/main.rs", &[][..]),
        ("import/a/b", &["external"]),
        ("src/import/a", &[]),
        ("vendor/x", &["external"]),
        ("src/vendor/x", &[]),
        ("deep/.ENV", &["sensitive"]),
        ("tests/key.pem", &["sensitive"]),
        ("import/key.pem", &["external", "sensitive"]),
        ("quotes/today.csv", &["market"]),
        ("secrets/a", &["sensitive"]),
        ("notes/secrets.md", &[]),
    ] {
        let found = book.labelling().of(path);
        assert_eq!(found.iter().map(Label::as_str).collect::<Vec<_>>(), labels, "{path}");
    }
}

fn labels(external: bool, sensitive: bool) -> Labels {
    let names = [(Label::EXTERNAL, external), (Label::SENSITIVE, sensitive)];
    names.iter().filter(|(_, has)| *has).map(|(name, _)| name.parse().unwrap()).collect()
}

proptest! {
    /// More labels never make a decision more lenient, and with both of them nothing outward is allowed unasked.
    #[test]
    fn labels_only_make_things_stricter(
        tool in prop_oneof![Just("read"), Just("shell"), Just("merge"), Just("setup"), Just("deliver"), Just("own")],
        (external, sensitive, is_about) in any::<(bool, bool, bool)>(),
        (more_external, more_sensitive) in any::<(bool, bool)>(),
        merge_approved in any::<bool>(),
    ) {
        let less = labels(external, sensitive);
        let mut more = less.clone();
        more.join(&labels(more_external, more_sensitive));
        let example = Example::parse(tool).unwrap();
        let lease = Lease { tools: vec![tool.into(), "merge".into()], ..lease() };
        let action = Action { kind: example.kind, effect: example.effect, risk: example.risk, tool, ..merge() };
        let export = export::Rules::default();
        let case = Case { action: &action, lease: &lease, merge_approved, export: &export };
        let judge = |labels: &Labels| {
            let (about, taint) = if is_about { (labels.clone(), Labels::none()) } else { (Labels::none(), labels.clone()) };
            let setting = Setting { labels: about, taint, ..Setting::default() };
            Policy::built_in().judge_in(&case, &setting).verdict
        };
        prop_assert!(strictness(judge(&more)) >= strictness(judge(&less)));
        if more.has(Label::EXTERNAL) && more.has(Label::SENSITIVE) && ["merge", "setup", "own"].contains(&tool) {
            prop_assert_ne!(judge(&more), Verdict::Allow);
        }
        if ["read", "shell", "deliver"].contains(&tool) {
            prop_assert_eq!(judge(&more), Verdict::Allow);
        }
    }
}
