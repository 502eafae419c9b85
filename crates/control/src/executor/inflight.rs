//! Steps that run inside the daemon: they die with it, so "not in flight" means "unknown".

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::{RunId, StepNo};
use kernel::machine::Input;
use kernel::port::{Inbox, Status, Work};
use tokio::task::AbortHandle;

type Key = (RunId, StepNo, u32);

/// What runs, with the means to end it and the inbox that waits for it.
#[derive(Clone, Default)]
pub(super) struct Inflight(Arc<Mutex<Running>>);

type Running = HashMap<Key, (AbortHandle, Arc<dyn Inbox>)>;

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
        let mut running = self.lock();
        let task = tokio::spawn(async move {
            let input = step.await;
            if let Some((_, inbox)) = inflight.lock().remove(&key) {
                inbox.send(input);
            }
        });
        running.insert(key, (task.abort_handle(), inbox));
    }

    /// Answers [`Input::Status`]; a running step delivers to this inbox from now on.
    pub(super) fn status(&self, work: &Work, inbox: Arc<dyn Inbox>) {
        let mut running = self.lock();
        let status = match running.get_mut(&key(work)) {
            Some((_, waiting)) => {
                *waiting = Arc::clone(&inbox);
                Status::Running
            }
            None => Status::Unknown,
        };
        // Sent under the lock: the result must not overtake the answer that it runs.
        inbox.send(Input::Status(work.step, status));
    }

    /// Ends a step at once; it delivers nothing any more.
    pub(super) fn abort(&self, work: &Work) {
        if let Some((task, _)) = self.lock().remove(&key(work)) {
            task.abort();
        }
    }

    /// Whether the step runs.
    pub(super) fn contains(&self, work: &Work) -> bool {
        self.lock().contains_key(&key(work))
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
