//! What compiled rules protect stays as it is, whatever a program in the jail tries; and what they leave works.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sandbox::compile::{Base, Machine, Pattern, Rule, Rules, Verb, compile};
use sandbox::{Plan, Stdin, default_system_mounts};

use crate::jail::{Ground, Outcome, finish, launcher, run, start};

/// A workspace with rules for it.
struct Kept {
    ground: Ground,
    work: PathBuf,
}

impl Kept {
    /// Files of the workspace, each with its own path as its content.
    fn new(files: &[&str]) -> Self {
        let ground = Ground::new();
        let work = ground.work().canonicalize().unwrap();
        for file in files {
            let path = work.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        Self { ground, work }
    }

    fn plan(&self, rules: &[(Verb, &str)], script: &str) -> Plan {
        let base = Base { workspace: self.work.clone(), home: None };
        let own = [(Verb::Write, "."), (Verb::Exec, ".")];
        let rule = |(verb, glob): &(Verb, &str)| {
            Rule::new(*verb, Pattern::glob(glob, &base).unwrap(), (*glob).to_owned())
        };
        let rules = Rules {
            paths: own.iter().chain(rules).map(rule).collect(),
            system: default_system_mounts(),
            cwd: Some(self.work.clone()),
        };
        let mut plan = Plan::new(&self.work, ["/bin/sh", "-c", script]);
        plan.mounts = compile(&rules, &Machine).unwrap().mounts();
        plan
    }

    #[track_caller]
    fn run(&self, rules: &[(Verb, &str)], script: &str) -> Outcome {
        run(&self.plan(rules, script))
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.work.join(file)).unwrap()
    }

    fn has(&self, file: &str) -> bool {
        self.work.join(file).symlink_metadata().is_ok()
    }
}

/// Ways to get at `a/b/secret`; each leaves `reached` behind, or its content on its output.
pub(crate) const ATTEMPTS: &[&str] = &[
    "cat a/b/secret",
    "echo x > a/b/secret",
    "echo x >> a/b/secret",
    ": > a/b/secret",
    "chmod 666 a/b/secret",
    "rm -f a/b/secret && echo x > a/b/secret",
    "mv a/b/secret a/b/moved",
    "echo x > a/b/new && mv -f a/b/new a/b/secret",
    "ln a/b/secret reached && cat reached",
    "ln -s $PWD/a/b/secret link && cat link && echo x > link",
    "mv a moved && mkdir -p a/b && echo x > a/b/secret",
    "mv a/b moved && mkdir a/b && echo x > a/b/secret",
    "rm -rf a; mkdir -p a/b && echo x > a/b/secret",
    "mkdir other && echo x > other/secret && mv a/b moved; mv -T other a/b",
    "mv a/b moved; ln -s /etc a/b",
    "cp a/b/secret reached && cat reached",
    "mount -t tmpfs none a/b && echo x > a/b/secret",
    "umount a/b/secret && cat a/b/secret",
    "umount -l a && cat a/b/secret",
    "unshare -rm umount a/b/secret && cat a/b/secret",
    "cat /proc/self/root$PWD/a/b/secret; cat /proc/self/cwd/a/b/secret",
    "touch -d 2001-01-01 a/b/secret",
    "setfattr -n user.x -v y a/b/secret",
];

#[test]
fn a_denied_file_is_neither_read_nor_changed_nor_replaced() {
    for attempt in ATTEMPTS {
        let kept = Kept::new(&["a/b/secret", "a/b/other"]);
        let before = kept.work.join("a/b/secret").metadata().unwrap();
        let said = kept.run(&[(Verb::Deny, "a/b/secret")], &format!("{attempt}; true"));
        assert!(!said.out.contains("a/b/secret"), "{attempt}: {said:?}");
        assert_eq!(kept.read("a/b/secret"), "a/b/secret", "{attempt}");
        let after = kept.work.join("a/b/secret").metadata().unwrap();
        assert_eq!(
            (before.ino(), before.mode(), before.mtime()),
            (after.ino(), after.mode(), after.mtime()),
            "{attempt}"
        );
    }
}

#[test]
fn the_attempts_work_where_nothing_is_denied() {
    let mut changed = 0;
    for attempt in ATTEMPTS {
        let kept = Kept::new(&["a/b/secret", "a/b/other"]);
        let before = kept.work.join("a/b/secret").metadata().unwrap();
        let said = kept.run(&[], &format!("{attempt}; true"));
        let after = kept.work.join("a/b/secret").metadata();
        let is_same = after.is_ok_and(|after| {
            (before.ino(), before.mode(), before.mtime()) == (after.ino(), after.mode(), after.mtime())
        });
        let is_reached = said.out.contains("a/b/secret")
            || !is_same
            || fs::read_to_string(kept.work.join("a/b/secret")).is_ok_and(|text| text != "a/b/secret");
        changed += usize::from(is_reached);
    }
    // Mounts need rights that no jail has, and not every machine has `setfattr`.
    assert!(changed >= ATTEMPTS.len() - 6, "only {changed} of {} attempts do anything", ATTEMPTS.len());
}

#[test]
fn a_file_that_is_only_read_stays_as_it_is() {
    for attempt in ATTEMPTS {
        let kept = Kept::new(&["a/b/secret", "a/b/other"]);
        kept.run(&[(Verb::Read, "a/b/secret")], &format!("{attempt}; true"));
        assert_eq!(kept.read("a/b/secret"), "a/b/secret", "{attempt}");
    }
    let kept = Kept::new(&["a/b/secret"]);
    assert_eq!(kept.run(&[(Verb::Read, "a/b/secret")], "cat a/b/secret").good(), "a/b/secret");
}

#[test]
fn a_denied_directory_shows_nothing_and_takes_nothing() {
    let kept = Kept::new(&["keys/one", "text"]);
    let said =
        kept.run(&[(Verb::Deny, "keys")], "ls keys; cat keys/one; echo x > keys/new; rm -rf keys; echo done");
    assert_eq!(said.out, "done\n", "{said:?}");
    assert!(said.err.contains("Permission denied"), "{said:?}");
    assert_eq!((kept.read("keys/one"), kept.has("keys/new")), ("keys/one".into(), false));
}

#[test]
fn what_is_denied_and_not_there_cannot_be_made_and_leaves_nothing_behind() {
    let kept = Kept::new(&["a/text"]);
    let rules = [(Verb::Deny, "a/.env"), (Verb::Deny, "hooks/**")];
    for attempt in [
        "echo x > a/.env",
        "mkdir a/.env",
        "ln -s text a/.env",
        "rm -f a/.env; echo x > a/.env",
        "mv a b && mkdir a && echo x > a/.env",
        "echo x > y && mv -f y a/.env",
        "mkdir -p hooks && echo x > hooks/pre-commit",
        "mkdir h && mv -T h hooks",
    ] {
        kept.run(&rules, &format!("{attempt}; true"));
        assert!(!kept.has("a/.env") && !kept.has("hooks"), "{attempt}");
    }
    // Without the rules it can.
    kept.run(&[], "echo x > a/.env && mkdir hooks").good();
    assert!(kept.has("a/.env") && kept.has("hooks"));
}

#[test]
fn jails_that_cover_the_same_absent_path_share_it_until_the_last_has_ended() {
    let kept = Kept::new(&["text"]);
    let rules = [(Verb::Deny, ".env")];
    let long = kept.plan(&rules, "read go; echo x > .env; rm -f .env; echo x > .env; true");
    let mut first = launcher().spawn(&long, Stdin::Piped).unwrap();
    kept.run(&rules, "echo x > .env").bad();
    // The second has ended: its cover is the first one's too.
    assert!(kept.has(".env"));
    drop(first.stdin.take());
    finish(first);
    assert!(!kept.has(".env"));
}

#[test]
fn what_a_killed_caller_left_is_taken_away_by_the_next() {
    use std::os::unix::fs::PermissionsExt;
    let kept = Kept::new(&["text"]);
    let left = kept.work.join(".env");
    fs::write(&left, "").unwrap();
    fs::set_permissions(&left, fs::Permissions::from_mode(0o1400)).unwrap();
    kept.run(&[(Verb::Deny, ".env")], "true").good();
    assert!(!left.exists());
    // Somebody's own empty file stays.
    fs::write(&left, "").unwrap();
    kept.run(&[(Verb::Deny, ".env")], "true").good();
    assert!(left.exists());
}

#[test]
fn where_there_is_no_boundary_nothing_new_is_made_and_other_directories_work() {
    let kept = Kept::new(&["one.key", "text", "src/main"]);
    let rules = [(Verb::Deny, "*.key")];
    for attempt in
        ["echo x > two.key", "echo x > text", "cat one.key", "mv src/main two.key", "mv one.key src/"]
    {
        kept.run(&rules, attempt).bad();
    }
    kept.run(&rules, "cat text src/main && echo x > src/new && mv src/new src/newer && rm src/newer").good();
    assert!(!kept.has("two.key") && kept.read("one.key") == "one.key");
}

#[test]
fn a_tree_whose_matches_are_links_or_swapped_for_links_leads_nowhere() {
    let kept = Kept::new(&["a/text"]);
    let outside = kept.ground.outside().join("file");
    fs::write(&outside, "outside").unwrap();
    let plan = kept.plan(&[(Verb::Read, "a/text")], "cat a/text; echo x > a/text");
    // After the rules were compiled, before the jail is built.
    fs::rename(kept.work.join("a"), kept.work.join("old")).unwrap();
    std::os::unix::fs::symlink(kept.ground.outside(), kept.work.join("a")).unwrap();
    fs::write(kept.ground.outside().join("text"), "outside").unwrap();
    let error = start(&plan).unwrap_err();
    assert!(matches!(error, sandbox::Error::Plan { .. }), "{error:?}");
    // A link at the end is no better.
    fs::remove_file(kept.work.join("a")).unwrap();
    fs::create_dir(kept.work.join("a")).unwrap();
    std::os::unix::fs::symlink(&outside, kept.work.join("a/text")).unwrap();
    let error = start(&plan).unwrap_err();
    assert!(matches!(error, sandbox::Error::Plan { .. }), "{error:?}");
    assert_eq!(fs::read_to_string(&outside).unwrap(), "outside");
}

#[test]
fn a_grant_that_became_a_link_is_not_followed() {
    let kept = Kept::new(&["text"]);
    let plan = kept.plan(&[], "echo x > new");
    fs::rename(&kept.work, kept.ground.outside().join("moved")).unwrap();
    std::os::unix::fs::symlink(kept.ground.outside(), &kept.work).unwrap();
    let error = start(&plan).unwrap_err();
    assert!(
        matches!(error, sandbox::Error::Plan { .. }) && error.to_string().contains("symbolic link"),
        "{error}"
    );
    assert!(!kept.ground.outside().join("new").exists());
}

#[test]
fn what_is_writable_in_what_is_read_and_what_may_not_be_executed() {
    let kept = Kept::new(&["out/x", "run.sh", "bin/run.sh"]);
    for file in ["run.sh", "bin/run.sh"] {
        use std::os::unix::fs::PermissionsExt;
        fs::write(kept.work.join(file), "#!/bin/sh\necho ran\n").unwrap();
        fs::set_permissions(kept.work.join(file), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let base = Base { workspace: kept.work.clone(), home: None };
    let plan = |rules: &[(Verb, &str)], script: &str| {
        let rule = |(verb, glob): &(Verb, &str)| Rule::new(*verb, Pattern::glob(glob, &base).unwrap(), *glob);
        let paths = rules.iter().map(rule).collect();
        let rules = Rules { paths, system: default_system_mounts(), cwd: None };
        let mut plan = Plan::new(&kept.work, ["/bin/sh", "-c", script]);
        plan.mounts = compile(&rules, &Machine).unwrap().mounts();
        plan
    };
    let read = [(Verb::Read, "."), (Verb::Write, "out"), (Verb::Exec, "bin")];
    run(&plan(&read, "echo x > new")).bad();
    run(&plan(&read, "echo x > out/new && bin/run.sh")).good();
    for rules in [&read[..], &[(Verb::Write, "."), (Verb::Exec, "bin")]] {
        assert!(run(&plan(rules, "./run.sh")).bad().err.contains("denied"));
        assert_eq!(run(&plan(rules, "bin/run.sh && sh run.sh")).good(), "ran\nran\n");
    }
    run(&plan(&[(Verb::Write, "."), (Verb::Exec, "bin")], "echo x > bin/new")).bad();
}

#[test]
fn denied_parts_of_the_system_are_not_there() {
    let kept = Kept::new(&["text"]);
    let said = kept.run(&[(Verb::Deny, "/usr/share")], "ls /usr/share; ls /usr/bin/env");
    assert!(said.out.contains("/usr/bin/env") && said.err.contains("Permission denied"), "{said:?}");
}

#[test]
fn names_with_newlines_and_other_file_systems_work() {
    let kept = Kept::new(&["a\nb/secret", "text"]);
    let said = kept.run(&[(Verb::Deny, "a\nb/secret")], "cat a*/secret; mv a* c; echo x > text; echo $?");
    assert_eq!(said.out, "0\n", "{said:?}");
    assert_eq!(kept.read("a\nb/secret"), "a\nb/secret");
    // A workspace in memory.
    let shm = Path::new("/dev/shm");
    if let Ok(dir) = tempfile::tempdir_in(shm) {
        // The jail's own `/dev` is in the way, and says so; at another place it is a workspace as any.
        let base = Base { workspace: dir.path().to_owned(), home: None };
        let paths = vec![Rule::new(Verb::Write, Pattern::glob(".", &base).unwrap(), ".")];
        let rules = Rules { paths, system: vec![], cwd: None };
        let error = compile(&rules, &Machine).unwrap_err();
        assert!(matches!(error, sandbox::compile::Error::Own { .. }), "{error}");
        let mut plan = Plan::new("/workspace", ["/bin/sh", "-c", "echo x > file && mkdir d && mv file d/"]);
        plan.mounts.pop();
        let source = dir.path().to_owned();
        plan.mounts.push(sandbox::Mount {
            source,
            target: "/workspace".into(),
            access: sandbox::Access::Write,
        });
        run(&plan).good();
        assert_eq!(fs::read_to_string(dir.path().join("d/file")).unwrap(), "x\n");
    }
}

#[test]
fn a_workspace_at_the_path_limit_works_or_is_refused_by_name() {
    let ground = Ground::new();
    let mut work = ground.work().canonicalize().unwrap();
    // As long as the kernel takes it in one piece.
    while work.as_os_str().len() + 102 < 4_095 {
        work.push("d".repeat(100));
        fs::create_dir(&work).unwrap();
    }
    let base = Base { workspace: work.clone(), home: None };
    let paths = vec![Rule::new(Verb::Write, Pattern::glob(".", &base).unwrap(), ".")];
    let rules = Rules { paths, system: default_system_mounts(), cwd: Some(work.clone()) };
    let mut plan = Plan::new(&work, ["/bin/sh", "-c", "echo x > f"]);
    plan.mounts = compile(&rules, &Machine).unwrap().mounts();
    run(&plan).good();
    assert_eq!(fs::read_to_string(work.join("f")).unwrap(), "x\n");
}
