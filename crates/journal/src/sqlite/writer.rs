//! The one thread that writes: takes what is queued, checks it row by row, commits it at once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};

use domain::{RunId, Timestamp};
use kernel::fault::{self, Point};
use kernel::port::{Append, AppendError, Appended, Claim, ClaimError, JournalError, RecordError};
use rusqlite::Connection;

use super::failure::Failure;
use super::{Rules, append, claim, erased, record};

/// Orders of one commit. Bounds how long the first of them waits for the others.
const BATCH: usize = 512;

/// What the writer is asked to do.
pub(super) enum Order {
    Create(Append, Answer<Appended, AppendError>),
    Append(Append, Answer<Appended, AppendError>),
    Claim(claim::Wanted, Answer<Claim, ClaimError>),
    /// The instant is the new expiry.
    Renew(Claim, Timestamp, Answer<(), ClaimError>),
    Release(Claim, Answer<(), ClaimError>),
    Put(record::Write, Answer<u64, RecordError>),
    PutAll(Vec<record::Write>, Answer<(), RecordError>),
    /// The events by first and last number.
    Erase(RunId, Vec<(u64, u64)>, Answer<u64, JournalError>),
    /// Not within a transaction, so never part of a batch.
    Fold(Answer<(), JournalError>),
}

type Done<T, E> = Box<dyn FnOnce(Result<T, E>) + Send>;

/// Takes the result of an order, exactly once: also when the order is dropped unanswered.
pub(super) struct Answer<T, E: From<Failure>>(Option<Done<T, E>>);

impl<T: Send + 'static, E: From<Failure> + Send + 'static> Answer<T, E> {
    pub(super) fn new(done: Done<T, E>) -> Self {
        Self(Some(done))
    }

    pub(super) fn channel() -> (Self, Receiver<Result<T, E>>) {
        let (sender, receiver) = mpsc::sync_channel(1);
        // Whoever asked may have gone.
        (Self::new(Box::new(move |result| drop(sender.send(result)))), receiver)
    }
}

impl<T, E: From<Failure>> Answer<T, E> {
    fn give(mut self, result: Result<T, E>) {
        if let Some(done) = self.0.take() {
            done(result);
        }
    }
}

impl<T, E: From<Failure>> Drop for Answer<T, E> {
    fn drop(&mut self) {
        if let Some(done) = self.0.take() {
            done(Err(Failure::stopped().into()));
        }
    }
}

/// An order that was judged, and waits for the commit (`None`) or the failure of its batch.
type Judged = Box<dyn FnOnce(Option<&Failure>)>;

pub(super) struct Writer {
    connection: Connection,
    queue: Receiver<Order>,
    /// The last durable position, for readers.
    position: Arc<AtomicU64>,
    rules: Rules,
    /// Set for good when it is unknown what is on disk. A restart reads the truth.
    broken: Option<Failure>,
}

impl Writer {
    pub(super) fn new(
        connection: Connection,
        queue: Receiver<Order>,
        position: Arc<AtomicU64>,
        rules: Rules,
    ) -> Self {
        Self { connection, queue, position, rules, broken: None }
    }

    /// Works until the last sender is gone and the queue is empty.
    pub(super) fn run(mut self) {
        while let Ok(first) = self.queue.recv() {
            let mut batch = Vec::with_capacity(1);
            let mut fold = None;
            let mut next = Some(first);
            while let Some(order) = next {
                match order {
                    Order::Fold(answer) => fold = Some(answer),
                    order => batch.push(order),
                }
                let has_room = batch.len() < BATCH && fold.is_none();
                next = has_room.then(|| self.queue.try_recv().ok()).flatten();
            }
            if !batch.is_empty() {
                self.commit(batch);
            }
            if let Some(answer) = fold {
                answer.give(self.fold().map_err(JournalError::from));
            }
        }
    }

    /// Writes all that the write-ahead log holds into the file itself, and cuts the log to nothing.
    fn fold(&self) -> Result<(), Failure> {
        if let Some(failure) = &self.broken {
            return Err(failure.clone());
        }
        let busy: bool =
            self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        match busy {
            false => Ok(()),
            true => Err(Failure { text: "somebody reads it; try again".into(), fatal: false }),
        }
    }

    fn commit(&mut self, batch: Vec<Order>) {
        let mut judged = Vec::with_capacity(batch.len());
        let written = match &self.broken {
            Some(failure) => {
                batch.into_iter().for_each(|order| judged.push(order.unjudged()));
                Err(failure.clone())
            }
            None => self.write(batch, &mut judged),
        };
        let failure = written.err();
        if let Some(failure) = &failure {
            self.roll_back(failure);
        }
        for answer in judged {
            // A caller's mistake must not end the writer of all others.
            if catch_unwind(AssertUnwindSafe(|| answer(failure.as_ref()))).is_err() {
                tracing::error!("a callback of the journal panicked");
            }
        }
    }

    /// Judges all orders and commits those that hold. All that were judged are in `judged`, whether
    /// or not the commit succeeds.
    fn write(&mut self, batch: Vec<Order>, judged: &mut Vec<Judged>) -> Result<(), Failure> {
        let begun = self.connection.execute_batch("BEGIN IMMEDIATE").map_err(Failure::from);
        let mut failed = begun.err();
        let mut last = self.position.load(Ordering::Acquire);
        for order in batch {
            if failed.is_some() {
                judged.push(order.unjudged());
            } else {
                failed = self.judge(order, &mut last, judged).err();
            }
        }
        if let Some(failure) = failed {
            return Err(failure);
        }
        fault::point(Point::JournalBeforeCommit);
        self.connection.execute_batch("COMMIT")?;
        fault::point(Point::JournalAfterCommit);
        self.position.store(last, Ordering::Release);
        Ok(())
    }

    fn judge(&self, order: Order, last: &mut u64, judged: &mut Vec<Judged>) -> Result<(), Failure> {
        let (connection, rules) = (&self.connection, self.rules);
        match order {
            Order::Create(append, answer) => {
                judge(answer, append::create(connection, rules, last, &append), judged)
            }
            Order::Append(append, answer) => {
                judge(answer, append::append(connection, rules, last, &append), judged)
            }
            Order::Claim(wanted, answer) => judge(answer, claim::take(connection, &wanted), judged),
            Order::Renew(claim, until, answer) => {
                judge(answer, claim::renew(connection, &claim, until), judged)
            }
            Order::Release(claim, answer) => judge(answer, claim::release(connection, &claim), judged),
            Order::Put(write, answer) => judge(answer, record::put(connection, &write), judged),
            Order::PutAll(writes, answer) => judge(answer, record::put_all(connection, &writes), judged),
            Order::Erase(run, events, answer) => {
                judge(answer, erased::erase(connection, run, &events), judged)
            }
            // Never in a batch.
            Order::Fold(answer) => judge(answer, Ok(Err(Failure::stopped().into())), judged),
        }
    }

    fn roll_back(&mut self, failure: &Failure) {
        let mut fatal = failure.fatal;
        // SQLite may have rolled back by itself.
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "the journal cannot roll back");
            fatal = true;
        }
        if self.broken.is_none() {
            tracing::error!(fatal, "the journal cannot write: {}", failure.text);
            if fatal {
                self.broken = Some(Failure { text: failure.text.clone(), fatal });
            }
        }
    }
}

/// Keeps the outcome of an order until its batch is committed.
fn judge<T: 'static, E: From<Failure> + 'static>(
    answer: Answer<T, E>,
    outcome: Result<Result<T, E>, Failure>,
    judged: &mut Vec<Judged>,
) -> Result<(), Failure> {
    match outcome {
        Ok(outcome) => {
            judged.push(Box::new(move |failure| {
                answer.give(match failure {
                    // Also a refusal: what it was judged by is not on record.
                    Some(failure) => Err(failure.clone().into()),
                    None => outcome,
                });
            }));
            Ok(())
        }
        Err(failure) => {
            judged.push(unjudged(answer));
            Err(failure)
        }
    }
}

fn unjudged<T: 'static, E: From<Failure> + 'static>(answer: Answer<T, E>) -> Judged {
    Box::new(move |failure| answer.give(Err(failure.cloned().unwrap_or_else(Failure::stopped).into())))
}

impl Order {
    /// An order that is not looked at: its batch has failed already.
    fn unjudged(self) -> Judged {
        match self {
            Self::Create(_, answer) | Self::Append(_, answer) => unjudged(answer),
            Self::Claim(_, answer) => unjudged(answer),
            Self::Renew(_, _, answer) | Self::Release(_, answer) => unjudged(answer),
            Self::Put(_, answer) => unjudged(answer),
            Self::PutAll(_, answer) => unjudged(answer),
            Self::Erase(_, _, answer) => unjudged(answer),
            Self::Fold(answer) => unjudged(answer),
        }
    }
}
