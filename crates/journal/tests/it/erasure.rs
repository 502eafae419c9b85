//! Forgetting: any contents may go, the chain still holds, and nothing of their bytes is left in the files.

use domain::erasure::{self, Erasure, KIND};
use domain::{Digest, RunId, Timestamp};
use journal::SqliteJournal;
use kernel::port::{Journal as _, Records as _};
use proptest::prelude::*;
use rusqlite::Connection;
use testkit::suite::history::Chain;

const MARK: &[u8] = b"the-marker-that-must-not-stay";
const EVENTS: u64 = 13;

struct Home {
    folder: tempfile::TempDir,
    journal: SqliteJournal,
    run: RunId,
}

impl Home {
    /// A run of 1 + 4 × 3 events whose contents have the mark.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let journal = SqliteJournal::open(folder.path().join("regie.db")).unwrap();
        let mut chain = Chain::new(1);
        journal.create(chain.start()).unwrap();
        for _ in 0..4 {
            testkit::suite::journal::append(&journal, chain.step(MARK)).unwrap();
        }
        Self { folder, journal, run: chain.run() }
    }

    /// Puts an erasure on record after the one before.
    fn order(&self, number: u64, events: Vec<(u64, u64)>) {
        let before = self.journal.list(KIND).unwrap();
        let erasure = Erasure {
            by: "human:owner".into(),
            at: Timestamp(1),
            run: self.run,
            step: None,
            events,
            head: self.journal.run(self.run).unwrap().head.hash,
            previous: before.last().map_or(Digest::ZERO, |record| Digest::of(&record.body)),
        };
        let body = serde_json::to_vec(&erasure).unwrap();
        self.journal.put(KIND, &erasure::key(number), 0, &body).unwrap();
    }

    fn broken(&self) -> Vec<String> {
        self.journal.verify().unwrap().broken.into_iter().map(|(.., what)| what).collect()
    }

    fn is_marked(&self) -> bool {
        let mut files = std::fs::read_dir(self.folder.path()).unwrap().flatten();
        files.any(|file| {
            let bytes = std::fs::read(file.path()).unwrap();
            bytes.windows(MARK.len()).any(|window| window == MARK)
        })
    }

    fn raw(&self, sql: &str) {
        Connection::open(self.folder.path().join("regie.db")).unwrap().execute_batch(sql).unwrap();
    }
}

#[test]
fn what_is_erased_is_in_no_file_any_more() {
    let home = Home::new();
    assert!(home.is_marked());
    home.order(1, vec![(1, EVENTS)]);
    assert_eq!(home.journal.erase(home.run, &[(1, EVENTS)]).unwrap(), EVENTS);
    assert!(!home.is_marked());
    let found = home.journal.verify().unwrap();
    assert_eq!((found.erased, found.broken), (EVENTS, Vec::new()));
    assert_eq!(home.journal.erase(home.run, &[(1, EVENTS)]).unwrap(), 0, "twice is once");
    assert!(home.journal.history(home.run, 0, 99).unwrap().iter().all(|event| event.payload.is_none()));
}

#[test]
fn an_erasure_of_another_event_excuses_nothing() {
    let home = Home::new();
    home.order(1, vec![(2, 3)]);
    home.journal.erase(home.run, &[(2, 4)]).unwrap();
    assert_eq!(home.broken(), ["its content is missing, and no erasure of it is on record"]);
}

#[test]
fn erasures_are_a_chain_of_their_own() {
    let breaks: [(&str, &str); 4] = [
        ("DELETE FROM records WHERE key LIKE '%1'", "erasure 1 of this home: it is missing"),
        ("DELETE FROM records WHERE key LIKE '%2'", "erasure 2 of this home: it is missing"),
        (
            "UPDATE records SET body = x'7b7d' WHERE key LIKE '%2'",
            "erasure 2 of this home: it cannot be read",
        ),
        (
            "UPDATE records SET body = CAST(replace(CAST(body AS TEXT), '[2,2]', '[2,5]') AS BLOB)",
            "erasure 2 of this home: it does not follow the one before",
        ),
    ];
    for (sql, what) in breaks {
        let home = Home::new();
        for (number, event) in [(1, 2), (2, 3), (3, 4)] {
            home.order(number, vec![(event, event)]);
        }
        assert_eq!(home.broken(), Vec::<String>::new());
        home.raw(sql);
        assert_eq!(home.broken(), [what], "{sql}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_erased_the_chain_holds(picked in prop::collection::btree_set(1..=EVENTS, 0..13)) {
        let home = Home::new();
        let ranges = erasure::ranges(picked.iter().copied());
        home.order(1, ranges.clone());
        prop_assert_eq!(home.journal.erase(home.run, &ranges).unwrap(), picked.len() as u64);
        let found = home.journal.verify().unwrap();
        prop_assert_eq!((found.erased, found.broken), (picked.len() as u64, Vec::new()));
        for event in home.journal.history(home.run, 0, 99).unwrap() {
            prop_assert_eq!(event.payload.is_none(), picked.contains(&event.header.seq));
        }
    }
}
