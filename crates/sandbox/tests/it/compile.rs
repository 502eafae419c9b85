//! Rules become mounts: named cases, and random ones held against a matcher that knows no mounts.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use globset::GlobBuilder;
use proptest::prelude::*;
use sandbox::compile::{
    Absent, Base, Compiled, Error, Kind, Look, Pattern, Rights, Rule, Rules, Verb, Why, compile,
};
use sandbox::{Access, Mount};

/// A file tree in memory; parents of what it holds are directories.
#[derive(Clone, Debug, Default)]
struct Tree(BTreeMap<PathBuf, Kind>);

impl Tree {
    fn of(paths: &[&str]) -> Self {
        let mut tree = Self::default();
        for path in paths {
            let (path, kind) = match (path.strip_suffix('/'), path.strip_suffix('@')) {
                (Some(path), _) => (path, Kind::Directory),
                (_, Some(path)) => (path, Kind::Link),
                _ => (*path, Kind::File),
            };
            tree.put(Path::new(path), kind);
        }
        tree
    }

    fn put(&mut self, path: &Path, kind: Kind) {
        for above in path.ancestors().skip(1) {
            self.0.insert(above.to_owned(), Kind::Directory);
        }
        self.0.entry(path.to_owned()).or_insert(kind);
    }
}

impl Look for Tree {
    fn kind(&self, path: &Path) -> Kind {
        self.0.get(path).copied().unwrap_or(Kind::Absent)
    }

    fn names(&self, path: &Path) -> io::Result<Vec<OsString>> {
        if path.ends_with("closed") {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let names = self.0.keys().filter(|other| other.parent() == Some(path));
        Ok(names.filter_map(|other| other.file_name()).map(OsStr::to_owned).collect())
    }
}

fn base() -> Base {
    Base { workspace: "/w".into(), home: Some("/home/me".into()) }
}

/// `verb pattern` a line.
fn rules(text: &str) -> Rules {
    let paths = text.lines().map(str::trim).filter(|line| !line.is_empty()).map(|line| {
        let (verb, pattern) = line.split_once(' ').unwrap();
        let verb = match verb {
            "deny" => Verb::Deny,
            "read" => Verb::Read,
            "write" => Verb::Write,
            "exec" => Verb::Exec,
            other => panic!("no verb {other}"),
        };
        Rule::new(verb, Pattern::glob(pattern, &base()).unwrap(), line)
    });
    Rules { paths: paths.collect(), system: vec![], cwd: None }
}

fn shown(compiled: &Compiled) -> Vec<String> {
    let one = |laid: &sandbox::compile::Laid| {
        format!("{} {:?} {:?}", laid.mount.target.display(), laid.mount.access, laid.why)
    };
    let mut all: Vec<String> = compiled.laid.iter().map(one).collect();
    all.sort();
    all
}

#[track_caller]
fn check(tree: &[&str], text: &str, wanted: &[&str]) {
    let compiled = compile(&rules(text), &Tree::of(tree)).unwrap();
    assert_eq!(shown(&compiled), wanted, "{text}");
}

#[test]
fn a_grant_is_one_mount_and_rights_of_one_path_are_joined() {
    check(&["/w/a"], "write .", &["/w WriteNoExec Granted"]);
    check(&["/w/a"], "write .\nexec .", &["/w Write Granted"]);
    check(
        &["/w/a", "/home/me/x"],
        "exec ~/x\nread /w/./a/",
        &["/home/me/x Read Granted", "/w/a ReadNoExec Granted"],
    );
}

#[test]
fn what_is_denied_in_a_grant_is_covered_and_its_ancestors_are_held() {
    check(
        &["/w/a/b/secret", "/w/c"],
        "write .\ndeny a/b/secret",
        &["/w WriteNoExec Granted", "/w/a Hold Held", "/w/a/b Hold Held", "/w/a/b/secret Cover Denied"],
    );
    // Where nothing can be renamed nothing needs to be held.
    check(&["/w/a/secret"], "read .\ndeny a/secret", &["/w ReadNoExec Granted", "/w/a/secret Cover Denied"]);
}

#[test]
fn deny_wins_whatever_stands_below_it() {
    check(&["/w/a/b"], "write .\nwrite a/b\ndeny a", &["/w WriteNoExec Granted", "/w/a Cover Denied"]);
    check(&["/w/a/b"], "write .\ndeny .", &[]);
    check(&["/w/a/b"], "write .\ndeny **", &[]);
    check(&["/w/a/b"], "write .\ndeny /**", &[]);
}

#[test]
fn a_glob_that_matches_everything_in_a_directory_denies_the_directory() {
    for glob in ["a/*", "a/**", "a/**/*"] {
        check(
            &["/w/a/b", "/w/c"],
            &format!("write .\ndeny {glob}"),
            &["/w WriteNoExec Granted", "/w/a Cover Denied"],
        );
    }
}

#[test]
fn what_is_denied_and_not_there_cannot_be_made() {
    check(
        &["/w/a/b"],
        "write .\ndeny a/secret",
        &["/w WriteNoExec Granted", "/w/a Hold Held", "/w/a/secret Cover Absent"],
    );
    // The first name that is missing stands for all below it, also before wildcards.
    for glob in ["keys/deep/secret", "keys/*.pem", "keys/**"] {
        check(
            &["/w/a/"],
            &format!("write .\ndeny {glob}"),
            &["/w WriteNoExec Granted", "/w/keys Cover Absent"],
        );
    }
    // Nothing is made where nothing can be.
    check(&["/w/a/"], "read .\ndeny keys", &["/w ReadNoExec Granted"]);
}

#[test]
fn a_rule_about_what_is_there_leaves_what_is_not() {
    let mut left = rules("write .\nread .git\nread .x*");
    for rule in &mut left.paths {
        rule.absent = Absent::Left;
    }
    let tree = Tree::of(&["/w/.x1", "/w/a"]);
    let compiled = compile(&left, &tree).unwrap();
    assert_eq!(shown(&compiled), ["/w WriteNoExec Granted", "/w/.x1 ReadNoExec Granted"]);
    assert_eq!(compiled.idle, [1]);
}

#[test]
fn without_a_boundary_the_directory_is_not_writable_and_others_in_it_are() {
    check(
        &["/w/src/main", "/w/one.key", "/w/text"],
        "write .\ndeny *.key",
        &["/w ReadNoExec Frozen", "/w/one.key Cover Denied", "/w/src WriteNoExec Reopened"],
    );
    check(
        &["/w/src/main", "/w/conf/a.key", "/w/conf/sub/"],
        "write .\ndeny conf/*.key",
        &[
            "/w WriteNoExec Granted",
            "/w/conf ReadNoExec Frozen",
            "/w/conf/a.key Cover Denied",
            "/w/conf/sub WriteNoExec Reopened",
        ],
    );
    // A match is possible everywhere: nothing is writable.
    check(
        &["/w/src/.env", "/w/text"],
        "write .\ndeny **/.env",
        &["/w ReadNoExec Frozen", "/w/src/.env Cover Denied"],
    );
}

#[test]
fn read_inside_write_and_write_inside_read() {
    check(
        &["/w/a/lock", "/w/b"],
        "write .\nread a/lock",
        &["/w WriteNoExec Granted", "/w/a Hold Held", "/w/a/lock ReadNoExec Granted"],
    );
    check(&["/w/out/x"], "read .\nwrite out", &["/w ReadNoExec Granted", "/w/out WriteNoExec Granted"]);
    // What may be executed is a matter of its own.
    check(&["/w/bin/x"], "write .\nexec bin\nwrite bin", &["/w WriteNoExec Granted", "/w/bin Write Granted"]);
}

#[test]
fn a_grant_by_wildcards_is_what_matches_now() {
    check(
        &["/w/a/lib/", "/w/b/lib/", "/w/c/x"],
        "read /w/*/lib",
        &["/w/a/lib ReadNoExec Granted", "/w/b/lib ReadNoExec Granted"],
    );
    let none = compile(&rules("read /w/*/lib\ndeny /o/**"), &Tree::of(&["/w/c/x"])).unwrap();
    assert_eq!((shown(&none), none.idle), (vec![], vec![0, 1]));
}

#[test]
fn a_directory_that_cannot_be_read_is_covered_where_it_might_hold_a_match() {
    let tree = Tree::of(&["/w/closed/", "/w/a"]);
    let compiled = compile(&rules("read .\ndeny **/.env"), &tree).unwrap();
    assert_eq!(shown(&compiled), ["/w ReadNoExec Granted", "/w/closed Cover Unreadable"]);
    // And is of no concern where it cannot.
    let compiled = compile(&rules("read .\ndeny closed/.env"), &tree).unwrap();
    assert_eq!(shown(&compiled), ["/w ReadNoExec Granted"]);
}

#[test]
fn the_system_is_shown_without_what_is_denied_of_it() {
    let link = |source: &str, target: &str| Mount {
        source: source.into(),
        target: target.into(),
        access: Access::Link,
    };
    let mut some = rules("deny /usr/share/doc\ndeny /etc/localtime\nwrite .");
    some.system = vec![Mount::read("/usr"), link("usr/bin", "/bin"), Mount::read("/etc/localtime")];
    some.cwd = Some("/w/a".into());
    let tree = Tree::of(&["/usr/share/doc/x", "/etc/localtime@", "/w/a/"]);
    let compiled = compile(&some, &tree).unwrap();
    assert_eq!(
        shown(&compiled),
        ["/bin Link System", "/usr Read System", "/usr/share/doc Cover Denied", "/w WriteNoExec Granted",]
    );
    // Through a link of the system a rule would be about nothing.
    some.paths = rules("write .\ndeny /bin/sh").paths;
    assert_eq!(compile(&some, &tree).unwrap_err(), Error::Link { path: "/bin".into() });
    assert_eq!(compiled.laid.iter().filter(|laid| laid.why == Why::System && laid.rule.is_some()).count(), 0);
}

#[test]
fn rules_that_mean_nothing_or_two_things_are_refused() {
    let refused = |text: &str| Pattern::glob(text, &base()).unwrap_err();
    assert_eq!(refused(""), Error::Empty);
    assert_eq!(refused("a\0b"), Error::Nul);
    assert!(matches!(refused("../x"), Error::Detour { .. }));
    assert!(matches!(refused("/w/a/../b"), Error::Detour { .. }));
    assert!(matches!(refused("~root/x"), Error::OtherHome { .. }));
    for unclear in ["{a,b}", "[", "[]", "[z-a]", "a\\", "\\.."] {
        assert!(matches!(refused(unclear), Error::Unclear { .. }), "{unclear}");
    }
    let homeless = Base { home: None, ..base() };
    assert!(matches!(Pattern::glob("~/x", &homeless), Err(Error::NoHome { .. })));
    assert!(matches!(Pattern::literal(Path::new("a")), Err(Error::Relative { .. })));
    let bytes = Path::new(OsStr::from_bytes(b"/w/\xff"));
    assert!(matches!(Pattern::literal(bytes), Err(Error::NotText { .. })));
    // What it says fits in a line, whatever the path holds.
    let message = refused("a\nb/../c").to_string();
    assert!(!message.contains('\n') && message.contains("a\\nb"), "{message}");
}

#[test]
fn grants_that_cannot_be_given_are_refused() {
    let tree = Tree::of(&["/w/link@", "/w/a", "/proc/x"]);
    let refused = |text: &str| compile(&rules(text), &tree).unwrap_err();
    assert_eq!(refused("write b"), Error::Missing { path: "/w/b".into() });
    for text in
        ["write link", "write link/below", "read .\ndeny link", "read .\ndeny link/x", "read .\ndeny l*"]
    {
        assert_eq!(refused(text), Error::Link { path: "/w/link".into() }, "{text}");
    }
    for text in ["read /", "read /proc", "read /proc/x"] {
        assert!(matches!(refused(text), Error::Own { .. }), "{text}");
    }
    // By wildcards a link is met, not named: it is a file of its directory and nothing more.
    assert!(compile(&rules("read .\ndeny **/x"), &tree).is_ok());
    let mut away = rules("read a");
    away.cwd = Some("/w".into());
    assert!(matches!(compile(&away, &tree), Err(Error::Cwd { .. })));
    for (long, is_long) in [("d/".repeat(600), false), (format!("{}/", "d".repeat(250)).repeat(17), true)] {
        let long = format!("/w/{long}");
        let deep = Tree::of(&[&long]);
        let error = compile(&rules(&format!("write {long}")), &deep).unwrap_err();
        assert_eq!(matches!(error, Error::TooLong { .. }), is_long, "{error}");
        assert!(is_long || matches!(error, Error::TooDeep { .. }), "{error}");
        assert!(error.to_string().len() < 300, "{error}");
    }
}

#[test]
fn names_of_a_tree_that_are_not_utf8_are_named_or_of_no_concern() {
    let mut tree = Tree::of(&["/w/a"]);
    tree.put(Path::new(OsStr::from_bytes(b"/w/\xff.key")), Kind::File);
    tree.put(Path::new("/w/new\nline.key"), Kind::File);
    assert!(matches!(compile(&rules("read .\ndeny *.key"), &tree), Err(Error::NotText { .. })));
    let compiled = compile(&rules("read .\ndeny new*"), &tree).unwrap();
    assert_eq!(shown(&compiled), ["/w ReadNoExec Granted", "/w/new\nline.key Cover Denied"]);
}

#[test]
fn what_cannot_be_looked_at_is_covered_where_a_rule_might_keep_something_of_it() {
    let mut tree = Tree::of(&["/w/a"]);
    tree.put(Path::new("/w/dim/x"), Kind::Unseen);
    let compiled = |text: &str| compile(&rules(text), &tree).map(|compiled| shown(&compiled));
    let covered = ["/w ReadNoExec Granted", "/w/dim Cover Unreadable"];
    assert_eq!(compiled("read .\ndeny **/secret").unwrap(), covered);
    assert_eq!(compiled("read .\ndeny dim/x/deep/secret").unwrap(), covered);
    assert_eq!(compiled("read .\ndeny dim/x").unwrap(), covered);
    let kept = ["/w WriteNoExec Granted", "/w/dim Cover Unreadable"];
    assert_eq!(compiled("write .\nread dim/x/kept").unwrap(), kept);
    assert_eq!(compiled("read .\ndeny *.key").unwrap(), ["/w ReadNoExec Granted"]);
    assert_eq!(compiled("read dim/x"), Err(Error::Unseen { path: "/w/dim/x".into() }));
    // Below a path that the kernel does not take as one there may be anything.
    let mut deep = Tree::of(&["/w/a"]);
    deep.put(Path::new(&format!("/w/{}", "d".repeat(250) + "/").repeat(17)), Kind::Unseen);
    let error = compile(&rules("read .\ndeny **/secret"), &deep).unwrap_err();
    assert!(matches!(error, Error::TooLong { .. }), "{error}");
    assert!(compile(&rules("read .\ndeny a"), &deep).is_ok());
}

#[test]
fn a_name_that_no_file_can_have_is_of_no_concern() {
    let long = "x".repeat(256);
    for text in [format!("write .\ndeny {long}"), format!("write .\ndeny {long}/below")] {
        let compiled = compile(&rules(&text), &Tree::of(&["/w/a"])).unwrap();
        assert_eq!((shown(&compiled), compiled.idle), (vec!["/w WriteNoExec Granted".into()], vec![1]));
    }
}

#[test]
fn rules_that_name_files_look_at_these_alone_and_wildcards_at_no_more_than_a_million() {
    /// A directory of many files, which counts how often it is looked at.
    struct Many(Tree, usize, std::cell::Cell<(usize, usize)>);
    impl Look for Many {
        fn kind(&self, path: &Path) -> Kind {
            let (kinds, names) = self.2.get();
            self.2.set((kinds + 1, names));
            if path.parent() == Some(Path::new("/w/many")) { Kind::File } else { self.0.kind(path) }
        }

        fn names(&self, path: &Path) -> io::Result<Vec<OsString>> {
            let (kinds, names) = self.2.get();
            self.2.set((kinds, names + 1));
            match path == Path::new("/w/many") {
                true => Ok((0..self.1).map(|number| number.to_string().into()).collect()),
                false => self.0.names(path),
            }
        }
    }
    let look = |many: usize, text: &str| {
        let many = Many(Tree::of(&["/w/many/", "/w/a"]), many, Default::default());
        let compiled = compile(&rules(text), &many);
        (compiled.map(|compiled| shown(&compiled).len()), many.2.get())
    };
    let (mounts, (kinds, names)) = look(1_000_001, "write .\nexec .\ndeny many/7\nread many/new\nread a");
    assert_eq!((mounts, names), (Ok(5), 0));
    assert!(kinds < 10, "{kinds} looks");
    assert_eq!(look(100_000, "write .\ndeny many/*.key").0, Ok(2));
    assert!(matches!(look(1_000_001, "write .\ndeny **/*.key").0, Err(Error::TooLarge { .. })));
}

#[test]
fn too_much_is_refused() {
    let mut tree = Tree::default();
    for number in 0..5_000 {
        tree.put(Path::new(&format!("/w/{number}.key")), Kind::File);
    }
    assert!(matches!(compile(&rules("read .\ndeny *.key"), &tree), Err(Error::TooMany { .. })));
}

/// What the rules say of a path, by a matcher that looks at every path on its own.
struct Judge<'a>(&'a [(Verb, String)]);

impl Judge<'_> {
    fn rights(&self, path: &Path) -> Rights {
        let names: Vec<&str> = path.to_str().unwrap().split('/').skip(1).collect();
        let mut nearest = None;
        for length in (0..=names.len()).rev() {
            let here: Vec<Verb> = self
                .0
                .iter()
                .filter(|(_, glob)| means(&glob[1..].split('/').collect::<Vec<_>>(), &names[..length]))
                .map(|(verb, _)| *verb)
                .collect();
            if here.contains(&Verb::Deny) {
                return Rights::NONE;
            }
            nearest = nearest.or(here.into_iter().map(Rights::of).reduce(Rights::and));
        }
        nearest.unwrap_or(Rights::NONE)
    }
}

/// Whether a glob of the parts below means these names; held against another matcher's opinion below.
fn means(parts: &[&str], names: &[&str]) -> bool {
    match (parts, names) {
        ([], []) => true,
        (["**"], names) => !names.is_empty(),
        (["**", rest @ ..], names) => (0..=names.len()).any(|skipped| means(rest, &names[skipped..])),
        ([part, parts @ ..], [name, names @ ..]) => {
            let is_like = match *part {
                "*" => true,
                "*.key" => name.ends_with(".key"),
                "?" => name.len() == 1,
                "[ab]" => ["a", "b"].contains(name),
                "[!a]" => name.len() == 1 && *name != "a",
                part => part == *name,
            };
            is_like && means(parts, names)
        }
        _ => false,
    }
}

/// What the mounts give.
fn given(compiled: &Compiled, path: &Path) -> Rights {
    let mut over: Vec<&Mount> = compiled
        .laid
        .iter()
        .map(|laid| &laid.mount)
        .filter(|mount| path.starts_with(&mount.target))
        .collect();
    over.sort_by_key(|mount| std::cmp::Reverse(mount.target.components().count()));
    over.iter().find_map(|mount| Rights::of_access(mount.access)).unwrap_or(Rights::NONE)
}

const NAMES: [&str; 6] = ["a", "b", "c", "x.key", "y.key", ".e"];
const PARTS: [&str; 12] = ["a", "b", "c", "x.key", ".e", "*", "*.key", "**", "?", "[ab]", "[!a]", "**"];

fn a_tree() -> impl Strategy<Value = Tree> {
    let path = proptest::collection::vec(proptest::sample::select(&NAMES[..]), 1..5);
    let entry = (proptest::sample::select(vec!["/w", "/o"]), path, any::<bool>());
    proptest::collection::vec(entry, 1..14).prop_map(|entries| {
        let mut tree = Tree::default();
        for (root, names, is_directory) in entries {
            let path: PathBuf = [root].into_iter().chain(names).collect();
            let kind = if is_directory { Kind::Directory } else { Kind::File };
            // Below a file nothing stands.
            if path.ancestors().skip(1).all(|above| tree.kind(above) != Kind::File) {
                tree.put(&path, kind);
            }
        }
        tree
    })
}

fn some_rules(parts: &'static [&'static str]) -> impl Strategy<Value = Vec<(Verb, String)>> {
    let verb = proptest::sample::select(vec![Verb::Deny, Verb::Deny, Verb::Read, Verb::Write, Verb::Exec]);
    let names = proptest::collection::vec(proptest::sample::select(parts), 0..4);
    let rule = (verb, proptest::sample::select(vec!["/w", "/w", "/o"]), names);
    proptest::collection::vec(rule, 0..5).prop_map(|rules| {
        let first = [(Verb::Write, "/w".to_owned())];
        let more = rules.into_iter().map(|(verb, root, names)| {
            (
                verb,
                [root]
                    .into_iter()
                    .chain(names)
                    .collect::<Vec<_>>()
                    .join("/")
                    .replace("**/**", "**")
                    .replace("**/**", "**"),
            )
        });
        first.into_iter().chain(more).collect()
    })
}

fn compiled(tree: &Tree, rules: &[(Verb, String)]) -> Result<Compiled, Error> {
    let one = |(verb, glob): &(Verb, String)| Rule::new(*verb, Pattern::glob(glob, &base()).unwrap(), glob);
    let paths = rules.iter().map(one).collect();
    compile(&Rules { paths, system: vec![], cwd: None }, tree)
}

/// Names that are not there, one and two levels below each directory.
fn absent(tree: &Tree) -> Vec<PathBuf> {
    let directories =
        tree.0.iter().filter(|(path, kind)| **kind == Kind::Directory && path.parent().is_some());
    let mut all = Vec::new();
    for (path, _) in directories {
        for name in NAMES.iter().chain(&["zz"]) {
            let new = path.join(name);
            if tree.kind(&new) == Kind::Absent {
                all.extend(NAMES.iter().map(|name| new.join(name)));
                all.push(new);
            }
        }
    }
    all
}

/// Fewer in a quick run than in a proof.
fn cases() -> ProptestConfig {
    let is_proof = std::env::var_os("REGIE_PROOF").is_some();
    ProptestConfig {
        cases: if is_proof { 200_000 } else { 4_096 },
        failure_persistence: None,
        ..Default::default()
    }
}

/// For what builds a matcher for each, which takes its time.
fn fewer_cases() -> ProptestConfig {
    ProptestConfig { cases: cases().cases / 8, ..cases() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn mounts_never_give_more_than_the_rules(tree in a_tree(), rules in some_rules(&PARTS)) {
        let Ok(compiled) = compiled(&tree, &rules) else { return Ok(()) };
        let judge = Judge(&rules);
        for path in tree.0.keys() {
            let (has, may) = (given(&compiled, path), judge.rights(path));
            prop_assert!(may.holds(has), "{path:?}: {has:?} of {may:?}\n{:?}", shown(&compiled));
        }
        for path in absent(&tree) {
            let (has, may) = (given(&compiled, &path), judge.rights(&path));
            // What is not there can only be made; then it has the rights of where it is.
            prop_assert!(!has.can_write() || may.holds(has), "new {path:?}: {has:?} of {may:?}\n{:?}", shown(&compiled));
        }
        // Nothing that is protected can be moved away with what it is in.
        for laid in &compiled.laid {
            for above in laid.mount.target.ancestors().skip(1) {
                let is_mount = compiled.laid.iter().any(|other| other.mount.target == above);
                prop_assert!(is_mount || !given(&compiled, above).can_write(), "{above:?} can be renamed");
            }
        }
    }

    #[test]
    fn where_every_rule_is_a_path_that_is_there_mounts_give_what_the_rules_say(
        tree in a_tree(),
        picks in proptest::collection::vec((0..64_usize, 0..4_usize), 0..5),
    ) {
        let there: Vec<&PathBuf> = tree.0.keys().filter(|path| path.parent().is_some()).collect();
        let verbs = [Verb::Deny, Verb::Read, Verb::Write, Verb::Exec];
        let rules: Vec<(Verb, String)> = picks
            .iter()
            .map(|(path, verb)| (verbs[*verb], there[path % there.len()].to_str().unwrap().to_owned()))
            .collect();
        let compiled = compiled(&tree, &rules).unwrap();
        let judge = Judge(&rules);
        for path in tree.0.keys().chain(&absent(&tree)) {
            let is_below_file = path.ancestors().skip(1).any(|above| tree.kind(above) == Kind::File);
            prop_assert!(is_below_file || given(&compiled, path) == judge.rights(path), "{path:?}\n{:?}", shown(&compiled));
        }
    }

    #[test]
    fn any_text_is_a_pattern_or_refused(text in "\\PC{0,12}|[\\[\\]*?!^\\\\{}~/.a-]{0,10}") {
        if let Ok(pattern) = Pattern::glob(&text, &base()) {
            let _ = pattern.is_match(Path::new("/w/a.b/x"));
        }
    }
}

proptest! {
    #![proptest_config(fewer_cases())]

    #[test]
    fn patterns_match_what_another_matcher_matches(
        parts in proptest::collection::vec(proptest::sample::select(&PARTS[..]), 1..5),
        names in proptest::collection::vec(proptest::sample::select(&NAMES[..]), 1..6),
    ) {
        let glob = format!("/{}", parts.join("/"));
        let path = PathBuf::from(format!("/{}", names.join("/")));
        let theirs = GlobBuilder::new(&glob).literal_separator(true).build().unwrap().compile_matcher();
        let ours = Pattern::glob(&glob, &base()).unwrap();
        prop_assert_eq!(ours.is_match(&path), theirs.is_match(&path), "{} {:?}", glob, path);
        prop_assert_eq!(means(&parts, &names), theirs.is_match(&path), "{} {:?}", glob, path);
    }
}
