//! Changes that are made to look like none: the same size, the time put back, within the same second.

use std::fs::{self, File, FileTimes};
use std::path::Path;
use std::time::{Duration, SystemTime};

use store::{TreeId, Treeish as _};

use crate::world::{World, git};

/// More than happen within one tick of a file system's clock, fewer than a second holds.
const TIMES: usize = 12;

/// Writes a file and puts its time back, as `touch -r` does.
fn disguised(dir: &Path, name: &str, content: &str) {
    let at = dir.join(name);
    fs::write(&at, content).unwrap();
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::options()
        .write(true)
        .open(&at)
        .unwrap()
        .set_times(FileTimes::new().set_modified(long_ago))
        .unwrap();
}

fn content(world: &World, tree: &TreeId, name: &str) -> String {
    git(world.tree.git_dir(), &["show", &format!("{}:{name}", tree.hex())])
}

#[test]
fn a_disguised_change_is_in_the_next_snapshot() {
    for name in ["README", "new", "src/new"] {
        let world = World::new();
        let workspace = world.workspace("run_1");
        for round in 0..TIMES {
            let now = format!("round {round:02}\n");
            disguised(workspace.dir(), name, &now);
            let tree = workspace.snapshot().unwrap().tree;
            assert_eq!(content(&world, &tree, name), now.trim_end(), "round {round} of {name}");
        }
    }
}

#[test]
fn a_disguised_change_is_seen_after_a_roll_back() {
    let world = World::new();
    let workspace = world.workspace("run_1");
    let mut trees = Vec::new();
    for round in 0..TIMES {
        disguised(workspace.dir(), "README", &format!("round {round:02}\n"));
        trees.push(workspace.snapshot().unwrap().tree);
        let back = &trees[round / 2];
        workspace.restore(back).unwrap();
        let told = fs::read_to_string(workspace.dir().join("README")).unwrap();
        assert_eq!(told.trim_end(), content(&world, back, "README"));
        assert_eq!(workspace.snapshot().unwrap().tree, *back);
    }
}
