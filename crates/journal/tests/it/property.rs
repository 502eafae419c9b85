//! Random valid histories come back byte for byte.

use journal::SqliteJournal;
use kernel::port::Journal;
use proptest::prelude::*;
use testkit::suite::history::Chain;
use testkit::suite::journal::{append, assert_clean, assert_history};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn histories_round_trip(seeds in proptest::collection::btree_set(0u64..1 << 40, 1..4), length in 1usize..40) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("regie.db");
        let journal = SqliteJournal::open(&path).unwrap();
        let mut written = Vec::new();
        for seed in &seeds {
            let mut chain = Chain::new(*seed);
            let first = chain.start();
            journal.create(first.clone()).unwrap();
            let appends = std::iter::once(first).chain(chain.wander(length)).collect::<Vec<_>>();
            written.push((chain, appends));
        }
        // Interleaved, so that the events of a run are not neighbours.
        for round in 1..=length {
            for (_, appends) in &written {
                if let Some(next) = appends.get(round) {
                    append(&journal, next.clone()).unwrap();
                }
            }
        }
        drop(journal);
        let journal = SqliteJournal::open(&path).unwrap();
        for (chain, appends) in &written {
            assert_history(&journal, chain, appends);
        }
        assert_clean(&journal, seeds.len() as u64);
    }
}
