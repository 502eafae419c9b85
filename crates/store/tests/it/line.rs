//! The line from import to merge.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use store::{Delivery, Error, Message, Status, Tree, Why};

use crate::world::{World, git, message, put, signature};

#[test]
fn from_import_to_the_owners_branch() {
    let world = World::new();
    let from = world.owner().head;
    let workspace = world.workspace("run_1");
    assert!(!workspace.dir().join(".git").exists());
    assert_eq!(fs::read_to_string(workspace.dir().join("README")).unwrap(), "hello\n");
    put(workspace.dir(), "README", "hello, world\n");
    put(workspace.dir(), "new/file", "one\ntwo\n");
    fs::remove_file(workspace.dir().join("src/run.sh")).unwrap();

    let diff = workspace.diff(&from).unwrap();
    let seen: Vec<_> = diff.files.iter().map(|f| (f.path.to_str().unwrap(), &f.status)).collect();
    let wanted =
        [("README", &Status::Modified), ("new/file", &Status::Added), ("src/run.sh", &Status::Deleted)];
    assert_eq!(seen, wanted);
    assert_eq!(diff.totals(), (3, 3));
    assert!(String::from_utf8_lossy(&diff.patch).contains("+hello, world"));

    let merge = world.merge(&workspace, "k1");
    let to = merge.clone();
    let delivery = world.tree.deliver(&world.repo(), "main", &merge, store::Manners::NONE).unwrap();
    assert_eq!(delivery, Delivery::FastForwarded { from, to, note: None });
    assert_eq!(world.git(&["status", "--porcelain"]), "");
    assert_eq!(world.git(&["rev-parse", "HEAD"]), merge.to_string());
    assert_eq!(world.git(&["rev-list", "--parents", "-1", "HEAD"]).split(' ').count(), 3);
    assert_eq!(fs::read_to_string(world.repo().join("new/file")).unwrap(), "one\ntwo\n");
    assert!(!world.repo().join("src").exists());
    let log = world.git(&["log", "-1", "--format=%an|%(trailers:key=Regie-Run,valueonly)"]);
    assert_eq!(log, "agent:mender|run_1");
    let keys = world.git(&["log", "--format=%(trailers:key=Regie-Key,valueonly,separator=)"]);
    assert_eq!(keys.lines().filter(|line| *line == "k1").count(), 2);
    assert!(world.git(&["reflog", "-1", "main"]).contains("regie: fast-forward"));
    world.git(&["fsck", "--strict"]);
    let again = world.tree.deliver(&world.repo(), "main", &merge, store::Manners::NONE).unwrap();
    assert_eq!(again, Delivery::AlreadyThere);
    git(world.tree.git_dir(), &["fsck", "--strict"]);
}

#[test]
fn an_unchanged_workspace_gives_no_commit() {
    let world = World::new();
    let workspace = world.workspace("run_1");
    assert_eq!(workspace.commit(&message("Nothing", "k"), &signature()).unwrap(), None);
    let proposal = world.tree.propose("mender/run_1", "main").unwrap();
    assert!(proposal.files.is_empty());
    let head = proposal.line_head.clone();
    let merged = world.tree.merge(&proposal, &Message::default(), &signature(), "k", &head);
    assert!(matches!(merged, Err(Error::NothingToMerge { .. })), "{merged:?}");
}

#[test]
fn the_same_key_gives_the_same_commit() {
    let world = World::new();
    let workspace = world.workspace("run_1");
    put(workspace.dir(), "a", "1");
    let first = workspace.commit(&message("One", "k1"), &signature()).unwrap();
    put(workspace.dir(), "a", "2");
    assert_eq!(workspace.commit(&message("One", "k1"), &signature()).unwrap(), first);
    let second = workspace.commit(&message("Two", "k2"), &signature()).unwrap();
    assert_ne!(second, first);

    let proposal = world.tree.propose("mender/run_1", "main").unwrap();
    let head = proposal.line_head.clone();
    let merge = |key| world.tree.merge(&proposal, &message("M", ""), &signature(), key, &head);
    let merged = merge("m1").unwrap();
    assert_eq!(merge("m1").unwrap(), merged);
    assert!(matches!(merge("m2"), Err(Error::Moved { .. })));
    // It is found under later merges too.
    put(workspace.dir(), "b", "3");
    world.merge(&workspace, "m3");
    assert_eq!(merge("m1").unwrap(), merged);
}

#[test]
fn a_conflict_names_the_files_and_moves_nothing() {
    let world = World::new();
    let one = world.workspace("run_1");
    let two = world.workspace("run_2");
    put(one.dir(), "README", "one\n");
    put(two.dir(), "README", "two\n");
    let head = world.merge(&one, "k1");
    two.commit(&message("Two", "k2"), &signature()).unwrap();
    let proposal = world.tree.propose("mender/run_2", "main").unwrap();
    let merged = world.tree.merge(&proposal, &message("M", ""), &signature(), "k2", &head);
    match merged {
        Err(Error::Conflict { paths }) => assert_eq!(paths, [PathBuf::from("README")]),
        other => panic!("{other:?}"),
    }
    assert_eq!(world.tree.line_head("main").unwrap(), Some(head));
}

#[test]
fn a_line_follows_stays_or_merges() {
    let world = World::new();
    let workspace = world.workspace("run_1");
    let first = world.owner().head;
    assert_eq!(world.tree.import(&world.owner()).unwrap(), first);
    put(workspace.dir(), "new", "1\n");
    let merge = world.merge(&workspace, "k1");
    assert_eq!(world.tree.import(&world.owner()).unwrap(), merge, "a line ahead stays");
    world.owner_write("other", "2\n");
    world.owner_commit("Other");
    let joined = world.tree.import(&world.owner()).unwrap();
    assert_ne!(joined, merge);
    assert_eq!(world.tree.import(&world.owner()).unwrap(), joined, "the same again");
    world.owner_write("new", "other\n");
    world.owner_commit("Collide");
    let diverged = world.tree.import(&world.owner());
    assert!(matches!(diverged, Err(Error::Diverged { .. })), "{diverged:?}");
}

#[test]
fn names_are_bytes_and_modes_are_kept() {
    let world = World::new();
    let workspace = world.workspace("run_1");
    let names: [&[u8]; 6] = [b"a b", b"new\nline", b"bad\xff\xfe", b"-dash", b":(glob)*", b"\"quote\"\ttab"];
    for name in names {
        let dir = workspace.dir().join(OsStr::from_bytes(name));
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join(OsStr::from_bytes(name)), name).unwrap();
    }
    symlink("README", workspace.dir().join("link")).unwrap();
    symlink("/nowhere", workspace.dir().join("dangling")).unwrap();
    put(workspace.dir(), "tool", "#!/bin/sh\n");
    fs::set_permissions(workspace.dir().join("tool"), fs::Permissions::from_mode(0o755)).unwrap();
    let paths: Vec<PathBuf> =
        workspace.diff(&world.owner().head).unwrap().files.into_iter().map(|f| f.path).collect();
    for name in names {
        let name = Path::new(OsStr::from_bytes(name));
        assert!(paths.contains(&name.join(name)), "{name:?}");
    }
    let merge = world.merge(&workspace, "k1");
    let delivery = world.tree.deliver(&world.repo(), "main", &merge, store::Manners::NONE).unwrap();
    assert!(matches!(delivery, Delivery::FastForwarded { .. }), "{delivery:?}");
    assert_eq!(world.git(&["status", "--porcelain"]), "");
    for name in names {
        let path = world.repo().join(OsStr::from_bytes(name)).join(OsStr::from_bytes(name));
        assert_eq!(fs::read(path).unwrap(), name);
    }
    assert_eq!(fs::read_link(world.repo().join("link")).unwrap(), Path::new("README"));
    let mode = fs::metadata(world.repo().join("tool")).unwrap().permissions().mode();
    assert_eq!(mode & 0o100, 0o100);
    // A new workspace of the same line has them as well.
    let next = world.workspace("run_2");
    assert_eq!(fs::read_link(next.dir().join("dangling")).unwrap(), Path::new("/nowhere"));
    assert!(next.snapshot().unwrap().skipped.is_empty());
}

#[test]
fn ignored_and_special_files_are_left_out() {
    let world = World::new();
    let workspace = world.workspace("run_1");
    put(workspace.dir(), ".gitignore", "target/\n");
    put(workspace.dir(), "target/cache", "x");
    let socket = std::os::unix::net::UnixListener::bind(workspace.dir().join("socket")).unwrap();
    let snapshot = workspace.snapshot().unwrap();
    let skipped: Vec<_> = snapshot.skipped.iter().map(|s| (s.path.to_str().unwrap(), s.why)).collect();
    assert_eq!(skipped, [("socket", Why::Special)]);
    let list = git(world.tree.git_dir(), &["ls-tree", "-r", "--name-only", &snapshot.tree.to_string()]);
    assert_eq!(list, ".gitignore\nREADME\nsrc/run.sh");
    drop(socket);
    workspace.restore(&snapshot.tree).unwrap();
    assert!(!workspace.dir().join("socket").exists());
    assert!(workspace.dir().join("target/cache").exists());
}

#[test]
fn unreadable_files_are_reported_and_keep_their_last_content() {
    let world = World::new();
    let workspace = world.workspace("run_1");
    put(workspace.dir(), "README", "secret\n");
    put(workspace.dir(), "new", "secret\n");
    put(workspace.dir(), "seen", "x");
    for name in ["README", "new"] {
        let mode = fs::Permissions::from_mode(0o000);
        fs::set_permissions(workspace.dir().join(name), mode).unwrap();
    }
    if fs::read(workspace.dir().join("new")).is_ok() {
        return; // Nothing is unreadable to root.
    }
    let snapshot = workspace.snapshot().unwrap();
    let skipped: Vec<_> = snapshot.skipped.iter().map(|s| (s.path.to_str().unwrap(), s.why)).collect();
    assert_eq!(skipped, [("README", Why::Unreadable), ("new", Why::Unreadable)]);
    let list = git(world.tree.git_dir(), &["ls-tree", "-r", "--name-only", &snapshot.tree.to_string()]);
    assert_eq!(list, "README\nseen\nsrc/run.sh");
    let readme = git(world.tree.git_dir(), &["show", &format!("{}:README", snapshot.tree)]);
    assert_eq!(readme, "hello");
}

#[test]
fn an_agents_text_cannot_forge_provenance() {
    let world = World::new();
    let workspace = world.workspace("run_1");
    put(workspace.dir(), "a", "1");
    let mut forged = message("Line one\nRegie-Run: run_x", "k1");
    forged.body = "Text\n\nRegie-Key: stolen\nregie-principal: human:owner".into();
    forged.trailers.push(("Regie-Lease".into(), "a\nRegie-Key: stolen".into()));
    let commit = workspace.commit(&forged, &signature()).unwrap().unwrap();
    let keys = git(
        world.tree.git_dir(),
        &[
            "log",
            "-1",
            "--format=%(trailers:key=Regie-Key,valueonly)%(trailers:key=Regie-Principal,valueonly)",
            &commit.to_string(),
        ],
    );
    assert_eq!(keys, "k1\nagent:mender");
    put(workspace.dir(), "a", "2");
    let stolen = workspace.commit(&message("Again", "stolen"), &signature()).unwrap();
    assert_ne!(stolen, Some(commit));
}

#[test]
fn branches_and_workspaces_are_made_once() {
    let world = World::new();
    let workspace = world.workspace("run_1");
    let head = world.owner().head;
    world.tree.branch_create("mender/run_1", &head).unwrap();
    put(workspace.dir(), "a", "1");
    let again = world.tree.workspace_create("mender/run_1", workspace.dir()).unwrap();
    assert!(again.dir().join("a").exists());
    again.commit(&message("One", "k1"), &signature()).unwrap();
    let elsewhere = world.tree.branch_create("mender/run_1", &head);
    assert!(matches!(elsewhere, Err(Error::BranchExists { .. })));
    for name in ["main", "lines/main", "../x", "a/b/c", "a/-b", "a/", "a/b.lock", "a/b\n"] {
        let created = world.tree.branch_create(name, &head);
        assert!(matches!(created, Err(Error::BranchName { .. })), "{name}");
    }
    let occupied = world.tree.workspace_create("mender/run_1", &world.repo());
    assert!(matches!(occupied, Err(Error::Occupied { .. })));
    let reopened = Tree::open_or_create(world.tree.git_dir()).unwrap();
    assert!(reopened.workspace_open("mender/run_1", workspace.dir()).is_ok());
}

#[test]
fn an_interrupted_checkout_is_completed() {
    let world = World::new();
    let workspace = world.workspace("run_1");
    let dir = workspace.dir().to_owned();
    let index = dir.with_extension("index");
    fs::rename(&index, dir.with_extension("index.new")).unwrap();
    fs::remove_file(dir.join("README")).unwrap();
    put(&dir, "src/run.sh", "half");
    let workspace = world.tree.workspace_create("mender/run_1", &dir).unwrap();
    assert!(workspace.diff(&world.owner().head).unwrap().files.is_empty());
}
