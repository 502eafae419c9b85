//! Small stand-ins for the kernel's ports, for tests of a host without disk, model or process.
//!
//! They keep the ports' promises; what goes wrong goes wrong because a test asked for it.

#![allow(clippy::unwrap_used, reason = "a fake is used by one test, which fails by panicking")]

mod executor;
mod journal;

use std::sync::atomic::{AtomicU64, Ordering};

use domain::Timestamp;
use kernel::port::{Clock, Rng};
use tokio::time::Instant;

pub use executor::{ManualExecutor, succeeded};
pub use journal::MemoryJournal;

/// The time of the tokio runtime: with paused time it goes as fast as the test.
#[derive(Debug)]
pub struct RuntimeClock {
    begun: Instant,
    /// What has passed on the wall and not for the runtime, in milliseconds.
    slept: AtomicU64,
}

impl RuntimeClock {
    /// Begins now, which it calls noon of a UTC day.
    pub fn begin() -> Self {
        Self { begun: Instant::now(), slept: AtomicU64::new(0) }
    }

    /// The machine sleeps: this many milliseconds pass on the wall, and none for whoever waits.
    pub fn sleep_through(&self, millis: u64) {
        self.slept.fetch_add(millis, Ordering::Relaxed);
    }
}

impl Clock for RuntimeClock {
    fn now(&self) -> Timestamp {
        let millis = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        crate::suite::history::NOON.plus(millis).plus(self.slept.load(Ordering::Relaxed))
    }
}

/// Bytes that never repeat.
#[derive(Debug, Default)]
pub struct CountingRng(AtomicU64);

impl Rng for CountingRng {
    fn fill(&self, buffer: &mut [u8]) {
        for piece in buffer.chunks_mut(8) {
            let number = self.0.fetch_add(1, Ordering::Relaxed).to_be_bytes();
            // The last bytes differ most.
            piece.copy_from_slice(number.get(8 - piece.len()..).unwrap_or_default());
        }
    }
}
