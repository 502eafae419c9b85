//! A write-ahead log with a torn tail: everything before the tear is there, and nothing of the rest.

use std::fs;
use std::path::Path;

use journal::SqliteJournal;
use kernel::port::{Append, Journal};
use testkit::suite::history::{Chain, Dice};
use testkit::suite::journal::{append, assert_clean, assert_history};

/// A journal's two files as they are while it is open, and what they hold.
struct Crashed {
    database: Vec<u8>,
    log: Vec<u8>,
    chain: Chain,
    /// Each append, with the length of the log when it was acknowledged.
    appends: Vec<(Append, usize)>,
}

fn crashed() -> Crashed {
    let folder = tempfile::tempdir().unwrap();
    let (path, log) = (folder.path().join("regie.db"), folder.path().join("regie.db-wal"));
    let journal = SqliteJournal::open(&path).unwrap();
    let mut chain = Chain::new(1);
    let length = || usize::try_from(fs::metadata(&log).unwrap().len()).unwrap();
    let first = chain.start();
    journal.create(first.clone()).unwrap();
    let mut appends = vec![(first, length())];
    for next in chain.wander(60) {
        append(&journal, next.clone()).unwrap();
        appends.push((next, length()));
    }
    Crashed { database: fs::read(&path).unwrap(), log: fs::read(&log).unwrap(), chain, appends }
}

impl Crashed {
    /// Opens the journal with this log: all that was acknowledged within `whole` bytes is there, and
    /// it can be written to.
    fn assert_survives(&self, log: &[u8], whole: usize) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("regie.db");
        fs::write(&path, &self.database).unwrap();
        fs::write(folder.path().join("regie.db-wal"), log).unwrap();
        let kept = self.appends.iter().filter(|(_, length)| *length <= whole);
        let kept = kept.map(|(append, _)| append.clone()).collect::<Vec<_>>();
        assert_opens(&path, &self.chain, &kept);
    }
}

fn assert_opens(path: &Path, chain: &Chain, kept: &[Append]) {
    let journal = SqliteJournal::open(path).unwrap();
    if kept.is_empty() {
        assert_clean(&journal, 0);
    } else {
        assert_history(&journal, chain, kept);
        assert_clean(&journal, 1);
    }
    let mut next = Chain::new(99);
    journal.create(next.start()).unwrap();
    append(&journal, next.step(b"after the crash")).unwrap();
}

#[test]
fn a_log_cut_anywhere_opens_to_its_last_whole_commit() {
    let crashed = crashed();
    assert!(crashed.appends.len() > 20, "too short a history to prove much");
    let mut dice = Dice::new(11);
    for _ in 0..48 {
        let cut = usize::try_from(dice.below(crashed.log.len() as u64)).unwrap();
        crashed.assert_survives(&crashed.log[..cut], cut);
    }
    crashed.assert_survives(&crashed.log, crashed.log.len());
}

#[test]
fn garbage_after_the_last_whole_commit_is_ignored() {
    let crashed = crashed();
    let mut dice = Dice::new(12);
    for _ in 0..48 {
        let cut = usize::try_from(dice.below(crashed.log.len() as u64)).unwrap();
        let mut torn = crashed.log[..cut].to_vec();
        let length = dice.below(20_000);
        torn.extend(dice.bytes(length));
        crashed.assert_survives(&torn, cut);
    }
}
