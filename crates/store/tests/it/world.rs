//! An owner's repository, Regie's git dir and a workspace, in a directory that is removed at the end.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use store::{Commit, Message, Owner, Signature, Tree, Workspace};

pub(crate) struct World {
    home: tempfile::TempDir,
    pub(crate) tree: Tree,
}

impl World {
    /// An owner's repository with `README` and `src/run.sh` committed on `main`.
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("owner")).unwrap();
        let tree = Tree::open_or_create(&home.path().join("trees/p.git")).unwrap();
        let world = Self { home, tree };
        world.git(&["init", "-q", "-b", "main"]);
        world.owner_write("README", "hello\n");
        world.owner_write("src/run.sh", "#!/bin/sh\necho run\n");
        let script = world.repo().join("src/run.sh");
        fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
        world.owner_commit("Start");
        world
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn repo(&self) -> PathBuf {
        self.home.path().join("owner")
    }

    pub(crate) fn owner(&self) -> Owner {
        Tree::inspect(&self.repo()).unwrap()
    }

    pub(crate) fn owner_write(&self, path: &str, content: &str) {
        put(&self.repo(), path, content);
    }

    pub(crate) fn owner_commit(&self, subject: &str) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", subject]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// Runs the owner's git in the owner's repository.
    pub(crate) fn git(&self, args: &[&str]) -> String {
        git(&self.repo(), args)
    }

    /// Imports HEAD and opens a workspace of the branch `mender/<run>` on it.
    pub(crate) fn workspace(&self, run: &str) -> Workspace {
        let head = self.tree.import(&self.owner()).unwrap();
        let branch = format!("mender/{run}");
        self.tree.branch_create(&branch, &head).unwrap();
        self.tree.workspace_create(&branch, &self.home.path().join("work").join(run)).unwrap()
    }

    /// Commits the workspace, merges it into the line of `main` and gives the merge.
    pub(crate) fn merge(&self, workspace: &Workspace, key: &str) -> Commit {
        workspace.commit(&message("Change", key), &signature()).unwrap().unwrap();
        let proposal = self.tree.propose(workspace.branch(), "main").unwrap();
        let head = proposal.line_head.clone();
        self.tree.merge(&proposal, &message("Merge", ""), &signature(), key, &head).unwrap()
    }
}

pub(crate) fn put(root: &Path, path: &str, content: &str) {
    let at = root.join(path);
    fs::create_dir_all(at.parent().unwrap()).unwrap();
    fs::write(at, content).unwrap();
}

#[expect(clippy::disallowed_methods, reason = "the tests play the owner, who types git commands")]
pub(crate) fn try_git(dir: &Path, args: &[&str]) -> (bool, String) {
    let output = Command::new("git")
        .current_dir(dir)
        .args(["-c", "user.name=Owner", "-c", "user.email=owner@example.org"])
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    let said = if output.status.success() { output.stdout } else { output.stderr };
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

pub(crate) fn git(dir: &Path, args: &[&str]) -> String {
    let (ok, text) = try_git(dir, args);
    assert!(ok, "git {args:?}: {text}");
    text.trim_end().to_owned()
}

pub(crate) fn signature() -> Signature {
    Signature { name: "agent:mender".into(), email: "mender@regie.local".into(), seconds: 1_800_000_000 }
}

pub(crate) fn message(subject: &str, key: &str) -> Message {
    let mut trailers = vec![
        ("Regie-Run".to_owned(), "run_1".to_owned()),
        ("Regie-Mission".to_owned(), "mission_1".to_owned()),
        ("Regie-Principal".to_owned(), "agent:mender".to_owned()),
        ("Regie-On-Behalf-Of".to_owned(), "human:owner".to_owned()),
    ];
    if !key.is_empty() {
        trailers.push((store::KEY_TRAILER.to_owned(), key.to_owned()));
    }
    Message { subject: subject.into(), body: "Because.".into(), trailers }
}
