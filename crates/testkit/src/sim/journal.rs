//! A journal in memory with the rules of the real one, and switches that break them.

use domain::event::{Head, Recorded};
use domain::{RunId, Timestamp};
use kernel::port::{Append, AppendError, Appended};

/// Deliberate mistakes of the world around the machine, to show that the suite would see them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flaws {
    /// The journal lets writers with an old fence write.
    pub fence_unchecked: bool,
    /// The journal acknowledges before it is on disk: a crash loses what it acknowledged.
    pub acks_before_durable: bool,
    /// Answers to a machine that was thrown away reach the machine that replaced it.
    pub stale_inbox: bool,
}

/// Events and claims of one run.
#[derive(Debug)]
pub(super) struct Journal {
    run: RunId,
    flaws: Flaws,
    /// What readers see.
    pub(super) events: Vec<Recorded>,
    /// How many of them survive a crash.
    pub(super) synced: usize,
    pub(super) fence: u64,
}

impl Journal {
    pub(super) const fn new(run: RunId, flaws: Flaws) -> Self {
        Self { run, flaws, events: Vec::new(), synced: 0, fence: 0 }
    }

    /// Raises the fence. Durable when it returns.
    pub(super) const fn claim(&mut self) -> u64 {
        self.fence += 1;
        self.fence
    }

    pub(super) fn head(&self) -> Head {
        self.events.last().map_or(Head::EMPTY, |last| Head { seq: last.header.seq, hash: last.hash })
    }

    /// Writes an append, or says why not; `epoch` is the present epoch of the lease.
    pub(super) fn commit(&mut self, append: &Append, epoch: u64) -> Result<Appended, AppendError> {
        let expect = append.expect;
        if expect.fence != self.fence && !self.flaws.fence_unchecked {
            return Err(AppendError::Fenced { run: self.run, current: self.fence, ours: expect.fence });
        }
        if expect.head != self.head() {
            return Err(AppendError::HeadMoved(self.run));
        }
        if let Some((lease, decided)) = expect.lease
            && decided != epoch
        {
            return Err(AppendError::LeaseMoved(lease));
        }
        for sealed in &append.events {
            let position = self.events.len() as u64 + 1;
            self.events.push(Recorded {
                position,
                header: sealed.header.clone(),
                payload: Some(sealed.payload.clone()),
                hash: sealed.hash,
            });
        }
        if !self.flaws.acks_before_durable {
            self.synced = self.events.len();
        }
        Ok(Appended { position: self.events.len() as u64 })
    }

    /// What a crash leaves.
    pub(super) fn crash(&mut self) {
        self.events.truncate(self.synced);
    }
}

/// When a simulation begins.
pub(super) const BEGIN: Timestamp = Timestamp(1_700_000_000_000);
