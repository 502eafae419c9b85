//! A workspace in layers is one to the jail: what is changed goes to the upper layer, the base stays as it is, and
//! rules hold for what both show together.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use sandbox::compile::{Base, Kind, Layered, Look, Pattern, Rule, Rules, Verb, compile};
use sandbox::{
    Error, Layers, Mount, Part, Plan, Posture, Status, Stdin, default_system_mounts, layers_support,
};

use crate::jail::{Outcome, finish, launcher, run, start};
use crate::lacking::lacking;
use crate::protected::ATTEMPTS;

/// Layers in a directory of the test's own.
struct Stack {
    _dir: tempfile::TempDir,
    layers: Layers,
}

impl Stack {
    /// Files of the base, each with its own path as its content.
    fn new(files: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let layers = Layers { base: root.join("base"), upper: root.join("upper"), work: root.join("work") };
        for layer in [&layers.base, &layers.upper, &layers.work] {
            fs::create_dir(layer).unwrap();
        }
        for file in files {
            let path = layers.base.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        Self { _dir: dir, layers }
    }

    /// What runs `script` in `/workspace`, with rules that are compiled for what the layers show now.
    fn plan(&self, rules: &[(Verb, &str)], script: &str) -> Plan {
        let base = Base { workspace: self.layers.base.clone(), home: None };
        let rule = |(verb, glob): &(Verb, &str)| {
            Rule::new(*verb, Pattern::glob(glob, &base).unwrap(), (*glob).to_owned())
        };
        let rules = Rules {
            paths: rules.iter().map(rule).collect(),
            system: default_system_mounts(),
            cwd: Some(self.layers.base.clone()),
        };
        let compiled = compile(&rules, &Layered(&self.layers)).unwrap();
        let mut plan = Plan::new("/workspace", ["/bin/sh", "-c", script]);
        plan.mounts = compiled.mounts_at(&self.layers.base, Path::new("/workspace"));
        plan.layers = Some(self.layers.clone());
        plan
    }

    fn writable(&self, script: &str) -> Plan {
        self.plan(&[(Verb::Write, "."), (Verb::Exec, ".")], script)
    }

    #[track_caller]
    fn run(&self, rules: &[(Verb, &str)], script: &str) -> Outcome {
        let own = [(Verb::Write, "."), (Verb::Exec, ".")];
        run(&self.plan(&[&own, rules].concat(), script))
    }

    fn upper(&self, file: &str) -> PathBuf {
        self.layers.upper.join(file)
    }

    fn is_removed(&self, file: &str) -> bool {
        self.upper(file).symlink_metadata().is_ok_and(|found| found.file_type().is_char_device())
    }

    /// All of the base: path, content, and what else is known of each file.
    fn base(&self) -> Vec<(PathBuf, Vec<u8>, u64, u32, i64)> {
        let mut all = Vec::new();
        let mut open = vec![self.layers.base.clone()];
        while let Some(path) = open.pop() {
            let found = path.symlink_metadata().unwrap();
            if found.is_dir() {
                open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
            let content = if found.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            all.push((path, content, found.ino(), found.mode(), found.mtime_nsec()));
        }
        all.sort();
        all
    }

    /// All that the compiler sees.
    fn seen(&self) -> Vec<String> {
        let look = Layered(&self.layers);
        let mut all = Vec::new();
        let mut open = vec![self.layers.base.clone()];
        while let Some(path) = open.pop() {
            let kind = match look.kind(&path) {
                Kind::Directory => 'd',
                Kind::File => 'f',
                Kind::Link => 'l',
                other => panic!("{}: {other:?}", path.display()),
            };
            if kind == 'd' {
                open.extend(look.names(&path).unwrap().into_iter().map(|name| path.join(name)));
            }
            let below = path.strip_prefix(&self.layers.base).unwrap();
            all.push(format!("{kind} {}", below.display()));
        }
        all.sort();
        all
    }
}

const FILES: &[&str] = &["text", "old", "a/one", "a/two", "a/b/three", "c/four", "c/d/five", "tool"];

const CHANGES: &str = "set -e; echo new > text; rm old; mkdir -p e/f; echo x > e/f/six; rm -r a; mkdir a; \
    echo y > a/new; mkdir c/g; mv c/four c/g/; rm -r c/d; echo z > c/d; rm tool; mkdir tool; echo t > tool/in; \
    ln -s ../text e/link; chmod 755 c/g/four";

#[test]
fn what_is_changed_is_in_the_upper_layer_and_the_base_as_it_was() {
    let stack = Stack::new(FILES);
    let before = stack.base();
    stack.run(&[], CHANGES).good();
    assert_eq!(stack.base(), before);
    assert_eq!(fs::read_to_string(stack.upper("text")).unwrap(), "new\n");
    assert_eq!(fs::read_to_string(stack.upper("c/g/four")).unwrap(), "c/four");
    assert!(stack.is_removed("old") && stack.is_removed("c/four"));
    let said = stack.run(&[], "cat text a/* c/d c/g/four tool/in; ls -a old a c").bad();
    assert_eq!(said.out, "new\ny\nz\nc/fourt\na:\n.\n..\nnew\n\nc:\n.\n..\nd\ng\n", "{said:?}");
    assert_eq!(stack.base(), before);
}

#[test]
fn the_compiler_sees_what_the_jail_shows() {
    let stack = Stack::new(FILES);
    let find = "find . -printf '%y %P\\n'";
    for script in
        ["true", CHANGES, "rm -r e c; mkdir c; echo > c/d", "rm -r a; echo > a; mv tool c/tool || true"]
    {
        stack.run(&[], script);
        let shown = stack.run(&[], find).good();
        let mut shown: Vec<&str> = shown.lines().collect();
        shown.sort_unstable();
        assert_eq!(stack.seen(), shown, "after {script}");
    }
}

#[test]
fn what_is_denied_or_only_read_is_kept_in_either_layer() {
    for verb in [Verb::Deny, Verb::Read] {
        for attempt in ATTEMPTS {
            for is_changed in [false, true] {
                let stack = Stack::new(&["a/b/secret", "a/b/other"]);
                let before = stack.base();
                if is_changed {
                    stack.run(&[], "printf a/b/secret > new; mv new a/b/secret").good();
                }
                let said = stack.run(&[(verb, "a/b/secret")], &format!("{attempt}; true"));
                assert!(verb == Verb::Read || !said.out.contains("a/b/secret"), "{attempt}: {said:?}");
                let kept = stack.run(&[], "cat a/b/secret").good();
                assert_eq!(kept, "a/b/secret", "{attempt}, changed before: {is_changed}");
                assert_eq!(stack.base(), before, "{attempt}");
            }
        }
    }
}

#[test]
fn what_is_denied_and_not_there_cannot_be_made_and_leaves_nothing_behind() {
    let stack = Stack::new(&["a/b/text", "a/gone", "kept"]);
    stack.run(&[], "rm a/gone").good();
    let before = stack.seen();
    let rules = [(Verb::Deny, "a/b/.env"), (Verb::Deny, "a/gone"), (Verb::Deny, "hooks/**")];
    for attempt in ["echo x > a/b/.env", "echo x > a/gone", "mkdir hooks", "mv kept a/gone", "mv a other"] {
        stack.run(&rules, attempt).bad();
        assert_eq!(stack.seen(), before, "{attempt}");
        assert!(stack.is_removed("a/gone"), "{attempt}");
        assert!(!stack.upper("a/b/.env").exists() && !stack.upper("hooks").exists(), "{attempt}");
    }
    stack.run(&[], "echo x > a/b/.env; echo x > a/gone; mkdir hooks").good();
}

#[test]
fn layers_are_not_reached_by_another_way() {
    let stack = Stack::new(&["text"]);
    let Layers { base, upper, work } = &stack.layers;
    for layer in [base, upper, work] {
        let script = format!("ls {0} || echo x > {0}/new", layer.display());
        stack.run(&[], &script).bad();
        assert!(!layer.join("new").exists());
    }
    // Where they are said to be leads nowhere, and they cannot be mounted again.
    let again = format!(
        "cat /proc/mounts; mount -t overlay x -o lowerdir={},upperdir={},workdir={} /tmp",
        base.display(),
        upper.display(),
        work.display()
    );
    let said = stack.run(&[], &again).bad();
    assert!(said.out.contains(" /workspace overlay rw,nosuid,nodev"), "{said:?}");
    assert!(!said.out.contains(&*upper.to_string_lossy()), "{said:?}");
}

#[test]
fn one_jail_writes_to_them_or_many_show_them() {
    let stack = Stack::new(&["text"]);
    stack.run(&[], "echo changed > text").good();
    let reading = stack.plan(&[(Verb::Exec, ".")], "read line; cat text; echo x > text || exit 0");
    let writing = stack.writable("read line; echo more > text");
    let mut writer = launcher().spawn(&writing, Stdin::Piped).unwrap();
    for plan in [&reading, &writing] {
        let error = start(plan).unwrap_err();
        assert!(
            matches!(error, Error::Plan { .. }) && error.to_string().contains("used by a jail"),
            "{error}"
        );
    }
    drop(writer.stdin.take());
    finish(writer);
    let readers = [(); 3].map(|()| launcher().spawn(&reading, Stdin::Piped).unwrap());
    assert!(start(&writing).is_err());
    for mut reader in readers {
        drop(reader.stdin.take());
        let said = finish(reader);
        assert!(said.out == "more\n" && said.err.contains("Read-only"), "{said:?}");
    }
    let mut writer = launcher().spawn(&writing, Stdin::Piped).unwrap();
    drop(writer.stdin.take());
    finish(writer);
}

#[test]
fn a_lease_that_writes_in_one_place_writes_there_alone() {
    let stack = Stack::new(&["a/one", "b/two"]);
    let rules = [(Verb::Exec, "."), (Verb::Write, "a")];
    let said = run(&stack.plan(&rules, "echo x > a/one; echo y > a/new; echo z > b/two; echo z > c; ls"));
    assert_eq!(said.out, "a\nb\n", "{said:?}");
    assert!(stack.upper("a/one").exists() && stack.upper("a/new").exists());
    assert!(!stack.upper("b/two").exists() && !stack.upper("c").exists());
}

#[test]
fn only_what_is_written_counts_as_written() {
    const MIB: u64 = 1 << 20;
    let stack = Stack::new(&["text"]);
    fs::write(stack.layers.base.join("large"), vec![1; 24 << 20]).unwrap();
    let mut plan = stack.writable("cat large > /dev/null && echo x > text && cat text");
    plan.limits.disk_bytes = 8 * MIB;
    assert_eq!(run(&plan).good(), "x\n");
    plan.argv = stack.writable("cat /dev/zero > more & cat /dev/zero > again; wait").argv;
    let said = run(&plan);
    assert!(said.bound.is_some(), "{said:?}");
}

#[test]
fn where_there_are_no_overlays_nothing_starts_and_it_is_said() {
    let stack = Stack::new(&["text"]);
    let mut plan = stack.writable("echo x > text");
    for posture in [Posture::Deny, Posture::Ask] {
        plan.posture = posture;
        let error = lacking("overlay").spawn(&plan, Stdin::Null).unwrap_err();
        let Error::Refused { failure, mend } = &error else { panic!("{error:?}") };
        assert!(failure.part == Part::Layers && mend.contains("overlayfs"), "{error}");
    }
    // Without a jail it would write to the base.
    plan.posture = Posture::Ask;
    assert!(lacking("user-namespaces").spawn(&plan, Stdin::Null).is_err());
    assert_eq!(fs::read_to_string(stack.layers.base.join("text")).unwrap(), "text");
    assert!(!stack.upper("text").exists());
    let dir = stack.layers.work.parent().unwrap();
    let check = layers_support(&lacking("overlay"), dir);
    assert!(matches!(check.status, Status::Unsupported(_)) && check.mend.is_some(), "{check:?}");
    let check = layers_support(&launcher(), dir);
    assert_eq!(check.status, Status::Enforced, "{check:?}");
    assert_eq!(fs::read_dir(dir).unwrap().count(), 3);
}

#[test]
fn a_part_of_them_is_not_shown_by_itself() {
    let stack = Stack::new(&["a/one"]);
    let mut plan = stack.writable("true");
    plan.mounts.push(Mount { target: "/a".into(), ..Mount::write(stack.layers.base.join("a")) });
    let error = start(&plan).unwrap_err();
    assert!(matches!(error, Error::Plan { .. }) && error.to_string().contains("by itself"), "{error}");
}
