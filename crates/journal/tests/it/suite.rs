//! The behaviour suite of the kernel's ports, and the mutant that it must catch.

use journal::{Mutant, SqliteJournal};
use tempfile::TempDir;
use testkit::suite::journal::{Subject, check};

struct Folder {
    folder: TempDir,
    mutant: Option<Mutant>,
}

impl Subject for Folder {
    type Journal = SqliteJournal;

    fn open(&self) -> SqliteJournal {
        let path = self.folder.path().join("regie.db");
        match self.mutant {
            None => SqliteJournal::open(path).unwrap(),
            Some(mutant) => SqliteJournal::open_mutant(path, mutant).unwrap(),
        }
    }
}

fn folder(mutant: Option<Mutant>) -> Folder {
    Folder { folder: tempfile::tempdir().unwrap(), mutant }
}

#[test]
fn behaves_as_a_journal() {
    check(|| folder(None));
}

#[test]
fn a_removed_fence_is_caught() {
    let caught = std::panic::catch_unwind(|| check(|| folder(Some(Mutant::FenceRemoved))));
    let panic = caught.expect_err("the suite passes a journal that checks no fence");
    let text = panic.downcast_ref::<String>().expect("an assertion has a text");
    assert!(text.contains("Fenced"), "caught by something else: {text}");
}

#[test]
fn an_unchecked_cap_of_the_day_is_caught() {
    let caught = std::panic::catch_unwind(|| check(|| folder(Some(Mutant::DayUnchecked))));
    let panic = caught.expect_err("the suite passes a journal that lets a day be overdrawn");
    let text = panic.downcast_ref::<String>().expect("an assertion has a text");
    assert!(text.contains("DayFull"), "caught by something else: {text}");
}
