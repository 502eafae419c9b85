//! Opening: what is refused, and what is left behind.

use std::path::PathBuf;
use std::sync::{Arc, mpsc};

use journal::{OpenError, SqliteJournal};
use kernel::port::{Journal, Put, RecordError, Records};
use rusqlite::Connection;
use tempfile::TempDir;
use testkit::suite::history::Chain;

fn home() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("regie.db");
    (folder, path)
}

#[test]
fn a_newer_schema_is_refused_and_left_alone() {
    let (_folder, path) = home();
    drop(SqliteJournal::open(&path).unwrap());
    let raw = Connection::open(&path).unwrap();
    raw.pragma_update(None, "user_version", 99).unwrap();
    drop(raw);
    let error = SqliteJournal::open(&path).unwrap_err();
    assert!(matches!(error, OpenError::Newer { found: 99, known: 1, .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("upgrade Regie") && text.contains("regie.db"), "{text}");
    let raw = Connection::open(&path).unwrap();
    let version: u32 = raw.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(version, 99);
}

#[test]
fn a_foreign_database_is_refused_and_left_alone() {
    let (_folder, path) = home();
    let raw = Connection::open(&path).unwrap();
    raw.execute_batch("CREATE TABLE theirs (a)").unwrap();
    drop(raw);
    let error = SqliteJournal::open(&path).unwrap_err();
    assert!(matches!(error, OpenError::Foreign { .. }), "{error:?}");
    let raw = Connection::open(&path).unwrap();
    let tables: u32 = raw.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
    assert_eq!(tables, 1);
}

#[test]
fn what_is_no_database_or_has_no_folder_is_refused() {
    let (folder, path) = home();
    std::fs::write(&path, b"not a database, but long enough to be read as the head of one".repeat(9))
        .unwrap();
    assert!(matches!(SqliteJournal::open(&path), Err(OpenError::Storage { .. })));
    let nowhere = folder.path().join("no/such/folder/regie.db");
    assert!(matches!(SqliteJournal::open(nowhere), Err(OpenError::Storage { .. })));
}

#[test]
fn dropping_writes_what_is_queued() {
    let (_folder, path) = home();
    let journal = SqliteJournal::open(&path).unwrap();
    let mut chain = Chain::new(1);
    journal.create(chain.start()).unwrap();
    let (sender, receiver) = mpsc::channel();
    for _ in 0..1_500 {
        let sender = sender.clone();
        journal.append(chain.step(b"queued"), Box::new(move |result| drop(sender.send(result))));
    }
    drop((journal, sender));
    assert_eq!(receiver.iter().filter(Result::is_ok).count(), 1_500);
    assert_eq!(SqliteJournal::open(&path).unwrap().position(), 1 + 1_500 * 3);
}

#[test]
fn an_orderly_end_leaves_no_log_behind() {
    let (_folder, path) = home();
    let log = path.with_file_name("regie.db-wal");
    let journal = SqliteJournal::open(&path).unwrap();
    let mut chain = Chain::new(1);
    journal.create(chain.start()).unwrap();
    for _ in 0..100 {
        journal.append(chain.step(&[7; 2_000]), Box::new(|result| assert!(result.is_ok())));
    }
    // What is queued before it is in it.
    journal.fold_log().unwrap();
    assert_eq!(std::fs::metadata(&log).unwrap().len(), 0);
    let events = journal.stream(0, 1_000).unwrap();
    assert_eq!(events.len(), 1 + 100 * 3);
    // The journal goes on, and a copy of the file alone would have had it all.
    let copy = path.with_file_name("copy.db");
    std::fs::copy(&path, &copy).unwrap();
    assert_eq!(SqliteJournal::open(&copy).unwrap().stream(0, 1_000), Ok(events));
    journal.put("project", "a", 0, b"goes on").unwrap();
    assert!(std::fs::metadata(&log).unwrap().len() > 0);
}

#[test]
fn the_last_owner_may_be_a_callback_and_a_callback_may_panic() {
    let (_folder, path) = home();
    let journal = Arc::new(SqliteJournal::open(&path).unwrap());
    let mut chain = Chain::new(1);
    journal.create(chain.start()).unwrap();
    journal.append(chain.step(b"panics"), Box::new(|_| panic!("a defect of the caller")));
    journal.put("project", "a", 0, b"the writer goes on").unwrap();
    let (sender, receiver) = mpsc::channel();
    let owner = Arc::clone(&journal);
    let (open, opened) = mpsc::channel::<()>();
    let last = chain.step(b"last");
    journal.append(
        last,
        Box::new(move |result| {
            // Not before the test has given up its own share.
            let _ = opened.recv();
            drop(owner);
            drop(sender.send(result));
        }),
    );
    drop(journal);
    open.send(()).unwrap();
    assert!(receiver.recv().unwrap().is_ok());
}

/// Decision, intention and result of a step with what they weigh in indexes.
#[test]
fn a_step_takes_at_most_900_bytes() {
    let (_folder, path) = home();
    let journal = SqliteJournal::open(&path).unwrap();
    let mut chains = (0..20).map(Chain::new).collect::<Vec<_>>();
    for chain in &mut chains {
        journal.create(chain.start()).unwrap();
    }
    for _ in 0..200 {
        for chain in &mut chains {
            journal.append(chain.step(b""), Box::new(|result| assert!(result.is_ok())));
        }
    }
    drop(journal);
    let bytes = std::fs::metadata(&path).unwrap().len();
    let per_step = bytes / (20 * 200);
    eprintln!("{per_step} bytes a step");
    assert!(per_step <= 900, "{per_step} bytes a step");
}

#[test]
fn while_another_program_holds_the_file_nothing_is_acknowledged_and_later_it_goes_on() {
    let (_folder, path) = home();
    let journal = SqliteJournal::open(&path).unwrap();
    let raw = Connection::open(&path).unwrap();
    raw.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut chain = Chain::new(1);
    let start = chain.start();
    let error = journal.create(start.clone()).unwrap_err().to_string();
    assert!(error.contains("another program holds the file: end it, then resume"), "{error}");
    assert!(
        journal.history(chain.run(), 0, 10).is_err() || journal.position() == 0,
        "nothing of it is there"
    );
    // Reading goes on meanwhile: the file is in WAL mode.
    assert_eq!(journal.runs(false, 10).unwrap().len(), 0);
    raw.execute_batch("ROLLBACK").unwrap();
    drop(raw);
    journal.create(start).unwrap();
    assert_eq!(journal.runs(false, 10).unwrap().len(), 1);
}

#[test]
fn records_that_are_written_together_are_all_written_or_none() {
    let scratch = tempfile::tempdir().unwrap();
    let journal = SqliteJournal::open(scratch.path().join("regie.db")).unwrap();
    let put = |key, expected, body| Put { kind: "lease", key, expected, body };
    journal.put_all(&[put("a", 0, b"1"), put("b", 0, b"1")]).unwrap();
    let moved = journal.put_all(&[put("a", 1, b"2"), put("b", 0, b"2"), put("c", 0, b"2")]);
    assert!(matches!(moved, Err(RecordError::Moved { key, current: 1, expected: 0, .. }) if key == "b"));
    assert!(journal.put_all(&[put("a", 1, b"2"), put("a", 2, b"3")]).is_err(), "each is written once");
    journal.put_all(&[]).unwrap();
    let rows: Vec<_> =
        journal.list("lease").unwrap().into_iter().map(|row| (row.key, row.version, row.body)).collect();
    assert_eq!(rows, [("a".to_owned(), 1, b"1".to_vec()), ("b".to_owned(), 1, b"1".to_vec())]);
}
