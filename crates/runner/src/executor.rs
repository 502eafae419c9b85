//! The daemon's side: the kernel's `Executor` port, answered by runners.
//!
//! Each run has one task here, which owns the connection to the run's runner and takes what the
//! kernel wants in order. It finds a living runner or starts one; when a runner is lost it makes sure
//! that its jails are gone and looks into its spool before it says so.

mod ending;
mod link;
mod station;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::{RunId, StepNo};
use kernel::Input;
use kernel::port::{Artifacts, Executor, Inbox, Probe, Refused, Work};
use tokio::sync::{broadcast, mpsc, watch};
use tokio::task::JoinHandle;

use crate::config::Config;
use station::{Command, Station};

pub use link::Error;

/// How many live messages wait for a reader that is behind; it then misses the oldest.
const MOST_PROGRESS: usize = 1024;

/// Knows where each run works.
pub trait Configs: Send + Sync {
    /// What the runner of a run is told.
    ///
    /// # Errors
    /// Why the run cannot have a runner, and how to mend it.
    fn config(&self, run: RunId) -> Result<Config, Refused>;
}

impl<F: Fn(RunId) -> Result<Config, Refused> + Send + Sync> Configs for F {
    fn config(&self, run: RunId) -> Result<Config, Refused> {
        self(run)
    }
}

/// Live output of a step that runs. It is shown and forgotten: the result has it all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The run.
    pub run: RunId,
    /// The step.
    pub step: StepNo,
    /// What came since the last message; when much comes, only the end of it. Untrusted.
    pub text: String,
}

/// Executes tool calls and verdicts in jails, through one runner process for each run.
pub struct RunnerExecutor {
    configs: Arc<dyn Configs>,
    artifacts: Arc<dyn Artifacts>,
    handle: tokio::runtime::Handle,
    progress: broadcast::Sender<Progress>,
    stations: Mutex<Stations>,
    closing: watch::Sender<bool>,
}

#[derive(Default)]
struct Stations {
    served: HashMap<RunId, (mpsc::UnboundedSender<Command>, JoinHandle<()>)>,
    is_closed: bool,
}

impl RunnerExecutor {
    /// An executor whose tasks run on `handle`, which needs time and I/O enabled.
    pub fn new(
        configs: Arc<dyn Configs>,
        artifacts: Arc<dyn Artifacts>,
        handle: tokio::runtime::Handle,
    ) -> Self {
        let (progress, _) = broadcast::channel(MOST_PROGRESS);
        let closing = watch::Sender::new(false);
        Self { configs, artifacts, handle, progress, stations: Mutex::default(), closing }
    }

    /// Live output of all runs, from now on.
    pub fn progress(&self) -> broadcast::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Lets the runner delete its results up to a step: they are on record.
    pub fn forget(&self, run: RunId, upto: StepNo, fence: u64) {
        self.send(run, Command::Forget(upto, fence));
    }

    /// Lets the runner of a run that has ended leave, once nothing runs in it any more.
    pub fn close(&self, run: RunId) {
        if let Some((station, _)) = self.stations().served.remove(&run) {
            let _ = station.send(Command::Bye);
        }
    }

    /// Lets every station say goodbye. What it is at comes to its end first, and nothing more begins.
    fn close_stations(&self) -> Vec<JoinHandle<()>> {
        let mut stations = self.stations();
        stations.is_closed = true;
        self.closing.send_replace(true);
        stations.served.drain().map(|(_, (_, task))| task).collect()
    }

    fn stations(&self) -> MutexGuard<'_, Stations> {
        self.stations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, run: RunId, command: Command) {
        let mut stations = self.stations();
        if stations.is_closed {
            return;
        }
        let (station, _) = stations.served.entry(run).or_insert_with(|| {
            let (sender, receiver) = mpsc::unbounded_channel();
            let station =
                Station::new(run, self.configs.clone(), self.artifacts.clone(), self.progress.clone());
            (sender, self.handle.spawn(station.serve(receiver, self.closing.subscribe())))
        });
        let _ = station.send(command);
    }
}

impl Executor for RunnerExecutor {
    fn start(&self, work: Work, inbox: Arc<dyn Inbox>) {
        self.send(work.run, Command::Start(work, inbox));
    }

    fn status(&self, work: Work, inbox: Arc<dyn Inbox>) {
        self.send(work.run, Command::Status(work, inbox));
    }

    /// Nothing in a jail reaches the outside, so there is nothing that could be asked.
    fn probe(&self, work: Work, inbox: Arc<dyn Inbox>) {
        inbox.send(Input::Probed(work.step, Probe::Unknown));
    }

    fn kill(&self, work: Work, inbox: Arc<dyn Inbox>) {
        self.send(work.run, Command::Kill(work, inbox));
    }
}

impl std::fmt::Debug for RunnerExecutor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunnerExecutor").finish_non_exhaustive()
    }
}
