//! The states of the owner's repository in which a run cannot start.

use std::fs;
use std::path::Path;

use store::{Error, Tree};

use crate::world::{World, git, try_git};

/// Looks at `dir` and compares the message; the directory's name is replaced.
fn check(dir: &Path, wanted: &str) {
    let error = Tree::inspect(dir).unwrap_err();
    assert!(matches!(error, Error::Owner(_)));
    let text = error.to_string().replace(&*dir.to_string_lossy(), "DIR");
    assert_eq!(text, wanted);
}

#[test]
fn each_unusable_state_names_its_mend() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path();
    check(&dir.join("none"), "DIR is not a directory: give the path of a git repository");
    check(dir, "DIR is not in a git repository: run `git init && git add -A && git commit`");
    git(dir, &["init", "-q", "-b", "main"]);
    check(dir, "DIR has no commit yet: run `git add -A && git commit`");
    let bare = tempfile::tempdir().unwrap();
    git(bare.path(), &["init", "-q", "--bare"]);
    check(bare.path(), "DIR is a bare repository: give a clone with a checkout (`git clone`)");
    let new = tempfile::tempdir().unwrap();
    git(new.path(), &["init", "-q", "--object-format=sha256"]);
    check(new.path(), "DIR uses SHA-256 object names, which Regie does not support: use a clone without it");
}

/// A sandbox that was killed leaves empty ones behind; git does not take them for repositories either.
#[test]
fn an_empty_git_directory_makes_no_repository() {
    let home = tempfile::tempdir().unwrap();
    let (outer, inner) = (home.path().join("outer"), home.path().join("outer/a/inner"));
    fs::create_dir_all(inner.join("src")).unwrap();
    fs::create_dir(outer.join(".git")).unwrap();
    assert_eq!(store::owner::root(&inner), None);
    git(&inner, &["init", "-q", "-b", "main"]);
    assert_eq!(store::owner::root(&inner.join("src")), Some(&*inner));
    fs::create_dir_all(outer.join("linked/deep")).unwrap();
    fs::write(outer.join("linked/.git"), "gitdir: elsewhere\n").unwrap();
    assert_eq!(store::owner::root(&outer.join("linked/deep")), Some(&*outer.join("linked")));
}

#[test]
fn operations_in_progress_are_named() {
    let world = World::new();
    world.git(&["switch", "-q", "-c", "side"]);
    world.owner_write("README", "side\n");
    world.owner_commit("Side");
    world.git(&["switch", "-q", "main"]);
    world.owner_write("README", "main\n");
    world.owner_commit("Main");
    let repo = world.repo();
    let mend = |what: &str, mend: &str| {
        format!("a {what} is in progress in DIR: finish it or run `git {mend} --abort`")
    };
    assert!(!try_git(&repo, &["merge", "side"]).0);
    check(&repo, &mend("merge", "merge"));
    world.git(&["merge", "--abort"]);
    assert!(!try_git(&repo, &["rebase", "side"]).0);
    check(&repo, &mend("rebase", "rebase"));
    world.git(&["rebase", "--abort"]);
    assert!(!try_git(&repo, &["cherry-pick", "side"]).0);
    check(&repo, &mend("cherry-pick", "cherry-pick"));
    world.git(&["cherry-pick", "--abort"]);
    world.git(&["checkout", "-q", "--detach"]);
    check(&repo, "DIR has a detached HEAD: run `git switch <branch>`");
}

#[test]
fn what_is_not_committed_is_listed() {
    let world = World::new();
    world.owner_write("README", "changed\n");
    world.owner_write("staged", "x");
    world.git(&["add", "staged"]);
    world.owner_write("untracked file", "x");
    world.owner_write("ignored", "x");
    fs::write(world.repo().join(".git/info/exclude"), "ignored\n").unwrap();
    let before = fs::read(world.repo().join(".git/index")).unwrap();
    let owner = Tree::inspect(&world.repo().join("src")).unwrap();
    assert_eq!(owner.root, world.repo().canonicalize().unwrap());
    assert_eq!(owner.branch, "main");
    assert_eq!(owner.dirty, [Path::new("README"), Path::new("staged")]);
    assert_eq!(owner.untracked, [Path::new("untracked file")]);
    assert_eq!(fs::read(world.repo().join(".git/index")).unwrap(), before, "nothing was touched");
}

#[test]
fn a_repository_of_another_user_can_be_read() {
    let world = World::new();
    let nobody = 65534;
    if std::os::unix::fs::chown(world.repo(), Some(nobody), Some(nobody)).is_err() {
        return; // Only root can give files away.
    }
    std::os::unix::fs::chown(world.repo().join(".git"), Some(nobody), Some(nobody)).unwrap();
    let workspace = world.workspace("run_1");
    crate::world::put(workspace.dir(), "README", "mended\n");
    let merge = world.merge(&workspace, "k");
    let delivery = world.tree.deliver(&world.repo(), "main", &merge, store::Manners::NONE).unwrap();
    assert!(matches!(delivery, store::Delivery::FastForwarded { .. }), "{delivery:?}");
    let meta = fs::metadata(world.repo().join("README")).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&meta), nobody);
}

#[test]
fn shallow_clones_and_linked_checkouts_work() {
    let world = World::new();
    world.owner_write("second", "2\n");
    world.owner_commit("Second");
    let shallow = world.home().join("shallow");
    let url = format!("file://{}", world.repo().display());
    git(world.home(), &["clone", "-q", "--depth=1", &url, "shallow"]);
    world.git(&["worktree", "add", "-q", "-b", "side", "../linked"]);
    for (dir, branch) in [(shallow, "main"), (world.home().join("linked"), "side")] {
        let tree = Tree::open_or_create(&world.home().join(format!("trees/{branch}.git"))).unwrap();
        let owner = Tree::inspect(&dir).unwrap();
        assert_eq!(owner.branch, branch);
        let head = tree.import(&owner).unwrap();
        tree.branch_create("mender/r", &head).unwrap();
        let at = world.home().join(format!("work/{branch}"));
        let workspace = tree.workspace_create("mender/r", &at).unwrap();
        crate::world::put(&at, "second", "mended\n");
        let message = crate::world::message("Mend", "k");
        let signature = crate::world::signature();
        workspace.commit(&message, &signature).unwrap();
        let proposal = tree.propose("mender/r", branch).unwrap();
        let merge = tree.merge(&proposal, &message, &signature, "k", &head).unwrap();
        let delivery = tree.deliver(&dir, branch, &merge, store::Manners::NONE).unwrap();
        assert!(matches!(delivery, store::Delivery::FastForwarded { .. }), "{delivery:?}");
        assert_eq!(git(&dir, &["status", "--porcelain"]), "");
        git(&dir, &["fsck", "--strict"]);
    }
}
