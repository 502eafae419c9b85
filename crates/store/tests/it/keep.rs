//! Cleaning a git dir up: what refs and records hold stays, and nothing else does.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use store::{TreeId, Treeish as _};

use crate::world::{World, put, try_git};

/// Makes every object look as if it was written a month ago.
fn age(world: &World) {
    let folders = fs::read_dir(world.tree.git_dir().join("objects")).unwrap().flatten();
    for folder in folders.filter(|folder| folder.file_name().len() == 2) {
        for object in fs::read_dir(folder.path()).unwrap().flatten() {
            let path = object.path();
            let written = object.metadata().unwrap().modified().unwrap();
            let file = fs::File::open(path).unwrap();
            file.set_modified(written - Duration::from_secs(30 * 86_400)).unwrap();
        }
    }
}

fn is_there(world: &World, tree: &TreeId) -> bool {
    try_git(world.tree.git_dir(), &["cat-file", "-e", tree.hex()]).0
}

#[test]
fn nobody_takes_a_snapshot_of_a_workspace_that_is_being_taken_away() {
    let world = World::new();
    let workspace = world.workspace("run_1");
    let other = world.tree.workspace_open(workspace.branch(), workspace.dir()).unwrap();
    let put_by = workspace.put_by("run_1").unwrap();
    let meanwhile = std::thread::spawn(move || other.snapshot().map(|snapshot| snapshot.tree));
    let work = world.home().join("work");
    fs::rename(&work, world.home().join("gone")).unwrap();
    drop(put_by);
    assert!(meanwhile.join().unwrap().is_err(), "it would be empty");
    assert!(world.tree.left("run_1").unwrap().is_some());
}

#[test]
fn snapshots_that_are_held_survive_a_collection_and_can_be_gone_back_to() {
    let world = World::new();
    let workspace = world.workspace("run_1");
    let mut snapshots = Vec::new();
    for text in ["first", "second", "third"] {
        put(workspace.dir(), "notes/new", text);
        snapshots.push(workspace.snapshot().unwrap().tree);
    }
    put(workspace.dir(), "notes/new", "what is left");
    assert_eq!(workspace.put_by("run_1").unwrap().skipped, []);
    let gone: TreeId = "0123456789012345678901234567890123456789".parse().unwrap();
    let held = BTreeSet::from([snapshots[0].clone(), snapshots[1].clone(), gone]);
    world.tree.keep("run_1", &held).unwrap();
    age(&world);
    world.tree.collect().unwrap();
    assert_eq!(world.tree.loose_objects(), 0, "all is packed or gone");
    let there: Vec<bool> = snapshots.iter().map(|tree| is_there(&world, tree)).collect();
    assert_eq!(there, [true, true, false]);
    workspace.restore(&snapshots[0]).unwrap();
    assert_eq!(fs::read_to_string(workspace.dir().join("notes/new")).unwrap(), "first");
    let left = world.tree.left("run_1").unwrap().unwrap();
    let changed = world.tree.diff(&snapshots[0], &left).unwrap();
    assert!(String::from_utf8(changed.patch).unwrap().contains("+what is left"));
}

#[test]
fn what_was_just_written_survives_although_nothing_holds_it_yet() {
    let world = World::new();
    let workspace = world.workspace("run_1");
    put(workspace.dir(), "new", "just now");
    let tree = workspace.snapshot().unwrap().tree;
    world.tree.collect().unwrap();
    assert!(is_there(&world, &tree));
}

#[test]
fn what_no_tree_can_hold_is_named() {
    let world = World::new();
    let workspace = world.workspace("run_1");
    put(workspace.dir(), "nested/.git/HEAD", "ref: refs/heads/main\n");
    put(workspace.dir(), "nested/file", "x");
    let skipped = workspace.put_by("run_1").unwrap().skipped;
    assert_eq!(skipped.len(), 1, "{skipped:?}");
    assert!(skipped[0].path.ends_with("nested/.git"), "{skipped:?}");
    assert_eq!(world.tree.left("run_2").unwrap(), None);
    assert!(world.tree.keep("../evil", &BTreeSet::new()).is_err());
}

#[test]
fn what_did_not_begin_is_taken_away_whole_and_nothing_else_is() {
    let world = World::new();
    let (other, gone) = (world.workspace("run_1"), world.workspace("run_2"));
    let files = gone.snapshot().unwrap().tree;
    world.tree.snapshot_hold(other.branch(), &files).unwrap();
    let before = refs(&world);
    world.tree.snapshot_hold(gone.branch(), &files).unwrap();
    world.tree.branch_remove(gone.branch()).unwrap();
    let mine = format!("refs/heads/{}", gone.branch());
    let left: Vec<_> = before.lines().filter(|line| !line.starts_with(&mine)).collect();
    assert_eq!(refs(&world).lines().collect::<Vec<_>>(), left);
    assert_eq!(left.len() + 1, before.lines().count());
    // Repeating it is harmless, and no other ref can be named.
    world.tree.branch_remove(gone.branch()).unwrap();
    world.tree.branch_remove("lines/main").unwrap_err();
}

fn refs(world: &World) -> String {
    let (ok, refs) = try_git(world.tree.git_dir(), &["for-each-ref", "--format=%(refname)"]);
    assert!(ok);
    refs
}
