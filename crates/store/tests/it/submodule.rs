//! Submodules: their files are there when the owner has them, and their recorded commit never changes.

use std::fs;
use std::path::PathBuf;

use crate::world::{World, git, message, put, signature};

/// A repository with the submodule `dep`, which has one of its own, `dep/deep`.
fn with_submodules() -> World {
    let world = World::new();
    for name in ["deep", "dep"] {
        let at = world.home().join(name);
        fs::create_dir(&at).unwrap();
        git(&at, &["init", "-q", "-b", "main"]);
        put(&at, "code", &format!("{name}\n"));
        put(&at, ".gitattributes", "* text eol=crlf\n");
        git(&at, &["add", "-A"]);
        git(&at, &["commit", "-q", "-m", "Start"]);
        if name == "dep" {
            let deep = world.home().join("deep");
            git(&at, &["-c", "protocol.file.allow=always", "submodule", "-q", "add", deep.to_str().unwrap()]);
            git(&at, &["commit", "-q", "-m", "Deep"]);
        }
    }
    let dep = world.home().join("dep");
    let allow = ["-c", "protocol.file.allow=always", "submodule", "-q"];
    world.git(&[&allow[..], &["add", dep.to_str().unwrap()]].concat());
    world.git(&[&allow[..], &["update", "--init", "--recursive"]].concat());
    world.owner_commit("A submodule");
    world
}

#[test]
fn the_files_are_there_and_the_recorded_commit_stays() {
    let world = with_submodules();
    let recorded = world.git(&["ls-tree", "HEAD", "dep"]);
    // What the owner changes in it is not what the commit says.
    world.owner_write("dep/code", "changed\n");
    let workspace = world.workspace("run_1");
    let found = workspace.fill_submodules(&world.owner()).unwrap();
    assert_eq!(found.filled, [PathBuf::from("dep"), PathBuf::from("dep/deep")]);
    assert!(found.left.is_empty(), "{found:?}");
    // The bytes are those on record, whatever attributes ask for.
    let read = |path: &str| fs::read_to_string(workspace.dir().join(path)).unwrap();
    assert_eq!((read("dep/code"), read("dep/deep/code")), ("dep\n".into(), "deep\n".into()));
    assert!(!workspace.dir().join("dep/.git").exists());

    let start = workspace.snapshot().unwrap().tree;
    put(workspace.dir(), "dep/code", "agent\n");
    put(workspace.dir(), "dep/new", "agent\n");
    put(workspace.dir(), "kept", "kept\n");
    let commit = workspace.commit(&message("Change", "k"), &signature()).unwrap().unwrap();
    let files = git(world.tree.git_dir(), &["ls-tree", "-r", "--name-only", &commit.to_string()]);
    assert_eq!(files, ".gitmodules\nREADME\ndep\nkept\nsrc/run.sh");
    assert_eq!(git(world.tree.git_dir(), &["ls-tree", &commit.to_string(), "dep"]), recorded);
    workspace.restore(&start).unwrap();
    assert!(!workspace.dir().join("kept").exists() && workspace.dir().join("dep/deep/code").exists());
    fs::remove_dir_all(workspace.dir().join("dep")).unwrap();
    assert_eq!(workspace.snapshot().unwrap().tree, start, "an emptied submodule is still recorded");
}

#[test]
fn one_that_is_not_checked_out_is_named() {
    let world = with_submodules();
    world.git(&["submodule", "-q", "deinit", "-f", "dep"]);
    let workspace = world.workspace("run_1");
    let found = workspace.fill_submodules(&world.owner()).unwrap();
    assert!(found.filled.is_empty(), "{found:?}");
    let [(path, why)] = found.left.as_slice() else { panic!("{found:?}") };
    assert_eq!(path, &PathBuf::from("dep"));
    assert!(why.contains("git submodule update --init"), "{why}");
    // A commit that the owner's copy does not have is named too, and nothing of another is written.
    world.git(&["-c", "protocol.file.allow=always", "submodule", "-q", "update", "--init", "dep"]);
    let none = "1".repeat(40);
    world.git(&["update-index", "--cacheinfo", &format!("160000,{none},dep")]);
    world.git(&["commit", "-q", "-m", "A commit that nobody has"]);
    let workspace = world.workspace("run_2");
    let found = workspace.fill_submodules(&world.owner()).unwrap();
    assert!(found.left.iter().any(|(_, why)| why.contains("was not fetched")), "{found:?}");
    assert_eq!(fs::read_dir(workspace.dir().join("dep")).unwrap().count(), 0);
}

#[test]
fn the_agents_git_finds_nothing_to_say_of_them() {
    let world = with_submodules();
    let workspace = world.workspace("run_1");
    workspace.fill_submodules(&world.owner()).unwrap();
    let base = world.tree.branch_head("mender/run_1").unwrap();
    let scratch = workspace.scratch(&world.owner(), "main", &base).unwrap();
    let (git_dir, dir) = (scratch.git_dir(), workspace.dir());
    let objects = format!("{}/objects\n", scratch.given().display());
    fs::write(git_dir.join("objects/info/alternates"), objects).unwrap();
    let places = ["--git-dir", git_dir.to_str().unwrap(), "--work-tree", dir.to_str().unwrap()];
    assert_eq!(git(dir, &[&places[..], &["status", "--porcelain"]].concat()), "");
    assert!(git(dir, &[&places[..], &["ls-tree", "HEAD", "dep"]].concat()).starts_with("160000 commit"));
}
