//! The export gate's survey: each kind with its twin that only looks like it, and what holds for all.

use proptest::prelude::*;
use trust::export::{Altered, Change, Content, Kind, Report, Rules, Side, Standing, Survey};

const FILE: u32 = 0o100_644;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_000;
const SUBMODULE: u32 = 0o160_000;

/// A path, what was there and what is there: mode and content.
type Row<'a> = (&'a [u8], Option<(u32, &'a [u8])>, Option<(u32, &'a [u8])>);

fn survey(rules: Rules, rows: &[Row<'_>], names: &[&[u8]]) -> Report {
    let mut survey = Survey::new(rules).with_hooks_at("tools/git/");
    for (path, before, after) in rows {
        // The id of a content is whatever tells it from others.
        let id =
            |side: &Option<(u32, &[u8])>| side.map(|(_, content)| format!("{content:?}")).unwrap_or_default();
        let (old, new) = (id(before), id(after));
        let side = |side: &Option<(u32, &'_ [u8])>| side.map(|(mode, _)| mode);
        let content = |mode: u32, content: &'static [u8]| match mode {
            SUBMODULE => Content::Elsewhere,
            _ => Content::Whole(content),
        };
        // Contents live as long as the test.
        let leak = |side: &Option<(u32, &[u8])>| -> &'static [u8] {
            side.map(|(_, content)| &*content.to_vec().leak()).unwrap_or_default()
        };
        survey.see(&Change {
            path,
            before: side(before).map(|mode| Side { mode, id: &old, content: content(mode, leak(before)) }),
            after: side(after).map(|mode| Side { mode, id: &new, content: content(mode, leak(after)) }),
        });
    }
    for name in names {
        survey.hold(name);
    }
    survey.close()
}

fn kinds(rows: &[Row<'_>]) -> Vec<Kind> {
    let names: Vec<&[u8]> = rows.iter().filter(|row| row.2.is_some()).map(|row| row.0).collect();
    survey(Rules::default(), rows, &names).findings.iter().map(|finding| finding.kind).collect()
}

fn new(path: &str, content: &str) -> Vec<Kind> {
    kinds(&[(path.as_bytes(), None, Some((FILE, content.as_bytes())))])
}

fn turned(path: &str, before: &str, after: &str) -> Vec<Kind> {
    kinds(&[(path.as_bytes(), Some((FILE, before.as_bytes())), Some((FILE, after.as_bytes())))])
}

#[test]
fn places_count_when_they_are_new_or_changed_and_their_twins_do_not() {
    for (kind, path, twin) in [
        (Kind::Hook, ".husky/pre-commit", "src/hooks/useThing.ts"),
        (Kind::Hook, "tools/git/x", "tools/gitx/x"),
        (Kind::Agent, "sub/AGENTS.md", "docs/agents/list.md"),
        (Kind::Agent, ".mcp.json", "mcp.rs"),
        (Kind::Editor, ".vscode/tasks.json", ".editorconfig"),
        (Kind::Shell, ".envrc", ".env.example"),
        (Kind::Regie, "regie.toml", "docs/regie.md"),
        (Kind::Ci, ".github/workflows/ci.yml", "github/workflows/ci.yml"),
        (Kind::Build, "Makefile", "docs/Makefile.md"),
        (Kind::Package, ".npmrc", "docs/npmrc.md"),
        (Kind::Submodule, ".gitmodules", "gitmodules.md"),
        (Kind::Attributes, ".gitattributes", "gitattributes.md"),
        (Kind::Environment, ".venv/bin/activate", "src/venv.rs"),
        (Kind::Guard, ".github/CODEOWNERS", "docs/owners.md"),
    ] {
        assert_eq!(new(path, "a\n"), [kind], "{path}");
        assert_eq!(turned(path, "a\n", "b\n"), [kind], "{path}");
        assert_eq!(new(twin, "a\n"), [], "{twin}");
    }
}

#[test]
fn manifests_count_by_their_keys_and_lock_files_by_their_sources() {
    let old = r#"{"version":"1","scripts":{"test":"a"}}"#;
    assert_eq!(turned("package.json", old, &old.replace("\"1\"", "\"2\"")), []);
    let report = survey(
        Rules::default(),
        &[(
            b"package.json",
            Some((FILE, old.as_bytes())),
            Some((FILE, old.replace("\"a\"", "\"b\"").as_bytes())),
        )],
        &[],
    );
    let finding = &report.findings[0];
    assert_eq!(
        (finding.kind, finding.what.as_slice(), finding.line),
        (Kind::Package, &["scripts.test".to_owned()][..], Some(1))
    );
    assert_eq!(
        turned("Cargo.lock", "source = \"https://a/b\"\n", "version = 2\nsource = \"https://a/b\"\n"),
        []
    );
    assert_eq!(
        turned("Cargo.lock", "source = \"https://a/b\"\n", "source = \"https://c/b\"\n"),
        [Kind::Package]
    );
}

#[test]
fn what_is_gone_counts_where_it_guarded_or_checked() {
    let gone = |path: &str| kinds(&[(path.as_bytes(), Some((FILE, b"a\n")), None)]);
    assert_eq!(gone("CODEOWNERS"), [Kind::Guard]);
    assert_eq!(gone(".gitignore"), [Kind::Guard]);
    assert_eq!(gone("tests/a.rs"), [Kind::Guard]);
    assert_eq!(gone(".github/workflows/ci.yml"), [Kind::Ci]);
    assert_eq!(gone(".pre-commit-config.yaml"), [Kind::Hook]);
    for twin in ["Makefile", "src/a.rs", ".vscode/tasks.json"] {
        assert_eq!(gone(twin), [], "{twin}");
    }
    assert_eq!(turned(".gitignore", "# a\n.env\nx\n", "x\n"), [Kind::Guard]);
    assert_eq!(turned(".gitignore", "x\n", "x\n!.env\n"), [Kind::Guard]);
    assert_eq!(turned(".gitignore", "x\n", "x\ny\n"), []);
}

#[test]
fn programs_links_and_what_cannot_be_seen_count() {
    let of = |path: &[u8], before, after| kinds(&[(path, before, Some(after))]);
    assert_eq!(of(b"a.sh", None, (PROGRAM, b"echo\n")), [Kind::Executable]);
    assert_eq!(of(b"a.sh", Some((FILE, &b"echo\n"[..])), (PROGRAM, b"echo\n")), [Kind::Executable]);
    assert_eq!(of(b"a.sh", Some((PROGRAM, &b"echo\n"[..])), (FILE, b"echo\n")), []);
    assert_eq!(of(b"a", None, (FILE, b"#!/bin/sh\n")), [Kind::Executable]);
    assert_eq!(of(b"a.sh", None, (FILE, b"echo # !/bin/sh\n")), []);
    for magic in [&b"\x7fELF\0"[..], b"MZ\0", b"\xcf\xfa\xed\xfe\0", b"\0asm\0"] {
        assert_eq!(of(b"a.bin", None, (FILE, magic)), [Kind::Executable], "{magic:?}");
    }
    assert_eq!(of(b"a.dat", None, (FILE, b"a\0b")), [Kind::Binary]);
    assert_eq!(of(b"a.txt", None, (FILE, b"\xff\xfe")), [Kind::Binary]);
    // What was in another encoding before stays so, and hides no more than another text.
    let latin = Some((FILE, &b"caf\xe9 noir\n"[..]));
    assert_eq!(of(b"a.txt", latin, (FILE, b"caf\xe9 au lait\n")), []);
    assert_eq!(of(b"a.txt", latin, (FILE, "caf\u{e9}\n".as_bytes())), []);
    let turned_round = [&b"caf\xe9 "[..], "\u{202e}".as_bytes(), b"\n"].concat();
    assert_eq!(of(b"a.txt", latin, (FILE, &turned_round)), [Kind::HiddenText]);
    assert_eq!(of(b"a.png", None, (FILE, b"\x89PNG\r\n\x1a\n\0")), []);
    assert_eq!(of(b"b.png", None, (FILE, b"MZ\0")), [Kind::Executable]);
    assert_eq!(of(b"MZ.txt", None, (FILE, b"MZ is a text\n")), []);
    assert_eq!(of(b"a/l", None, (LINK, b"../b")), [Kind::Link]);
    for target in [&b"/etc/passwd"[..], b"../../b", b"x/../../../y", b"..\\x", b"../.git/hooks", b""] {
        assert_eq!(of(b"a/l", None, (LINK, target)), [Kind::LinkOut], "{target:?}");
    }
    assert_eq!(of(b".vscode", None, (LINK, b"docs")), [Kind::Link]);
    assert_eq!(of(b".vscode/tasks.json", None, (LINK, b"x")), [Kind::Editor, Kind::Link]);
    assert_eq!(of(b"lib/x", Some((SUBMODULE, &b"1"[..])), (SUBMODULE, b"2")), [Kind::Submodule]);
    assert_eq!(of(b"pipe", None, (0o010_644, b"")), [Kind::Special]);
    assert_eq!(of("a.js".as_bytes(), None, (FILE, "x\u{202e}\n".as_bytes())), [Kind::HiddenText]);
    let wide = format!("a;{}b\n", " ".repeat(300));
    assert_eq!(of(b"a.js", None, (FILE, wide.as_bytes())), [Kind::LongLine]);
}

#[test]
fn what_was_not_read_counts() {
    let mut survey = Survey::new(Rules::default());
    let after = Some(Side { mode: PROGRAM, id: "1", content: Content::Unread });
    survey.see(&Change { path: b"big", before: None, after });
    let after = Some(Side { mode: FILE, id: "1", content: Content::Unread });
    survey.see(&Change { path: b"package.json", before: None, after });
    let report = survey.close();
    let found: Vec<_> = report.findings.iter().map(|one| (one.kind, one.path.as_str())).collect();
    assert_eq!(found, [(Kind::Unread, "big"), (Kind::Unread, "package.json"), (Kind::Executable, "big")]);
}

#[test]
fn names_and_repositories_count_against_the_whole_tree() {
    let rows: &[Row<'_>] = &[
        (b"Src/a.rs", None, Some((FILE, b"a"))),
        (b"x/HEAD", None, Some((FILE, b"ref: refs/heads/main\n"))),
        (b"x/objects/keep", None, Some((FILE, b""))),
        (b"y/.git/config", None, Some((FILE, b"[core]\n"))),
        (b"nul.txt", None, Some((FILE, b"a"))),
    ];
    let names: &[&[u8]] =
        &[b"Src/a.rs", b"src/b.rs", b"x/HEAD", b"x/objects/keep", b"x/refs/heads/main", b"y/.git/config"];
    let report = survey(Rules::default(), rows, names);
    let found: Vec<_> = report.findings.iter().map(|one| (one.kind, one.path.as_str())).collect();
    assert_eq!(
        found,
        [
            (Kind::Name, "nul.txt"),
            (Kind::Name, "src"),
            (Kind::Repository, "x"),
            (Kind::Repository, "y/.git/config")
        ]
    );
    assert_eq!(report.findings[1].what, ["collides with Src"]);
}

#[test]
fn a_report_is_bounded_and_says_what_it_leaves_out() {
    let mut survey = Survey::new(Rules::parse(&["build".into()], &[], &["a30000/".into()]).unwrap());
    let after = |id| Some(Side { mode: FILE, id, content: Content::Whole(b"a\n") });
    for number in (0..50_000).rev() {
        survey.see(&Change {
            path: format!("a{number}/Makefile").as_bytes(),
            before: None,
            after: after("1"),
        });
    }
    survey.see(&Change { path: b".envrc", before: None, after: after("1") });
    let report = survey.close();
    assert_eq!((report.findings.len(), report.total(), report.unlisted), (200, 50_001, 49_801));
    assert_eq!(report.counted(), "1 shell, 50000 build");
    let first: Vec<_> = report.findings.iter().take(3).map(|one| (one.standing, one.path.as_str())).collect();
    assert_eq!(
        first,
        [
            (Standing::Denied, "a30000/Makefile"),
            (Standing::Asks, ".envrc"),
            (Standing::Allowed, "a0/Makefile")
        ],
        "what is denied is never among what is left out"
    );
}

#[test]
fn the_change_is_named() {
    let of = |before, after| survey(Rules::default(), &[(b".envrc", before, after)], &[]).findings;
    let file = |content| Some((FILE, content));
    assert_eq!(of(None, file(&b"a"[..]))[0].change, Altered::Added);
    assert_eq!(of(file(b"a"), file(b"b"))[0].change, Altered::Modified);
    assert_eq!(of(file(b"a"), Some((LINK, b"a")))[0].change, Altered::Type);
    assert_eq!(of(file(b"a"), Some((PROGRAM, b"a")))[0].change, Altered::Mode);
}

/// Paths and contents that come near to what is looked for.
fn parts() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        &b".git"[..],
        b"hooks",
        b"HEAD",
        b"objects",
        b"refs",
        b"package.json",
        b"Makefile",
        b"..",
        b"Src",
        b"src",
        b".vscode",
        b"\xff",
        "\u{202e}".as_bytes(),
        b"Cargo.toml",
        b"go.mod",
        b"a.lock",
        b"yarn.lock",
        b"con",
        b"",
    ]);
    let part = prop_oneof![known.prop_map(<[u8]>::to_vec), prop::collection::vec(1u8.., 0..6)];
    prop::collection::vec(part, 1..5).prop_map(|parts| parts.join(&b'/'))
}

/// One side of a change, or none.
type Owned = Option<(u32, Vec<u8>)>;

fn sides() -> impl Strategy<Value = Owned> {
    let mode = prop::sample::select(vec![FILE, PROGRAM, LINK, SUBMODULE, 0o040_000, 7]);
    let content = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..80),
        "\\PC{0,60}".prop_map(String::into_bytes),
        "[{}\":a-z/\\[\\]=\n.]{0,80}".prop_map(String::into_bytes),
        ".{0,20}://.{0,20}".prop_map(String::into_bytes),
    ];
    prop::option::of((mode, content))
}

proptest! {
    /// Whatever a tree holds: it is looked at without a panic, the report is in order and the same in
    /// whatever order the changes come, its counts are those of its findings, and what did not change is
    /// no finding.
    #[test]
    fn every_change_can_be_looked_at(rows in prop::collection::btree_map(parts(), (sides(), sides()), 0..12)) {
        let rows: Vec<(Vec<u8>, Owned, Owned)> =
            rows.into_iter().map(|(path, (before, after))| (path, before, after)).collect();
        fn borrowed(side: &Owned) -> Option<(u32, &[u8])> {
            side.as_ref().map(|(mode, content)| (*mode, content.as_slice()))
        }
        let mut all: Vec<Row<'_>> =
            rows.iter().map(|(path, before, after)| (path.as_slice(), borrowed(before), borrowed(after))).collect();
        let names: Vec<&[u8]> = all.iter().filter(|row| row.2.is_some()).map(|row| row.0).collect();
        let report = survey(Rules::default(), &all, &names);
        prop_assert!(report.findings.is_sorted());
        let listed = u64::try_from(report.findings.len()).unwrap();
        prop_assert_eq!(report.total(), listed + report.unlisted);
        prop_assert!(report.findings.iter().all(|one| !one.path.chars().any(char::is_control)));
        let read: Report = serde_json::from_slice(&serde_json::to_vec(&report).unwrap()).unwrap();
        prop_assert_eq!(&read, &report);
        all.reverse();
        prop_assert_eq!(survey(Rules::default(), &all, &names), report);
        prop_assert_eq!(survey(Rules::default(), &[], &names).total(), 0);
    }
}
