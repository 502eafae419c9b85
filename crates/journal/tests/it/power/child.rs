//! What runs under the recorder, as ignored tests that the parent starts one by one.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, mpsc};

use domain::RunId;
use journal::{FileArtifacts, Mutant, SqliteJournal};
use kernel::port::{AppendError, Artifacts, ClaimError, Journal, RecordError, Records};
use testkit::suite::history::{Chain, NOON};
use testkit::suite::journal::{append, assert_clean};

/// Appends: enough that the log is checkpointed and started over meanwhile.
const APPENDS: usize = 240;
/// Large enough for that, and small enough to be verified many times.
const PAYLOAD: usize = 6_000;

/// The run that the child writes.
pub(super) fn run() -> RunId {
    Chain::new(1).run()
}

fn path(variable: &str) -> PathBuf {
    std::env::var_os(variable).expect("started by its parent").into()
}

/// A name that selects no test would succeed as well.
fn reached_the_end() {
    fs::write(path("POWER_REACHED"), b"").unwrap();
}

#[test]
#[ignore = "started under the recorder by the tests of power cuts"]
fn writes() {
    let home = path("RECORD_FOLDER");
    let file = home.join("regie.db");
    let journal = match std::env::var("POWER_MUTANT").as_deref() {
        Ok("yes") => SqliteJournal::open_mutant(file, Mutant::SyncSkipped),
        _ => SqliteJournal::open(file),
    };
    let journal = journal.unwrap();
    let artifacts = FileArtifacts::open(home.join("artifacts")).unwrap();
    // Recorded in order with everything else: at a cut, what it says was acknowledged.
    let acknowledged = Arc::new(Mutex::new(File::create(home.join("acknowledged")).unwrap()));
    let acknowledge = |line: String| acknowledged.lock().unwrap().write_all(line.as_bytes()).unwrap();

    let mut chain = Chain::new(1);
    journal.create(chain.start()).unwrap();
    acknowledge("append 1\n".into());
    let (sender, receiver) = mpsc::channel();
    for number in 0..APPENDS {
        let next = chain.step(&vec![u8::try_from(number % 251).unwrap(); PAYLOAD]);
        let (seq, sender, acknowledged) = (chain.head.seq, sender.clone(), Arc::clone(&acknowledged));
        let done = move |result: Result<_, AppendError>| {
            result.unwrap();
            acknowledged.lock().unwrap().write_all(format!("append {seq}\n").as_bytes()).unwrap();
            sender.send(()).unwrap();
        };
        journal.append(next, Box::new(done));
        // A few in flight, so that commits hold more than one append.
        if number % 3 == 2 {
            receiver.iter().take(3).for_each(drop);
        }
        match number % 24 {
            5 => {
                let version = journal.put("project", "a", number as u64 / 24, b"record").unwrap();
                acknowledge(format!("record {version}\n"));
            }
            11 => {
                let digest = artifacts.put(&number.to_le_bytes().repeat(2_000)).unwrap();
                acknowledge(format!("artifact {digest}\n"));
            }
            17 => {
                let claim = journal.claim(chain.run(), "daemon", NOON, 1, true).unwrap();
                chain.fence = claim.fence;
                acknowledge(format!("claim {}\n", claim.fence));
            }
            _ => {}
        }
    }
    // A power cut lets nothing be closed.
    std::mem::forget(journal);
    reached_the_end();
}

#[test]
#[ignore = "started under the recorder by the tests of power cuts"]
fn meets_a_full_and_a_broken_disk() {
    let file = path("RECORD_FOLDER").join("regie.db");
    let (full, broken) = (path("RECORD_FULL"), path("RECORD_BROKEN"));
    let journal = SqliteJournal::open(&file).unwrap();
    let mut chain = Chain::new(1);
    journal.create(chain.start()).unwrap();

    fs::write(&full, b"").unwrap();
    let next = chain.step(b"when there is room again");
    let Err(AppendError::Storage(text)) = append(&journal, next.clone()) else { panic!("written") };
    assert!(text.contains("the disk is full: free some space"), "{text}");
    assert!(matches!(journal.put("project", "a", 0, b""), Err(RecordError::Storage(_))));
    assert!(matches!(journal.claim(chain.run(), "a", NOON, 1, true), Err(ClaimError::Storage(_))));
    assert_eq!(journal.history(chain.run(), 0, 9).unwrap().len(), 1, "still readable, and nothing new");
    fs::remove_file(&full).unwrap();
    append(&journal, next).expect("the journal goes on when there is room");
    assert_eq!(journal.position(), 4);

    fs::write(&broken, b"").unwrap();
    let next = chain.step(b"nobody knows whether this is on disk");
    let Err(AppendError::Storage(text)) = append(&journal, next.clone()) else { panic!("written") };
    assert!(text.contains("the disk failed"), "{text}");
    fs::remove_file(&broken).unwrap();
    assert!(append(&journal, next).is_err(), "acknowledged after a failed sync");
    assert!(matches!(journal.put("project", "a", 0, b""), Err(RecordError::Storage(_))));
    assert_eq!(journal.position(), 4);
    drop(journal);

    let journal = SqliteJournal::open(&file).unwrap();
    assert!(journal.position() >= 4);
    assert_clean(&journal, 1);
    let mut other = Chain::new(2);
    journal.create(other.start()).expect("a restart mends it");
    reached_the_end();
}
