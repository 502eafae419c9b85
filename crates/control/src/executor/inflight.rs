//! Steps that run inside the daemon: they die with it, so "not in flight" means "unknown".

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use domain::{RunId, StepNo};
use kernel::machine::Input;
use kernel::port::{Inbox, Status, Work};
use tokio::task::AbortHandle;

type Key = (RunId, StepNo, u32);

/// What runs, with the means to end it.
#[derive(Clone, Default)]
pub(super) struct Inflight(Arc<Mutex<HashMap<Key, AbortHandle>>>);

fn key(work: &Work) -> Key {
    (work.run, work.step, work.attempt)
}

impl Inflight {
    /// Runs `step` as a task of its own and delivers what it gives back.
    pub(super) fn spawn(
        &self,
        work: &Work,
        inbox: Arc<dyn Inbox>,
        step: impl Future<Output = Input> + Send + 'static,
    ) {
        let (key, inflight) = (key(work), self.clone());
        // The lock is held until the handle is in: the task cannot end before it is known.
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let task = tokio::spawn(async move {
            let input = step.await;
            inflight.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
            inbox.send(input);
        });
        running.insert(key, task.abort_handle());
    }

    /// Answers [`Input::Status`]: the inbox of a run outlives its machines, so a running step needs no
    /// new one.
    pub(super) fn status(&self, work: &Work, inbox: &dyn Inbox) {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&key(work));
        let status = if running { Status::Running } else { Status::Unknown };
        inbox.send(Input::Status(work.step, status));
    }

    /// Ends a step at once; it delivers nothing any more.
    pub(super) fn abort(&self, work: &Work) {
        if let Some(task) = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&key(work)) {
            task.abort();
        }
    }

    /// Whether the step runs.
    pub(super) fn contains(&self, work: &Work) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&key(work))
    }
}
