//! `[run] setup`: asked for before it has the network, confined like any step, kept for later runs.

use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::world::{Said, World, alive, finish, until};

/// Something on this machine's loopback to download from, which counts.
struct Registry {
    address: SocketAddr,
    served: Arc<AtomicUsize>,
}

impl Registry {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, served) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&served);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                count.fetch_add(1, Ordering::SeqCst);
                let _ = stream.unwrap().write_all(b"the dependency\n");
            }
        });
        Self { address, served }
    }

    fn served(&self) -> usize {
        self.served.load(Ordering::SeqCst)
    }

    /// A command that downloads to its standard output.
    fn fetch(&self) -> String {
        format!("cat < /dev/tcp/127.0.0.1/{}", self.address.port())
    }
}

fn shell(command: &str) -> String {
    let input = json!({ "command": command }).to_string();
    format!("[[turn]]\n[[turn.call]]\nname = \"shell\"\njson = {}\n", json!(input))
}

fn done() -> String {
    "[[turn]]\ntext = \"I have looked.\"\n".into()
}

fn commit(world: &World, files: &[(&str, &str)]) {
    for (path, text) in files {
        fs::write(world.project().join(path), text).unwrap();
    }
    for args in [&["add", "."][..], &["commit", "-q", "-m", "A project"]] {
        assert!(world.git(args).status.success());
    }
}

/// A project whose setup is this command.
fn project(world: &World, setup: &str) {
    let config = format!("[run]\nsetup = {}\n", json!(setup));
    commit(world, &[("regie.toml", &config), (".gitignore", "deps/\n"), ("package-lock.json", "1\n")]);
}

/// All that the model was sent in the last request.
fn seen(world: &World) -> String {
    world.asked().last().map(|request| request["messages"].to_string()).unwrap_or_default()
}

fn run(world: &World) -> Said {
    world.ask(&["run", "Look around", "--yes"])
}

/// The gate that waits.
fn gate(world: &World) -> Value {
    world.ask(&["gate", "list", "--json"]).json()[0].clone()
}

fn answer(world: &World, answer: &str) {
    let gate = gate(world);
    let said = world.ask(&["gate", answer, gate["gate"].as_str().unwrap()]);
    assert_eq!(said.code, Some(0), "{said:?}");
}

/// The environments that are kept.
fn kept(world: &World) -> Vec<PathBuf> {
    let projects = fs::read_dir(world.home().join("cache")).into_iter().flatten().flatten();
    let dirs = projects.flat_map(|project| fs::read_dir(project.path().join("environments")));
    dirs.flatten().flatten().map(|entry| entry.path()).collect()
}

#[test]
fn it_is_asked_for_once_and_kept() {
    let registry = Registry::new();
    let fetch = registry.fetch();
    let look = format!("cat deps/lib.txt vendor/notes; {fetch} || echo no way out");
    let world = World::new(&[shell(&look), done()].concat());
    let setup = format!(
        "mkdir -p deps vendor && {fetch} > deps/lib.txt && echo made > vendor/notes && echo more >> package-lock.json"
    );
    project(&world, &setup);

    // `--yes` is for the merge alone.
    let said = run(&world);
    assert_eq!(said.code, Some(3), "{said:?}");
    let card = said.err.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(card.contains("Set this project up, with the network of this machine?"), "{card}");
    assert!(card.contains(&setup.replace("  ", " ")), "the exact command: {card}");
    assert!(card.contains("from regie.toml:2"), "{card}");
    assert!(card.contains("it runs in the jail with the network of this machine open"), "{card}");
    assert!(card.contains("is new: you are asked first"), "{card}");
    assert_eq!((registry.served(), world.asked().len()), (0, 0), "nothing ran and nobody was asked before");

    answer(&world, "approve");
    let ended = world.ended("last");
    assert_eq!(ended.end, "done", "{ended:?}");
    assert!(ended.reason.contains("nothing to change"), "what a setup makes is no work: {}", ended.reason);
    let first = seen(&world);
    assert!(first.contains("the dependency") && first.contains("made"), "{first}");
    assert!(first.contains("no way out"), "the agent's own steps have no network: {first}");
    assert!(first.contains("The project was set up by"), "{first}");
    assert_eq!((registry.served(), kept(&world).len()), (1, 1));

    // Again: no question, no step, the same files.
    let said = run(&world);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.contains("kept from an earlier run") || said.err.contains("kept from an earlier run"));
    assert!(said.out.contains("nothing to change"), "{said:?}");
    assert!(seen(&world).contains("the dependency"), "{}", seen(&world));
    let steps = world.events("last");
    assert!(!steps.iter().any(|event| event["fact"]["tool"] == "setup"), "{steps:?}");
    assert_eq!((registry.served(), kept(&world).len()), (1, 1));

    // Another lock file is another environment.
    commit(&world, &[("package-lock.json", "2\n")]);
    assert_eq!(run(&world).code, Some(3));
    answer(&world, "refuse");
    let ended = world.ended("last");
    assert_eq!(ended.end, "done", "refused, the run goes on without: {ended:?}");
    let without = seen(&world);
    assert!(without.contains("was not run: the owner refused it"), "{without}");
    assert!(without.contains("No such file"), "{without}");
    assert_eq!((registry.served(), kept(&world).len()), (1, 1));
    world.is_whole();
}

#[test]
fn one_that_fails_is_told_and_the_run_goes_on() {
    let world = World::new(&done());
    project(&world, "echo half > deps.txt; echo no such package; exit 3");
    assert_eq!(run(&world).code, Some(3));
    answer(&world, "approve");
    let ended = world.ended("last");
    assert_eq!(ended.end, "done", "{ended:?}");
    assert!(ended.reason.contains("nothing to change"), "its left-overs are no work: {}", ended.reason);
    let told = seen(&world);
    assert!(told.contains("failed with exit code 3") && told.contains("no such package"), "{told}");
    assert!(kept(&world).is_empty());
    world.is_whole();
}

#[test]
fn a_hostile_one_gets_no_further_than_its_jail() {
    let place = tempfile::tempdir().unwrap();
    let owner = place.path().canonicalize().unwrap().join("owner");
    fs::create_dir_all(owner.join(".ssh")).unwrap();
    fs::write(owner.join(".ssh/id"), "hidden-1\n").unwrap();
    let world = World::at(place, &[shell("cat report"), done()].concat());
    let (home, regie) = (owner.display(), world.home().display().to_string());
    let hostile = format!(
        "exec > report 2>&1; cat {home}/.ssh/id; cat {regie}/regie.db | head -c 20; echo x > {home}/planted; \
         echo x > {regie}/planted; ln -s {home}/.ssh deps-link; ln -s {home} deps; kill -9 -1; \
         kill -9 {}; echo x > /usr/bin/planted; unshare -n true; mount -t tmpfs x /tmp; env; exit 0",
        std::process::id()
    );
    project(&world, &hostile);
    let mut run = world.regie(&["run", "Look around", "--yes"]);
    run.env("HOME", &owner).env_remove("CARGO_HOME").env_remove("PYENV_ROOT");
    assert_eq!(finish(run).code, Some(3));
    answer(&world, "approve");
    let ended = world.ended("last");
    assert_eq!(ended.end, "done", "{ended:?}");
    let report = seen(&world);
    assert!(report.contains("id: No such file"), "{report}");
    assert!(!report.contains("hidden-1") && !report.contains("sk-scripted"), "{report}");
    assert!(!report.contains("SQLite"), "{report}");
    for planted in [owner.join("planted"), world.home().join("planted"), PathBuf::from("/usr/bin/planted")] {
        assert!(!planted.exists(), "{planted:?}");
    }
    // What is kept of a link is the link.
    let kept = kept(&world);
    let files = kept[0].join("files");
    assert!(files.join("deps-link").symlink_metadata().unwrap().is_symlink());
    assert!(files.join("deps").symlink_metadata().unwrap().is_symlink());
    assert!(!has(&kept[0], "hidden-1"));
    world.is_whole();
}

/// Whether a text is in any file below a directory.
fn has(dir: &Path, text: &str) -> bool {
    fs::read_dir(dir).unwrap().flatten().any(|entry| match entry.file_type().unwrap() {
        kind if kind.is_dir() => has(&entry.path(), text),
        kind if kind.is_file() => String::from_utf8_lossy(&fs::read(entry.path()).unwrap()).contains(text),
        _ => false,
    })
}

#[test]
fn the_newest_three_are_kept() {
    let world = World::new(&done());
    project(&world, "mkdir -p deps && cp package-lock.json deps/");
    for version in 0..5 {
        commit(&world, &[("package-lock.json", &format!("version {version}\n"))]);
        assert_eq!(run(&world).code, Some(3));
        answer(&world, "approve");
        assert_eq!(world.ended("last").end, "done");
    }
    let mut versions: Vec<String> = kept(&world)
        .iter()
        .map(|dir| fs::read_to_string(dir.join("files/deps/package-lock.json")).unwrap())
        .collect();
    versions.sort();
    assert_eq!(versions, ["version 2\n", "version 3\n", "version 4\n"]);
}

#[test]
fn a_crash_in_its_middle_repeats_it_from_the_start() {
    let registry = Registry::new();
    let world = World::new(&[shell("ls deps"), done()].concat());
    let mark = format!("sleep 1000.{}", registry.address.port());
    // The first try leaves something half made, and stays.
    let setup = format!(
        "mkdir -p deps && {} > deps/lib.txt; if ! test -e \"$XDG_CACHE_HOME/tried\"; then \
         mkdir -p \"$XDG_CACHE_HOME\"; touch \"$XDG_CACHE_HOME/tried\" deps/half; exec {mark}; fi",
        registry.fetch()
    );
    project(&world, &setup);
    assert_eq!(run(&world).code, Some(3));
    answer(&world, "approve");
    let id = world.ask(&["runs", "--json"]).json()[0]["run"].as_str().unwrap().to_owned();
    until("the first try has begun", || {
        alive(&mark).iter().any(|line| line.trim_end().ends_with(&mark) && !line.contains("mkdir"))
    });
    let runner = fs::read_to_string(world.home().join("spool").join(&id).join("lock")).unwrap();
    let runner = rustix::process::Pid::from_raw(runner.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(runner, rustix::process::Signal::KILL).unwrap();
    let ended = world.ended("last");
    assert_eq!(ended.end, "done", "{ended:?}");
    let listed = seen(&world);
    assert!(listed.contains("lib.txt") && !listed.contains("half\\n"), "{listed}");
    let events = world.events("last");
    let asked = events.iter().filter(|event| event["fact"]["fact"] == "gate_opened").count();
    assert_eq!(asked, 1, "its approval holds");
    assert_eq!((registry.served(), kept(&world).len()), (2, 1));
    assert!(!kept(&world)[0].join("files/deps/half").exists());
    world.is_whole();
}

#[test]
fn variables_reach_steps_and_no_record() {
    let look = "test -n \"$TOKEN\" && echo length ${#TOKEN}; echo $MODE; echo ${KEY:-no key}";
    let world = World::new(&[shell(look), done()].concat());
    commit(&world, &[("regie.toml", "[env]\nMODE = \"testing\"\nTOKEN = \"fake\"\n")]);
    fs::create_dir_all(world.home()).unwrap();
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(world.home(), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(world.home().join("config.toml"), "[env]\npass = [\"TOKEN\"]\n").unwrap();
    let with_token = |args: &[&str]| {
        let mut command = world.regie(args);
        command.env("TOKEN", "s3cr3t-of-mine").env("KEY", "not passed");
        finish(command)
    };
    let said = with_token(&["run", "Look around", "--yes"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let told = seen(&world);
    assert!(told.contains("length 14") && told.contains("testing") && told.contains("no key"), "{told}");
    assert!(!has(&world.home(), "s3cr3t-of-mine"), "it is in no record, log or spool");
    assert!(alive("s3cr3t-of-mine").is_empty(), "and in no process's arguments");
    for args in [&["config", "explain"][..], &["config", "explain", "--json"]] {
        let said = with_token(args);
        assert!(said.out.contains("TOKEN") && said.out.contains("testing"), "{said:?}");
        assert!(!said.out.contains("s3cr3t"), "{said:?}");
    }
    commit(&world, &[("regie.toml", "[env]\nA = \"1\"\nLD_PRELOAD = \"x\"\n")]);
    let said = run(&world);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("regie.toml:3: `env.LD_PRELOAD`: it belongs to the jail"), "{}", said.err);
}
