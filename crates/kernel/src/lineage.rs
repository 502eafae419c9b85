//! What a run inherits: the events of the run that it goes on from, up to the one that its first event
//! names. They are read where they are and never copied; that they are still the same is held by the
//! hash of the last one.

use domain::fact::Forked;
use domain::{Fact, Recorded, RunId};

use crate::port::{Journal, JournalError};

/// How many runs may go on from one another.
const DEEPEST: usize = 64;
/// Events read from the journal at a time.
const PAGE: usize = 4096;

/// Why a run cannot have what it goes on from.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The run that it goes on from cannot be read.
    #[error("run {parent}, which it goes on from, cannot be read")]
    Unreadable {
        /// That run.
        parent: RunId,
        /// What is wrong.
        #[source]
        source: JournalError,
    },
    /// The event that it goes on from is not there, or is another one.
    #[error(
        "event {seq} of run {parent}, which it goes on from, is not the one on record; see `regie audit verify`"
    )]
    Altered {
        /// The run that it goes on from.
        parent: RunId,
        /// The event.
        seq: u64,
    },
    /// Too many runs go on from one another.
    #[error("more than {DEEPEST} runs go on from one another; start a new mission with `regie run`")]
    TooDeep,
}

/// The reference of a run's first event to the run that it goes on from.
pub fn origin(first: &Fact) -> Option<&Forked> {
    match first {
        Fact::RunStarted(started) => started.forked.as_deref(),
        _ => None,
    }
}

/// Whether the event that a run goes on from is the one on record.
///
/// # Errors
/// When it is not, or cannot be read.
pub fn check(journal: &dyn Journal, forked: &Forked) -> Result<(), Error> {
    let (parent, seq) = (forked.parent, forked.seq);
    let unreadable = |source| Error::Unreadable { parent, source };
    let last = journal.history(parent, seq.saturating_sub(1), 1).map_err(unreadable)?;
    match last.first() {
        Some(last) if last.header.seq == seq && last.hash == forked.head => Ok(()),
        _ => Err(Error::Altered { parent, seq }),
    }
}

/// Everything that a run inherits, the oldest first: the events of the run that it goes on from, and
/// before them what that one inherits itself.
///
/// # Errors
/// When one of them cannot be read or is not what was referred to.
pub fn inherited(journal: &dyn Journal, forked: &Forked) -> Result<Vec<Recorded>, Error> {
    let mut newest_first = Vec::new();
    let mut next = Some(forked.clone());
    while let Some(forked) = next {
        if newest_first.len() == DEEPEST {
            return Err(Error::TooDeep);
        }
        let events = events(journal, &forked)?;
        next = events.first().and_then(|first| origin(&first.header.fact)).cloned();
        newest_first.push(events);
    }
    Ok(newest_first.into_iter().rev().flatten().collect())
}

/// The events of the parent up to the one that is referred to.
fn events(journal: &dyn Journal, forked: &Forked) -> Result<Vec<Recorded>, Error> {
    let (parent, seq) = (forked.parent, forked.seq);
    let mut events: Vec<Recorded> = Vec::new();
    loop {
        let after = events.last().map_or(0, |event| event.header.seq);
        let left = usize::try_from(seq.saturating_sub(after)).unwrap_or(PAGE).min(PAGE);
        if left == 0 {
            break;
        }
        let page = journal.history(parent, after, left);
        let page = page.map_err(|source| Error::Unreadable { parent, source })?;
        if page.is_empty() {
            break;
        }
        events.extend(page);
    }
    match events.last() {
        Some(last) if last.header.seq == seq && last.hash == forked.head => Ok(events),
        _ => Err(Error::Altered { parent, seq }),
    }
}
