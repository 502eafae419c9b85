//! The git dir that an agent sees: what is in it, what is not, and that the host never obeys it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use store::{Commit, Scratch, Treeish as _, Workspace};

use crate::world::{World, message, put, signature};

/// A git dir with what a jail shows, but outside of one: the store of its objects is named as it is here.
struct Agent {
    git_dir: PathBuf,
    files: PathBuf,
    given: PathBuf,
}

impl Agent {
    fn of(workspace: &Workspace) -> Self {
        let scratch = Scratch::open(workspace.dir()).unwrap();
        let given = scratch.given();
        let objects = given.join("objects").into_os_string().into_encoded_bytes();
        fs::write(scratch.git_dir().join("objects/info/alternates"), [&objects[..], b"\n"].concat()).unwrap();
        Self { git_dir: scratch.git_dir(), files: workspace.dir().to_owned(), given }
    }

    #[expect(clippy::disallowed_methods, reason = "the tests play the agent, who types git commands")]
    fn try_git(&self, args: &[&str]) -> (bool, String) {
        let output = Command::new("git")
            .current_dir(&self.files)
            .args(args)
            .env("GIT_DIR", &self.git_dir)
            .env("GIT_WORK_TREE", &self.files)
            .env("GIT_CONFIG_SYSTEM", self.given.join("gitconfig"))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        let said = if output.status.success() { output.stdout } else { output.stderr };
        (output.status.success(), String::from_utf8_lossy(&said).trim_end().to_owned())
    }

    #[track_caller]
    fn git(&self, args: &[&str]) -> String {
        let (ok, text) = self.try_git(args);
        assert!(ok, "git {args:?}: {text}");
        text
    }

    /// Everything that can be read in there, by name.
    fn objects(&self) -> BTreeSet<String> {
        let all = self.git(&["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"]);
        all.lines().map(str::to_owned).collect()
    }
}

fn scratch(world: &World, workspace: &Workspace) -> Scratch {
    let base = world.tree.branch_head(workspace.branch()).unwrap();
    workspace.scratch(&world.owner(), "main", &base).unwrap()
}

#[test]
fn it_has_the_history_of_the_line_and_nothing_else() {
    let world = World::new();
    world.git(&["tag", "-a", "v1", "-m", "First"]);
    world.git(&["tag", "light"]);
    world.owner_write("README", "hello again\n");
    world.owner_commit("Second");
    // What the owner has beside: another branch, a stash, a tag on it.
    world.git(&["checkout", "-q", "-b", "private"]);
    world.owner_write("secret", "of the owner\n");
    world.owner_commit("Private");
    world.git(&["tag", "-a", "hidden", "-m", "Hidden"]);
    world.owner_write("secret", "stashed\n");
    world.git(&["stash"]);
    let private = world.git(&["rev-parse", "private", "stash@{0}", "private:secret", "hidden"]);
    world.git(&["checkout", "-q", "main"]);
    // And another run.
    let other = world.workspace("run_1");
    put(other.dir(), "plan", "of another run\n");
    let kept = other.snapshot().unwrap().tree;
    let workspace = world.workspace("run_2");
    scratch(&world, &workspace);
    let agent = Agent::of(&workspace);

    assert_eq!(agent.git(&["log", "--format=%s"]), "Second\nStart");
    assert_eq!(agent.git(&["status", "--porcelain"]), "");
    assert_eq!(
        agent.git(&["for-each-ref", "--format=%(refname)"]).lines().collect::<Vec<_>>(),
        ["refs/heads/main", "refs/heads/mender/run_2", "refs/tags/light", "refs/tags/v1"]
    );
    assert_eq!(agent.git(&["symbolic-ref", "--short", "HEAD"]), "mender/run_2");
    assert!(agent.git(&["describe"]).starts_with("v1-1-g"));
    assert_eq!(agent.git(&["remote"]), "");
    agent.git(&["fsck", "--full"]);
    let seen = agent.objects();
    for hidden in private.lines().chain([kept.hex()]) {
        // The store has it.
        crate::world::git(world.tree.git_dir(), &["cat-file", "-e", hidden]);
        assert!(!seen.contains(hidden), "{hidden} is seen");
    }
    // Two commits with two trees each, three blobs, and a tag.
    assert_eq!(seen.len(), 2 + 3 + 3 + 1, "{seen:?}");
}

#[test]
fn its_index_knows_the_files_for_the_user_of_a_jail() {
    let world = World::new();
    put(&world.repo(), "a b/\u{e9}", "x\n");
    let odd = world.repo().join(std::ffi::OsStr::from_bytes(b"not\xffutf8"));
    fs::write(&odd, "y\n").unwrap();
    put(&world.repo(), &"long".repeat(60), "z\n");
    world.owner_commit("Names");
    let workspace = world.workspace("run_1");
    scratch(&world, &workspace);
    let agent = Agent::of(&workspace);
    let noted = agent.git(&["ls-files", "--debug"]);
    let owners: BTreeSet<&str> = noted.lines().filter(|line| line.contains("uid:")).collect();
    assert_eq!(owners.len(), 1, "{noted}");
    assert!(owners.iter().all(|line| line.contains("uid: 1000\tgid: 1000")), "{owners:?}");
    assert_eq!(agent.git(&["ls-files"]).lines().count(), 5);
    assert_eq!(agent.git(&["status", "--porcelain"]), "");
    fs::write(workspace.dir().join(std::ffi::OsStr::from_bytes(b"not\xffutf8")), "changed\n").unwrap();
    assert_eq!(agent.git(&["status", "--porcelain", "-z"]).split('\0').count(), 2);
}

#[test]
fn what_it_starts_from_is_the_base_whatever_the_files_are() {
    let world = World::new();
    let workspace = world.workspace("run_1");
    let base = world.tree.branch_head("mender/run_1").unwrap();
    put(workspace.dir(), "README", "changed\n");
    put(workspace.dir(), "new", "new\n");
    workspace.commit(&message("Change", "k"), &signature()).unwrap().unwrap();
    let made = workspace.scratch(&world.owner(), "main", &base).unwrap();
    let agent = Agent::of(&workspace);
    assert_eq!(agent.git(&["status", "--porcelain"]), " M README\n?? new");
    // It stays as it is.
    agent.git(&["commit", "-qam", "Mine"]);
    assert_eq!(workspace.scratch(&world.owner(), "main", &base).unwrap(), made);
    assert_eq!(agent.git(&["log", "--format=%s|%an"]), "Mine|Regie agent\nStart|Owner");
}

#[test]
fn nothing_that_the_agent_leaves_there_is_obeyed_or_read() {
    let world = World::new();
    let workspace = world.workspace("run_1");
    let scratch = scratch(&world, &workspace);
    let git_dir = scratch.git_dir();
    let mark = world.home().join("ran");
    let evil = world.home().join("evil");
    fs::write(&evil, format!("#!/bin/sh\ntouch '{}'\n", mark.display())).unwrap();
    fs::set_permissions(&evil, fs::Permissions::from_mode(0o755)).unwrap();
    let evil = evil.display().to_string();
    let agent = Agent::of(&workspace);
    agent.git(&["config", "core.fsmonitor", &evil]);
    agent.git(&["config", "filter.x.clean", &evil]);
    agent.git(&["config", "core.sshCommand", &evil]);
    agent.git(&["config", "diff.external", &evil]);
    put(workspace.dir(), ".gitattributes", "* filter=x\n");
    fs::create_dir_all(git_dir.join("hooks")).unwrap();
    for hook in ["pre-commit", "post-checkout", "post-index-change", "reference-transaction", "post-merge"] {
        fs::copy(world.home().join("evil"), git_dir.join("hooks").join(hook)).unwrap();
    }
    // A git that obeys it is shown to.
    agent.try_git(&["status"]);
    assert!(mark.exists(), "the attempt itself does nothing");
    fs::remove_file(&mark).unwrap();
    // Everything that the host does.
    put(workspace.dir(), "README", "changed\n");
    let snapshot = workspace.snapshot().unwrap();
    assert_eq!(snapshot.skipped, []);
    let head = workspace.commit(&message("Change", "k"), &signature()).unwrap().unwrap();
    let base = world.tree.line_head("main").unwrap().unwrap();
    workspace.diff(&base).unwrap();
    // Names that lead elsewhere are not followed.
    fs::remove_file(git_dir.join("packed-refs")).unwrap();
    symlink(&evil, git_dir.join("packed-refs")).unwrap();
    scratch.follow(&world.tree, &head).unwrap();
    workspace.scratch(&world.owner(), "main", &base).unwrap();
    workspace.restore(&world.tree.tree_of(&base).unwrap()).unwrap();
    assert!(git_dir.join("HEAD").exists());
    world.merge(
        &{
            put(workspace.dir(), "README", "again\n");
            workspace.clone()
        },
        "m",
    );
    let put_by = workspace.put_by("run_1").unwrap();
    assert_eq!(put_by.skipped, []);
    assert!(!mark.exists(), "the host has run what an agent left");
    let empty = fs::read_dir(workspace.dir().join(".git")).unwrap().count();
    assert_eq!(empty, 0, "the place of the git dir stays empty");
}

#[test]
fn a_place_that_holds_something_is_a_git_dir_again() {
    let world = World::new();
    let workspace = world.workspace("run_1");
    scratch(&world, &workspace);
    let first = workspace.snapshot().unwrap();
    assert_eq!(first.skipped, []);
    fs::write(workspace.dir().join(".git/HEAD"), "x").unwrap();
    assert_eq!(workspace.snapshot().unwrap().skipped.len(), 1);
}

#[test]
fn what_others_merged_is_shown_with_its_history() {
    let world = World::new();
    let workspace = world.workspace("run_1");
    let made = scratch(&world, &workspace);
    let agent = Agent::of(&workspace);
    let other = world.workspace("run_2");
    put(other.dir(), "other", "theirs\n");
    let merged = world.merge(&other, "m1");
    let base = world.tree.branch_head("mender/run_1").unwrap();
    put(workspace.dir(), "mine", "mine\n");
    let head = workspace.commit(&message("Mine", "k1"), &signature()).unwrap().unwrap();
    let followed =
        workspace.follow("main", &head, &base, &message("Follow", "k2"), &signature()).unwrap().unwrap();
    assert!(!agent.objects().contains(merged.hex()));
    made.follow(&world.tree, &followed.head).unwrap();
    made.follow(&world.tree, &followed.head).unwrap();
    assert!(agent.objects().contains(merged.hex()));
    assert_eq!(fs::read_to_string(made.given().join("head")).unwrap().trim(), followed.head.hex());
    agent.git(&["fsck", "--full", followed.head.hex()]);
    agent.git(&["read-tree", "--reset", followed.head.hex()]);
    agent.git(&["update-ref", "HEAD", followed.head.hex()]);
    assert_eq!(agent.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_view_is_made_once_and_grows_from_the_one_before() {
    let world = World::new();
    let views = world.tree.git_dir().join("views");
    let count = |commit: &Commit| {
        let packs = fs::read_dir(views.join(commit.hex()).join("objects/pack")).unwrap().flatten();
        packs.filter(|entry| entry.path().extension().is_some_and(|is| is == "pack")).count()
    };
    let mut commits = Vec::new();
    for number in 0..6 {
        world.owner_write("README", &format!("{number}\n"));
        world.owner_commit("More");
        let workspace = world.workspace(&format!("run_{number}"));
        scratch(&world, &workspace);
        let agent = Agent::of(&workspace);
        assert_eq!(agent.git(&["rev-list", "--count", "HEAD"]), (number + 2).to_string());
        agent.git(&["fsck", "--full"]);
        commits.push(world.tree.branch_head(workspace.branch()).unwrap());
        assert_eq!(count(commits.last().unwrap()), number + 1);
    }
    let kept: Vec<bool> = commits.iter().map(|commit| views.join(commit.hex()).exists()).collect();
    assert_eq!(kept.iter().filter(|kept| **kept).count(), 4, "{kept:?}");
    // A run whose view is gone has its own names of the packs.
    assert!(!kept.first().unwrap());
    let first = world.tree.workspace_open("mender/run_0", &world.home().join("work/run_0")).unwrap();
    Agent::of(&first).git(&["fsck", "--full"]);
}

#[test]
fn a_repository_that_is_cut_is_seen_so() {
    let world = World::new();
    for number in 0..3 {
        world.owner_write("README", &format!("{number}\n"));
        world.owner_commit("More");
    }
    let from = world.repo();
    let cut = world.home().join("cut");
    let url = format!("file://{}", from.display());
    crate::world::git(world.home(), &["clone", "-q", "--depth=2", &url, cut.to_str().unwrap()]);
    let tree = store::Tree::open_or_create(&world.home().join("trees/cut.git")).unwrap();
    let owner = store::Tree::inspect(&cut).unwrap();
    let head = tree.import(&owner).unwrap();
    tree.branch_create("mender/run_1", &head).unwrap();
    let workspace = tree.workspace_create("mender/run_1", &world.home().join("work/cut")).unwrap();
    assert!(workspace.scratch(&owner, "main", &head).unwrap().is_shallow());
    let agent = Agent::of(&workspace);
    assert_eq!(agent.git(&["rev-list", "--count", "HEAD"]), "2");
    agent.git(&["fsck", "--full"]);
}

#[test]
fn a_line_whose_name_is_a_directory_of_the_branch_is_left_out() {
    let world = World::new();
    world.git(&["branch", "-m", "main", "mender"]);
    let head = world.tree.import(&world.owner()).unwrap();
    world.tree.branch_create("mender/run_1", &head).unwrap();
    let dir: &Path = &world.home().join("work/run_1");
    let workspace = world.tree.workspace_create("mender/run_1", dir).unwrap();
    workspace.scratch(&world.owner(), "mender", &head).unwrap();
    let refs = Agent::of(&workspace).git(&["for-each-ref", "--format=%(refname)"]);
    assert_eq!(refs, "refs/heads/mender/run_1");
}
