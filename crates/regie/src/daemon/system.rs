//! Clock, randomness and signals of the operating system.

use domain::Timestamp;
use kernel::port::{Clock, Rng};
use tokio::signal::unix::{SignalKind, signal};

/// The wall clock.
pub(super) struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the adapter of the Clock port")]
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
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
