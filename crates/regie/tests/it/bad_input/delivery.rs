//! What the owner does meanwhile is never lost: the branch is left alone, and one command takes the
//! merge over.

use std::process::Command;

use crate::world::{Ended, MEND, World, finish};

use super::RUN;
use super::missions::is_sound;

/// Runs a mission to its gate, lets the owner do something, approves, and gives the end.
#[track_caller]
fn approved_after(world: &World, meanwhile: impl FnOnce()) -> Ended {
    assert_eq!(world.ask(&RUN).code, Some(3));
    meanwhile();
    let gate = world.ask(&["gate", "list", "--json"]).json()[0].clone();
    assert_eq!(world.ask(&["gate", "approve", gate["gate"].as_str().unwrap()]).code, Some(0));
    let ended = world.ended(gate["run"].as_str().unwrap());
    world.is_whole();
    ended
}

/// The command that the reason names works as it is printed.
#[track_caller]
fn taken_over(world: &World, ended: &Ended) {
    assert_eq!(ended.end, "done", "{ended:?}");
    assert!(ended.reason.contains("your branch was left alone"), "{ended:?}");
    let command = ended.reason.split_once("take it over with `").unwrap().1.split_once('`').unwrap().0;
    assert!(ended.shown.contains("git fetch"), "`regie show` prints it: {ended:?}");
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(world.project()).env("GIT_EDITOR", "true");
    let said = finish(shell);
    assert_eq!(said.code, Some(0), "{command}: {said:?}");
    assert_eq!(std::fs::read_to_string(world.project().join("sum.sh")).unwrap(), "echo $(($1 + $2))\n");
}

fn commit(world: &World, name: &str, content: &str) {
    std::fs::write(world.project().join(name), content).unwrap();
    assert!(world.git(&["add", "."]).status.success());
    assert!(world.git(&["commit", "-q", "-m", name]).status.success());
}

fn head(world: &World) -> Vec<u8> {
    world.git(&["rev-parse", "main"]).stdout
}

#[test]
fn the_branch_has_moved() {
    let world = World::new(MEND);
    let ended = approved_after(&world, || commit(&world, "mine", "mine\n"));
    assert!(ended.reason.contains("has commits that are not in Regie's line"), "{ended:?}");
    assert_eq!(world.git(&["log", "-1", "--format=%s", "main"]).stdout, b"mine\n");
    assert_eq!(std::fs::read_to_string(world.project().join("sum.sh")).unwrap(), "echo $(($1 - $2))\n");
    taken_over(&world, &ended);
    assert!(world.project().join("mine").exists());
}

#[test]
fn the_checkout_is_dirty_where_the_merge_would_write() {
    let world = World::new(MEND);
    let before = head(&world);
    let ended =
        approved_after(&world, || std::fs::write(world.project().join("sum.sh"), "# half done\n").unwrap());
    assert!(ended.reason.contains("sum.sh"), "{ended:?}");
    assert_eq!(std::fs::read_to_string(world.project().join("sum.sh")).unwrap(), "# half done\n");
    assert_eq!(head(&world), before);
    assert!(world.git(&["stash"]).status.success());
    taken_over(&world, &ended);
}

#[test]
fn the_checkout_is_on_another_branch() {
    let world = World::new(MEND);
    let before = head(&world);
    let ended = approved_after(&world, || {
        assert!(world.git(&["switch", "-q", "-c", "other"]).status.success());
    });
    assert!(ended.reason.contains("the checkout is on `other`"), "{ended:?}");
    assert_eq!(head(&world), before);
    assert!(world.git(&["switch", "-q", "main"]).status.success());
    taken_over(&world, &ended);
}

#[test]
fn a_hook_of_the_owner_is_not_run_and_not_changed() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new(MEND);
    let ran = world.scratch().join("ran");
    let hook = format!("#!/bin/sh\ntouch {}\n", ran.display());
    for name in ["pre-commit", "post-merge", "post-checkout", "reference-transaction", "post-index-change"] {
        let path = world.project().join(".git/hooks").join(name);
        std::fs::write(&path, &hook).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    super::mended(&world);
    assert!(!ran.exists());
    assert_eq!(std::fs::read_to_string(world.project().join(".git/hooks/pre-commit")).unwrap(), hook);
}

/// The owner's file, before there is a daemon.
fn configure(world: &World, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::create_dir(world.home()).unwrap();
    std::fs::set_permissions(world.home(), std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::write(world.home().join("config.toml"), text).unwrap();
}

fn hook(world: &World, script: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let path = world.project().join(".git/hooks/post-merge");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_hook_that_the_owner_allows_runs_once_and_its_failure_is_said() {
    let world = World::new(MEND);
    configure(&world, "[delivery]\nhooks = true\n");
    let ran = world.scratch().join("ran");
    hook(&world, &format!("echo ran >> {}; echo no luck >&2; exit 3", ran.display()));
    let said = super::mended(&world);
    assert_eq!(std::fs::read_to_string(&ran).unwrap(), "ran\n");
    let flat = said.flat();
    assert!(flat.contains("your post-merge hook failed") && flat.contains("no luck"), "{flat}");
    assert!(flat.contains("your branch is at"), "{flat}");
}

#[test]
fn a_hook_that_is_not_allowed_is_named() {
    let world = World::new(MEND);
    hook(&world, "exit 0");
    let flat = super::mended(&world).flat();
    assert!(flat.contains("your post-merge hook was not run") && flat.contains("hooks = true"), "{flat}");
}

/// Lets the owner sign with a key of ssh.
fn sign_with(world: &World, passphrase: &str) {
    let key = world.scratch().join(format!("key{}", passphrase.len()));
    let mut keygen = Command::new("ssh-keygen");
    keygen.args(["-q", "-t", "ed25519", "-C", "owner", "-N", passphrase, "-f"]).arg(&key);
    assert_eq!(finish(keygen).code, Some(0));
    let allowed = world.scratch().join("allowed");
    let public = std::fs::read_to_string(key.with_extension("pub")).unwrap();
    std::fs::write(&allowed, format!("owner@localhost {public}")).unwrap();
    for (name, value) in [
        ("gpg.format", "ssh"),
        ("user.signingKey", key.to_str().unwrap()),
        ("gpg.ssh.allowedSignersFile", allowed.to_str().unwrap()),
        ("commit.gpgSign", "true"),
    ] {
        assert!(world.git(&["config", name, value]).status.success());
    }
}

#[test]
fn an_owner_who_signs_gets_a_signed_merge_and_can_undo_it() {
    let world = World::new(MEND);
    sign_with(&world, "");
    super::mended(&world);
    let signed = world.git(&["verify-commit", "HEAD"]);
    assert!(signed.status.success(), "{}", String::from_utf8_lossy(&signed.stderr));
    assert_eq!(world.git(&["log", "-1", "--format=%an"]).stdout, b"Owner\n");
    assert_eq!(world.git(&["status", "--porcelain"]).stdout, b"");
    let undone = world.ask(&["undo", "last", "--yes"]);
    assert_eq!(undone.code, Some(0), "{undone:?}");
    assert_eq!(std::fs::read_to_string(world.project().join("sum.sh")).unwrap(), "echo $(($1 - $2))\n");
    assert!(world.git(&["verify-commit", "HEAD"]).status.success());
    // The next mission starts from the owner's signed head.
    super::mended(&world);
    assert!(world.git(&["verify-commit", "HEAD"]).status.success());
    is_sound(&world);
}

#[test]
fn a_key_that_asks_for_its_passphrase_leaves_the_merge_to_the_owner() {
    let world = World::new(MEND);
    sign_with(&world, "a passphrase");
    let ended = approved_after(&world, || {});
    assert!(ended.reason.contains("your commits are to be signed"), "{ended:?}");
    assert!(ended.reason.contains("git merge --no-ff FETCH_HEAD"), "{ended:?}");
    // At a terminal the owner would be asked; here another key does.
    sign_with(&world, "");
    taken_over(&world, &ended);
    assert!(world.git(&["verify-commit", "HEAD"]).status.success());
}

#[test]
fn an_owner_who_turns_signing_off_gets_the_merge_as_it_is() {
    let world = World::new(MEND);
    configure(&world, "[delivery]\nsign = false\n");
    sign_with(&world, "a passphrase");
    super::mended(&world);
    assert!(!world.git(&["verify-commit", "HEAD"]).status.success());
}

#[test]
fn a_repository_does_not_say_how_it_is_delivered() {
    let world = World::new(MEND);
    std::fs::write(world.project().join("regie.toml"), "[delivery]\nhooks = true\n").unwrap();
    let said = world.ask(&RUN);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("delivery.hooks") && said.err.contains("config.toml"), "{said:?}");
    assert!(!world.home().exists());
}
