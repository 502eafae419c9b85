//! A snapshot and the way back, over small random trees.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::world::{World, put};

/// What a random step leaves at a path, whatever stood there or above it before.
#[derive(Clone, Debug)]
enum Act {
    File(String, bool),
    Link(String),
    Remove,
}

type Acts = Vec<(String, Act)>;

fn acts() -> impl Strategy<Value = Acts> {
    let name = prop::sample::select(vec!["a", "b", "c d", "ü", "e\nf"]);
    let path = prop::collection::vec(name, 1..4).prop_map(|names| names.join("/"));
    let act = prop_oneof![
        3 => ("[a-c]{0,3}", any::<bool>()).prop_map(|(text, exec)| Act::File(text, exec)),
        1 => prop::sample::select(vec!["a", "b", "/tmp", "../.."]).prop_map(|to| Act::Link(to.into())),
        2 => Just(Act::Remove),
    ];
    prop::collection::vec((path, act), 0..12)
}

fn remove(at: &Path) {
    match at.symlink_metadata() {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(at).unwrap(),
        Ok(_) => fs::remove_file(at).unwrap(),
        Err(_) => {}
    }
}

fn apply(root: &Path, acts: &[(String, Act)]) {
    for (path, act) in acts {
        let at = root.join(path);
        let parents: Vec<&Path> = at.ancestors().skip(1).take_while(|p| *p != root).collect();
        for parent in parents.iter().rev() {
            if !parent.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
                remove(parent);
                fs::create_dir(parent).unwrap();
            }
        }
        remove(&at);
        match act {
            Act::File(text, exec) => {
                fs::write(&at, text).unwrap();
                let mode = if *exec { 0o755 } else { 0o644 };
                fs::set_permissions(&at, fs::Permissions::from_mode(mode)).unwrap();
            }
            Act::Link(to) => symlink(to, &at).unwrap(),
            Act::Remove => {}
        }
    }
}

/// Every file and link below `root` with its content; directories count only by what they hold.
fn content(root: &Path) -> BTreeMap<PathBuf, (String, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let at = entry.unwrap().path();
            let meta = at.symlink_metadata().unwrap();
            let (kind, bytes) = if meta.is_dir() {
                dirs.push(at);
                continue;
            } else if meta.is_symlink() {
                ("link", fs::read_link(&at).unwrap().into_os_string().into_encoded_bytes())
            } else if meta.permissions().mode() & 0o100 != 0 {
                ("exec", fs::read(&at).unwrap())
            } else {
                ("file", fs::read(&at).unwrap())
            };
            found.insert(at.strip_prefix(root).unwrap().to_owned(), (kind.to_owned(), bytes));
        }
    }
    found
}

#[test]
fn the_way_back_is_exact() {
    let world = World::new();
    let head = world.tree.import(&world.owner()).unwrap();
    world.tree.branch_create("mender/run_1", &head).unwrap();
    let config = Config { cases: 24, max_shrink_iters: 100, ..Config::default() };
    let case = Cell::new(0);
    let check = |(first, second, third): (Acts, Acts, Acts)| {
        case.set(case.get() + 1);
        let dir = world.home().join(format!("work/{}", case.get()));
        let workspace = world.tree.workspace_create("mender/run_1", &dir).unwrap();
        apply(&dir, &first);
        let before = content(&dir);
        let snapshot = workspace.snapshot().unwrap();
        prop_assert!(snapshot.skipped.is_empty());
        apply(&dir, &second);
        let between = content(&dir);
        let later = workspace.snapshot().unwrap();
        apply(&dir, &third);
        workspace.restore(&snapshot.tree).unwrap();
        prop_assert_eq!(content(&dir), before);
        prop_assert_eq!(workspace.snapshot().unwrap().tree, snapshot.tree);
        workspace.restore(&later.tree).unwrap();
        prop_assert_eq!(content(&dir), between);
        Ok(())
    };
    TestRunner::new(config).run(&(acts(), acts(), acts()), check).unwrap();
}

#[test]
fn ignored_files_stay_whatever_the_rules_were_in_between() {
    let world = World::new();
    let workspace = world.workspace("run_1");
    put(workspace.dir(), ".gitignore", "cache\n");
    put(workspace.dir(), "cache", "kept\n");
    let tree = workspace.snapshot().unwrap().tree;
    put(workspace.dir(), ".gitignore", "hidden\n");
    put(workspace.dir(), "hidden", "new\n");
    workspace.restore(&tree).unwrap();
    assert!(workspace.dir().join("cache").exists());
    assert!(!workspace.dir().join("hidden").exists());
    assert_eq!(fs::read_to_string(workspace.dir().join(".gitignore")).unwrap(), "cache\n");
}

#[test]
fn the_lock_of_a_killed_git_does_not_stop_a_workspace() {
    let world = World::new();
    let workspace = world.workspace("run_1");
    let mut lock = workspace.dir().as_os_str().to_owned();
    lock.push(".index.lock");
    fs::write(&lock, "").unwrap();
    let tree = workspace.snapshot().unwrap().tree;
    fs::write(&lock, "").unwrap();
    workspace.restore(&tree).unwrap();
}
