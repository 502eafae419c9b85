//! Workspaces that nobody would make, and ones that change while a jail is made of them: what was meant, or nothing.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use sandbox::compile::{Base, Machine, Pattern, Rule, Rules, Verb, compile};
use sandbox::{Error, Plan, default_system_mounts};

use crate::jail::{Ground, run, start};

fn plan(work: &Path, rules: &[(Verb, &str)], script: &str) -> Result<Plan, sandbox::compile::Error> {
    let base = Base { workspace: work.to_owned(), home: None };
    let own = [(Verb::Write, "."), (Verb::Exec, ".")];
    let rule = |(verb, glob): &(Verb, &str)| Rule::new(*verb, Pattern::glob(glob, &base).unwrap(), *glob);
    let rules = Rules {
        paths: own.iter().chain(rules).map(rule).collect(),
        system: default_system_mounts(),
        cwd: Some(work.to_owned()),
    };
    let mut plan = Plan::new(work, ["/bin/sh", "-c", script]);
    plan.mounts = compile(&rules, &Machine)?.mounts();
    Ok(plan)
}

/// Everything below a directory, by name.
fn all(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(all(&entry.path()));
        }
        found.push(entry.path());
    }
    found.sort();
    found
}

#[test]
fn what_vanishes_or_changes_between_rules_and_start_is_refused_and_leaves_nothing() {
    type Change = fn(&Path);
    let rules = [(Verb::Deny, "a/secret"), (Verb::Deny, "a/b/.env"), (Verb::Read, "c/kept")];
    let changes: [(&str, Change); 9] = [
        ("the workspace", |work| fs::rename(work, work.with_file_name("gone")).unwrap()),
        ("a denied file", |work| fs::remove_file(work.join("a/secret")).unwrap()),
        ("a kept file", |work| fs::remove_file(work.join("c/kept")).unwrap()),
        ("the directory of an absent one", |work| fs::remove_dir_all(work.join("a/b")).unwrap()),
        ("a directory that is a file", |work| {
            fs::remove_dir_all(work.join("c")).unwrap();
            fs::write(work.join("c"), "").unwrap();
        }),
        ("a file that is a link to nothing", |work| {
            fs::remove_file(work.join("c/kept")).unwrap();
            symlink("/nowhere", work.join("c/kept")).unwrap();
        }),
        ("a directory that is a link", |work| {
            fs::rename(work.join("a"), work.join("moved")).unwrap();
            symlink("moved", work.join("a")).unwrap();
        }),
        ("a directory that is a loop", |work| {
            fs::remove_dir_all(work.join("c")).unwrap();
            symlink("c", work.join("c")).unwrap();
        }),
        ("an absent path that is a link now", |work| {
            symlink("/etc/passwd", work.join("a/b/.env")).unwrap();
        }),
    ];
    for (what, change) in changes {
        let ground = Ground::new();
        let work = ground.work().canonicalize().unwrap();
        fs::create_dir_all(work.join("a/b")).unwrap();
        fs::create_dir_all(work.join("c")).unwrap();
        fs::write(work.join("a/secret"), "secret").unwrap();
        fs::write(work.join("c/kept"), "kept").unwrap();
        let plan = plan(&work, &rules, "cat a/secret; echo x > ran; echo x > c/kept").unwrap();
        change(&work);
        let before = all(work.parent().unwrap());
        match start(&plan) {
            Err(error) => {
                assert!(matches!(error, Error::Plan { .. }), "{what}: {error:?}");
                assert_eq!(error.to_string().lines().count(), 1, "{what}: {error}");
            }
            // A cover is made anew where it is gone: what was denied cannot be there.
            Ok(child) => {
                assert_eq!(what, "a denied file");
                assert!(!crate::jail::finish(child).out.contains("secret"));
                fs::remove_file(work.join("ran")).unwrap();
            }
        }
        assert_eq!(all(work.parent().unwrap()), before, "{what}");
    }
}

#[test]
fn directories_deeper_than_any_path_are_refused_where_a_rule_would_look_there_and_work_otherwise() {
    let ground = Ground::new();
    let work = ground.work().canonicalize().unwrap();
    let name = "d".repeat(200);
    // Only by going there step by step is a file made that no path of the kernel's leads to.
    let make =
        format!("i=0; while [ $i -lt 30 ]; do mkdir {name}; cd {name}; i=$((i+1)); done; echo deep > secret");
    run(&plan(&work, &[], &make).unwrap()).good();
    let look = format!("while cd {name} 2>/dev/null; do :; done; cat secret");
    assert_eq!(run(&plan(&work, &[], &look).unwrap()).good(), "deep\n");
    assert_eq!(run(&plan(&work, &[(Verb::Deny, "secret")], &look).unwrap()).good(), "deep\n");
    let error = plan(&work, &[(Verb::Deny, "**/secret")], &look).unwrap_err();
    assert!(matches!(error, sandbox::compile::Error::TooLong { .. }), "{error}");
    assert!(error.to_string().len() < 400 && error.to_string().lines().count() == 1, "{error}");
    run(&plan(&work, &[], &format!("rm -rf {name}")).unwrap()).good();
}

#[test]
fn the_longest_names_are_protected_and_longer_ones_are_of_no_concern() {
    let ground = Ground::new();
    let work = ground.work().canonicalize().unwrap();
    let (longest, longer) = ("n".repeat(255), "n".repeat(256));
    fs::write(work.join(&longest), "secret").unwrap();
    let rules = [(Verb::Deny, longest.as_str()), (Verb::Deny, longer.as_str())];
    let said = run(&plan(&work, &rules, "cat n*; rm -f n*; echo x > n; echo done").unwrap());
    assert_eq!(said.out, "done\n", "{said:?}");
    assert_eq!(fs::read_to_string(work.join(&longest)).unwrap(), "secret");
}

#[test]
fn globs_that_match_nothing_change_nothing_and_globs_that_match_everything_grant_nothing() {
    let ground = Ground::new();
    let work = ground.work().canonicalize().unwrap();
    fs::create_dir(work.join("sub")).unwrap();
    for nothing in ["no/such/file", "sub/no-*", "/no/such/place/**", "-x", "--", "a\nb"] {
        let said = run(&plan(&work, &[(Verb::Deny, nothing)], "echo x > new && rm new").unwrap());
        assert!(said.status.success(), "{nothing}: {said:?}");
    }
    for everything in ["**", ".", "/**", "*"] {
        let error = plan(&work, &[(Verb::Deny, everything)], "true").unwrap_err();
        assert!(matches!(error, sandbox::compile::Error::Cwd { .. }), "{everything}: {error}");
    }
    assert_eq!(all(&work), [work.join("sub")]);
}

#[test]
fn names_with_dashes_and_bytes_that_are_no_text_are_held_or_named() {
    use std::os::unix::ffi::OsStrExt;
    let ground = Ground::new();
    let work = ground.work().canonicalize().unwrap();
    let odd = work.join(std::ffi::OsStr::from_bytes(b"\xff\xfe"));
    fs::create_dir(&odd).unwrap();
    fs::write(odd.join("secret"), "odd").unwrap();
    fs::write(work.join("-rf"), "secret").unwrap();
    // In the workspace such a name is as good as any, and a rule that says nothing of it is none for it.
    let said = run(&plan(&work, &[(Verb::Deny, "-rf")], "cat -- -rf; rm -f -- -rf; cat ?*/secret").unwrap());
    assert_eq!(said.out, "odd", "{said:?}");
    assert_eq!(fs::read_to_string(work.join("-rf")).unwrap(), "secret");
    // Where it would have to be protected, it is named, on one line.
    let error = plan(&work, &[(Verb::Deny, "**/secret")], "true").unwrap_err();
    assert!(matches!(error, sandbox::compile::Error::NotText { .. }), "{error}");
    assert!(error.to_string().contains("\\xFF\\xFE") && error.to_string().lines().count() == 1, "{error}");
}

#[test]
fn directories_that_cannot_be_read_or_searched_hide_nothing_from_a_rule() {
    let ground = Ground::new();
    let work = ground.work().canonicalize().unwrap();
    for (dir, mode) in [("closed", 0o000), ("listed", 0o400), ("searched", 0o100)] {
        fs::create_dir_all(work.join(dir).join("sub")).unwrap();
        fs::write(work.join(dir).join("sub/secret"), "secret").unwrap();
        fs::set_permissions(work.join(dir), fs::Permissions::from_mode(mode)).unwrap();
    }
    // They are the program's own, so it may open them.
    let script = "chmod 700 closed listed searched; cat */sub/secret";
    let held = run(&plan(&work, &[(Verb::Deny, "**/secret")], script).unwrap());
    for dir in ["closed", "listed", "searched"] {
        fs::set_permissions(work.join(dir), fs::Permissions::from_mode(0o700)).unwrap();
    }
    assert_eq!(held.out, "", "{held:?}");
    assert_eq!(run(&plan(&work, &[], script).unwrap()).good(), "secretsecretsecret");
}

#[test]
fn what_a_killed_caller_left_opens_no_rule_to_the_next() {
    let ground = Ground::new();
    let work = ground.work().canonicalize().unwrap();
    let rules = [(Verb::Deny, ".env"), (Verb::Deny, "keys/**")];
    let script = "rm -rf .env keys kept; echo x > .env; mkdir keys && echo x > keys/one; echo x > kept; true";
    for left in [".env", "keys"] {
        fs::write(work.join(left), "").unwrap();
        fs::set_permissions(work.join(left), fs::Permissions::from_mode(0o1400)).unwrap();
    }
    run(&plan(&work, &rules, script).unwrap()).good();
    assert_eq!(all(&work), [work.join("kept")]);
    fs::remove_file(work.join("kept")).unwrap();
    // Without the rules all of it can be made.
    run(&plan(&work, &[], script).unwrap()).good();
    assert_eq!(all(&work).len(), 4);
}
