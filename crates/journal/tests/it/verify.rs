//! Verification finds what was changed behind the journal's back, and names the first broken event.

use domain::RunId;
use journal::SqliteJournal;
use kernel::port::{Journal, JournalError, Verification};
use rusqlite::Connection;
use testkit::suite::history::Chain;

/// Writes two runs of 1 + 4 × 3 events, changes the file and verifies it.
fn tampered(change: impl FnOnce(&Connection, RunId)) -> (Verification, RunId) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("regie.db");
    let journal = SqliteJournal::open(&path).unwrap();
    let mut chains = [Chain::new(1), Chain::new(2)];
    for chain in &mut chains {
        journal.create(chain.start()).unwrap();
        for _ in 0..4 {
            testkit::suite::journal::append(&journal, chain.step(b"payload")).unwrap();
        }
    }
    let run = chains[0].run();
    drop(journal);
    let raw = Connection::open(&path).unwrap();
    change(&raw, run);
    drop(raw);
    (SqliteJournal::open(&path).unwrap().verify().unwrap(), run)
}

fn flip(raw: &Connection, table: &str, column: &str, position: i64) {
    let select = format!("SELECT {column} FROM {table} WHERE position = ?1");
    let mut bytes: Vec<u8> = raw.query_row(&select, [position], |row| row.get(0)).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let update = format!("UPDATE {table} SET {column} = ?2 WHERE position = ?1");
    assert_eq!(raw.execute(&update, (position, bytes)).unwrap(), 1);
}

/// Asserts that the first run is broken at this event, and only that.
fn assert_broken(seq: u64, word: &str, change: impl FnOnce(&Connection, RunId)) {
    let (found, run) = tampered(change);
    assert_eq!(found.runs, 2);
    let [(broken, at, what)] = found.broken.as_slice() else { panic!("{found:?}") };
    assert_eq!((*broken, *at), (run, seq), "{what}");
    assert!(what.contains(word), "{what}");
}

#[test]
fn a_journal_that_nobody_touched_is_clean() {
    let (found, _) = tampered(|_, _| ());
    assert_eq!(found, Verification { runs: 2, events: 26, erased: 0, broken: Vec::new() });
}

#[test]
fn a_flipped_bit_is_found() {
    assert_broken(5, "header", |raw, _| flip(raw, "events", "header", 5));
    assert_broken(5, "payload or salt", |raw, _| flip(raw, "payloads", "payload", 5));
    assert_broken(5, "payload or salt", |raw, _| flip(raw, "payloads", "salt", 5));
    assert_broken(5, "payload", |raw, _| flip(raw, "events", "content", 5));
    assert_broken(5, "hash", |raw, _| flip(raw, "events", "hash", 5));
}

#[test]
fn every_bit_of_a_header_counts() {
    for byte in 0..40 {
        assert_broken(3, "", |raw, _| {
            let sql = "SELECT header FROM events WHERE position = 3";
            let mut bytes: Vec<u8> = raw.query_row(sql, [], |row| row.get(0)).unwrap();
            bytes[byte] ^= 1 << (byte % 8);
            raw.execute("UPDATE events SET header = ?1 WHERE position = 3", [bytes]).unwrap();
        });
    }
}

#[test]
fn a_missing_event_is_found() {
    assert_broken(5, "missing", |raw, _| {
        raw.execute_batch("DELETE FROM events WHERE position = 5").unwrap();
    });
    assert_broken(1, "missing", |raw, _| {
        raw.execute_batch("DELETE FROM events WHERE position = 1").unwrap();
    });
    assert_broken(13, "missing", |raw, _| {
        raw.execute_batch("DELETE FROM events WHERE position = 13").unwrap();
    });
    assert_broken(1, "missing", |raw, run| {
        raw.execute("DELETE FROM events WHERE run = ?1", [run.as_bytes()]).unwrap();
    });
    assert_broken(13, "row is missing", |raw, run| {
        raw.execute("DELETE FROM runs WHERE run = ?1", [run.as_bytes()]).unwrap();
    });
}

#[test]
fn another_order_is_found() {
    assert_broken(4, "", |raw, run| {
        let sql = "UPDATE events SET seq = CASE seq WHEN 4 THEN -5 WHEN 5 THEN -4 END
                   WHERE run = ?1 AND seq IN (4, 5)";
        raw.execute(sql, [run.as_bytes()]).unwrap();
        raw.execute("UPDATE events SET seq = -seq WHERE seq < 0", []).unwrap();
    });
    assert_broken(5, "position", |raw, _| {
        raw.execute_batch(
            "UPDATE events SET position = -5 WHERE position = 5;
             UPDATE events SET position = 5 WHERE position = 4;
             UPDATE events SET position = 4 WHERE position = -5;
             UPDATE payloads SET position = -5 WHERE position = 5;
             UPDATE payloads SET position = 5 WHERE position = 4;
             UPDATE payloads SET position = 4 WHERE position = -5;",
        )
        .unwrap();
    });
}

/// The rows of one run under another run's name: links and digests all fit.
#[test]
fn another_name_is_found() {
    let other = Chain::new(3).run();
    let (found, _) = tampered(|raw, run| {
        for table in ["runs", "events"] {
            let sql = format!("UPDATE {table} SET run = ?2 WHERE run = ?1");
            raw.execute(&sql, [run.as_bytes(), other.as_bytes()]).unwrap();
        }
    });
    let [(broken, 1, what)] = found.broken.as_slice() else { panic!("{found:?}") };
    assert_eq!(*broken, other);
    assert!(what.contains("another event"), "{what}");
}

#[test]
fn a_payload_that_is_gone_without_an_erasure_on_record_is_damage() {
    assert_broken(2, "no erasure", |raw, _| {
        raw.execute_batch("DELETE FROM payloads WHERE position = 2").unwrap();
    });
}

#[test]
fn a_header_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("regie.db");
    let journal = SqliteJournal::open(&path).unwrap();
    let mut chain = Chain::new(1);
    journal.create(chain.start()).unwrap();
    Connection::open(&path).unwrap().execute_batch("UPDATE events SET header = x'ff'").unwrap();
    let error = journal.history(chain.run(), 0, 9).unwrap_err();
    assert!(matches!(error, JournalError::Damaged { seq: 1, .. }), "{error:?}");
}
