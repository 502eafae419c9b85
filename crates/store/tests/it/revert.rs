//! Merges that are taken back.

use std::fs;

use store::{Commit, Delivery, Error, Undoing};

use crate::world::{World, message, put, signature};

fn undo(world: &World, merge: &Commit, key: &str) -> Result<Commit, Error> {
    let head = world.tree.line_head("main").unwrap().unwrap();
    undo_from(world, merge, key, &head)
}

fn undo_from(world: &World, merge: &Commit, key: &str, head: &Commit) -> Result<Commit, Error> {
    let start: Commit = world.git(&["rev-list", "--max-parents=0", "main"]).parse().unwrap();
    let undoing = Undoing { line: "main", merge, keep: &start, expected_line_head: head };
    world.tree.revert(&undoing, &message("Undo", ""), &signature(), key)
}

#[test]
fn a_merge_is_taken_back_by_a_new_commit_once() {
    let world = World::new();
    let workspace = world.workspace("run_1");
    put(workspace.dir(), "README", "changed\n");
    put(workspace.dir(), "new", "new\n");
    let merge = world.merge(&workspace, "k1");
    world.tree.deliver(&world.repo(), "main", &merge, store::Manners::NONE).unwrap();
    let later = world.workspace("run_2");
    put(later.dir(), "other", "stays\n");
    let head = world.merge(&later, "k2");
    world.tree.deliver(&world.repo(), "main", &head, store::Manners::NONE).unwrap();

    let undone = undo(&world, &merge, "u1").unwrap();
    let again = undo_from(&world, &merge, "u1", &head).unwrap();
    assert_eq!(undone, again, "the same key is the same commit");
    let delivered = world.tree.deliver(&world.repo(), "main", &undone, store::Manners::NONE).unwrap();
    assert_eq!(delivered, Delivery::FastForwarded { from: head, to: undone.clone(), note: None });
    assert_eq!(fs::read_to_string(world.repo().join("README")).unwrap(), "hello\n");
    assert!(!world.repo().join("new").exists());
    assert_eq!(fs::read_to_string(world.repo().join("other")).unwrap(), "stays\n");
    assert_eq!(world.git(&["status", "--porcelain"]), "");
    assert!(matches!(undo(&world, &merge, "u2"), Err(Error::NothingToUndo { .. })));
}

#[test]
fn what_came_later_on_the_same_places_is_a_conflict() {
    let world = World::new();
    let workspace = world.workspace("run_1");
    put(workspace.dir(), "README", "changed\n");
    let merge = world.merge(&workspace, "k1");
    let later = world
        .tree
        .branch_create("mender/run_2", &merge)
        .and_then(|()| world.tree.workspace_create("mender/run_2", &world.home().join("work/run_2")));
    let later = later.unwrap();
    put(later.dir(), "README", "changed again\n");
    let head = world.merge(&later, "k2");
    let Err(Error::Conflict { paths }) = undo(&world, &merge, "u1") else { panic!("no conflict") };
    assert_eq!(paths, [std::path::PathBuf::from("README")]);
    assert_eq!(world.tree.line_head("main").unwrap(), Some(head));
}

#[test]
fn only_a_merge_on_the_line_can_be_undone() {
    let world = World::new();
    let workspace = world.workspace("run_1");
    let start = world.owner().head;
    assert!(matches!(undo(&world, &start, "u1"), Err(Error::NotMerged { .. })));
    put(workspace.dir(), "README", "changed\n");
    let branch = workspace.commit(&message("Change", "k"), &signature()).unwrap().unwrap();
    assert!(matches!(undo(&world, &branch, "u1"), Err(Error::NotMerged { .. })));
}
