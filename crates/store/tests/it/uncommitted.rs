//! Working trees that are taken along, and ignored files that are copied.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use store::{Delivery, Error};

use crate::world::{World, git, message, put, signature};

fn paths(names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(PathBuf::from).collect()
}

#[test]
fn the_working_tree_is_recorded_and_stays_as_it_is() {
    let world = World::new();
    world.owner_write(".gitignore", "ignored\n");
    world.owner_commit("Rules");
    world.owner_write("README", "changed\n");
    world.owner_write("staged", "staged\n");
    world.git(&["add", "staged"]);
    world.owner_write("new/file", "new\n");
    world.owner_write("ignored", "no\n");
    fs::write(world.repo().join(".git/info/exclude"), "mine\n").unwrap();
    world.owner_write("mine", "no\n");
    fs::remove_file(world.repo().join("src/run.sh")).unwrap();
    git(&world.repo(), &["init", "-q", "nested"]);
    put(&world.repo(), "nested/x", "x\n");
    let before = world.git(&["status", "--porcelain", "-uall"]);
    let index = fs::read(world.repo().join(".git/index")).unwrap();

    let owner = world.owner();
    let taken = world.tree.import_uncommitted(&owner, &signature()).unwrap();
    assert_eq!(taken.paths, paths(&["README", "new/file", "src/run.sh", "staged"]));
    assert_eq!(taken.left, paths(&["nested"]));
    let files = git(world.tree.git_dir(), &["ls-tree", "-r", "--name-only", taken.base.to_string().as_str()]);
    assert_eq!(files, ".gitignore\nREADME\nnew/file\nstaged");
    let log = git(world.tree.git_dir(), &["log", "--format=%s", &taken.base.to_string()]);
    assert_eq!(log, "Snapshot of the working tree\nRules\nStart");
    assert_eq!(world.tree.line_head("main").unwrap(), Some(owner.head));
    assert_eq!(world.git(&["status", "--porcelain", "-uall"]), before);
    assert_eq!(fs::read(world.repo().join(".git/index")).unwrap(), index);
}

#[test]
fn a_clean_tree_starts_from_the_line() {
    let world = World::new();
    let taken = world.tree.import_uncommitted(&world.owner(), &signature()).unwrap();
    assert_eq!((taken.base, taken.paths, taken.left), (world.owner().head, vec![], vec![]));
}

#[test]
fn what_git_would_alter_is_refused() {
    let world = World::new();
    world.owner_write(".gitattributes", "*.bin filter=lfs\n");
    world.owner_commit("Rules");
    world.owner_write("README", "changed\n");
    world.tree.import_uncommitted(&world.owner(), &signature()).unwrap();
    world.owner_write("a.bin", "large\n");
    let refused = world.tree.import_uncommitted(&world.owner(), &signature()).unwrap_err();
    assert!(matches!(&refused, Error::Altered { what } if what.contains("filter")), "{refused}");
    fs::remove_file(world.repo().join("a.bin")).unwrap();
    // Line feeds that are asked for alter only what has other line ends.
    world.owner_write(".gitattributes", "* text=auto eol=lf\n");
    world.tree.import_uncommitted(&world.owner(), &signature()).unwrap();
    world.owner_write("README", "changed\r\n");
    let refused = world.tree.import_uncommitted(&world.owner(), &signature()).unwrap_err();
    assert!(matches!(&refused, Error::Altered { what } if what.contains("eol")), "{refused}");
    world.owner_write("README", "changed\n");
    world.git(&["config", "core.autocrlf", "true"]);
    let refused = world.tree.import_uncommitted(&world.owner(), &signature()).unwrap_err();
    assert!(matches!(&refused, Error::Altered { what } if what.contains("autocrlf")), "{refused}");
}

#[test]
fn a_line_that_is_ahead_gets_the_changes_on_top() {
    let world = World::new();
    let workspace = world.workspace("run_1");
    put(workspace.dir(), "other", "merged, not delivered\n");
    world.merge(&workspace, "k1");
    world.owner_write("README", "changed\n");
    let taken = world.tree.import_uncommitted(&world.owner(), &signature()).unwrap();
    let show = |path: &str| git(world.tree.git_dir(), &["show", &format!("{}:{path}", taken.base)]);
    assert_eq!((show("README"), show("other")), ("changed".into(), "merged, not delivered".into()));
}

#[test]
fn a_merge_with_the_owners_changes_is_delivered_only_where_nothing_is_lost() {
    for (changed, is_safe) in [("own", true), ("README", false)] {
        let world = World::new();
        world.owner_write("README", "changed\n");
        world.owner_write("own", "own\n");
        let taken = world.tree.import_uncommitted(&world.owner(), &signature()).unwrap();
        world.tree.branch_create("mender/run_1", &taken.base).unwrap();
        let dir = world.home().join("work/run_1");
        let workspace = world.tree.workspace_create("mender/run_1", &dir).unwrap();
        put(workspace.dir(), "src/new", "by the agent\n");
        let merge = world.merge(&workspace, "k1");
        if !is_safe {
            world.owner_write(changed, "changed once more\n");
        }
        let delivery = world.tree.deliver(&world.repo(), "main", &merge, store::Manners::NONE).unwrap();
        match delivery {
            Delivery::FastForwarded { .. } => {
                assert!(is_safe);
                assert_eq!(world.git(&["status", "--porcelain"]), "");
            }
            Delivery::Left { .. } => {
                assert!(!is_safe);
                let command = world.tree.fetch_command_over_changes(&world.repo(), "main");
                assert!(command.starts_with("git stash --include-untracked && git fetch "), "{command}");
                assert_eq!(fs::read_to_string(world.repo().join(changed)).unwrap(), "changed once more\n");
            }
            other => panic!("{other:?}"),
        }
        // What the run added is taken back; what it started from stays.
        let undoing =
            store::Undoing { line: "main", merge: &merge, keep: &taken.base, expected_line_head: &merge };
        let undone = world.tree.revert(&undoing, &message("Undo", ""), &signature(), "u").unwrap();
        let left = git(world.tree.git_dir(), &["ls-tree", "-r", "--name-only", &undone.to_string()]);
        assert_eq!(left, "README\nown\nsrc/run.sh");
    }
}

fn exists(dir: &Path, path: &str) -> bool {
    dir.join(path).symlink_metadata().is_ok()
}

#[test]
fn ignored_files_are_copied_and_never_committed() {
    let world = World::new();
    world.owner_write(".gitignore", ".env*\nfixtures/\nlinks/\nnode_modules/\n");
    world.owner_write(
        ".worktreeinclude",
        "# the tests need them\n.env.test\nfixtures/\nlinks/\nmine\nREADME\n",
    );
    world.owner_commit("Rules");
    for path in [".env.test", ".env.live", "fixtures/deep/data", "node_modules/a", "mine"] {
        world.owner_write(path, "value\n");
    }
    fs::create_dir(world.repo().join("links")).unwrap();
    fs::write(world.home().join("outside"), "secret\n").unwrap();
    symlink(world.home().join("outside"), world.repo().join("links/out")).unwrap();
    symlink(world.home(), world.repo().join("links/dir")).unwrap();

    let workspace = world.workspace("run_1");
    let included = workspace.include(&world.owner()).unwrap();
    assert_eq!(included.copied, paths(&[".env.test", "fixtures/deep/data", "links/dir", "links/out"]));
    let left: Vec<_> = included.left.iter().map(|(path, _)| path.clone()).collect();
    assert_eq!(left, paths(&["mine"]));
    for absent in [".env.live", "node_modules", "mine"] {
        assert!(!exists(workspace.dir(), absent), "{absent}");
    }
    // A link stays one, and nothing of what it leads to is copied.
    for (link, to) in [("links/out", world.home().join("outside")), ("links/dir", world.home().to_owned())] {
        assert_eq!(fs::read_link(workspace.dir().join(link)).unwrap(), to);
    }
    // Whatever an agent does to the rules, they do not get into a commit, and a roll-back keeps them.
    let start = workspace.snapshot().unwrap().tree;
    put(workspace.dir(), ".gitignore", "");
    put(workspace.dir(), "kept", "kept\n");
    let commit = workspace.commit(&message("Change", "k"), &signature()).unwrap().unwrap();
    let files = git(world.tree.git_dir(), &["ls-tree", "-r", "--name-only", &commit.to_string()]);
    assert_eq!(files, ".gitignore\n.worktreeinclude\nREADME\nkept\nsrc/run.sh");
    workspace.restore(&start).unwrap();
    assert!(exists(workspace.dir(), ".env.test") && !exists(workspace.dir(), "kept"));
}

#[test]
fn a_link_in_the_commit_does_not_lead_a_copy_out() {
    let world = World::new();
    let outside = world.home().join("outside");
    fs::create_dir(&outside).unwrap();
    symlink(&outside, world.repo().join("conf")).unwrap();
    world.owner_write(".gitignore", "*.local\n");
    world.owner_commit("A link");
    world.owner_write(".worktreeinclude", "*.local\n");
    // Since then the link has become a directory.
    fs::remove_file(world.repo().join("conf")).unwrap();
    world.owner_write("conf/a.local", "value\n");
    let workspace = world.workspace("run_1");
    let included = workspace.include(&world.owner()).unwrap();
    assert_eq!(included.copied, paths(&[]));
    assert_eq!(included.left.len(), 1);
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}
