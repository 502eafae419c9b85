//! The journal in one SQLite file.
//!
//! One thread owns the only connection that writes; callers queue orders and readers use connections
//! of their own. Queue order is commit order is position order.

mod append;
mod claim;
mod erased;
mod failure;
mod projection;
mod read;
mod record;
mod schema;
mod value;
mod verify;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use domain::{Millis, Recorded, RunId, Timestamp};
use kernel::port::{
    Append, AppendError, Appended, Claim, ClaimError, GateRow, Journal, JournalError, OnAppended, Put,
    Record, RecordError, Records, RunRow, Verification,
};

use failure::Failure;
pub use failure::OpenError;
use read::Readers;
use writer::{Order, Writer};

/// A deliberate mistake, to show that the suites would see it.
#[cfg(feature = "mutants")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// Appends are not checked against the fence.
    FenceRemoved,
    /// Commits are acknowledged before they are on disk.
    SyncSkipped,
    /// Reservations are not checked against the cap of the day.
    DayUnchecked,
}

/// What the mutants change; without the cargo feature always the right thing.
#[derive(Debug, Clone, Copy)]
struct Rules {
    check_fence: bool,
    check_day: bool,
    sync: bool,
}

impl Rules {
    const RIGHT: Self = Self { check_fence: true, check_day: true, sync: true };
}

/// Events, claims, positions, projections and records in one SQLite file.
///
/// Dropping it writes what is queued and waits for the writer to end.
#[derive(Debug)]
pub struct SqliteJournal {
    readers: Readers,
    /// `None` only while it is dropped.
    orders: Option<mpsc::Sender<Order>>,
    writer: Option<JoinHandle<()>>,
    position: Arc<AtomicU64>,
}

impl SqliteJournal {
    /// Opens a journal, makes it when there is none, and brings its schema up to date. That nobody
    /// else writes to it is for the caller to make sure (a lock on the home).
    ///
    /// # Errors
    /// When the file cannot be opened, is not a journal, or was written by a newer Regie.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::open_with(path.as_ref(), Rules::RIGHT)
    }

    /// Opens a journal that makes one deliberate mistake.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    #[cfg(feature = "mutants")]
    pub fn open_mutant(path: impl AsRef<Path>, mutant: Mutant) -> Result<Self, OpenError> {
        let rules = match mutant {
            Mutant::FenceRemoved => Rules { check_fence: false, ..Rules::RIGHT },
            Mutant::DayUnchecked => Rules { check_day: false, ..Rules::RIGHT },
            Mutant::SyncSkipped => Rules { sync: false, ..Rules::RIGHT },
        };
        Self::open_with(path.as_ref(), rules)
    }

    fn open_with(path: &Path, rules: Rules) -> Result<Self, OpenError> {
        let path: PathBuf = path.into();
        let mut connection = schema::connect(&path, schema::Purpose::Write, rules)?;
        schema::migrate(&path, &mut connection)?;
        let last = read::last_position(&connection)
            .map_err(|error| OpenError::Storage { path: path.clone(), source: error })?;
        let position = Arc::new(AtomicU64::new(last));
        let (orders, queue) = mpsc::channel();
        let writer = Writer::new(connection, queue, Arc::clone(&position), rules);
        let writer = std::thread::Builder::new()
            .name("journal".into())
            .spawn(move || writer.run())
            .map_err(|source| OpenError::Thread { source })?;
        Ok(Self { readers: Readers::new(path, rules), orders: Some(orders), writer: Some(writer), position })
    }

    /// Folds the write-ahead log into the file and cuts it to nothing: for an orderly end, as a log that
    /// is left behind stays as large as it ever was.
    ///
    /// # Errors
    /// When somebody reads for too long, or the file cannot be written. The log holds it all then.
    pub fn fold_log(&self) -> Result<(), JournalError> {
        self.ask(Order::Fold)
    }

    fn send(&self, order: Order) {
        if let Some(orders) = &self.orders {
            // An order that nobody takes any more answers for itself when it is dropped.
            let _ = orders.send(order);
        }
    }

    /// Queues an order that answers over a channel, and waits for the answer.
    fn ask<T, E>(&self, order: impl FnOnce(writer::Answer<T, E>) -> Order) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Failure> + Send + 'static,
    {
        let (answer, answered) = writer::Answer::channel();
        self.send(order(answer));
        answered.recv().unwrap_or_else(|_| Err(Failure::stopped().into()))
    }
}

impl Drop for SqliteJournal {
    fn drop(&mut self) {
        self.orders = None;
        let Some(writer) = self.writer.take() else { return };
        // The last owner may be a callback, which runs on the writer's own thread.
        if writer.thread().id() != std::thread::current().id() && writer.join().is_err() {
            tracing::error!("the journal's writer ended in a panic");
        }
    }
}

impl Journal for SqliteJournal {
    fn create(&self, append: Append) -> Result<Appended, AppendError> {
        self.ask(|answer| Order::Create(append, answer))
    }

    fn append(&self, append: Append, done: OnAppended) {
        self.send(Order::Append(append, writer::Answer::new(done)));
    }

    fn claim(
        &self,
        run: RunId,
        holder: &str,
        now: Timestamp,
        ttl: Millis,
        force: bool,
    ) -> Result<Claim, ClaimError> {
        let wanted = claim::Wanted { run, holder: holder.into(), now, ttl, force };
        self.ask(|answer| Order::Claim(wanted, answer))
    }

    fn renew(&self, claim: &Claim, now: Timestamp, ttl: Millis) -> Result<(), ClaimError> {
        self.ask(|answer| Order::Renew(*claim, now.plus(ttl), answer))
    }

    fn release(&self, claim: &Claim) -> Result<(), ClaimError> {
        self.ask(|answer| Order::Release(*claim, answer))
    }

    fn history(&self, run: RunId, after_seq: u64, limit: usize) -> Result<Vec<Recorded>, JournalError> {
        self.readers.with(|reader| read::history(reader, run, after_seq, limit))
    }

    fn stream(&self, after: u64, limit: usize) -> Result<Vec<Recorded>, JournalError> {
        self.readers.with(|reader| read::stream(reader, after, limit))
    }

    fn position(&self) -> u64 {
        self.position.load(Ordering::Acquire)
    }

    fn runs(&self, only_open: bool, limit: usize) -> Result<Vec<RunRow>, JournalError> {
        self.readers.with(|reader| read::runs(reader, only_open, limit))
    }

    fn run(&self, run: RunId) -> Result<RunRow, JournalError> {
        self.readers.with(|reader| read::run(reader, run))
    }

    fn gates(&self, only_open: bool) -> Result<Vec<GateRow>, JournalError> {
        self.readers.with(|reader| read::gates(reader, only_open))
    }

    fn spent_on(&self, day: u64) -> Result<u64, JournalError> {
        self.readers.with(|reader| read::spent_on(reader, day))
    }

    fn erase(&self, run: RunId, events: &[(u64, u64)]) -> Result<u64, JournalError> {
        let erased = self.ask(|answer| Order::Erase(run, events.to_vec(), answer))?;
        // The log still has the pages as they were.
        self.fold_log()?;
        Ok(erased)
    }

    fn verify(&self) -> Result<Verification, JournalError> {
        self.readers.with(verify::all)
    }
}

impl Records for SqliteJournal {
    fn get(&self, kind: &str, key: &str) -> Result<Option<Record>, RecordError> {
        self.readers.with(|reader| record::get(reader, kind, key))
    }

    fn list(&self, kind: &str) -> Result<Vec<Record>, RecordError> {
        self.readers.with(|reader| record::list(reader, kind))
    }

    fn put(&self, kind: &str, key: &str, expected: u64, body: &[u8]) -> Result<u64, RecordError> {
        let write = record::Write { kind: kind.into(), key: key.into(), expected, body: body.into() };
        self.ask(|answer| Order::Put(write, answer))
    }

    fn put_all(&self, writes: &[Put<'_>]) -> Result<(), RecordError> {
        let mut owned = Vec::with_capacity(writes.len());
        for Put { kind, key, expected, body } in writes {
            // Each is checked before the first is written.
            if owned.iter().any(|write: &record::Write| write.kind == *kind && write.key == *key) {
                return Err(RecordError::Storage(format!(
                    "record {kind}/{key} would be written twice at once"
                )));
            }
            let (kind, key) = ((*kind).to_owned(), (*key).to_owned());
            owned.push(record::Write { kind, key, expected: *expected, body: body.to_vec() });
        }
        self.ask(|answer| Order::PutAll(owned, answer))
    }

    fn kinds(&self) -> Result<Vec<String>, RecordError> {
        self.readers.with(record::kinds)
    }
}
