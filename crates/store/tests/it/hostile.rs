//! What an agent may leave in a workspace to make the host's git run or hide something.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use store::{Delivery, Why, Workspace};

use crate::world::{World, git, message, put, signature, try_git};

/// A repository in `dir` whose every setting and hook would leave the file `marker`.
fn plant_repository(dir: &Path, marker: &Path) {
    fs::create_dir_all(dir).unwrap();
    git(dir, &["init", "-q"]);
    put(dir, "inner", "content\n");
    git(dir, &["add", "-A"]);
    git(dir, &["commit", "-q", "-m", "Inner"]);
    put(dir, "inner", "changed\n");
    arm(&dir.join(".git"), marker);
}

fn arm(git_dir: &Path, marker: &Path) {
    let script = git_dir.join("evil");
    put(git_dir, "evil", &format!("#!/bin/sh\ntouch '{}'\ncat\n", marker.display()));
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let script = script.display();
    let config = fs::read_to_string(git_dir.join("config")).unwrap_or_default();
    let evil = format!(
        "[core]\nfsmonitor = {script}\nhooksPath = {0}/hooks\nsshCommand = {script}\npager = {script}\n\
         [filter \"evil\"]\nclean = {script}\nsmudge = {script}\nprocess = {script}\nrequired = true\n\
         [diff \"evil\"]\ntextconv = {script}\ncommand = {script}\n[diff]\nexternal = {script}\n\
         [merge \"evil\"]\ndriver = {script}\n[gc]\nauto = 1\n[uploadpack]\npackObjectsHook = {script}\n",
        git_dir.display(),
    );
    put(git_dir, "config", &(config + &evil));
    for hook in ["pre-commit", "post-checkout", "post-index-change", "reference-transaction", "post-merge"] {
        let path = git_dir.join("hooks").join(hook);
        put(git_dir, &format!("hooks/{hook}"), &format!("#!/bin/sh\ntouch '{}'\n", marker.display()));
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

fn exercise(world: &World, workspace: &Workspace) {
    let snapshot = workspace.snapshot().unwrap();
    workspace.diff(&world.owner().head).unwrap();
    workspace.restore(&snapshot.tree).unwrap();
    workspace.commit(&message("Commit", "k"), &signature()).unwrap();
    workspace.snapshot().unwrap();
}

#[test]
fn nested_repositories_are_plain_files_and_run_nothing() {
    let world = World::new();
    let workspace = world.workspace("run_1");
    let marker = world.home().join("marker");
    plant_repository(&workspace.dir().join("vendor/nested"), &marker);
    plant_repository(&workspace.dir().join("vendor/nested/deeper"), &marker);
    plant_repository(workspace.dir(), &marker);
    put(workspace.dir(), "vendor/nested/.gitattributes", "* filter=evil diff=evil merge=evil\n");
    // The plant works: an unguarded git falls for it.
    try_git(&workspace.dir().join("vendor/nested"), &["status"]);
    assert!(marker.exists());
    fs::remove_file(&marker).unwrap();

    let snapshot = workspace.snapshot().unwrap();
    let list = git(world.tree.git_dir(), &["ls-tree", "-r", &snapshot.tree.to_string()]);
    assert!(list.contains("vendor/nested/inner") && list.contains("vendor/nested/deeper/inner"));
    assert!(!list.contains("160000") && !list.contains(".git/"), "{list}");
    let reported =
        |path: &str| snapshot.skipped.iter().any(|s| s.path == Path::new(path) && s.why == Why::GitDir);
    assert!(reported("vendor/nested/.git") && reported("vendor/nested/deeper/.git"));
    assert!(reported(".git"));
    exercise(&world, &workspace);
    assert!(!marker.exists());
    // Once recorded, new files inside are seen too.
    put(workspace.dir(), "vendor/nested/more", "x");
    let diff = workspace.diff(&world.tree.branch_head("mender/run_1").unwrap()).unwrap();
    assert_eq!(diff.files.len(), 1);
    assert!(!marker.exists());
}

#[test]
fn a_real_submodule_is_not_entered() {
    let world = World::new();
    let head = world.owner().head.to_string();
    world.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{head},sub")]);
    world.git(&["commit", "-q", "-m", "Submodule"]);
    let workspace = world.workspace("run_1");
    let marker = world.home().join("marker");
    plant_repository(&workspace.dir().join("sub"), &marker);
    let snapshot = workspace.snapshot().unwrap();
    assert!(snapshot.skipped.iter().any(|s| s.why == Why::Submodule));
    exercise(&world, &workspace);
    assert!(workspace.diff(&world.owner().head).unwrap().files.is_empty());
    assert!(!marker.exists());
}

#[test]
fn attributes_in_the_tree_neither_run_nor_hide_anything() {
    let world = World::new();
    let workspace = world.workspace("run_1");
    let attributes = "* filter=evil diff=evil merge=evil -diff ident eol=crlf text\n";
    put(workspace.dir(), ".gitattributes", attributes);
    put(workspace.dir(), "README", "a\r\nb\n$Id$\n");
    let diff = workspace.diff(&world.owner().head).unwrap();
    assert!(String::from_utf8_lossy(&diff.patch).contains("+a\r\n+b\n+$Id$"));
    workspace.commit(&message("Commit", "k"), &signature()).unwrap();
    let other = world.home().join("work/other");
    let other = world.tree.workspace_create("mender/run_1", &other).unwrap();
    assert_eq!(fs::read(other.dir().join("README")).unwrap(), b"a\r\nb\n$Id$\n");
}

#[test]
fn settings_and_hooks_of_the_owners_repository_do_not_run() {
    let world = World::new();
    let workspace = world.workspace("run_1");
    put(workspace.dir(), "README", "mended\n");
    let merge = world.merge(&workspace, "k1");
    let marker = world.home().join("marker");
    arm(&world.repo().join(".git"), &marker);
    world.tree.import(&world.owner()).unwrap();
    let delivery = world.tree.deliver(&world.repo(), "main", &merge, store::Manners::NONE).unwrap();
    assert!(matches!(delivery, Delivery::FastForwarded { .. }), "{delivery:?}");
    assert!(!marker.exists());
}

#[test]
fn names_that_pass_for_a_git_dir_are_reported() {
    let world = World::new();
    let workspace = world.workspace("run_1");
    for name in [".GIT", "git~1", ".git ", ".git.", "a\\.git"] {
        put(workspace.dir(), &format!("{name}/config"), "[core]\n");
    }
    put(workspace.dir(), "seen", "x");
    let snapshot = workspace.snapshot().unwrap();
    let list = git(world.tree.git_dir(), &["ls-tree", "-r", "--name-only", &snapshot.tree.to_string()]);
    assert_eq!(list, "README\nseen\nsrc/run.sh");
    assert!(snapshot.skipped.iter().filter(|s| s.why == Why::GitDir).count() >= 5);
}

#[test]
fn restore_does_not_follow_links_out_of_the_workspace() {
    let world = World::new();
    let workspace = world.workspace("run_1");
    let tree = workspace.snapshot().unwrap().tree;
    let outside = world.home().join("outside");
    fs::create_dir(&outside).unwrap();
    put(&outside, "run.sh", "precious\n");
    put(&outside, "untracked", "precious\n");
    fs::remove_dir_all(workspace.dir().join("src")).unwrap();
    symlink(&outside, workspace.dir().join("src")).unwrap();
    symlink(&outside, workspace.dir().join("new")).unwrap();
    assert_ne!(workspace.snapshot().unwrap().tree, tree);
    workspace.restore(&tree).unwrap();
    assert_eq!(fs::read_to_string(outside.join("run.sh")).unwrap(), "precious\n");
    assert!(outside.join("untracked").exists());
    assert!(workspace.dir().join("src/run.sh").exists() && !workspace.dir().join("new").exists());
    assert_eq!(workspace.snapshot().unwrap().tree, tree);
}
