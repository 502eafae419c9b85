//! A hostile agent in a real mission: whatever it tries leaves no trace outside its workspace.
//!
//! Each attempt is first shown to work without the jail, where that is safe, so that a test which tries
//! nothing cannot pass. What an attempt has done is judged from outside, never by what it says.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::world::{Said, World, alive, finish, until};

const SECRET: &str = "the private key of the owner";
const GOAL: [&str; 4] = ["run", "Leave the jail", "--done", "true"];

/// A world whose agent runs these commands, each in a turn of its own, and then says that it has finished.
struct Prison {
    world: World,
    commands: Vec<String>,
}

impl Prison {
    /// The commands may name places of the world, which has to be there first.
    fn new(commands: impl FnOnce(&Path) -> Vec<String>) -> Self {
        // The world's paths are known before its model is.
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        let commands = commands(&root);
        let turns = commands.iter().map(|command| {
            let input = json!({ "command": command }).to_string();
            format!("[[turn]]\n[[turn.call]]\nname = \"shell\"\njson = {}\n", toml_text(&input))
        });
        let scenario = turns.chain(["[[turn]]\ntext = \"Done.\"\n".to_owned()]).collect::<String>();
        let world = World::at(place, &scenario);
        let keys = root.join("owner/.ssh");
        fs::create_dir_all(&keys).unwrap();
        fs::write(keys.join("id_ed25519"), SECRET).unwrap();
        Self { world, commands }
    }

    /// Regie as the owner runs it, whose home lies in the world.
    fn regie(&self, args: &[&str]) -> Said {
        let mut command = self.world.regie(args);
        command.env("HOME", self.world.scratch().join("owner"));
        finish(command)
    }

    /// Runs the mission to its end, and gives what each command said.
    #[track_caller]
    fn serve(&self) -> Vec<String> {
        let said = self.regie(&[&GOAL[..], &["--yes"]].concat());
        assert_eq!(said.code, Some(0), "{said:?}");
        self.world.is_whole();
        self.outputs()
    }

    /// What each command said: the results that the model was sent.
    #[track_caller]
    fn outputs(&self) -> Vec<String> {
        let asked = self.world.asked();
        assert_eq!(asked.len(), self.commands.len() + 1, "each command was a turn");
        asked.iter().skip(1).map(last_result).collect()
    }
}

fn last_result(request: &Value) -> String {
    let block = &request["messages"].as_array().unwrap().last().unwrap()["content"][0];
    assert_eq!(block["type"], "tool_result", "{block}");
    match &block["content"] {
        Value::String(text) => text.clone(),
        blocks => blocks.as_array().unwrap().iter().filter_map(|block| block["text"].as_str()).collect(),
    }
}

/// A text as a TOML string.
fn toml_text(text: &str) -> String {
    // JSON's escapes are TOML's.
    json!(text).to_string()
}

/// The same command without a jail.
fn outside(command: &str) -> Said {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).stdin(Stdio::null());
    finish(shell)
}

/// Every file below a directory with its kind, mode and content.
fn snapshot(directory: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        let meta = fs::symlink_metadata(&path).unwrap();
        let content = if meta.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        found.insert(path.clone(), (meta.permissions().mode(), content));
        if meta.is_dir() {
            found.extend(snapshot(&path));
        }
    }
    found
}

/// A process of the owner that must stay.
struct Decoy(Child);

impl Decoy {
    fn new(mark: &str) -> Self {
        Self(Command::new("sleep").arg(mark).stdin(Stdio::null()).spawn().unwrap())
    }

    fn is_alive(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Decoy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn nothing_is_written_outside_of_the_workspace() {
    let name = format!("regie-escape-{}", std::process::id());
    let owners = |root: &Path| {
        let place = |file: &str| root.join(file).display().to_string();
        [
            format!("echo x > {}", place("owner/written")),
            format!("echo x >> {}", place("owner/.ssh/id_ed25519")),
            format!("rm -rf {}", place("owner/kept")),
            format!("mkdir -p {}", place("owner/made")),
            format!("chmod 777 {}", place("owner/.ssh")),
        ]
    };
    let system =
        ["/etc/", "/usr/", "/usr/bin/", "/", "/root/", "/var/lib/", "/tmp/", "/var/tmp/", "/dev/shm/"]
            .map(|place| format!("echo x > {place}{name}"));
    let prison = Prison::new(|root| owners(root).into_iter().chain(system.clone()).collect());
    let home = prison.world.scratch().join("owner");
    fs::create_dir(home.join("kept")).unwrap();
    let before = snapshot(&home);
    prison.serve();
    assert_eq!(snapshot(&home), before);
    for place in
        ["/etc/", "/usr/", "/usr/bin/", "/", "/root/", "/var/lib/", "/tmp/", "/var/tmp/", "/dev/shm/"]
    {
        assert!(!Path::new(place).join(&name).exists(), "{place}");
    }
    for command in owners(&prison.world.scratch()) {
        let before = snapshot(&home);
        assert_eq!(outside(&command).code, Some(0), "{command}");
        assert_ne!(snapshot(&home), before, "outside of the jail it works: {command}");
    }
}

#[test]
fn nothing_of_the_owner_or_of_regie_is_read() {
    let reading = |root: &Path| {
        let place = |file: &str| root.join(file).display().to_string();
        vec![
            format!("cat {}", place("owner/.ssh/id_ed25519")),
            format!("ls -a {}", place("owner/.ssh")),
            format!("head -c 16 {}", place("home/regie.db")),
            format!("ls {}", place("home")),
            format!("ls {}", place("home/trees")),
            format!("cat {}", place("project/.git/config")),
            "cat /proc/1/root/etc/hostname /proc/1/environ; cat ~/.ssh/* ~root/.ssh/*; test -n \"$ANTHROPIC_API_KEY\""
                .into(),
        ]
    };
    let prison = Prison::new(reading);
    let said = prison.serve();
    for (command, said) in prison.commands.iter().zip(&said) {
        assert!(said.contains("[exit code "), "{command}: {said}");
        for leak in [SECRET, "id_ed25519\n", "SQLite", "regie.db\n", ".git\n", "[core]", "sk-scripted"] {
            assert!(!said.contains(leak), "{command}: {said}");
        }
    }
    for (command, leak) in
        prison.commands.iter().zip([SECRET, "id_ed25519", "SQLite", "regie.db", ".git", "[core]"])
    {
        let said = outside(command);
        assert!(said.code == Some(0) && said.out.contains(leak), "outside it works: {command}: {said:?}");
    }
}

#[test]
fn nothing_is_connected_to() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = |to: String| {
        format!(
            "node -e 'require(\"net\").connect({to}).on(\"connect\", () => process.exit(0)).on(\"error\", error => {{ console.log(error.code); process.exit(1) }})'"
        )
    };
    let prison = Prison::new(|root| {
        let socket = root.join("home/regie.sock").display().to_string();
        vec![
            connect(format!("{{port: {port}, host: \"127.0.0.1\"}}")),
            connect(format!("{{path: \"{socket}\"}}")),
            "node -e 'require(\"dns\").lookup(\"example.com\", error => process.exit(error ? 1 : 0))'".into(),
        ]
    });
    let said = prison.serve();
    assert!(said[0].contains("ECONNREFUSED") && said[0].contains("[exit code 1]"), "{said:?}");
    assert!(said[1].contains("ENOENT") && said[1].contains("[exit code 1]"), "{said:?}");
    assert!(said[2].contains("[exit code 1]"), "{said:?}");
    assert!(listener.accept().is_err(), "nobody came");
    // The daemon is still there, and both are reached from outside.
    for command in &prison.commands[..2] {
        let said = outside(command);
        assert_eq!(said.code, Some(0), "outside it works: {command}: {said:?}");
    }
    assert!(listener.accept().is_ok());
}

#[test]
fn the_hosts_git_dir_is_not_found_and_not_changed() {
    let change = |root: &Path| {
        let trees = root.join("home/trees").display().to_string();
        format!(
            "found=$(find {trees} -maxdepth 1 -name '*.git'); test -n \"$found\" && for dir in $found; do echo '# x' >> $dir/config && echo changed; done"
        )
    };
    let prison = Prison::new(|root| {
        vec![
            change(root),
            "find / -xdev \\( -name '*.git' -o -name packed-refs -o -name regie.db \\) 2>/dev/null | head".into(),
            // What the host would run if it used git here.
            "git init -q . && mkdir -p .git/hooks && for hook in pre-commit post-commit post-checkout post-index-change; do \
             printf '#!/bin/sh\\ntouch /tmp/regie-owned\\n' > .git/hooks/$hook; chmod +x .git/hooks/$hook; done; \
             git config core.fsmonitor 'touch /tmp/regie-owned; false'; git config filter.x.clean 'touch /tmp/regie-owned; cat'; \
             echo '* filter=x' > .git/info/attributes; git config core.worktree / ; echo planted"
                .into(),
        ]
    });
    let trees = prison.world.home().join("trees");
    // Before the gate is answered the host's git dir is as the checkpoint left it.
    let said = prison.serve();
    assert!(!said[0].contains("changed") && said[0].contains("[exit code 1]"), "{said:?}");
    assert!(!said[1].contains("packed-refs") && !said[1].contains("regie.db"), "{said:?}");
    assert!(said[2].contains("planted"), "{said:?}");
    assert!(!Path::new("/tmp/regie-owned").exists());
    let config = |tree: &Path| fs::read_to_string(tree.join("config")).unwrap();
    let tree =
        fs::read_dir(&trees).unwrap().flatten().map(|entry| entry.path()).find(|path| path.is_dir()).unwrap();
    assert!(!config(&tree).contains("# x"));
    let said = outside(&change(&prison.world.scratch()));
    assert!(said.out.contains("changed") && config(&tree).contains("# x"), "outside it works: {said:?}");
}

#[test]
fn other_processes_are_neither_seen_nor_ended() {
    let mark = format!("7351864{}", std::process::id());
    let mut decoy = Decoy::new(&mark);
    let victim = decoy.0.id();
    let see =
        format!("cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | tr -c '[:print:]' ' ' | grep -c '[s]leep {mark}'");
    let prison = Prison::new(|_| {
        vec![
            see.clone(),
            format!("kill -9 {victim}"),
            "ps -eo args 2>/dev/null || cat /proc/[0-9]*/comm".into(),
            "for process in /proc/[0-9]*; do kill -9 ${process#/proc/} 2>/dev/null; done; kill -9 -1; true"
                .into(),
            "echo still served".into(),
        ]
    });
    assert!(outside(&see).out.trim().parse::<u32>().unwrap() > 0, "outside it is seen");
    let said = prison.serve();
    assert!(said[0].starts_with("0\n"), "{said:?}");
    assert!(said[1].ends_with("No such process\n[exit code 1]"), "{said:?}");
    assert!(!said[2].contains("__runner") && !said[2].contains("serve"), "{said:?}");
    assert_eq!(said[4], "still served\n");
    assert!(decoy.is_alive());
    // Neither runner nor daemon had to be started again.
    let run = prison.world.ask(&["runs", "--json"]).json()[0]["run"].as_str().unwrap().to_owned();
    let claims = prison.world.events(&run).iter().filter(|event| event["fact"]["fact"] == "claimed").count();
    assert!(claims <= 1, "the run was claimed {claims} times");
    assert_eq!(outside(&format!("kill -9 {victim}")).code, Some(0), "outside it is ended");
    until("the decoy is ended", || !decoy.is_alive());
}

#[test]
fn nothing_survives_its_step() {
    let mark = format!("7351865{}", std::process::id());
    let linger = format!("setsid nohup sleep {mark} >/dev/null 2>&1 & (sleep {mark} &) ; echo left behind");
    let prison = Prison::new(|_| {
        vec![
            linger.clone(),
            format!(
                "touch begun; while [ ! -e go ]; do sleep 0.01; done; cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | tr -c '[:print:]' ' ' | grep -c '[s]leep {mark}'; ls -A /tmp"
            ),
        ]
    });
    let started = prison.regie(&[&GOAL[..], &["--yes", "--detach"]].concat());
    let run = started.out.trim_end();
    let workspace = prison.world.workspace(run);
    until("the next step begins", || workspace.join("begun").exists());
    assert_eq!(alive(&format!("sleep {mark}")), Vec::<String>::new(), "between two steps nothing is left");
    fs::write(workspace.join("go"), "").unwrap();
    assert_eq!(prison.world.ended(run).end, "done");
    let said = prison.outputs();
    assert_eq!(said[0], "left behind\n");
    assert!(said[1].starts_with("0\n"), "{said:?}");
    // Without a jail they stay.
    assert_eq!(outside(&format!("({linger}) >/dev/null 2>&1")).code, Some(0));
    until("both are there", || alive(&format!("sleep {mark}")).len() == 2);
    assert_eq!(outside(&format!("pkill -9 -f '^sleep {mark}$'")).code, Some(0));
}

#[test]
fn a_fork_bomb_ends_with_its_step() {
    let mark = format!("7351866{}", std::process::id());
    let prison = Prison::new(|_| {
        vec![
            // Bash would try each again for a long time.
            format!("sh -c 'for i in $(seq 3000); do sleep {mark} & done; echo all'"),
            "sh -c 'bomb() { bomb | bomb & }; bomb; sleep 0.5; echo over'".into(),
            "echo still served".into(),
        ]
    });
    let said = prison.serve();
    assert!(!said[0].contains("all\n"), "3000 processes are more than a step may have: {}", said[0]);
    assert_eq!(said[2], "still served\n");
    assert_eq!(alive(&mark), Vec::<String>::new());
    assert_eq!(alive("bomb() { bomb"), Vec::<String>::new());
    assert_eq!(outside("true").code, Some(0), "the machine can still start processes");
}

#[test]
fn a_full_tmp_is_the_steps_own() {
    let name = format!("regie-fill-{}", std::process::id());
    let prison = Prison::new(|_| {
        vec![
            format!("head -c 600M /dev/zero > /tmp/{name}; head -c 600M /dev/zero > /tmp/{name}-2"),
            "df -k /tmp | tail -n 1 | awk '{print $3}'; echo y > /tmp/y && cat /tmp/y".into(),
        ]
    });
    let said = prison.serve();
    assert!(said[0].contains("No space left") && said[0].contains("[exit code 1]"), "{said:?}");
    assert!(said[1].starts_with("0\ny\n"), "the next step has an empty one: {said:?}");
    assert!(!Path::new("/tmp").join(&name).exists());
    let small = format!("echo x > /tmp/{name}");
    assert_eq!(outside(&small).code, Some(0));
    assert!(Path::new("/tmp").join(&name).exists(), "outside it is the machine's");
    fs::remove_file(Path::new("/tmp").join(&name)).unwrap();
}

#[test]
fn what_a_step_may_use_up_is_the_owners_to_say() {
    let prison = Prison::new(|_| {
        vec![
            "mkdir many; cd many; for i in $(seq 20000); do : > $i; done; sleep 20".into(),
            "for i in 1 2 3 4 5 6 7 8; do head -c 10000000 /dev/zero > big$i; done; sleep 20".into(),
            "rm -rf many big*; echo still served".into(),
        ]
    });
    crate::export::write_rules(&prison.world, "[limits]\ndisk = \"32 MiB\"\nfiles = 500\n");
    let said = prison.serve();
    for (said, words) in
        said.iter().zip(["[limit of 500 new files reached", "[disk limit of 32 MiB of new data"])
    {
        assert!(said.starts_with(words) && said.contains("remove what is not needed"), "{said}");
    }
    assert_eq!(said[2], "still served\n");
}

#[test]
fn the_owners_repository_waits_unchanged_and_its_tests_run() {
    let prison = Prison::new(|root| {
        let project = root.join("project").display().to_string();
        vec![
            format!("cd {project} && echo x > mine; echo x >> {project}/.git/config; echo x > {project}/.git/hooks/pre-commit"),
            "mkdir -p .git/hooks && echo x > .git/hooks/post-merge; echo 'export const answer = 42;' > answer.mjs".into(),
            "node --test".into(),
        ]
    });
    let world = &prison.world;
    let test = "import test from 'node:test';\nimport assert from 'node:assert';\nimport { answer } from './answer.mjs';\n\
                test('it is right', () => assert.equal(answer, 42));\n";
    fs::write(world.project().join("answer.test.mjs"), test).unwrap();
    for args in [&["add", "."][..], &["commit", "-q", "-m", "A test"]] {
        assert!(world.git(args).status.success());
    }
    let ran = world.scratch().join("ran");
    let hooks = world.project().join(".git/hooks");
    for name in ["pre-commit", "post-merge", "post-checkout", "reference-transaction"] {
        fs::write(hooks.join(name), format!("#!/bin/sh\ntouch {}\n", ran.display())).unwrap();
        fs::set_permissions(hooks.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let before = snapshot(&world.project());
    let said = prison.regie(&[&GOAL[..], &["--done", "node --test"]].concat());
    assert_eq!(said.code, Some(3), "{said:?}");
    let outputs = prison.outputs();
    assert!(outputs[2].contains("pass 1"), "the project's tests run: {}", outputs[2]);
    assert_eq!(snapshot(&world.project()), before, "until the gate is answered nothing is touched");

    let gate = world.ask(&["gate", "list", "--json"]).json()[0]["gate"].as_str().unwrap().to_owned();
    assert_eq!(prison.regie(&["gate", "approve", &gate]).code, Some(0));
    assert_eq!(world.ended("last").end, "done");
    assert_eq!(
        fs::read_to_string(world.project().join("answer.mjs")).unwrap(),
        "export const answer = 42;\n"
    );
    let kept = |snapshot: BTreeMap<PathBuf, (u32, Vec<u8>)>| {
        let git = world.project().join(".git");
        let kept = move |path: &Path| path.starts_with(git.join("hooks")) || path == git.join("config");
        snapshot.into_iter().filter(|(path, _)| kept(path)).collect::<Vec<_>>()
    };
    assert_eq!(kept(snapshot(&world.project())), kept(before));
    assert!(!ran.exists(), "no hook of the owner is run");
    assert!(!world.project().join("mine").exists());
    world.is_whole();
}
