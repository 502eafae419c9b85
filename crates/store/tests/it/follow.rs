//! A branch follows its line: what others merged comes in, conflicts are kept with both versions, and an
//! interruption at any point is made up for.

use std::fs;
use std::path::PathBuf;

use store::{Commit, Followed, Treeish as _, Workspace};

use crate::world::{World, message, put, signature};

/// A branch with a commit of its own, and a line that another branch has moved.
fn apart(own: (&str, &str), other: (&str, &str)) -> (World, Workspace, Commit, Commit) {
    let world = World::new();
    let start = world.tree.import(&world.owner()).unwrap();
    let workspace = world.workspace("run_1");
    put(workspace.dir(), own.0, own.1);
    let head = workspace.commit(&message("Change", "c1"), &signature()).unwrap().unwrap();
    let second = world.workspace("run_2");
    put(second.dir(), other.0, other.1);
    world.merge(&second, "run_2");
    (world, workspace, start, head)
}

fn follow(workspace: &Workspace, head: &Commit, start: &Commit, key: &str) -> Option<Followed> {
    workspace.follow("main", head, start, &message("Follow", key), &signature()).unwrap()
}

#[test]
fn what_others_merged_comes_into_the_branch_and_its_files() {
    let (world, workspace, start, head) = apart(("mine", "1\n"), ("theirs", "2\n"));
    put(workspace.dir(), "left-over", "of a test run\n");
    let followed = follow(&workspace, &head, &start, "f1").unwrap();
    let line = world.tree.line_head("main").unwrap().unwrap();
    assert_eq!((followed.conflicts.as_slice(), &followed.base), (&[] as &[PathBuf], &line));
    assert_eq!(world.tree.branch_head(workspace.branch()).unwrap(), followed.head);
    assert!(world.tree.is_ancestor(&line, &followed.head).unwrap());
    assert!(world.tree.is_ancestor(&head, &followed.head).unwrap());
    let read = |name: &str| fs::read_to_string(workspace.dir().join(name)).ok();
    assert_eq!((read("mine"), read("theirs")), (Some("1\n".into()), Some("2\n".into())));
    assert_eq!(read("left-over"), None, "what was judged before is no part of what is judged next");
    let files = world.tree.diff(&followed.base, &followed.head).unwrap().files;
    assert_eq!(files.iter().map(|file| file.path.to_str().unwrap()).collect::<Vec<_>>(), ["mine"]);
    assert_eq!(world.tree.base(workspace.branch()).unwrap(), Some(line));
    // There is nothing more to follow.
    assert_eq!(follow(&workspace, &followed.head, &followed.base, "f2"), None);
}

#[test]
fn a_conflict_keeps_both_versions_and_is_found_until_it_is_resolved() {
    let (world, workspace, start, head) = apart(("README", "mine\n"), ("README", "theirs\n"));
    let followed = follow(&workspace, &head, &start, "f1").unwrap();
    let readme = [PathBuf::from("README")];
    assert_eq!(followed.conflicts, readme);
    let text = fs::read_to_string(workspace.dir().join("README")).unwrap();
    let lines: Vec<&str> = text.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(lines, ["<<<<<<<", "mine", "=======", "theirs", ">>>>>>>"]);
    assert_eq!(world.tree.unresolved(&followed.head, &readme).unwrap(), readme);
    put(workspace.dir(), "README", "both\n");
    let resolved = workspace.commit(&message("Resolve", "c2"), &signature()).unwrap().unwrap();
    assert_eq!(world.tree.unresolved(&resolved, &readme).unwrap(), [] as [PathBuf; 0]);
    // The merge has nothing left to disagree upon.
    let proposal = world.tree.propose(workspace.branch(), "main").unwrap();
    let at = proposal.line_head.clone();
    let merge = world.tree.merge(&proposal, &message("Merge", ""), &signature(), "m1", &at).unwrap();
    assert_eq!(world.tree.tree_of(&merge).unwrap(), world.tree.tree_of(&resolved).unwrap());
}

#[test]
fn one_that_was_interrupted_is_completed() {
    for theirs in [("theirs", "2\n"), ("README", "theirs\n")] {
        let (world, workspace, start, head) = apart(("README", "mine\n"), theirs);
        let followed = follow(&workspace, &head, &start, "f1").unwrap();
        // The branch has moved, and the files have not yet.
        workspace.restore(&world.tree.tree_of(&head).unwrap()).unwrap();
        let again = follow(&workspace, &head, &start, "f1").unwrap();
        assert_eq!(again, followed);
        assert_eq!(workspace.snapshot().unwrap().tree, world.tree.tree_of(&followed.head).unwrap());
        assert_eq!(world.tree.branch_head(workspace.branch()).unwrap().hex(), followed.head.hex());
    }
}

#[test]
fn names_that_are_not_utf8_are_in_conflict_like_others() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let (_world, workspace, start, head) = {
        let world = World::new();
        let odd = OsStr::from_bytes(b"odd\xff");
        let start = world.tree.import(&world.owner()).unwrap();
        let workspace = world.workspace("run_1");
        fs::write(workspace.dir().join(odd), "mine\n").unwrap();
        let head = workspace.commit(&message("Change", "c1"), &signature()).unwrap().unwrap();
        let second = world.workspace("run_2");
        fs::write(second.dir().join(odd), "theirs\n").unwrap();
        world.merge(&second, "run_2");
        (world, workspace, start, head)
    };
    let followed = follow(&workspace, &head, &start, "f1").unwrap();
    assert_eq!(followed.conflicts[0].as_os_str().as_bytes(), b"odd\xff");
}
