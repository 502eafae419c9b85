//! A home that the version before has written, and one that a newer version has.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::world::{World, finish};

/// A home of 0.1.0 with schema 1: one merged run and one that waits at its gate. The events name the
/// owner's repository by this path, and cannot be rewritten: that is what the chain is for.
const FIXTURE: &[u8] = include_bytes!("../fixtures/home-0.1.0.tar.gz");
const PLACE: &str = "/tmp/regie-fixture";

/// The fixture, unpacked where it was made; one test of one user at a time.
struct Old {
    world: World,
    lock: fs::File,
}

impl Old {
    /// `None` where somebody else's files are in the way.
    fn unpack() -> Option<Self> {
        let lock_path = format!("{PLACE}.lock");
        let lock = fs::OpenOptions::new().create(true).append(true).open(&lock_path).ok()?;
        lock.lock().unwrap();
        if fs::remove_dir_all(PLACE).is_err() && Path::new(PLACE).exists() {
            return None;
        }
        let world = World::empty();
        let archive = world.scratch().join("home.tar.gz");
        fs::write(&archive, FIXTURE).unwrap();
        let mut tar = Command::new("tar");
        tar.args(["-xzf"]).arg(&archive).args(["--no-same-owner", "-C", "/tmp"]);
        assert_eq!(finish(tar).code, Some(0));
        fs::rename(Path::new(PLACE).join("home"), world.home()).unwrap();
        Some(Self { world, lock })
    }

    fn repository() -> PathBuf {
        Path::new(PLACE).join("project")
    }

    fn git(args: &[&str]) -> String {
        let mut git = Command::new("git");
        git.arg("-C").arg(Self::repository()).args(args);
        finish(git).out
    }
}

impl Drop for Old {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(PLACE);
        let _ = self.lock.unlock();
    }
}

#[test]
fn a_home_of_the_version_before_goes_on_where_it_stood() {
    let Some(old) = Old::unpack() else { return };
    let world = &old.world;
    let runs = world.ask(&["runs", "--json"]).json();
    let shown: Vec<_> = runs.as_array().unwrap().iter().map(|run| (&run["goal"], &run["status"])).collect();
    assert_eq!(
        shown,
        [(&"Write a note".into(), &"waiting".into()), (&"Make the check pass".into(), &"ended".into())]
    );
    let audit = world.ask(&["audit", "verify"]);
    assert_eq!((audit.code, audit.out.contains("every link holds")), (Some(0), true), "{audit:?}");
    for (run, change) in [(&runs[0], "+noted"), (&runs[1], "+echo $(($1 + $2))")] {
        let id = run["run"].as_str().unwrap();
        assert_eq!(world.ask(&["show", id]).code, Some(0));
        let diff = world.ask(&["diff", id]);
        assert!(diff.out.contains(change), "{diff:?}");
    }
    assert!(world.ask(&["costs"]).out.contains("total"));

    assert!(!Old::repository().join("NOTE").exists());
    let gate = world.ask(&["gate", "list", "--json"]).json()[0]["gate"].as_str().unwrap().to_owned();
    let approved = world.ask(&["gate", "approve", &gate]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    let ended = world.ended(runs[0]["run"].as_str().unwrap());
    assert_eq!(ended.end, "done", "{ended:?}");
    assert_eq!(fs::read_to_string(Old::repository().join("NOTE")).unwrap(), "noted\n");
    assert!(Old::git(&["log", "-1", "--format=%B"]).contains("Regie-Run:"));
    let undone = world.ask(&["undo", runs[1]["run"].as_str().unwrap(), "--yes"]);
    assert_eq!(undone.code, Some(0), "{undone:?}");
    world.is_whole();
    let journal = rusqlite::Connection::open(world.home().join("regie.db")).unwrap();
    let schema: u32 = journal.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    // The way back, once there is a way.
    assert_eq!(world.home().join("regie.db.schema-1").exists(), schema > 1);
}

#[test]
fn a_home_of_a_newer_version_is_refused_in_one_line_and_unharmed() {
    let world = World::empty();
    assert_eq!(world.ask(&["runs"]).code, Some(0));
    assert_eq!(world.ask(&["serve", "--stop"]).code, Some(0));
    let journal = world.home().join("regie.db");
    {
        let newer = rusqlite::Connection::open(&journal).unwrap();
        newer.pragma_update(None, "user_version", 9_999).unwrap();
        newer.execute_batch("CREATE TABLE of_tomorrow (x); INSERT INTO of_tomorrow VALUES (1);").unwrap();
    }
    let before = fs::read(&journal).unwrap();
    let said = world.ask(&["runs"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    let told: Vec<_> = said.err.lines().filter(|line| line.contains("written by a newer Regie")).collect();
    assert!(told.len() == 1 && told[0].contains("upgrade Regie"), "{said:?}");
    assert_eq!(fs::read(&journal).unwrap(), before);
    let newer = rusqlite::Connection::open(&journal).unwrap();
    assert_eq!(newer.query_row("SELECT x FROM of_tomorrow", [], |row| row.get::<_, i64>(0)), Ok(1));
}
