//! When the owner's branch is moved, when it is left alone, and what an interruption leaves.

use std::fs;
use std::os::unix::fs::symlink;

use store::{Commit, Delivery};

use crate::world::{World, git, put};

/// A merge that changes `README`, adds `new`, deletes `src/run.sh` and makes `old` a directory.
fn ready() -> (World, Commit) {
    let world = World::new();
    world.owner_write("old", "file\n");
    world.owner_write("dir/a", "a\n");
    world.owner_commit("More");
    let workspace = world.workspace("run_1");
    let dir = workspace.dir();
    put(dir, "README", "mended\n");
    put(dir, "new", "new\n");
    fs::remove_file(dir.join("src/run.sh")).unwrap();
    fs::remove_file(dir.join("old")).unwrap();
    put(dir, "old/inside", "inside\n");
    fs::remove_dir_all(dir.join("dir")).unwrap();
    put(dir, "dir", "now a file\n");
    let merge = world.merge(&workspace, "k1");
    (world, merge)
}

fn deliver(world: &World, merge: &Commit) -> Delivery {
    world.tree.deliver(&world.repo(), "main", merge, store::Manners::NONE).unwrap()
}

/// Everything of the owner's that a delivery could change.
fn state(world: &World) -> (String, String, String, bool) {
    (
        world.git(&["rev-parse", "HEAD"]),
        world.git(&["status", "--porcelain=v2", "--untracked-files=all"]),
        world.git(&["diff", "HEAD"]),
        world.repo().join(".git/index.lock").exists(),
    )
}

/// The delivery must leave all as it is, and say something with `reason` in it.
fn check_left(world: &World, merge: &Commit, reason: &str) {
    let before = state(world);
    match deliver(world, merge) {
        Delivery::Left { reason: said, command } => {
            assert!(said.contains(reason), "{said}");
            assert!(command.starts_with("git fetch "), "{command}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(state(world), before);
    assert!(!world.repo().join(".git/regie.stage").exists());
}

fn check_done(world: &World, merge: &Commit) {
    assert_eq!(world.git(&["rev-parse", "main"]), merge.to_string());
    assert_eq!(world.git(&["status", "--porcelain", "--untracked-files=all"]), "");
    assert!(!world.repo().join(".git/index.lock").exists());
    assert_eq!(fs::read_to_string(world.repo().join("dir")).unwrap(), "now a file\n");
    assert_eq!(deliver(world, merge), Delivery::AlreadyThere);
}

#[test]
fn files_and_directories_change_places() {
    let (world, merge) = ready();
    assert!(matches!(deliver(&world, &merge), Delivery::FastForwarded { .. }));
    check_done(&world, &merge);
}

#[test]
fn the_printed_command_works() {
    let (world, merge) = ready();
    world.owner_write("other", "of the owner\n");
    world.owner_commit("Other");
    let Delivery::Left { command, reason } = deliver(&world, &merge) else { panic!("not left") };
    assert!(reason.contains("has commits that are not in Regie's line"), "{reason}");
    for part in command.split(" && ") {
        let args: Vec<&str> = part.split(' ').skip(1).collect();
        world.git(&[&args[..], if args[0] == "merge" { &["--no-edit"] } else { &[] }].concat());
    }
    assert_eq!(world.git(&["merge-base", "HEAD", &merge.to_string()]), merge.to_string());
    assert_eq!(deliver(&world, &merge), Delivery::AlreadyThere);
}

#[test]
fn changes_of_the_owner_are_left_alone() {
    let (world, merge) = ready();
    world.owner_write("README", "mine\n");
    check_left(&world, &merge, "\"README\" has changes of your own");
    world.git(&["add", "README"]);
    check_left(&world, &merge, "\"README\" has changes of your own");
    world.owner_write("README", "hello\n");
    check_left(&world, &merge, "\"README\" has changes of your own");
    world.git(&["reset", "-q", "--hard"]);
    world.owner_write("new", "untracked, mine\n");
    check_left(&world, &merge, "\"new\" has changes of your own");
    fs::remove_file(world.repo().join("new")).unwrap();
    world.owner_write("dir/mine", "untracked\n");
    check_left(&world, &merge, "\"dir\" has changes of your own");
    fs::remove_file(world.repo().join("dir/mine")).unwrap();
    world.owner_write("staged elsewhere", "x");
    world.git(&["add", "-A"]);
    check_left(&world, &merge, "uncommitted changes");
    world.git(&["reset", "-q", "--hard"]);
    world.owner_write("untracked elsewhere", "is in nobody's way");
    assert!(matches!(deliver(&world, &merge), Delivery::FastForwarded { .. }));
    assert!(world.repo().join("untracked elsewhere").exists());
}

#[test]
fn states_of_the_owner_are_left_alone() {
    let (world, merge) = ready();
    world.git(&["switch", "-q", "-c", "side"]);
    check_left(&world, &merge, "on `side`, not on `main`");
    world.git(&["checkout", "-q", "--detach"]);
    check_left(&world, &merge, "detached HEAD");
    world.git(&["switch", "-q", "main"]);
    fs::write(world.repo().join(".git/MERGE_HEAD"), format!("{merge}\n")).unwrap();
    let Delivery::Left { reason, .. } = deliver(&world, &merge) else { panic!("not left") };
    assert!(reason.contains("a merge is in progress"), "{reason}");
    fs::remove_file(world.repo().join(".git/MERGE_HEAD")).unwrap();
    fs::write(world.repo().join(".git/index.lock"), "").unwrap();
    check_left(&world, &merge, "another git is at work");
}

#[test]
fn altering_attributes_and_settings_are_left_alone() {
    let cases = [
        ("README eol=crlf\n", "`eol`"),
        ("* text=auto eol=crlf\n", "`eol`"),
        ("README filter=lfs\n", "`filter`"),
        ("new ident\n", "`ident`"),
        ("README working-tree-encoding=ISO-8859-1\n", "`working-tree-encoding`"),
    ];
    for (attributes, reason) in cases {
        let (world, merge) = ready();
        fs::write(world.repo().join(".git/info/attributes"), attributes).unwrap();
        check_left(&world, &merge, reason);
    }
    for (key, value) in [("core.autocrlf", "true"), ("core.eol", "crlf")] {
        let (world, merge) = ready();
        world.git(&["config", key, value]);
        check_left(&world, &merge, key);
    }
    let world = World::new();
    world.owner_write(".gitattributes", "README eol=crlf\n");
    world.owner_commit("Attributes");
    let workspace = world.workspace("run_1");
    assert_eq!(fs::read(workspace.dir().join("README")).unwrap(), b"hello\n", "raw bytes");
    put(workspace.dir(), "README", "mended\n");
    let merge = world.merge(&workspace, "k1");
    check_left(&world, &merge, "`eol`");
}

#[test]
fn harmless_attributes_do_not_stop_a_delivery() {
    let (world, merge) = ready();
    fs::write(world.repo().join(".git/info/attributes"), "* text=auto\nother filter=lfs\n").unwrap();
    assert!(matches!(deliver(&world, &merge), Delivery::FastForwarded { .. }));
    check_done(&world, &merge);
}

#[test]
fn line_feeds_that_are_asked_for_are_what_is_there() {
    let attributes = "* text=auto eol=lf\n";
    let (world, merge) = ready();
    fs::write(world.repo().join(".git/info/attributes"), attributes).unwrap();
    assert!(matches!(deliver(&world, &merge), Delivery::FastForwarded { .. }));
    check_done(&world, &merge);
    let workspace = world.workspace("run_2");
    put(workspace.dir(), "README", "of\r\nwindows\r\n");
    let merge = world.merge(&workspace, "k2");
    check_left(&world, &merge, "`eol`");
}

/// Leaves the lock of a delivery that was killed.
fn interrupted(world: &World, from: &str, to: &Commit) {
    fs::write(world.repo().join(".git/index.lock"), format!("regie {from} {to}\n")).unwrap();
}

#[test]
fn an_interrupted_delivery_is_completed() {
    // After which of the files, in the order in which they are put in place.
    let cases = (0..=5).map(|files| (files, false)).chain([(5, true)]);
    for (files, index) in cases {
        let (world, merge) = ready();
        let from = world.git(&["rev-parse", "HEAD"]);
        interrupted(&world, &from, &merge);
        fs::create_dir(world.repo().join(".git/regie.stage")).unwrap();
        put(&world.repo(), ".git/regie.index", "half");
        put(&world.repo(), ".git/regie.index.lock", "");
        let repo = world.repo();
        let steps: [&dyn Fn(); 5] = [
            &|| fs::remove_dir_all(repo.join("dir")).unwrap(),
            &|| fs::remove_file(repo.join("old")).unwrap(),
            &|| put(&repo, "README", "mended\n"),
            &|| put(&repo, "dir", "now a file\n"),
            &|| put(&repo, "old/inside", "inside\n"),
        ];
        for step in &steps[..files] {
            step();
        }
        if index {
            let git_dir = world.tree.git_dir().to_str().unwrap().to_owned();
            fs::remove_dir_all(repo.join("src")).unwrap();
            put(&repo, "new", "new\n");
            git(&repo, &["fetch", "-q", &git_dir, &merge.to_string()]);
            fs::remove_file(repo.join(".git/index.lock")).unwrap();
            git(&repo, &["read-tree", &merge.to_string()]);
            interrupted(&world, &from, &merge);
        }
        let delivery = deliver(&world, &merge);
        assert!(matches!(delivery, Delivery::FastForwarded { .. }), "{files} {delivery:?}");
        check_done(&world, &merge);
    }
}

#[test]
fn a_delivery_killed_before_it_unlocked_is_done() {
    let (world, merge) = ready();
    let from = world.git(&["rev-parse", "HEAD"]);
    deliver(&world, &merge);
    interrupted(&world, &from, &merge);
    assert_eq!(deliver(&world, &merge), Delivery::AlreadyThere);
    check_done(&world, &merge);
}

#[test]
fn an_interrupted_delivery_comes_before_the_next() {
    let (world, merge) = ready();
    let from = world.git(&["rev-parse", "HEAD"]);
    let workspace = world.workspace("run_2");
    put(workspace.dir(), "README", "mended again\n");
    let next = world.merge(&workspace, "k2");
    interrupted(&world, &from, &merge);
    world.owner_write("README", "mended\n");
    assert!(matches!(deliver(&world, &next), Delivery::FastForwarded { .. }));
    check_done(&world, &next);
    assert_eq!(fs::read_to_string(world.repo().join("README")).unwrap(), "mended again\n");
}

#[test]
fn an_interrupted_delivery_does_not_overwrite_later_changes() {
    let (world, merge) = ready();
    interrupted(&world, &world.git(&["rev-parse", "HEAD"]), &merge);
    world.owner_write("README", "mended by hand\n");
    let Delivery::Left { reason, .. } = deliver(&world, &merge) else { panic!("not left") };
    assert!(reason.contains("README"), "{reason}");
    assert_eq!(fs::read_to_string(world.repo().join("README")).unwrap(), "mended by hand\n");
    assert!(!world.repo().join(".git/index.lock").exists());
}

#[test]
fn links_out_of_the_checkout_are_not_followed() {
    let world = World::new();
    let outside = world.home().join("outside");
    fs::create_dir(&outside).unwrap();
    put(&outside, "file", "outside\n");
    symlink(&outside, world.repo().join("link")).unwrap();
    world.owner_commit("Link");
    let workspace = world.workspace("run_1");
    fs::remove_file(workspace.dir().join("link")).unwrap();
    put(workspace.dir(), "link/file", "inside\n");
    let merge = world.merge(&workspace, "k1");
    assert!(matches!(deliver(&world, &merge), Delivery::FastForwarded { .. }));
    assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "outside\n");
    assert_eq!(fs::read_to_string(world.repo().join("link/file")).unwrap(), "inside\n");
    assert_eq!(world.git(&["status", "--porcelain"]), "");

    // The owner has put a link where the next delivery needs a directory.
    let workspace = world.workspace("run_2");
    put(workspace.dir(), "fresh/file", "inside\n");
    let merge = world.merge(&workspace, "k2");
    symlink(&outside, world.repo().join("fresh")).unwrap();
    check_left(&world, &merge, "\"fresh\" stands where a directory is needed");
}
