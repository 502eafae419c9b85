//! Snapshots of files that did not change start no git, and none of them is ever out of date.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use proptest::prelude::*;
use store::{TreeId, Workspace};

use crate::world::{World, git, message, put, signature};

/// The file system's clock moves on within so many snapshots.
const TRIES: usize = 1_000;

/// Snapshots the workspace while its store is away; `None` when that asked git.
fn without_git(world: &World, workspace: &Workspace) -> Option<TreeId> {
    let (store, away) = (world.tree.git_dir(), world.home().join("away"));
    fs::rename(store, &away).unwrap();
    let snapshot = workspace.snapshot();
    fs::rename(&away, store).unwrap();
    snapshot.ok().map(|snapshot| snapshot.tree)
}

/// Snapshots until the state is remembered.
fn settle(world: &World, workspace: &Workspace) -> TreeId {
    for _ in 0..TRIES {
        let tree = workspace.snapshot().unwrap().tree;
        if let Some(remembered) = without_git(world, workspace) {
            assert_eq!(remembered, tree);
            return tree;
        }
    }
    panic!("an unchanged workspace is never remembered");
}

/// The snapshot of somebody who remembers nothing.
fn afresh(world: &World, workspace: &Workspace) -> TreeId {
    let fresh = world.tree.workspace_open(workspace.branch(), workspace.dir()).unwrap();
    fresh.snapshot().unwrap().tree
}

#[test]
fn unchanged_files_are_not_recorded_again() {
    let world = World::new();
    let workspace = world.workspace("run_1");
    put(workspace.dir(), "new/deep/file", "content\n");
    let tree = settle(&world, &workspace);
    assert_eq!(tree, afresh(&world, &workspace));
    // What another one recorded in the index is not this one's memory.
    put(workspace.dir(), "README", "changed\n");
    let changed = afresh(&world, &workspace);
    assert_ne!(changed, tree);
    assert_eq!(workspace.snapshot().unwrap().tree, changed);
}

#[test]
fn every_change_is_seen() {
    type Change = fn(&Path);
    let changes: &[(&str, Change, bool)] = &[
        ("the same length", |at| put(at, "README", "HELLO\n"), true),
        (
            "replaced by rename",
            |at| {
                put(at, "x.tmp", "jello\n");
                fs::rename(at.join("x.tmp"), at.join("README")).unwrap();
            },
            true,
        ),
        (
            "executable",
            |at| fs::set_permissions(at.join("README"), fs::Permissions::from_mode(0o755)).unwrap(),
            true,
        ),
        ("deleted", |at| fs::remove_file(at.join("src/run.sh")).unwrap(), true),
        ("new at the top", |at| put(at, "a", "a"), true),
        ("new in a new directory", |at| put(at, "d/e/f", "f"), true),
        ("new in an empty directory", |at| put(at, "empty/a", "a"), true),
        ("new beside ignored files only", |at| put(at, "objects/sub/a.c", "a"), true),
        ("new in an ignored directory", |at| put(at, "target/a", "b"), false),
        ("an ignored file", |at| put(at, "objects/sub/a.o", "b"), false),
        ("new where a name is odd", |at| put(at, ":odd*/a", "a"), true),
        ("new rules", |at| put(at, "target/.gitignore", "!*\n"), false),
        ("other rules", |at| put(at, ".gitignore", "*.o\n"), true),
        // Its own rules ignore that file, so that no snapshot holds it.
        ("rules that ignore themselves", |at| put(at, "odd/.gitignore", ".gitignore\n!b.o\n"), true),
        (
            "a directory becomes a link",
            |at| {
                fs::rename(at.join("src"), at.join("target/src")).unwrap();
                symlink("target/src", at.join("src")).unwrap();
            },
            true,
        ),
        (
            "a file becomes a link",
            |at| {
                fs::remove_file(at.join("README")).unwrap();
                symlink("src/run.sh", at.join("README")).unwrap();
            },
            true,
        ),
    ];
    for (what, change, counts) in changes {
        let world = World::new();
        let workspace = world.workspace("run_1");
        let at = workspace.dir();
        put(at, ".gitignore", "target/\n*.o\n");
        put(at, "target/a", "a");
        put(at, ":odd*/a.o", "a");
        put(at, "objects/sub/a.o", "a");
        put(at, "odd/.gitignore", ".gitignore\n");
        put(at, "odd/b.o", "odd\n");
        fs::create_dir(at.join("empty")).unwrap();
        let before = settle(&world, &workspace);
        change(at);
        let after = workspace.snapshot().unwrap().tree;
        assert_eq!(after, afresh(&world, &workspace), "{what}");
        assert_eq!(after != before, *counts, "{what}");
    }
}

#[test]
fn what_cannot_be_recorded_is_said_each_time() {
    let world = World::new();
    let workspace = world.workspace("run_1");
    fs::create_dir_all(workspace.dir().join("src/.git")).unwrap();
    let first = workspace.snapshot().unwrap();
    assert_eq!(first.skipped.len(), 1);
    for _ in 0..5 {
        assert_eq!(workspace.snapshot().unwrap(), first);
    }
}

#[test]
fn a_restored_workspace_is_looked_at_again() {
    let world = World::new();
    let workspace = world.workspace("run_1");
    let first = workspace.snapshot().unwrap().tree;
    put(workspace.dir(), "README", "HELLO\n");
    let second = settle(&world, &workspace);
    workspace.restore(&first).unwrap();
    assert_eq!(workspace.snapshot().unwrap().tree, first);
    workspace.restore(&second).unwrap();
    assert_eq!(workspace.snapshot().unwrap().tree, second);
}

/// Does something while every git that is started on the store fails.
fn where_git_fails<T>(world: &World, act: impl FnOnce() -> T) -> T {
    let (head, away) = (world.tree.git_dir().join("HEAD"), world.home().join("HEAD.away"));
    fs::rename(&head, &away).unwrap();
    let done = act();
    fs::rename(&away, &head).unwrap();
    done
}

/// What git makes of the files, with an index of its own.
fn by_git(world: &World, workspace: &Workspace) -> TreeId {
    let (store, files) = (world.tree.git_dir(), workspace.dir());
    let ask = |args: &[&str]| {
        let all = [&["--git-dir", store.to_str().unwrap(), "--work-tree", files.to_str().unwrap()], args];
        git(files, &all.concat())
    };
    ask(&["add", "-A"]);
    let tree = ask(&["write-tree"]).parse().unwrap();
    fs::remove_file(store.join("index")).unwrap();
    tree
}

#[test]
fn changed_contents_start_no_git_and_are_what_git_records() {
    let world = World::new();
    let workspace = world.workspace("run_1");
    let at = workspace.dir();
    put(at, "src/deep/er/file", "deep\n");
    symlink("nowhere", at.join("link")).unwrap();
    let mut states = vec![(settle(&world, &workspace), "hello\n".to_owned())];
    for round in 0..6_u32 {
        let content = format!("round {round}\n");
        put(at, "README", &content);
        put(at, "src/deep/er/file", &content);
        let mode = if round % 2 == 0 { 0o644 } else { 0o755 };
        fs::set_permissions(at.join("src/run.sh"), fs::Permissions::from_mode(mode)).unwrap();
        let tree = where_git_fails(&world, || workspace.snapshot().unwrap().tree);
        assert_eq!(tree, by_git(&world, &workspace), "round {round}");
        states.push((tree, content));
    }
    put(at, "README", "of no snapshot\n");
    for (tree, content) in states.iter().rev() {
        where_git_fails(&world, || workspace.restore(tree).unwrap());
        assert_eq!(fs::read_to_string(at.join("README")).unwrap(), *content);
        assert_eq!(where_git_fails(&world, || workspace.snapshot().unwrap().tree), *tree);
        assert_eq!(by_git(&world, &workspace), *tree);
    }
    // The next git is told of what it was not asked to record.
    put(at, "README", "changed\n");
    where_git_fails(&world, || workspace.snapshot().unwrap());
    put(at, "new", "new\n");
    assert_eq!(workspace.snapshot().unwrap().tree, by_git(&world, &workspace));
    world.git(&["--git-dir", world.tree.git_dir().to_str().unwrap(), "fsck", "--strict", "--full"]);
}

#[test]
fn changed_contents_are_committed_without_a_git() {
    let world = World::new();
    let workspace = world.workspace("run_1");
    settle(&world, &workspace);
    put(workspace.dir(), "README", "changed\n");
    let commit = || workspace.commit(&message("Change", "key_1"), &signature()).unwrap().unwrap();
    let made = where_git_fails(&world, commit);
    // It is made once, under its key.
    assert_eq!(where_git_fails(&world, commit), made);
    assert_eq!(world.tree.branch_head(workspace.branch()).unwrap(), made);
    assert_eq!(world.tree.tree_of(&made).unwrap(), by_git(&world, &workspace));
}

#[test]
fn a_link_in_the_way_is_not_followed() {
    let world = World::new();
    let workspace = world.workspace("run_1");
    let (at, outside) = (workspace.dir(), world.home().join("outside"));
    put(&outside, "run.sh", "not ours\n");
    let before = settle(&world, &workspace);
    put(at, "src/run.sh", "changed\n");
    workspace.snapshot().unwrap();
    fs::rename(at.join("src"), at.join("moved")).unwrap();
    symlink(&outside, at.join("src")).unwrap();
    let now = workspace.snapshot().unwrap().tree;
    assert_eq!(now, by_git(&world, &workspace));
    workspace.restore(&before).unwrap();
    assert_eq!(fs::read_to_string(outside.join("run.sh")).unwrap(), "not ours\n");
    assert_eq!(by_git(&world, &workspace), before);
}

/// One act of an agent, on few names so that acts meet.
fn act(at: &Path, kind: u8, name: u8, content: u8) {
    let path = ["a", "b", "d/a", "d/e/a", "src", "src/run.sh", "x.o"][usize::from(name) % 7];
    let full = at.join(path);
    let clear = || match full.symlink_metadata() {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(&full).unwrap(),
        Ok(_) => fs::remove_file(&full).unwrap(),
        Err(_) => {}
    };
    // What stands where a directory is needed goes first.
    for parent in path.match_indices('/').map(|(end, _)| at.join(&path[..end])) {
        if parent.symlink_metadata().is_ok_and(|meta| !meta.is_dir()) {
            fs::remove_file(parent).unwrap();
        }
    }
    fs::create_dir_all(full.parent().unwrap()).unwrap();
    match kind % 6 {
        0 | 1 => {
            clear();
            put(at, path, &format!("{content:03}"));
        }
        2 => clear(),
        3 => {
            clear();
            symlink(format!("to{content}"), &full).unwrap();
        }
        4 => {
            clear();
            put(&full, "inner", "inner\n");
        }
        _ if full.symlink_metadata().is_ok_and(|meta| meta.is_file()) => {
            fs::set_permissions(&full, fs::Permissions::from_mode(0o755)).unwrap();
        }
        _ => fs::rename(at.join("README"), at.join("README.old")).unwrap_or_default(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, ..ProptestConfig::default() })]

    #[test]
    fn change_upon_change_gives_what_a_look_at_everything_gives(
        all in prop::collection::vec((any::<u8>(), any::<u8>(), any::<u8>()), 1..10),
    ) {
        let world = World::new();
        let workspace = world.workspace("run_1");
        put(workspace.dir(), ".gitignore", "*.o\n");
        settle(&world, &workspace);
        for (kind, name, content) in all {
            act(workspace.dir(), kind, name, content);
            settle(&world, &workspace);
        }
        let last = workspace.snapshot().unwrap().tree;
        prop_assert_eq!(last, afresh(&world, &workspace));
    }

    #[test]
    fn snapshots_and_roll_backs_in_any_order_are_what_git_says(
        all in prop::collection::vec((any::<u8>(), any::<u8>(), any::<u8>(), 0..4_u8), 1..14),
    ) {
        let world = World::new();
        let workspace = world.workspace("run_1");
        put(workspace.dir(), ".gitignore", "*.o\n");
        let mut states = vec![settle(&world, &workspace)];
        for (kind, name, content, then) in all {
            // Mostly contents alone: that is what is done without git.
            let (kind, name) = if then > 0 { (kind % 2, name % 2 * 5) } else { (kind, name) };
            act(workspace.dir(), kind, name, content);
            let tree = if then == 3 {
                let tree = states.get(usize::from(content) % states.len()).unwrap().clone();
                workspace.restore(&tree).unwrap();
                tree
            } else {
                workspace.snapshot().unwrap().tree
            };
            prop_assert_eq!(&by_git(&world, &workspace), &tree);
            prop_assert_eq!(&workspace.snapshot().unwrap().tree, &tree);
            states.push(tree);
        }
    }
}
