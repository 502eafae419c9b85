//! An executor whose answers are the test's, or a plain success at once.

use std::sync::{Arc, Mutex, MutexGuard};

use domain::{Amount, Outcome, Payload};
use kernel::machine::Input;
use kernel::port::{Executor, Finished, Inbox, Probe, Status, Work};
use tokio::sync::watch;

/// See the module.
pub struct ManualExecutor {
    steps: Mutex<Steps>,
    count: watch::Sender<usize>,
}

#[derive(Default)]
struct Steps {
    held: bool,
    started: Vec<(Work, Arc<dyn Inbox>)>,
    running: Vec<(Work, Arc<dyn Inbox>)>,
    /// What was killed and not told, when that is left to the test.
    killed: Option<Vec<(Work, Arc<dyn Inbox>)>>,
}

impl Default for ManualExecutor {
    fn default() -> Self {
        Self { steps: Mutex::default(), count: watch::Sender::new(0) }
    }
}

impl ManualExecutor {
    /// Leaves what starts from now on to the test.
    pub fn hold(&self) {
        self.lock().held = true;
    }

    /// Lets what runs succeed, and what starts from now on succeed at once.
    pub fn release(&self) {
        let running = {
            let mut steps = self.lock();
            steps.held = false;
            std::mem::take(&mut steps.running)
        };
        for (work, inbox) in running {
            inbox.send(succeeded(&work, "done"));
        }
    }

    /// What was started so far, each with the inbox that it was given.
    pub fn started(&self) -> Vec<(Work, Arc<dyn Inbox>)> {
        self.lock().started.clone()
    }

    /// What runs now, each with the inbox that waits for it.
    pub fn running(&self) -> Vec<(Work, Arc<dyn Inbox>)> {
        self.lock().running.clone()
    }

    /// Tells nobody from now on that a step is gone.
    pub fn keep_killed(&self) {
        self.lock().killed.get_or_insert_default();
    }

    /// What was killed since then, each with the inbox that waits for it.
    pub fn killed(&self) -> Vec<(Work, Arc<dyn Inbox>)> {
        self.lock().killed.clone().unwrap_or_default()
    }

    /// Returns when so many steps were started or asked about.
    pub async fn heard(&self, count: usize) {
        // The sender lives as long as this borrow.
        let _ = self.count.subscribe().wait_for(|heard| *heard >= count).await;
    }

    fn lock(&self) -> MutexGuard<'_, Steps> {
        self.steps.lock().unwrap()
    }
}

/// The result of a step that did what it was asked for and said `text`.
pub fn succeeded(work: &Work, text: &str) -> Input {
    let finished = Finished {
        outcome: Outcome::Succeeded,
        spent: Amount::CALL,
        payload: Payload(text.as_bytes().to_vec()),
        artifacts: Vec::new(),
    };
    Input::Finished(work.step, work.attempt, finished)
}

impl Executor for ManualExecutor {
    fn start(&self, work: Work, inbox: Arc<dyn Inbox>) {
        let answer = {
            let mut steps = self.lock();
            steps.started.push((work.clone(), Arc::clone(&inbox)));
            if steps.held {
                steps.running.push((work.clone(), Arc::clone(&inbox)));
            }
            (!steps.held).then(|| succeeded(&work, "done"))
        };
        self.count.send_modify(|count| *count += 1);
        if let Some(answer) = answer {
            inbox.send(answer);
        }
    }

    fn status(&self, work: Work, inbox: Arc<dyn Inbox>) {
        let status = {
            let mut steps = self.lock();
            match steps.running.iter_mut().find(|(running, _)| running.key == work.key) {
                Some((_, waiting)) => {
                    *waiting = Arc::clone(&inbox);
                    Status::Running
                }
                None => Status::Unknown,
            }
        };
        inbox.send(Input::Status(work.step, status));
        self.count.send_modify(|count| *count += 1);
    }

    fn probe(&self, work: Work, inbox: Arc<dyn Inbox>) {
        inbox.send(Input::Probed(work.step, Probe::Unknown));
    }

    fn kill(&self, work: Work, inbox: Arc<dyn Inbox>) {
        let mut steps = self.lock();
        steps.running.retain(|(running, _)| running.key != work.key);
        if let Some(killed) = &mut steps.killed {
            return killed.push((work, inbox));
        }
        drop(steps);
        inbox.send(Input::Killed(work.step));
    }
}
