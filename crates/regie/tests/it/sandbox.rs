//! `regie sandbox`: any program in the jail, by anybody, without a home or a daemon.

use std::fs;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::world::{Said, alive, finish};

/// A user with a home, a directory to work in, and Regie, which has never run.
pub(crate) struct Owner {
    pub(crate) dir: tempfile::TempDir,
}

impl Owner {
    pub(crate) fn new() -> Self {
        let owner = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir_all(owner.work()).unwrap();
        fs::create_dir_all(owner.home().join(".ssh")).unwrap();
        fs::write(owner.home().join(".ssh/id"), "the private key").unwrap();
        owner
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("home")
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.home().join("code")
    }

    pub(crate) fn command(&self, verb: &str, args: &[&str]) -> Command {
        let program = std::env::var_os("REGIE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_regie").into());
        let mut command = Command::new(program);
        command.args(["sandbox", verb]).args(args).current_dir(self.work()).stdin(Stdio::null());
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", self.home()).env("SECRET", "a token");
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Said {
        finish(self.command("run", args))
    }

    /// A script by the shell, after options.
    pub(crate) fn shell(&self, options: &[&str], script: &str) -> Said {
        self.run(&[options, &["--", "sh", "-c", script]].concat())
    }

    pub(crate) fn put(&self, path: &str, text: &str) {
        let path = self.work().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.work().join(path)).ok()
    }
}

#[test]
fn the_current_directory_is_writable_and_nothing_else_is_in_reach() {
    let owner = Owner::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let key = owner.home().join(".ssh/id");
    let script = format!(
        "echo in > file; cat {}; ls ~/.ssh; env | grep SECRET; echo x > /usr/x; \
         exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached; echo end",
        key.display()
    );
    let said = owner.run(&["--", "bash", "-c", &script]);
    assert_eq!((said.code, said.out.as_str()), (Some(0), "end\n"), "{said:?}");
    assert_eq!(owner.read("file").as_deref(), Some("in\n"));
    // Nothing was made for it: no home of Regie, no daemon.
    assert!(!owner.home().join(".local").exists());
    // With the network of the machine the same port is there.
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached");
    let said = owner.run(&["--net", "host", "--", "bash", "-c", &script]);
    assert_eq!(said.out, "reached\n", "{said:?}");
    // And a variable that is named.
    let said = owner.run(&[
        "--env",
        "SECRET",
        "--env",
        "A=b",
        "--env",
        "NOWHERE",
        "--",
        "sh",
        "-c",
        "echo $SECRET $A",
    ]);
    assert_eq!(said.out, "a token b\n", "{said:?}");
    assert!(said.err.contains("NOWHERE is not set"), "{said:?}");
}

#[test]
fn streams_pass_through_and_exit_codes_say_how_it_ended() {
    let owner = Owner::new();
    let mut command = owner.command("run", &["--", "sh", "-c", "cat; echo err >&2; exit 7"]);
    let input = owner.dir.path().join("input");
    fs::write(&input, "from\0outside\n").unwrap();
    command.stdin(fs::File::open(input).unwrap());
    let said = finish(command);
    assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (Some(7), "from\0outside\n", "err\n"));
    owner.put("plain", "no program");
    for (args, code) in [
        (&["--", "sh", "-c", "kill -TERM $$"][..], 143),
        (&["--", "no-such-program"], 127),
        (&["--", "./plain"], 126),
        (&["--time", "1s", "--", "sleep", "1000"], 124),
        (&["--write", "/no/such/place", "--", "true"], 125),
        (&["--deny", "../x", "--", "true"], 125),
        (&["--deny", "{a,b}", "--", "true"], 125),
        (&["--deny", "", "--", "true"], 125),
        (&["--tier", "2", "--", "true"], 2),
        (&["--memory", "much", "--", "true"], 2),
        (&[], 2),
    ] {
        let said = owner.run(args);
        assert_eq!(said.code, Some(code), "{args:?}: {said:?}");
        assert_eq!(said.err.is_empty(), code == 143, "{args:?}: {said:?}");
    }
}

#[test]
fn what_all_of_it_uses_up_ends_all_of_it_and_is_said_in_a_line() {
    let owner = Owner::new();
    let many = "for i in $(seq 20000); do : > f$i; done; sleep 20";
    let much = "for i in 1 2 3 4 5 6 7 8; do head -c 10000000 /dev/zero > big$i; done; sleep 20";
    let full = "for i in a b; do head -c 60000000 /dev/zero > /tmp/$i; done; sleep 20";
    for (bound, script, words) in [
        (["--files", "500"], many, "limit of 500 new files reached"),
        (["--disk", "32M"], much, "disk limit of 32 MiB of new data reached"),
        (["--memory", "64M"], full, "memory limit of 64 MiB reached"),
    ] {
        let said = owner.run(&[&bound[..], &["--", "sh", "-c", script]].concat());
        assert_eq!(said.code, Some(137), "{said:?}");
        assert!(said.err.contains(words) && said.err.lines().count() == 1, "{said:?}");
    }
    assert_eq!(owner.run(&["--", "sh", "-c", "rm -f f* big*; echo on"]).out, "on\n");
}

#[test]
fn an_interruption_ends_the_jail_and_leaves_nothing_behind() {
    let owner = Owner::new();
    let mark = format!("{}", 100_000_000 + u64::from(std::process::id()));
    for (signal, code) in [(rustix::process::Signal::INT, 130), (rustix::process::Signal::TERM, 143)] {
        let mut command = owner.command("run", &["--deny", ".env", "--", "sh", "-c"]);
        command.arg(format!("echo ready; sleep {mark} & sleep {mark}"));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        std::io::BufRead::read_line(&mut out, &mut line).unwrap();
        assert_eq!(line, "ready\n");
        assert!(owner.work().join(".env").symlink_metadata().is_ok());
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code));
        assert!(alive(&mark).is_empty());
        assert!(owner.work().join(".env").symlink_metadata().is_err());
    }
}

#[test]
fn what_is_denied_is_not_there_and_what_is_named_is_the_only_thing_written() {
    let owner = Owner::new();
    for file in [".env", "keys/one", "out/x", "src/main"] {
        owner.put(file, file);
    }
    let deny = ["--deny", ".env", "--deny", "keys/**", "--deny", "later/*.pem"];
    let said =
        owner.shell(&deny, "cat .env keys/one; rm -rf .env keys; mkdir later; echo x > src/new; mv src s");
    assert_eq!(said.out, "", "{said:?}");
    assert_eq!(
        (owner.read(".env").as_deref(), owner.read("keys/one").as_deref()),
        (Some(".env"), Some("keys/one"))
    );
    assert!(owner.read("s/new").is_some() && !owner.work().join("later").exists());
    // Only what is named is writable, and the rest is read.
    let said = owner.shell(&["--write", "out"], "cat s/main && echo x > out/new; echo x > top");
    assert_eq!(said.out, "src/main", "{said:?}");
    assert!(owner.read("out/new").is_some() && owner.read("top").is_none());
    // Tier 0 writes nothing, and executes nothing but the one program.
    owner.put("run.sh", "#!/bin/sh\necho ran\n");
    fs::set_permissions(owner.work().join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let script = "read l < s/main; echo $l; cat s/main; env echo x; ./run.sh; echo x > top; cp run.sh /tmp; \
        echo x > /tmp/y && read l < /tmp/y && echo $l";
    let said = owner.shell(&["--tier", "0"], script);
    assert_eq!(said.out, "src/main\nx\n", "{said:?}");
    assert!(said.err.contains("not implemented"), "{said:?}");
    assert!(owner.read("top").is_none());
    assert_eq!(owner.run(&["--", "./run.sh"]).out, "ran\n");
    // What it is to execute is in its view alone.
    assert_eq!(owner.run(&["--tier", "0", "--", "./run.sh"]).code, Some(126));
    assert_eq!(owner.run(&["--tier", "0", "--", "cat", "s/main"]).out, "src/main");
}

#[test]
fn what_the_owners_own_programs_execute_is_kept() {
    let owner = Owner::new();
    for file in [".git/config", ".git/hooks/post-commit", ".git/objects/x", ".envrc", ".vscode/tasks.json"] {
        owner.put(file, "mine");
    }
    let script = "for f in .git/config .git/hooks/post-commit .git/hooks/new .envrc .vscode/tasks.json; do \
        echo x > $f; rm -f $f; done; mv .git g; mv .vscode v; mv .envrc e; echo x > .git/objects/new";
    owner.shell(&[], script);
    for file in [".git/config", ".git/hooks/post-commit", ".envrc", ".vscode/tasks.json"] {
        assert_eq!(owner.read(file).as_deref(), Some("mine"), "{file}");
    }
    assert!(owner.read(".git/hooks/new").is_none() && owner.read(".git/objects/new").is_some());
    // Without hooks none are made.
    fs::remove_dir_all(owner.work().join(".git/hooks")).unwrap();
    owner.shell(&[], "mkdir -p .git/hooks; echo x > .git/hooks/post-commit");
    assert!(!owner.work().join(".git/hooks").exists());
    // Who names it, means it.
    let said = owner.shell(&["--write", ".", "--write", ".git/config"], "echo x > .git/config");
    assert_eq!((said.code, owner.read(".git/config").as_deref()), (Some(0), Some("x\n")), "{said:?}");
}

#[test]
fn a_home_is_not_granted_unasked_and_regies_own_never() {
    let owner = Owner::new();
    for place in [owner.home(), PathBuf::from("/")] {
        let said = owner.run(&["--cwd", place.to_str().unwrap(), "--", "true"]);
        assert_eq!(said.code, Some(125), "{said:?}");
        assert!(said.err.contains("your whole home") && said.err.contains("hint:"), "{said:?}");
    }
    let regie = owner.home().join(".local/share/regie");
    fs::create_dir_all(&regie).unwrap();
    fs::write(regie.join("config.toml"), "own").unwrap();
    let home = owner.home();
    let script =
        format!("cat ~/../..{0}/.ssh/id {0}/.ssh/id; cat {1}/config.toml", home.display(), regie.display());
    let said = owner.shell(&["--read", home.to_str().unwrap()], &script);
    assert!(said.out.contains("the private key") && !said.out.contains("own"), "{said:?}");
}

#[test]
fn the_working_directory_may_have_any_name_or_says_what_is_wrong_with_it() {
    let owner = Owner::new();
    let odd = owner.work().join("a \"b\"\nc [d] *");
    fs::create_dir(&odd).unwrap();
    let mut command = owner.command("run", &["--deny", "x", "--", "sh", "-c", "echo x > x; echo y > y"]);
    finish({
        command.current_dir(&odd);
        command
    });
    assert!(odd.join("y").exists() && !odd.join("x").exists());
    let bytes = owner.work().join(std::ffi::OsStr::from_bytes(b"\xff"));
    fs::create_dir(&bytes).unwrap();
    let mut command = owner.command("run", &["--", "true"]);
    command.current_dir(&bytes);
    let said = finish(command);
    assert_eq!(said.code, Some(125), "{said:?}");
    assert!(said.err.contains("UTF-8") && said.err.lines().count() == 1, "{said:?}");
    // A link is where it leads.
    std::os::unix::fs::symlink(&odd, owner.work().join("link")).unwrap();
    assert_eq!(owner.run(&["--cwd", "link", "--", "cat", "y"]).out, "y\n");
    let said = owner.run(&["--deny", "link/x", "--", "true"]);
    assert!(said.code == Some(125) && said.err.contains("symbolic link"), "{said:?}");
}

/// A workspace in memory, or on one file system over another, by a namespace of the test's own.
#[test]
fn a_working_directory_on_tmpfs_or_overlay_works() {
    let owner = Owner::new();
    for (kind, mount) in [
        ("tmpfs", "mount -t tmpfs none on"),
        ("overlay", "mount -t overlay none -o lowerdir=lower,upperdir=upper,workdir=between on"),
    ] {
        for name in ["on", "lower", "upper", "between"] {
            let _ = fs::remove_dir_all(owner.work().join(name));
            fs::create_dir(owner.work().join(name)).unwrap();
        }
        let run = owner.command("run", &[]);
        let regie = run.get_program().to_str().unwrap();
        let script = format!(
            "{mount} || exit 77; echo x > on/secret && cd on && \
             {regie} sandbox run --deny secret --deny later -- sh -c \
             'echo x > new; mkdir d; mv new d/; echo x > later; cat secret; cat d/new'; \
             echo $?; ls"
        );
        let mut outer = Command::new("/usr/bin/unshare");
        outer.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]).current_dir(owner.work());
        outer.env_clear().envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
        outer.stdin(Stdio::null());
        let said = finish(outer);
        if said.code == Some(77) {
            eprintln!("skipped: no {kind} can be mounted here: {}", said.err);
            continue;
        }
        assert_eq!(said.out, "x\n0\nd\nsecret\n", "{kind}: {said:?}");
    }
}

#[test]
fn explain_says_what_each_mount_comes_from_and_starts_nothing() {
    let owner = Owner::new();
    owner.put("a/secret", "x");
    let args =
        ["--deny", "a/secret", "--deny", "**/*.pem", "--memory", "2G", "--time", "90s", "--", "touch", "ran"];
    let said = finish(owner.command("explain", &args));
    assert_eq!(said.code, Some(0), "{said:?}");
    for part in [
        "program    touch ran",
        "2 GiB of memory in all and a process",
        "--deny a/secret: covered by something empty",
        "--deny **/*.pem: nothing new can be made in it",
        "is read-only, as a new file in it could be one",
        "jail.landlock    enforced",
        "none but a loopback",
    ] {
        assert!(said.out.contains(part), "{part} is not in {}", said.out);
    }
    let mut command = owner.command("explain", &args[..4]);
    command.args(["--json", "--", "true"]);
    let said = finish(command).json();
    let secret = owner.work().join("a/secret");
    let mounts = said["mounts"].as_array().unwrap();
    let mount = mounts.iter().find(|mount| mount["target"] == secret.to_str().unwrap()).unwrap();
    assert_eq!(
        (&mount["access"], &mount["why"], &mount["rule"]),
        (&"cover".into(), &"denied".into(), &"--deny a/secret".into())
    );
    assert_eq!(said["status"]["state"], "enforced", "{said}");
    assert_eq!((&said["tier"], &said["exec"]), (&1.into(), &"any".into()), "{said}");
    let said = finish(owner.command("explain", &["--tier", "0", "--json", "--", "true"])).json();
    assert_eq!((&said["tier"], &said["exec"]), (&0.into(), &"once".into()), "{said}");
    assert!(owner.read("ran").is_none());
}

#[test]
fn changes_are_kept_apart_and_shown_again() {
    let owner = Owner::new();
    owner.put("text", "before");
    owner.put("old", "old");
    owner.put(".envrc", "mine");
    let changes = ["--changes", "../changes"];
    let explained = finish(owner.command("explain", &[&changes[..], &["--", "true"]].concat()));
    assert_eq!(explained.code, Some(0), "{explained:?}");
    assert!(!owner.home().join("changes").exists());
    let said = owner.shell(&changes, "echo after > text && rm old && mkdir new && echo x > .envrc");
    assert_ne!(said.code, Some(0), "what is kept is kept: {said:?}");
    let said = owner.shell(&changes, "cat text .envrc; ls");
    assert_eq!((said.code, said.out.as_str()), (Some(0), "after\nminenew\ntext\n"), "{said:?}");
    for (path, text) in [("text", "before"), ("old", "old"), (".envrc", "mine")] {
        assert_eq!(owner.read(path).as_deref(), Some(text));
    }
    assert!(!owner.work().join("new").exists());
    assert_eq!(fs::read_to_string(owner.home().join("changes/files/text")).unwrap(), "after\n");
    // It can be thrown away by whoever it belongs to.
    fs::remove_dir_all(owner.home().join("changes")).unwrap();
    assert_eq!(owner.shell(&changes, "cat text").out, "before");
}

#[test]
fn changes_that_cannot_be_kept_apart_start_nothing() {
    let owner = Owner::new();
    owner.put("text", "before");
    for (options, word) in [
        (&["--changes", "in"][..], "in one another"),
        (&["--changes", ".."], "in one another"),
        (&["--changes", "../.ssh"], "holds other files"),
        (&["--changes", "../changes", "--read", ".."], "shows a layer"),
    ] {
        let said = owner.shell(options, "echo after > text");
        assert!(said.code == Some(125) && said.err.contains(word), "{options:?}: {said:?}");
        assert_eq!(owner.read("text").as_deref(), Some("before"));
    }
    assert_ne!(owner.shell(&["--changes", "../changes", "--write", "."], "true").code, Some(0));
}
