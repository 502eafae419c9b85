//! Clock, randomness and signals of the operating system.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use domain::Timestamp;
use kernel::port::{Clock, Rng};
use tokio::signal::unix::{SignalKind, signal};

use crate::pretend;

/// The wall clock, as long as it does not go back. While it does, time goes on as the monotonic clock
/// has it: a deadline comes when its time has passed, whatever somebody sets the wall clock to.
pub(super) struct SystemClock {
    /// The last instant that was given, and when that was.
    last: Mutex<(u64, Instant)>,
}

impl SystemClock {
    pub(super) fn new() -> Self {
        Self { last: Mutex::new((wall(), Instant::now())) }
    }

    fn at(&self, wall: u64, now: Instant) -> u64 {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = u64::try_from(now.saturating_duration_since(last.1).as_millis()).unwrap_or(u64::MAX);
        let at = wall.max(last.0.saturating_add(passed));
        // A millisecond that is not over yet must not be lost each time somebody asks.
        if at > last.0 {
            *last = (at, now);
        }
        at
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.at(wall(), Instant::now()))
    }
}

/// What the machine's clock says, in milliseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "this is the adapter of the Clock port")]
fn wall() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    millis.saturating_add_signed(pretend::clock_offset())
}

/// The kernel's random numbers.
pub(super) struct OsRng;

impl Rng for OsRng {
    fn fill(&self, buffer: &mut [u8]) {
        if let Err(error) = getrandom::fill(buffer) {
            // Ids and salts without randomness would be worse than no daemon.
            tracing::error!(%error, "the operating system gives no random numbers");
            std::process::abort();
        }
    }
}

/// Returns when the daemon is told to end by SIGTERM or SIGINT.
pub(super) async fn terminated() {
    let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_that_is_set_back_goes_on() {
        let begin = Instant::now();
        let clock = SystemClock { last: Mutex::new((1_000_000, begin)) };
        let after = |millis| begin + Duration::from_millis(millis);
        assert_eq!(clock.at(1_000_500, after(500)), 1_000_500);
        // Set back by a quarter of an hour: two seconds later it is two seconds later.
        assert_eq!(clock.at(102_500, after(2_500)), 1_002_500);
        assert_eq!(clock.at(102_500, after(2_500)), 1_002_500);
        // After a sleep, or set forward, the wall clock leads.
        assert_eq!(clock.at(9_000_000, after(3_000)), 9_000_000);
        assert_eq!(clock.at(1_003_100, after(3_100)), 9_000_100);
    }
}
