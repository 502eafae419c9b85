//! A disk that takes nothing: full or read-only, at the start and on the way. One line says so, nothing is
//! lost, and once it is mended the run goes on. Each test has a mount namespace of its own, so that the
//! small disks are seen by nobody else and vanish with it.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use crate::world::{MEND, Said, World, finish, until};

use super::{RUN, start};

/// Says that a test is in its own namespace.
const APART: &str = "REGIE_TEST_APART";

/// Runs the test `name` of this file in a mount namespace, as root of it; true inside.
fn is_apart(name: &str) -> bool {
    if std::env::var_os(APART).is_some() {
        return true;
    }
    let flags = if rustix::process::geteuid().is_root() { "-m" } else { "-Urm" };
    let mut command = Command::new("unshare");
    command.arg(flags).arg(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("bad_input::disk::{name}"), "--nocapture"]).env(APART, "1");
    let said = finish(command);
    assert_eq!(said.code, Some(0), "{}\n{}", said.out, said.err);
    assert!(said.out.contains("1 passed"), "there is no test {name}: {said:?}");
    false
}

#[track_caller]
fn mount(args: &[&str]) {
    let status = Command::new("mount").args(args).status().unwrap();
    assert!(status.success(), "mount {args:?}");
}

/// A world whose home is a disk of that many mebibytes.
fn small(scenario: &str, mebibytes: u32) -> World {
    let world = World::new(scenario);
    fs::create_dir(world.home()).unwrap();
    let size = format!("size={mebibytes}m,mode=700");
    mount(&["-t", "tmpfs", "-o", &size, "none", world.home().to_str().unwrap()]);
    world
}

fn ballast(world: &World) -> std::path::PathBuf {
    world.home().join("ballast")
}

/// Fills the disk to the last byte.
fn fill(world: &World) {
    let mut file = File::create(ballast(world)).unwrap();
    for size in [1 << 20, 4096, 1] {
        while file.write_all(&vec![0; size]).is_ok() {}
    }
}

fn free(world: &World) {
    fs::remove_file(ballast(world)).unwrap();
}

/// One error of one line, with what to do.
#[track_caller]
fn refused(said: &Said, words: &[&str]) {
    assert_eq!(said.code, Some(1), "{said:?}");
    let error = said.err.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
    assert!(!said.err.contains("panicked"), "{said:?}");
    for word in words {
        assert!(said.err.contains(word), "no `{word}`: {said:?}");
    }
    assert!(!error.is_empty(), "{said:?}");
}

fn status(world: &World, run: &str) -> String {
    let said = world.ask(&["show", run, "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&said.out).unwrap_or_default();
    let run = if shown["run"].is_object() { &shown["run"] } else { &shown };
    run["status"].as_str().unwrap_or_default().to_owned()
}

/// Brings the run to its end: whenever it rests, it is resumed.
#[track_caller]
fn brought_to_its_end(world: &World, run: &str) {
    until("the run ends", || match status(world, run).as_str() {
        "parked" => {
            world.ask(&["resume", run, "--detach"]);
            false
        }
        now => now == "ended",
    });
    let ended = world.ended(run);
    assert_eq!(ended.end, "done", "{ended:?}");
    assert_eq!(fs::read_to_string(world.project().join("sum.sh")).unwrap(), "echo $(($1 + $2))\n");
    world.is_whole();
}

#[test]
fn full_before_anything_starts() {
    if !is_apart("full_before_anything_starts") {
        return;
    }
    let world = small(MEND, 16);
    fill(&world);
    refused(&world.ask(&RUN), &["is full", "free some space", world.home().to_str().unwrap()]);
    free(&world);
    assert_eq!(fs::read_dir(world.home()).unwrap().count(), 0, "nothing half made is left");
    super::mended(&world);
}

#[test]
fn full_when_a_mission_starts() {
    if !is_apart("full_when_a_mission_starts") {
        return;
    }
    let world = small(MEND, 16);
    assert_eq!(world.ask(&["runs", "--json"]).out, "[]\n");
    fill(&world);
    let said = world.ask(&super::with(&["--yes"]));
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.starts_with("error: ") && !said.err.contains("panicked"), "{said:?}");
    free(&world);
    assert_eq!(world.ask(&["runs", "--json"]).out, "[]\n", "nothing has begun");
    super::mended(&world);
}

/// A model whose first command waits for the owner's file.
fn waiting(more: &str) -> String {
    let command = format!("touch begun; while [ ! -e go ]; do sleep 0.01; done; {more}");
    format!(
        "[[turn]]\n[[turn.call]]\nname = \"shell\"\ninput = {{ command = {command:?} }}\n{}",
        MEND.replacen("name = \"mend\"", "", 1)
    )
}

/// Starts a run and holds it in its first command.
fn begun(world: &World) -> String {
    let run = start(world, &["--yes"]);
    let mark = world.workspace(&run).join("begun");
    until("the command begins", || mark.exists());
    run
}

fn go(world: &World, run: &str) {
    fs::write(world.workspace(run).join("go"), "").unwrap();
}

#[test]
fn full_while_a_command_runs() {
    if !is_apart("full_while_a_command_runs") {
        return;
    }
    let world = small(&waiting("true"), 16);
    let run = begun(&world);
    fill(&world);
    go(&world, &run);
    // What was kept back for the result is used: somebody has noticed.
    let reserve = world.home().join("spool").join(&run).join("reserve");
    until("the runner is in want of room", || !reserve.exists());
    free(&world);
    brought_to_its_end(&world, &run);
}

#[test]
fn filled_by_the_agent_itself() {
    if !is_apart("filled_by_the_agent_itself") {
        return;
    }
    let command = "head -c 1G /dev/zero > build.bin; echo $?";
    let world = small(
        &format!(
            "[[turn]]\n[[turn.call]]\nname = \"shell\"\ninput = {{ command = {command:?} }}\n[[turn]]\n\
             [[turn.call]]\nname = \"shell\"\ninput = {{ command = \"rm -f build.bin\" }}\n{}",
            MEND.replacen("name = \"mend\"", "", 1)
        ),
        24,
    );
    let run = start(&world, &["--yes"]);
    // The model is told, clears up after itself, and goes on; where something else was in want of room at
    // that moment, the run rests and is resumed.
    brought_to_its_end(&world, &run);
    let told = super::results(&world.asked()[1]);
    // The bound of the step, or the disk itself where the command was the faster one.
    let says = |text| told[0].1.contains(text);
    assert!(says("disk limit of") || says("No space left on device"), "{told:?}");
}

#[test]
fn full_at_the_merge() {
    if !is_apart("full_at_the_merge") {
        return;
    }
    let world = small(MEND, 16);
    assert_eq!(world.ask(&RUN).code, Some(3));
    let gate = world.ask(&["gate", "list", "--json"]).json()[0].clone();
    let (run, gate) = (gate["run"].as_str().unwrap(), gate["gate"].as_str().unwrap());
    fill(&world);
    // The answer is either on record or refused; it is never lost in between.
    let answered = world.ask(&["gate", "approve", gate]);
    if answered.code != Some(0) {
        refused(&answered, &["error: ", "is full: free some space"]);
        free(&world);
        assert_eq!(world.ask(&["gate", "approve", gate]).code, Some(0));
    } else {
        until("it rests", || status(&world, run) != "active");
        free(&world);
    }
    brought_to_its_end(&world, run);
}

#[test]
fn a_read_only_home() {
    if !is_apart("a_read_only_home") {
        return;
    }
    let world = small(MEND, 16);
    let home = world.home();
    let home = home.to_str().unwrap();
    mount(&["-o", "remount,bind,ro", home]);
    refused(&world.ask(&["runs"]), &["cannot be written", "Read-only file system", home]);
    mount(&["-o", "remount,bind,rw", home]);
    super::mended(&world);
}

#[test]
fn a_home_that_turns_read_only() {
    if !is_apart("a_home_that_turns_read_only") {
        return;
    }
    let world = small(MEND, 16);
    assert_eq!(world.ask(&RUN).code, Some(3));
    let gate = world.ask(&["gate", "list", "--json"]).json()[0].clone();
    // Files that are open for writing keep a disk from being made read-only: end all that has some.
    world.end_all();
    let home = world.home();
    let home = home.to_str().unwrap();
    until("the disk lets go", || {
        Command::new("mount").args(["-o", "remount,bind,ro", home]).output().unwrap().status.success()
    });
    refused(&world.ask(&["gate", "approve", gate["gate"].as_str().unwrap()]), &["cannot be written", home]);
    mount(&["-o", "remount,bind,rw", home]);
    assert_eq!(world.ask(&["gate", "approve", gate["gate"].as_str().unwrap()]).code, Some(0));
    brought_to_its_end(&world, gate["run"].as_str().unwrap());
}

#[test]
fn a_home_without_permission() {
    if rustix::process::geteuid().is_root() {
        // Permissions do not hold root back; `scripts/as-ordinary-user` runs this as somebody else.
        return;
    }
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new(MEND);
    let mode = |mode| fs::set_permissions(world.home(), fs::Permissions::from_mode(mode)).unwrap();
    fs::create_dir(world.home()).unwrap();
    mode(0o500);
    refused(&world.ask(&["runs"]), &["cannot be written", world.home().to_str().unwrap()]);
    mode(0o700);
    super::mended(&world);
}

/// What the machine is said to have under the home, by its magic number.
fn on(world: &World, magic: u32, allowed: bool) -> Said {
    let mut command = world.regie(&["runs", "--json"]);
    command.env("REGIE_PRETEND_FILESYSTEM", magic.to_string());
    if allowed {
        command.env("REGIE_ALLOW_NETWORK_HOME", "1");
    }
    finish(command)
}

#[test]
fn a_home_on_another_machines_disk() {
    let world = World::new(MEND);
    for (magic, name) in [(0x6969, "NFS"), (0xff53_4d42, "SMB"), (0xfe53_4d42, "SMB"), (0x00c3_6400, "Ceph")]
    {
        let said = on(&world, magic, false);
        refused(
            &said,
            &[&format!("is on {name}"), "REGIE_HOME", "local disk", world.home().to_str().unwrap()],
        );
        assert!(!Path::new(&world.home()).exists(), "nothing is made there");
        let mut doctor = world.regie(&["doctor"]);
        doctor.env("REGIE_PRETEND_FILESYSTEM", magic.to_string());
        let doctor = finish(doctor);
        assert!(doctor.out.contains(&format!("is on {name}")), "{doctor:?}");
        assert_eq!(doctor.code, Some(1));
    }
    let said = on(&world, 0x6969, true);
    assert_eq!((said.code, said.out.as_str()), (Some(0), "[]\n"), "{said:?}");
}
