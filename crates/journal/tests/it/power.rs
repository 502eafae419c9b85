//! Power cuts: what was acknowledged survives the loss of everything that was not synced.
//!
//! A kill of the process cannot show this, so a child runs the journal with a recorder preloaded
//! (`recorder.c`), and the parent rebuilds the files as a cut would have left them.
#![cfg(target_os = "linux")]

mod child;
mod disk;

use std::path::{Path, PathBuf};
use std::process::Command;

use disk::{Disk, Loss};
use journal::{FileArtifacts, SqliteJournal};
use kernel::port::{Artifacts, Journal, Records};
use tempfile::TempDir;
use testkit::suite::history::Dice;

/// Cuts that are tried: each opens a journal and verifies it.
const CUTS: u64 = 24;

/// A folder with the recorder, and what the child left.
struct Bench {
    folder: TempDir,
}

impl Bench {
    /// `None`, loudly, where there is no C compiler.
    fn new() -> Option<Self> {
        let bench = Self { folder: tempfile::tempdir().unwrap() };
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/recorder.c");
        let built = command("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(bench.recorder())
            .arg(source)
            .args(["-ldl", "-lpthread"])
            .status();
        match built {
            Ok(status) => assert!(status.success(), "the recorder does not compile"),
            Err(error) => {
                eprintln!("SKIPPED: power cuts are not tested without a C compiler (`cc`): {error}");
                return None;
            }
        }
        std::fs::create_dir(bench.home()).unwrap();
        Some(bench)
    }

    fn recorder(&self) -> PathBuf {
        self.folder.path().join("recorder.so")
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Runs an ignored test of this binary under the recorder, and makes sure that it did run.
    fn run(&self, child: &str, mutant: bool) {
        let reached = self.folder.path().join("reached");
        let status = command(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", child])
            .env("LD_PRELOAD", self.recorder())
            .env("RECORD_FOLDER", self.home())
            .env("RECORD_LOG", self.log())
            .env("RECORD_FULL", self.folder.path().join("full"))
            .env("RECORD_BROKEN", self.folder.path().join("broken"))
            .env("POWER_REACHED", &reached)
            .env("POWER_MUTANT", if mutant { "yes" } else { "no" })
            .status()
            .unwrap();
        assert!(status.success(), "{child} failed");
        assert!(reached.exists(), "{child} did not run to its end");
    }
}

#[expect(clippy::disallowed_methods, reason = "a test that builds the recorder and runs itself under it")]
fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    Command::new(program)
}

/// Cuts the power at many moments of what the child did.
fn cut_power(bench: &Bench) -> Result<(), String> {
    let records = disk::read_log(&bench.log());
    let mut dice = Dice::new(5);
    let total = records.len() as u64;
    let mut cuts = (0..CUTS).map(|_| dice.below(total)).collect::<std::collections::BTreeSet<_>>();
    cuts.insert(total - 1);
    let mut disk = Disk::new(&bench.home());
    for (number, record) in (0u64..).zip(&records) {
        disk.apply(record);
        if cuts.contains(&number) {
            for loss in [Loss::AllUnsynced, Loss::SomeUnsynced(number)] {
                let after = tempfile::tempdir().unwrap();
                disk.after_power_cut(after.path(), loss);
                survives(after.path(), disk.acknowledged())
                    .map_err(|lost| format!("cut after operation {number} of {total}, {loss:?}: {lost}"))?;
            }
        }
    }
    assert!(disk.acknowledged().len() > 200, "the child did not get far");
    assert!(disk.checkpoints() > 1, "the journal was never checkpointed under load");
    Ok(())
}

/// Whether everything that was acknowledged is in this home.
fn survives(home: &Path, acknowledged: &[String]) -> Result<(), String> {
    let journal = SqliteJournal::open(home.join("regie.db")).map_err(|error| format!("{error:?}"))?;
    let broken = journal.verify().map_err(|error| error.to_string())?.broken;
    if !broken.is_empty() {
        return Err(format!("broken chains: {broken:?}"));
    }
    let artifacts = FileArtifacts::open(home.join("artifacts")).map_err(|error| error.to_string())?;
    for line in acknowledged {
        match line.split_once(' ') {
            Some(("append", seq)) => {
                let head = journal.run(child::run()).map(|row| row.head.seq).unwrap_or(0);
                if head < seq.parse().unwrap() {
                    return Err(format!("event {seq} was acknowledged, the head is {head}"));
                }
            }
            Some(("claim", fence)) => {
                let kept = journal.run(child::run()).map(|row| row.fence).unwrap_or(0);
                if kept < fence.parse().unwrap() {
                    return Err(format!("fence {fence} was acknowledged, {kept} is kept"));
                }
            }
            Some(("record", version)) => {
                let kept = journal.get("project", "a").map_err(|error| error.to_string())?;
                let kept = kept.map_or(0, |record| record.version);
                if kept < version.parse().unwrap() {
                    return Err(format!("version {version} was acknowledged, {kept} is kept"));
                }
            }
            Some(("artifact", digest)) => {
                artifacts.get(digest.parse().unwrap()).map_err(|error| error.to_string())?;
            }
            _ => panic!("unknown acknowledgement `{line}`"),
        }
    }
    Ok(())
}

#[test]
fn what_was_acknowledged_survives_a_power_cut() {
    let Some(bench) = Bench::new() else { return };
    bench.run("power::child::writes", false);
    cut_power(&bench).unwrap();
}

#[test]
fn a_skipped_sync_is_caught() {
    let Some(bench) = Bench::new() else { return };
    bench.run("power::child::writes", true);
    let lost = cut_power(&bench).expect_err("a journal that does not sync survives a power cut");
    assert!(lost.contains("was acknowledged") || lost.contains("regie.db"), "{lost}");
}

#[test]
fn full_and_broken_disks_are_told_and_nothing_is_acknowledged() {
    let Some(bench) = Bench::new() else { return };
    bench.run("power::child::meets_a_full_and_a_broken_disk", false);
}
