//! `regie sandbox` where nothing is as it should be: one line says what, where and how to mend it, nothing was
//! started, and nothing is left behind.

use std::fs;
use std::io::BufRead as _;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::sandbox::Owner;
use crate::world::finish;

/// Everything below a directory.
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

/// A working directory with one of everything that cannot be granted.
fn odd() -> Owner {
    let owner = Owner::new();
    owner.put("dir/file", "x");
    symlink("dir", owner.work().join("link")).unwrap();
    symlink("nowhere", owner.work().join("dangling")).unwrap();
    symlink("loop", owner.work().join("loop")).unwrap();
    fs::create_dir(owner.work().join(std::ffi::OsStr::from_bytes(b"\xff"))).unwrap();
    fs::create_dir(owner.work().join("new\nline")).unwrap();
    drop(UnixListener::bind(owner.work().join("socket")).unwrap());
    rustix::fs::mkfifoat(rustix::fs::CWD, owner.work().join("pipe"), rustix::fs::Mode::RUSR).unwrap();
    owner
}

#[test]
fn each_bad_thing_is_one_line_and_leaves_nothing_behind() {
    let owner = odd();
    let before = all(&owner.work());
    let long = "d/".repeat(3_000);
    let longest = "n".repeat(300);
    let cases: &[(&[&str], &str)] = &[
        (&["--deny", ""], "empty"),
        (&["--deny", "../x"], "`..`"),
        (&["--deny", "new\nline/../x"], "new\\nline"),
        (&["--deny", "{a,b}"], "braces"),
        (&["--deny", "[a"], "wants its `]`"),
        (&["--deny", "~somebody/x"], "another user's home"),
        (&["--deny", "link/x"], "symbolic link"),
        (&["--deny", "link"], "symbolic link"),
        (&["--deny", "dangling"], "symbolic link"),
        (&["--deny", "."], "is not granted"),
        (&["--deny", "**"], "is not granted"),
        (&["--deny", "*"], "is not granted"),
        (&["--deny", "/**"], "is not granted"),
        (&["--deny", "?/x"], "UTF-8"),
        (&["--write", "nowhere"], "nowhere"),
        (&["--write", "dangling"], "dangling"),
        (&["--write", "loop"], "loop"),
        (&["--write", "socket"], "neither a file nor a directory"),
        (&["--read", "pipe"], "neither a file nor a directory"),
        (&["--read", "/dev/null"], "/dev/null"),
        (&["--read", "/proc"], "has one of its own"),
        (&["--write", "/dev"], "has one of its own"),
        (&["--read", "/"], "has one of its own"),
        (&["--read", "new\nline/nowhere"], "new\\nline/nowhere"),
        (&["--read", &long], "d/d/"),
        (&["--read", &longest], "nnn"),
        (&["--cwd", "nowhere"], "nowhere"),
        (&["--cwd", "dir/file"], "is not a directory"),
        (&["--cwd", "dangling"], "dangling"),
        (&["--env", "A B=c"], "NAME"),
        (&["--env", "=c"], "NAME"),
    ];
    for (options, part) in cases {
        for verb in ["run", "explain"] {
            let said = finish(owner.command(verb, &[options, &["--", "touch", "ran"][..]].concat()));
            assert_eq!(said.code, Some(125), "{verb} {options:?}: {said:?}");
            let lines: Vec<&str> = said.err.lines().collect();
            let is_hint = lines.get(1).is_none_or(|hint| hint.starts_with("hint: "));
            assert!(lines[0].starts_with("error: ") && is_hint && lines.len() <= 2, "{options:?}: {said:?}");
            assert!(lines[0].contains(part), "{verb} {options:?} without {part}: {said:?}");
            assert_eq!(said.out, "", "{options:?}");
        }
    }
    assert_eq!(all(&owner.work()), before);
}

#[test]
fn bytes_that_are_no_text_are_named_wherever_they_stand() {
    let owner = odd();
    let bytes = std::ffi::OsStr::from_bytes(b"\xff");
    for (option, code) in [("--write", 125), ("--read", 125), ("--cwd", 125), ("--deny", 2), ("--env", 2)] {
        let mut command = owner.command("run", &[option]);
        command.arg(bytes).args(["--", "touch", "ran"]);
        let said = finish(command);
        assert_eq!(said.code, Some(code), "{option}: {said:?}");
        assert!(said.err.contains("UTF-8"), "{option}: {said:?}");
    }
    assert!(owner.read("ran").is_none());
    // An argument of the program may be any bytes.
    let mut command = owner.command("run", &["--", "test", "-d"]);
    command.arg(bytes);
    assert_eq!(finish(command).code, Some(0));
}

#[test]
fn names_that_look_like_options_are_names_where_they_are_meant_so() {
    let owner = Owner::new();
    owner.put("-rf", "secret");
    for deny in [&["--deny=-rf"][..], &["--deny", "-rf"]] {
        let said = owner.run(&[deny, &["--", "cat", "--", "-rf"]].concat());
        assert!(said.code == Some(1) && said.err.contains("Permission denied"), "{said:?}");
    }
    let said = owner.run(&["--", "cat", "--", "-rf"]);
    assert_eq!((said.code, said.out.as_str()), (Some(0), "secret"), "{said:?}");
    assert_eq!(owner.read("-rf").as_deref(), Some("secret"));
}

#[test]
fn a_rule_that_means_nothing_changes_nothing_and_explain_says_so() {
    let owner = Owner::new();
    owner.put("file", "x");
    for glob in ["/no/such/place", "/etc/no-such-*", "~/nowhere/**"] {
        let said = owner.shell(&["--deny", glob], "echo y > file");
        assert_eq!(said.code, Some(0), "{glob}: {said:?}");
        let said = finish(owner.command("explain", &["--deny", glob, "--", "true"]));
        assert!(said.out.contains(&format!("--deny {glob} changes nothing")), "{said:?}");
    }
}

#[test]
fn what_a_killed_command_leaves_is_taken_away_by_the_next() {
    let owner = Owner::new();
    owner.put("a/file", "x");
    let before = all(&owner.work());
    let options = ["--deny", ".env", "--deny", "a/keys/**"];
    let mut command = owner.command("run", &options);
    command.args(["--", "sh", "-c", "echo ready; cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    child.kill().unwrap();
    child.wait().unwrap();
    let left = [owner.work().join(".env"), owner.work().join("a/keys")];
    for path in &left {
        // Empty, and nobody takes it for a file of the project's.
        let found = path.symlink_metadata().unwrap();
        assert_eq!((found.len(), found.permissions().mode() & 0o7777), (0, 0o1400), "{path:?}");
    }
    assert_eq!(owner.shell(&options, "true").code, Some(0));
    assert_eq!(all(&owner.work()), before);
}

#[test]
fn what_does_not_start_leaves_nothing_behind() {
    let owner = Owner::new();
    owner.put("a/file", "x");
    let before = all(&owner.work());
    for command in [&["no-such-program"][..], &["a/file"], &[""], &["/"]] {
        let said = owner.run(&[&["--deny", ".env", "--deny", "b/**", "--"][..], command].concat());
        assert!(matches!(said.code, Some(125..=127)), "{command:?}: {said:?}");
        assert_eq!(said.err.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{said:?}");
        assert_eq!(all(&owner.work()), before, "{command:?}");
    }
}

#[test]
fn directories_that_nobody_may_enter_are_covered_or_of_no_concern() {
    let owner = Owner::new();
    owner.put("closed/secret", "secret");
    owner.put("text", "text");
    let closed = owner.work().join("closed");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let script = "chmod 700 closed; cat closed/secret text";
    let held = owner.shell(&["--deny", "**/secret"], script);
    let free = owner.shell(&[], script);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!((held.out.as_str(), free.out.as_str()), ("text", "secrettext"), "{held:?} {free:?}");
}

/// How many files there are: a million where time is no matter.
fn many() -> usize {
    if std::env::var_os("REGIE_PROOF").is_some() { 1_000_000 } else { 100_000 }
}

#[test]
fn a_directory_of_very_many_files_is_a_workspace_as_any() {
    let owner = Owner::new();
    let dir = owner.work().join("many");
    fs::create_dir(&dir).unwrap();
    for number in 0..many() {
        fs::File::create(dir.join(number.to_string())).unwrap();
    }
    // A rule that names files looks at no other, and the jail is of as many mounts as without them.
    let mounts = |args: &[&str]| {
        let said = finish(owner.command("explain", &[args, &["--json", "--", "true"]].concat())).json();
        said["mounts"].as_array().unwrap().len()
    };
    assert_eq!(mounts(&["--deny", "many/7", "--deny", "many/new"]), mounts(&[]) + 3);
    assert_eq!(mounts(&["--deny", "many/*.pem"]), mounts(&[]) + 1);
    let script = "ls many | wc -l; echo x > many/new; cat many/7";
    let said = owner.shell(&["--deny", "many/7", "--deny", "many/new"], script);
    assert_eq!(said.out, format!("{}\n", many() + 1), "{said:?}");
    // One that each of them would have a mount for is refused.
    let said = owner.shell(&["--deny", "many/*[0-9]"], "true");
    assert!(said.code == Some(125) && said.err.contains("more than 4000 mounts"), "{said:?}");
    assert!(!dir.join("new").exists());
}

#[test]
fn another_file_system_than_the_homes_is_a_workspace_where_the_jail_has_none_of_its_own() {
    let owner = Owner::new();
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
        eprintln!("skipped: this machine has no /dev/shm");
        return;
    };
    let place = dir.path().to_str().unwrap();
    let said = owner.run(&["--cwd", place, "--", "true"]);
    assert!(said.code == Some(125) && said.err.contains("has one of its own"), "{said:?}");
    // A directory in /tmp is shown although the jail has a /tmp of its own.
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let place = dir.path().to_str().unwrap();
    let said = owner.run(&["--cwd", place, "--", "sh", "-c", "echo x > new; ls -A /tmp; ls"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.ends_with("new\n") && said.out.lines().count() == 2, "{said:?}");
}
