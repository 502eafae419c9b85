//! A repository that is not what it was: moved, deleted or replaced under a run, or in a state that needs
//! care from the start. The work stays in Regie's own tree, and a line says how to get it.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::world::{Ended, MEND, Said, World, finish};

use super::RUN;

/// Runs a mission to its gate, lets something happen to the repository, approves, and gives the end.
#[track_caller]
fn approved_after(world: &World, meanwhile: impl FnOnce()) -> Ended {
    assert_eq!(world.ask(&RUN).code, Some(3));
    meanwhile();
    fs::create_dir_all(world.project()).unwrap();
    let gate = world.ask(&["gate", "list", "--json"]).json()[0].clone();
    assert_eq!(world.ask(&["gate", "approve", gate["gate"].as_str().unwrap()]).code, Some(0));
    let ended = world.ended(gate["run"].as_str().unwrap());
    assert_eq!(ended.end, "done", "{ended:?}");
    assert!(ended.reason.contains("your branch was left alone"), "{ended:?}");
    world.is_whole();
    ended
}

/// The command that the end names gives the work, in a repository of its own.
#[track_caller]
fn cloned(world: &World, ended: &Ended) {
    let command = ended.reason.split_once("take it over with `").unwrap().1.split_once('`').unwrap().0;
    assert!(command.starts_with("git clone "), "{command}");
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(world.scratch());
    let said = finish(shell);
    assert_eq!(said.code, Some(0), "{command}: {said:?}");
    let to = command.rsplit(' ').next().unwrap();
    assert_eq!(fs::read_to_string(Path::new(to).join("sum.sh")).unwrap(), "echo $(($1 + $2))\n");
}

#[track_caller]
fn git(world: &World, args: &[&str]) {
    let output = world.git(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn moved_away_while_the_gate_waits() {
    let world = World::new(MEND);
    let away = world.scratch().join("elsewhere");
    let ended = approved_after(&world, || fs::rename(world.project(), &away).unwrap());
    // The directory that the tests work in stands in its place, and is no repository.
    assert!(ended.reason.contains("is no git repository any more"), "{ended:?}");
    cloned(&world, &ended);
    // Nothing was written where it went.
    assert_eq!(fs::read_to_string(away.join("sum.sh")).unwrap(), "echo $(($1 - $2))\n");
}

#[test]
fn deleted_while_the_gate_waits() {
    let world = World::new(MEND);
    let ended = approved_after(&world, || fs::remove_dir_all(world.project()).unwrap());
    cloned(&world, &ended);
}

#[test]
fn replaced_by_another_repository() {
    let world = World::new(MEND);
    let ended = approved_after(&world, || {
        fs::remove_dir_all(world.project()).unwrap();
        fs::create_dir(world.project()).unwrap();
        for (name, text) in
            [("sum.sh", "echo $(($1 - $2))\n"), ("check.sh", "test \"$(sh sum.sh 1 2)\" = 3\n")]
        {
            fs::write(world.project().join(name), text).unwrap();
        }
        git(&world, &["init", "-q", "-b", "main"]);
        git(&world, &["add", "."]);
        git(&world, &["-c", "user.name=O", "-c", "user.email=o@localhost", "commit", "-q", "-m", "Another"]);
    });
    assert!(ended.reason.contains("another repository is at"), "{ended:?}");
    assert_eq!(fs::read_to_string(world.project().join("sum.sh")).unwrap(), "echo $(($1 - $2))\n");
    cloned(&world, &ended);
    // Another mission there begins from what is there now, says so, and is delivered.
    let said = world.ask(&super::with(&["--yes"]));
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(
        said.err.contains("another repository") && said.err.contains("refs/former/main/"),
        "{}",
        said.err
    );
    assert_eq!(fs::read_to_string(world.project().join("sum.sh")).unwrap(), "echo $(($1 + $2))\n");
    world.is_whole();
}

#[test]
fn moved_away_while_the_agent_works() {
    let command = "touch begun; while [ ! -e go ]; do sleep 0.01; done";
    let world = World::new(&format!(
        "[[turn]]\n[[turn.call]]\nname = \"shell\"\ninput = {{ command = {command:?} }}\n{}",
        MEND.replacen("name = \"mend\"", "", 1)
    ));
    let run = super::start(&world, &["--yes"]);
    crate::world::until("the command begins", || world.workspace(&run).join("begun").exists());
    fs::rename(world.project(), world.scratch().join("elsewhere")).unwrap();
    fs::create_dir(world.project()).unwrap();
    fs::write(world.workspace(&run).join("go"), "").unwrap();
    let ended = world.ended(&run);
    // Checkpoint, criteria and merge need nothing of the owner's: only the delivery finds it gone.
    assert_eq!(ended.end, "done", "{ended:?}");
    cloned(&world, &ended);
    world.is_whole();
}

#[test]
fn moved_back_an_undo_finds_it() {
    let world = World::new(MEND);
    super::mended(&world);
    let away = world.scratch().join("elsewhere");
    fs::rename(world.project(), &away).unwrap();
    fs::create_dir(world.project()).unwrap();
    let undone = world.ask(&["undo", "last", "--yes"]);
    assert_eq!(undone.code, Some(0), "{undone:?}");
    assert!(undone.out.contains("left alone") && undone.err.contains("git clone"), "{undone:?}");
    assert_eq!(fs::read_to_string(away.join("sum.sh")).unwrap(), "echo $(($1 + $2))\n");
}

#[track_caller]
fn refused(world: &World, said: &Said, what: &str, mend: &str) {
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains(what) && said.err.contains("hint: ") && said.err.contains(mend), "{said:?}");
    assert_eq!(world.ask(&["runs", "--json"]).out, "[]\n");
}

#[test]
fn a_detached_head() {
    let world = World::new(MEND);
    git(&world, &["checkout", "-q", "--detach"]);
    refused(&world, &world.ask(&RUN), "has a detached HEAD", "git switch");
    git(&world, &["switch", "-q", "main"]);
    super::mended(&world);
}

#[test]
fn a_head_that_is_detached_while_the_gate_waits() {
    let world = World::new(MEND);
    assert_eq!(world.ask(&RUN).code, Some(3));
    git(&world, &["checkout", "-q", "--detach"]);
    let gate = world.ask(&["gate", "list", "--json"]).json()[0].clone();
    assert_eq!(world.ask(&["gate", "approve", gate["gate"].as_str().unwrap()]).code, Some(0));
    let ended = world.ended(gate["run"].as_str().unwrap());
    assert!(ended.reason.contains("detached HEAD") && ended.reason.contains("git fetch"), "{ended:?}");
    assert_eq!(fs::read_to_string(world.project().join("sum.sh")).unwrap(), "echo $(($1 - $2))\n");
    world.is_whole();
}

/// Makes a clone of the world's project and lets it take the project's place.
fn instead(world: &World, args: &[&str]) {
    let origin = world.scratch().join("origin");
    fs::rename(world.project(), &origin).unwrap();
    let mut git = Command::new("git");
    git.args(args).current_dir(world.scratch());
    let said = finish(git);
    assert_eq!(said.code, Some(0), "{said:?}");
}

#[test]
fn a_shallow_clone() {
    let world = World::new(MEND);
    fs::write(world.project().join("more"), "more\n").unwrap();
    git(&world, &["add", "."]);
    git(&world, &["commit", "-q", "-m", "More"]);
    let origin = format!("file://{}", world.scratch().join("origin").display());
    instead(&world, &["clone", "-q", "--depth", "1", &origin, "project"]);
    assert!(world.project().join(".git/shallow").exists());
    super::mended(&world);
    assert_eq!(world.git(&["status", "--porcelain"]).stdout, b"");
    git(&world, &["fsck"]);
}

#[test]
fn a_linked_checkout() {
    let world = World::new(MEND);
    instead(&world, &["-C", "origin", "worktree", "add", "-q", "-b", "side", "../project"]);
    super::mended(&world);
    assert_eq!(world.git(&["branch", "--show-current"]).stdout, b"side\n");
    assert_eq!(world.git(&["status", "--porcelain"]).stdout, b"");
    // The main checkout is another branch's, and stays as it is.
    let main = fs::read_to_string(world.scratch().join("origin/sum.sh")).unwrap();
    assert_eq!(main, "echo $(($1 - $2))\n");
}

#[test]
fn a_repository_of_another_user() {
    if !rustix::process::geteuid().is_root() {
        // Only root can give files away.
        return;
    }
    use std::os::unix::fs::MetadataExt as _;
    let world = World::new(MEND);
    let mut chown = Command::new("chown");
    chown.args(["-R", "12345:12345"]).arg(world.project());
    assert_eq!(finish(chown).code, Some(0));
    let said = world.ask(&super::with(&["--yes"]));
    assert_eq!(said.code, Some(0), "{said:?}");
    let mended = fs::metadata(world.project().join("sum.sh")).unwrap();
    assert_eq!((mended.uid(), mended.gid()), (12345, 12345), "files stay their owner's");
    assert_eq!(fs::read_to_string(world.project().join("sum.sh")).unwrap(), "echo $(($1 + $2))\n");
    world.is_whole();
}
