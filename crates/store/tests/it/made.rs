//! What a setup makes: never committed, kept whole, brought in again, links not followed.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use crate::world::{World, put};
use store::Workspace;

/// As a setup would leave it: ignored, not ignored, a changed lock file, links, a read-only directory.
fn set_up(workspace: &Workspace) {
    let dir = workspace.dir();
    put(dir, "node_modules/a/index.js", "a\n");
    put(dir, "vendor/b.txt", "b\n");
    put(dir, "README", "changed by the setup\n");
    put(dir, "locked/inner/file", "read only\n");
    symlink("/etc", dir.join("node_modules/out")).unwrap();
    symlink("a/index.js", dir.join("node_modules/in")).unwrap();
    for (path, mode) in [("node_modules/a/index.js", 0o755), ("locked/inner", 0o555)] {
        fs::set_permissions(dir.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
}

fn world() -> World {
    let world = World::new();
    world.owner_write(".gitignore", "node_modules/\n.env\n");
    world.owner_write(".worktreeinclude", ".env\n");
    world.owner_commit("Rules");
    world.owner_write(".env", "KEY=1\n");
    world
}

fn head(world: &World, workspace: &Workspace) -> store::Commit {
    world.tree.branch_head(workspace.branch()).unwrap()
}

fn files(world: &World, workspace: &Workspace) -> store::TreeId {
    world.tree.tree_of(&head(world, workspace)).unwrap()
}

#[test]
fn what_a_setup_made_is_never_committed() {
    let world = world();
    let workspace = world.workspace("r1");
    assert!(!workspace.is_set_up());
    set_up(&workspace);
    workspace.settle(&files(&world, &workspace)).unwrap();
    assert!(workspace.is_set_up());
    assert!(workspace.diff(&head(&world, &workspace)).unwrap().files.is_empty());
    assert_eq!(fs::read_to_string(workspace.dir().join("README")).unwrap(), "hello\n");
    // An agent that changes the rules changes nothing about it, and its own files count.
    put(workspace.dir(), ".gitignore", "");
    put(workspace.dir(), "node_modules/later.js", "x\n");
    put(workspace.dir(), "vendor/own.txt", "mine\n");
    let files = workspace.diff(&head(&world, &workspace)).unwrap().files;
    let paths: Vec<_> = files.iter().map(|file| file.path.to_string_lossy().into_owned()).collect();
    assert_eq!(paths, [".gitignore", "vendor/own.txt"]);
    // A roll-back leaves it there.
    let snapshot = workspace.snapshot().unwrap().tree;
    workspace.restore(&snapshot).unwrap();
    assert!(workspace.dir().join("vendor/b.txt").exists());
    assert!(workspace.dir().join("node_modules/a/index.js").exists());
}

#[test]
fn it_is_kept_and_brought_into_another_workspace() {
    let world = world();
    let first = world.workspace("r1");
    first.include(&world.owner()).unwrap();
    set_up(&first);
    first.settle(&files(&world, &first)).unwrap();
    let kept = world.home().join("environments/abc");
    first.keep(&kept).unwrap();
    assert!(!kept.join("files/.env").exists(), "the owner's own files are not kept");
    assert!(!kept.join("files/README").exists());
    // The first run's copy is its own.
    put(first.dir(), "node_modules/a/index.js", "poisoned\n");

    world.owner_write("vendor/b.txt", "committed\n");
    world.owner_commit("Take b over");
    let second = world.workspace("r2");
    second.bring(&kept).unwrap();
    let read = |path: &str| fs::read_to_string(second.dir().join(path)).unwrap();
    assert_eq!(read("node_modules/a/index.js"), "a\n");
    assert_eq!(read("vendor/b.txt"), "committed\n", "the commit goes first");
    assert_eq!(fs::read_link(second.dir().join("node_modules/out")).unwrap().to_str(), Some("/etc"));
    let mode = |path: &str| second.dir().join(path).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("node_modules/a/index.js"), mode("locked/inner")), (0o755, 0o555));
    let time = |at: &std::path::Path| at.metadata().unwrap().modified().unwrap();
    assert_eq!(
        time(&second.dir().join("locked/inner/file")),
        time(&first.dir().join("locked/inner/file")),
        "caches go by the time"
    );
    assert!(second.is_set_up());
    assert!(second.diff(&head(&world, &second)).unwrap().files.is_empty());
}

#[test]
fn a_link_in_the_commit_leads_nothing_out() {
    let world = world();
    let first = world.workspace("r1");
    set_up(&first);
    first.settle(&files(&world, &first)).unwrap();
    let kept = world.home().join("environments/abc");
    first.keep(&kept).unwrap();
    let outside = world.home().join("outside");
    fs::create_dir(&outside).unwrap();
    symlink(&outside, world.repo().join("vendor")).unwrap();
    world.owner_commit("A trap");
    let second = world.workspace("r2");
    second.bring(&kept).unwrap();
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn what_was_cut_short_is_cleaned_away_but_for_the_owners_files() {
    let world = world();
    let workspace = world.workspace("r1");
    workspace.include(&world.owner()).unwrap();
    set_up(&workspace);
    workspace.clean().unwrap();
    for gone in ["node_modules", "vendor", "locked"] {
        assert!(!workspace.dir().join(gone).exists(), "{gone}");
    }
    assert!(workspace.dir().join(".env").exists());
    assert!(workspace.dir().join("src/run.sh").exists());
}

#[test]
fn keeping_is_all_or_nothing_and_done_once() {
    let world = world();
    let workspace = world.workspace("r1");
    set_up(&workspace);
    workspace.settle(&files(&world, &workspace)).unwrap();
    let kept = world.home().join("environments/abc");
    // What an earlier try left half made.
    put(&world.home().join("environments/abc.new"), "files/half", "x\n");
    workspace.keep(&kept).unwrap();
    assert!(!kept.join("files/half").exists());
    assert!(!world.home().join("environments/abc.new").exists());
    put(workspace.dir(), "node_modules/later.js", "x\n");
    workspace.keep(&kept).unwrap();
    assert!(!kept.join("files/node_modules/later.js").exists(), "it is what it was");
}
