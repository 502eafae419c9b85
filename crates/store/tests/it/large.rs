//! A workspace of so many files that several processes write it.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use crate::world::{World, git, put};

/// Above this number git spreads the work (`checkout.thresholdForParallelism`).
const MANY: usize = 400;

#[test]
fn a_tree_that_several_processes_write_is_the_recorded_one() {
    let world = World::new();
    for number in 0..MANY {
        world.owner_write(
            &format!("d{}/f{number}", number % 7),
            &format!("{number}\r\n$Id$\n").repeat(number),
        );
    }
    world.owner_write(".gitattributes", "* text eol=crlf ident filter=evil\n");
    symlink("d0/f0", world.repo().join("link")).unwrap();
    fs::set_permissions(world.repo().join("d1/f1"), fs::Permissions::from_mode(0o755)).unwrap();
    // Recorded as the bytes are.
    world.git(&["-c", "core.attributesFile=/dev/null", "add", "-A"]);
    world.owner_commit("Many");
    let workspace = world.workspace("run_1");
    let head = world.tree.branch_head("mender/run_1").unwrap();
    assert_eq!(workspace.snapshot().unwrap().tree, world.tree.tree_of(&head).unwrap());
    let raw = git(world.tree.git_dir(), &["cat-file", "-s", &format!("{head}:d3/f3")]);
    assert_eq!(fs::read(workspace.dir().join("d3/f3")).unwrap().len().to_string(), raw);
    assert_eq!(fs::read_link(workspace.dir().join("link")).unwrap().to_str(), Some("d0/f0"));
    assert!(fs::metadata(workspace.dir().join("d1/f1")).unwrap().permissions().mode() & 0o100 != 0);
}

#[test]
fn one_that_was_interrupted_is_completed() {
    let world = World::new();
    for number in 0..MANY {
        world.owner_write(&format!("d{}/f{number}", number % 7), &format!("{number}\n"));
    }
    world.owner_commit("Many");
    let head = world.tree.import(&world.owner()).unwrap();
    world.tree.branch_create("mender/run_1", &head).unwrap();
    let dir = world.home().join("work/run_1");
    // Its new index is there, some files are, and one is half written.
    fs::create_dir_all(&dir).unwrap();
    fs::write(world.home().join("work/run_1.index.new"), "").unwrap();
    put(&dir, "d0/f0", "");
    put(&dir, "d3/f3", "3\n");
    let workspace = world.tree.workspace_create("mender/run_1", &dir).unwrap();
    assert_eq!(workspace.snapshot().unwrap().tree, world.tree.tree_of(&head).unwrap());
}
