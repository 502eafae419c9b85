//! One rate limiter for each account at a vendor: fed by the heads of its answers, and asked before each
//! call. Runs wait for their turn here instead of finding out one by one that there is no room.

pub(crate) mod rules;

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::Url;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::{Secret, Wire};
use rules::{Decision, Each, Moment, Need, Room, Rules, Said};

/// The limiters of a process: all adapters that are given the same ones keep one account's limits together.
#[derive(Clone, Debug, Default)]
pub struct Limits(Arc<Accounts>);

#[derive(Debug, Default)]
struct Accounts {
    /// So that no key is kept.
    hash: RandomState,
    of: Mutex<HashMap<Account, Arc<Limiter>>>,
}

/// Whose limits they are: wire, scheme with host and port, and the key's hash.
type Account = (Wire, String, u64);

impl Limits {
    /// None known yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn limiter(&self, wire: Wire, url: &Url, secret: Option<&Secret>) -> Arc<Limiter> {
        let key = self.0.hash.hash_one(secret.map(Secret::expose));
        let account = (wire, url.origin().ascii_serialization(), key);
        let mut of = self.0.of.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(of.entry(account).or_insert_with(|| Arc::new(Limiter::new(wire != Wire::Chat))))
    }
}

/// The limiter of one account.
#[derive(Debug)]
pub(crate) struct Limiter {
    began: Instant,
    rules: Mutex<Rules>,
    changed: Notify,
}

/// A call that may be made. Dropping it says that it is over.
#[derive(Debug)]
pub(crate) struct Permit {
    limiter: Arc<Limiter>,
    flight: u64,
}

/// The vendor's limits keep a call for longer than it would wait here.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong {
    pub wait: Duration,
    pub said: Option<Said>,
}

/// Leaves the queue when its call is dropped.
struct Waiting<'a> {
    limiter: &'a Limiter,
    place: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.limiter.change(|rules| rules.leave(self.place));
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.limiter.change(|rules| rules.done(self.flight));
    }
}

impl Permit {
    /// The head of the answer came.
    pub(crate) fn heard(&self, rooms: Each<Option<Room>>, is_good: bool) {
        let now = self.limiter.now();
        self.limiter.change(|rules| rules.heard(self.flight, rooms, is_good, now));
    }

    /// The vendor turned the call away because of its limits.
    pub(crate) fn refused(&self, said: Said, again_in: Option<Duration>) {
        let now = self.limiter.now();
        self.limiter.change(|rules| rules.refused(self.flight, said, again_in, now));
    }
}

impl Limiter {
    fn new(may_have_limits: bool) -> Self {
        Self { began: Instant::now(), rules: Mutex::new(Rules::new(may_have_limits)), changed: Notify::new() }
    }

    /// A place in the queue, which a call keeps over its attempts.
    pub(crate) fn place(&self) -> u64 {
        self.lock().place()
    }

    /// Waits until the call may be made. `on_wait` is told how long that will take, as far as is known,
    /// each time when it must wait.
    ///
    /// # Errors
    /// When the vendor's limits are known to keep it for longer than `patience`.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        place: u64,
        need: Need,
        patience: Duration,
        on_wait: &mut (dyn FnMut(Option<Duration>) + Send),
    ) -> Result<Permit, TooLong> {
        self.lock().join(place, need);
        let waiting = Waiting { limiter: self, place };
        loop {
            let changed = self.changed.notified();
            let mut changed = std::pin::pin!(changed);
            // What changes from here on is not missed.
            changed.as_mut().enable();
            let now = self.now();
            let decision = self.lock().decide(place, now);
            let until = match decision {
                Decision::Go(flight) => {
                    let permit = Permit { limiter: Arc::clone(self), flight };
                    // Leaving wakes the others: whoever is next may go as well.
                    drop(waiting);
                    return Ok(permit);
                }
                Decision::Stay(until) => until,
            };
            let wait = until.map(|until| until.saturating_sub(now));
            if let Some(wait) = wait.filter(|wait| *wait > patience) {
                let said = self.lock().said().cloned();
                return Err(TooLong { wait, said });
            }
            on_wait(wait);
            match until {
                Some(until) => {
                    let alarm = tokio::time::sleep_until(self.began + until);
                    tokio::select! { () = changed => {}, () = alarm => {} }
                }
                None => changed.await,
            }
        }
    }

    fn now(&self) -> Moment {
        self.began.elapsed()
    }

    fn change(&self, with: impl FnOnce(&mut Rules)) {
        with(&mut self.lock());
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
