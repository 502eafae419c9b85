//! The git of commands: mounted where git looks for it, kept from file tools, and put right in a jail.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use domain::{Effect, Outcome, StepKind};
use runner::config::Git;
use serde_json::json;

use crate::bench::Bench;

fn command(text: &str) -> serde_json::Value {
    json!({"command": text})
}

#[expect(clippy::disallowed_methods, reason = "the tests play the host, which makes the git dir")]
fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .current_dir(dir)
        .args(["-c", "user.name=Owner", "-c", "user.email=owner@example.org"])
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// A bench whose workspace has one commit, with the file `a`.
struct Repository {
    bench: Bench,
    git: Git,
    owner: PathBuf,
}

impl Repository {
    fn new() -> Self {
        let mut bench = Bench::new();
        let home = bench.home.path().to_owned();
        let owner = home.join("owner");
        fs::create_dir(&owner).unwrap();
        git(&owner, &["init", "-q", "-b", "main"]);
        let git_dirs = Git { dir: home.join("git"), given: home.join("given"), told: home.join("told") };
        fs::create_dir_all(git_dirs.dir.join("objects/info")).unwrap();
        fs::create_dir_all(git_dirs.dir.join("refs/heads")).unwrap();
        fs::create_dir_all(&git_dirs.given).unwrap();
        fs::write(git_dirs.dir.join("HEAD"), "ref: refs/heads/agent\n").unwrap();
        fs::write(git_dirs.dir.join("objects/info/alternates"), "/.regie/git/objects\n").unwrap();
        fs::write(git_dirs.given.join("gitconfig"), "[user]\nname = Agent\nemail = agent@localhost\n")
            .unwrap();
        bench.config.git = Some(git_dirs.clone());
        let mut repository = Self { bench, git: git_dirs, owner };
        let head = repository.merge("a", "one\n");
        fs::write(repository.git.dir.join("refs/heads/agent"), format!("{head}\n")).unwrap();
        fs::write(&repository.git.told, format!("{head}\n")).unwrap();
        repository.bench.put("a", "one\n");
        repository.bench.restart_daemon();
        assert_eq!(repository.said("git read-tree HEAD && git status --porcelain"), "[no output]");
        repository
    }

    /// Commits a file for the host, and says so to jails.
    fn merge(&mut self, name: &str, content: &str) -> String {
        fs::write(self.owner.join(name), content).unwrap();
        git(&self.owner, &["add", "-A"]);
        git(&self.owner, &["commit", "-q", "-m", name]);
        let head = git(&self.owner, &["rev-parse", "HEAD"]);
        let objects = self.git.given.join("objects");
        let _ = fs::remove_dir_all(&objects);
        git(&self.owner, &["repack", "-adq"]);
        fs::create_dir(&objects).unwrap();
        fs::create_dir(objects.join("pack")).unwrap();
        for entry in fs::read_dir(self.owner.join(".git/objects/pack")).unwrap().flatten() {
            fs::copy(entry.path(), objects.join("pack").join(entry.file_name())).unwrap();
        }
        fs::write(self.git.given.join("head"), format!("{head}\n")).unwrap();
        head
    }

    #[track_caller]
    fn said(&mut self, text: &str) -> String {
        self.bench.good("shell", command(text))
    }
}

#[test]
fn it_lives_as_long_as_the_run_and_not_in_the_workspace() {
    let mut repository = Repository::new();
    assert_eq!(
        repository.said("echo two > a; git commit -qam Two; git log --format='%s %an'"),
        "Two Agent\na Owner\n"
    );
    repository.bench.restart_daemon();
    assert_eq!(repository.said("git log --format=%s; git status --porcelain"), "Two\na\n");
    let place = fs::read_dir(repository.bench.path(".git")).unwrap().count();
    assert_eq!(place, 0, "the host sees no git dir in the workspace");
}

#[test]
fn it_cannot_be_replaced_nor_what_the_host_gives_changed() {
    let mut repository = Repository::new();
    for text in [
        "mv .git other",
        "rm -rf .git",
        "rmdir .git",
        "umount .git",
        "ln -sfT / .git",
        "touch /.regie/git/x",
        "rm -rf /.regie/git/objects",
        "echo > /etc/gitconfig",
        "mv /workspace /other",
    ] {
        repository.bench.bad("shell", command(text));
    }
    assert!(repository.git.given.join("objects/pack").is_dir());
    assert!(repository.git.dir.is_dir());
}

#[test]
fn file_tools_leave_it_alone() {
    let mut repository = Repository::new();
    repository.said("ln -s .git link; mkdir -p sub/.git");
    for path in [".git/HEAD", ".git", "link/config", "sub/.git/x", ".GIT/config", "a/../.git/config"] {
        for (tool, input) in [
            ("read", json!({"path": path})),
            ("list", json!({"path": path})),
            ("search", json!({"path": path, "pattern": "."})),
            ("write", json!({"path": path, "content": "x"})),
            ("edit", json!({"path": path, "old": "r", "new": "x"})),
        ] {
            let said = repository.bench.bad(tool, input);
            assert!(said.contains("belongs to git") || path.starts_with("a/"), "{tool} {path}: {said}");
        }
    }
    let listed = repository.bench.good("list", json!({"depth": 3}));
    assert!(!listed.contains(".git"), "{listed}");
    assert_eq!(fs::read_to_string(repository.git.dir.join("HEAD")).unwrap(), "ref: refs/heads/agent\n");
}

#[test]
fn a_step_that_only_reads_cannot_write_there() {
    let mut repository = Repository::new();
    let line = "git log --format=%s && git status --porcelain && ! git tag x 2>/dev/null && ! touch .git/x";
    let request = json!({"tool": "shell", "input": {"command": line}}).to_string();
    let work = repository.bench.work_of(StepKind::ToolCall, Effect::Read, "shell", &request);
    let (outcome, told) = repository.bench.run(&work);
    assert_eq!(outcome, Outcome::Succeeded, "{told:?}");
}

#[test]
fn what_was_merged_becomes_its_history_once() {
    let mut repository = Repository::new();
    repository.said("echo mine > mine; git add mine; git commit -qm Mine; git checkout -q -b topic");
    let head = repository.merge("b", "theirs\n");
    // As the host leaves the files: its own commit of them, with what was merged.
    repository.bench.put("b", "theirs\n");
    fs::remove_file(repository.bench.path("mine")).unwrap();
    let said =
        repository.said("git status --porcelain; git log --format=%s | sort; git branch --show-current");
    assert_eq!(said, "Merge what others have changed\nMine\na\nb\ntopic\n");
    assert_eq!(fs::read_to_string(&repository.git.told).unwrap().trim(), head);
    assert_eq!(repository.said("git rev-list --count HEAD"), "4\n");
    // Without commits of its own it simply stands there.
    repository.said("git checkout -q -B topic HEAD^2");
    let head = repository.merge("c", "more\n");
    repository.bench.put("c", "more\n");
    assert_eq!(repository.said("git status --porcelain; git rev-parse HEAD"), format!("{head}\n"));
}

#[test]
fn a_step_that_is_run_again_finds_no_lock_and_an_index_that_is_true() {
    let mut repository = Repository::new();
    repository.said("echo two > a; git add a; touch .git/index.lock .git/refs/heads/agent.lock");
    // The host has rolled the files back.
    repository.bench.put("a", "one\n");
    let mut work = repository
        .bench
        .work("shell", command("git status --porcelain && git commit -q --allow-empty -m Again"));
    work.attempt = 2;
    let (outcome, told) = repository.bench.run(&work);
    assert_eq!((outcome, told.text.as_str()), (Outcome::Succeeded, "[no output]"));
}

#[test]
fn an_agent_that_breaks_it_has_its_commands_all_the_same() {
    let mut repository = Repository::new();
    repository.said("rm -rf .git/* 2>/dev/null; ln -s /etc/passwd .git/HEAD; echo done");
    repository.merge("b", "theirs\n");
    assert_eq!(repository.said("echo still here"), "still here\n");
    let again = "rm -f .git/HEAD; git init -q; git rev-parse --is-inside-work-tree";
    assert_eq!(repository.said(again), "true\n");
}

#[test]
fn a_workspace_with_something_in_its_place_keeps_that() {
    let mut repository = Repository::new();
    fs::write(repository.bench.path(".git/own"), "of the agent\n").unwrap();
    assert_eq!(repository.said("cat .git/own; test -e /.regie/git || echo none"), "of the agent\nnone\n");
}

#[test]
fn one_that_cannot_be_looked_into_is_written_to_no_more() {
    let mut repository = Repository::new();
    // So far down that no path reaches it.
    let deep = "cd .git; for at in $(seq 30); do mkdir \"$(printf '%0200d' $at)\" && cd \"$(printf '%0200d' $at)\" || exit; done; echo made";
    assert_eq!(repository.said(deep), "made\n");
    let said = repository.said("touch .git/more || git log --format=%s");
    assert!(said.contains("cannot be looked into"), "{said}");
    assert!(said.contains("Read-only file system") && said.contains("\na\n"), "{said}");
}
