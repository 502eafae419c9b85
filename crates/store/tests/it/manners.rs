//! What a delivery does as the owner: signatures, the hook after a merge, and what it says when the
//! repository is gone or is another one.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use store::{Commit, Delivery, Manners, Treeish as _, former_ref};

use crate::world::{World, git, put, try_git};

const SIGN: Manners = Manners { sign: true, hooks: false };
const HOOKS: Manners = Manners { sign: false, hooks: true };

/// A world with a merge on the line that the owner does not have.
fn ready() -> (World, Commit) {
    let world = World::new();
    let merge = merged(&world, "run_1", "new");
    (world, merge)
}

fn merged(world: &World, run: &str, path: &str) -> Commit {
    let workspace = world.workspace(run);
    put(workspace.dir(), path, "new\n");
    world.merge(&workspace, run)
}

fn program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[expect(clippy::disallowed_methods, reason = "the tests play the owner, who makes keys")]
fn run(name: &str, args: &[&str]) {
    let output = Command::new(name).args(args).output().unwrap();
    assert!(output.status.success(), "{name} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Lets the owner sign with a key of ssh, under this passphrase.
fn signs_with_ssh(world: &World, passphrase: &str) -> PathBuf {
    let key = world.home().join(format!("key{}", passphrase.len()));
    let path = key.to_str().unwrap();
    run("ssh-keygen", &["-q", "-t", "ed25519", "-N", passphrase, "-C", "owner", "-f", path]);
    let public = fs::read_to_string(key.with_extension("pub")).unwrap();
    let allowed = world.home().join("allowed");
    let known = fs::read_to_string(&allowed).unwrap_or_default();
    fs::write(&allowed, format!("{known}owner@example.org {public}")).unwrap();
    for (name, value) in [
        ("user.name", "Owner"),
        ("user.email", "owner@example.org"),
        ("user.signingKey", path),
        ("gpg.format", "ssh"),
        ("gpg.ssh.allowedSignersFile", allowed.to_str().unwrap()),
        ("commit.gpgSign", "true"),
    ] {
        world.git(&["config", name, value]);
    }
    key
}

#[track_caller]
fn is_signed(world: &World, merge: &Commit) {
    world.git(&["verify-commit", "HEAD"]);
    assert_eq!(world.git(&["log", "-1", "--format=%an %ae"]), "Owner owner@example.org");
    assert_eq!(world.git(&["rev-parse", "HEAD^2"]), merge.hex(), "what it brings");
    assert_eq!(world.git(&["diff", "HEAD^2", "HEAD"]), "");
    assert_eq!(world.git(&["status", "--porcelain", "--untracked-files=all"]), "");
    assert!(world.git(&["log", "-1", "--format=%B"]).contains(&format!("Regie-Delivers: {merge}")));
}

#[test]
fn where_commits_are_signed_the_owner_gets_a_signed_merge() {
    let (world, merge) = ready();
    signs_with_ssh(&world, "");
    let delivered = world.tree.deliver(&world.repo(), "main", &merge, SIGN).unwrap();
    assert!(matches!(delivered, Delivery::FastForwarded { .. }), "{delivered:?}");
    is_signed(&world, &merge);
    let again = world.tree.deliver(&world.repo(), "main", &merge, SIGN).unwrap();
    assert_eq!(again, Delivery::AlreadyThere);

    // The next one, from the line as it was, finds its way past the owner's merge; and one whose run
    // started from it too.
    let second = merged(&world, "run_2", "second");
    assert!(world.tree.is_ancestor(&merge, &second).unwrap());
    let delivered = world.tree.deliver(&world.repo(), "main", &second, SIGN).unwrap();
    assert!(matches!(delivered, Delivery::FastForwarded { .. }), "{delivered:?}");
    is_signed(&world, &second);
    world.git(&["fsck", "--strict"]);
}

#[test]
fn a_line_that_went_on_while_a_signed_merge_was_delivered_is_delivered_too() {
    let world = World::new();
    signs_with_ssh(&world, "");
    let (one, two) = (world.workspace("run_1"), world.workspace("run_2"));
    put(one.dir(), "first", "1\n");
    put(two.dir(), "second", "2\n");
    let first = world.merge(&one, "one");
    let second = world.merge(&two, "two");
    for merge in [&first, &second] {
        let delivered = world.tree.deliver(&world.repo(), "main", merge, SIGN).unwrap();
        assert!(matches!(delivered, Delivery::FastForwarded { .. }), "{delivered:?}");
        is_signed(&world, merge);
    }
    assert!(world.repo().join("first").exists() && world.repo().join("second").exists());
}

#[test]
fn what_cannot_be_signed_unattended_is_left_with_the_command_that_signs_it() {
    let (world, merge) = ready();
    signs_with_ssh(&world, "a passphrase");
    let before = world.git(&["rev-parse", "HEAD"]);
    let left = world.tree.deliver(&world.repo(), "main", &merge, SIGN).unwrap();
    let Delivery::Left { reason, command } = left else { panic!("{left:?}") };
    assert!(reason.starts_with("your commits are to be signed, and signing did not work here"), "{reason}");
    assert_eq!(world.git(&["rev-parse", "HEAD"]), before);
    assert_eq!(world.git(&["status", "--porcelain", "--untracked-files=all"]), "");
    assert!(!world.repo().join(".git/index.lock").exists());
    // At the owner's own terminal the key can be had.
    signs_with_ssh(&world, "");
    for part in command.split(" && ") {
        let args: Vec<&str> = part.split(' ').skip(1).collect();
        world.git(&[&args[..], if args[0] == "merge" { &["--no-edit"] } else { &[] }].concat());
    }
    world.git(&["verify-commit", "HEAD"]);
    let next = merged(&world, "run_2", "next");
    let delivered = world.tree.deliver(&world.repo(), "main", &next, SIGN).unwrap();
    assert!(matches!(delivered, Delivery::FastForwarded { .. }), "{delivered:?}");
}

#[test]
fn signing_that_is_turned_off_signs_nothing() {
    let (world, merge) = ready();
    signs_with_ssh(&world, "a passphrase");
    world.tree.deliver(&world.repo(), "main", &merge, Manners::NONE).unwrap();
    assert_eq!(world.git(&["rev-parse", "HEAD"]), merge.hex());
}

#[test]
fn a_key_of_gpg_signs_as_well() {
    let (world, merge) = ready();
    let home = world.home().join("gpg");
    fs::create_dir(&home).unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
    let at = home.to_str().unwrap();
    let who = "Owner <owner@example.org>";
    let quick = ["--homedir", at, "--batch", "--passphrase", "", "--quick-gen-key", who, "ed25519", "sign"];
    run("gpg", &quick);
    let wrapper = world.home().join("gpg-of-owner");
    program(&wrapper, &format!("#!/bin/sh\nexec gpg --homedir {at} \"$@\"\n"));
    for (name, value) in [
        ("user.name", "Owner"),
        ("user.email", "owner@example.org"),
        ("gpg.program", wrapper.to_str().unwrap()),
        ("commit.gpgSign", "yes"),
    ] {
        world.git(&["config", name, value]);
    }
    let delivered = world.tree.deliver(&world.repo(), "main", &merge, SIGN).unwrap();
    assert!(matches!(delivered, Delivery::FastForwarded { .. }), "{delivered:?}");
    is_signed(&world, &merge);
    run("gpgconf", &["--homedir", at, "--kill", "all"]);
}

/// A hook that counts how often it ran.
fn counting(world: &World) -> (String, impl Fn() -> usize) {
    let ran = world.home().join("ran");
    let script = format!("#!/bin/sh\necho \"$PWD $1\" >> {}\n", ran.display());
    (script, move || fs::read_to_string(&ran).unwrap_or_default().lines().count())
}

#[test]
fn the_owners_hook_runs_once_where_it_is_allowed() {
    let (world, merge) = ready();
    let (script, ran) = counting(&world);
    program(&world.repo().join(".git/hooks/post-merge"), &script);
    let delivered = world.tree.deliver(&world.repo(), "main", &merge, HOOKS).unwrap();
    assert!(matches!(delivered, Delivery::FastForwarded { note: None, .. }), "{delivered:?}");
    let text = fs::read_to_string(world.home().join("ran")).unwrap();
    assert_eq!(text.trim(), format!("{} 0", world.repo().canonicalize().unwrap().display()));
    world.tree.deliver(&world.repo(), "main", &merge, HOOKS).unwrap();
    assert_eq!(ran(), 1);
    assert!(!world.repo().join(".git/regie.post-merge").exists());
}

#[test]
fn a_hook_that_a_crash_came_before_is_made_up_for() {
    let (world, merge) = ready();
    let (script, ran) = counting(&world);
    program(&world.repo().join(".git/hooks/post-merge"), &script);
    world.tree.deliver(&world.repo(), "main", &merge, Manners::NONE).unwrap();
    assert_eq!(ran(), 0);
    // What a delivery leaves that was killed after the branch moved.
    fs::write(world.repo().join(".git/regie.post-merge"), format!("{merge}\n")).unwrap();
    let again = world.tree.deliver(&world.repo(), "main", &merge, HOOKS).unwrap();
    assert_eq!((again, ran()), (Delivery::AlreadyThere, 1));
}

#[track_caller]
fn note(world: &World, merge: &Commit, manners: Manners) -> String {
    match world.tree.deliver(&world.repo(), "main", merge, manners).unwrap() {
        Delivery::FastForwarded { note: Some(note), .. } => note,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_hook_in_the_tree_is_never_run() {
    let (script, _) = counting(&World::new());
    for linked in [false, true] {
        let (world, _) = ready();
        let (_, ran) = counting(&world);
        let script = script.replace(|_: char| false, "");
        program(&world.repo().join(".husky/post-merge"), &script);
        if linked {
            symlink("../../.husky/post-merge", world.repo().join(".git/hooks/post-merge")).unwrap();
        } else {
            world.git(&["config", "core.hooksPath", ".husky"]);
        }
        world.owner_commit("Hooks");
        let merge = merged(&world, "run_2", "other");
        let said = note(&world, &merge, HOOKS);
        assert!(said.contains("was not run: it lies in the tree"), "{said}");
        assert_eq!(ran(), 0);
        assert_eq!(world.git(&["rev-parse", "HEAD"]), merge.hex());
    }
}

#[test]
fn a_hook_that_fails_is_named_and_the_branch_has_moved() {
    let (world, merge) = ready();
    program(&world.repo().join(".git/hooks/post-merge"), "#!/bin/sh\necho no luck >&2\nexit 3\n");
    let said = note(&world, &merge, HOOKS);
    assert!(said.contains("your post-merge hook failed") && said.contains("no luck"), "{said}");
    assert!(said.contains(&merge.hex()[..12]) && said.contains("git hook run post-merge"), "{said}");
    assert_eq!(world.git(&["rev-parse", "HEAD"]), merge.hex());
}

#[test]
fn a_hook_that_is_not_allowed_is_said_to_be_there() {
    let (world, merge) = ready();
    let (script, ran) = counting(&world);
    program(&world.repo().join(".git/hooks/post-merge"), &script);
    let said = note(&world, &merge, Manners::NONE);
    assert!(said.contains("hooks = true"), "{said}");
    assert_eq!(ran(), 0);
}

/// Types a command that was printed.
fn type_in(dir: &Path, command: &str) {
    let args: Vec<&str> = command.split(' ').skip(1).collect();
    git(dir, &args);
}

#[test]
fn a_repository_that_has_moved_away_leaves_its_merge_to_a_clone() {
    let (world, merge) = ready();
    let away = world.home().join("elsewhere");
    fs::rename(world.repo(), &away).unwrap();
    let left = world.tree.deliver(&world.repo(), "main", &merge, SIGN).unwrap();
    let Delivery::Left { reason, command } = left else { panic!("{left:?}") };
    assert!(reason.contains("your repository is not at") && reason.contains("owner"), "{reason}");
    assert!(command.starts_with("git clone -b lines/main "), "{command}");
    type_in(world.home(), &command);
    assert_eq!(git(&world.repo(), &["rev-parse", "HEAD"]), merge.hex());
    // The directory is there, and is no repository.
    fs::remove_dir_all(world.repo().join(".git")).unwrap();
    let left = world.tree.deliver(&world.repo(), "main", &merge, SIGN).unwrap();
    let Delivery::Left { reason, command } = left else { panic!("{left:?}") };
    assert!(reason.contains("is no git repository any more"), "{reason}");
    type_in(world.home(), &command);
    assert!(world.home().join("owner-from-regie/new").exists());
}

#[test]
fn another_repository_in_its_place_is_left_alone_and_starts_anew() {
    let (world, merge) = ready();
    fs::rename(world.repo(), world.home().join("elsewhere")).unwrap();
    fs::create_dir(world.repo()).unwrap();
    world.git(&["init", "-q", "-b", "main"]);
    world.owner_write("other", "another project\n");
    let head = world.owner_commit("Another");
    let left = world.tree.deliver(&world.repo(), "main", &merge, SIGN).unwrap();
    let Delivery::Left { reason, command } = left else { panic!("{left:?}") };
    assert!(reason.contains("another repository is at"), "{reason}");
    assert_eq!(world.git(&["rev-parse", "HEAD"]), head);
    type_in(world.home(), &command);
    assert!(world.home().join("owner-from-regie/new").exists());

    // The next start begins from what is there; what was merged for the other one is kept.
    assert_eq!(world.tree.import(&world.owner()).unwrap().hex(), head);
    assert_eq!(world.tree.line_head("main").unwrap().unwrap().hex(), head);
    let (kept, at) = try_git(world.tree.git_dir(), &["rev-parse", &former_ref("main", &merge)]);
    assert_eq!((kept, at.trim()), (true, merge.hex()));
}
