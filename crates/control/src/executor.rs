//! Who executes which step: model calls go to the vendor, checkpoints, merges and deliveries to the
//! host's own store, everything else to the run's runner and its jail.

mod batch;
mod host;
mod inflight;
pub(crate) mod model;
mod queue;
mod room;
mod setup;

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::StepKind;
use kernel::port::{Executor, Inbox, Work};

pub use batch::Pace;
pub(crate) use batch::no_queue;
pub use host::{HostExecutor, Manners};
pub use model::ModelExecutor;
pub use setup::SetupExecutor;

/// Sends each step to the executor that it belongs to.
pub struct Dispatch {
    /// Model calls.
    pub model: ModelExecutor,
    /// Checkpoints, merges, deliveries.
    pub host: HostExecutor,
    /// Steps in the jail.
    pub jail: Arc<dyn Executor>,
    /// The setups and trials among them.
    pub setup: SetupExecutor,
    /// Tools outside the jail, by name.
    pub outside: BTreeMap<String, Arc<dyn Executor>>,
}

impl Dispatch {
    fn route(&self, work: &Work) -> &dyn Executor {
        match work.kind {
            StepKind::ModelCall | StepKind::Compaction => &self.model,
            StepKind::Checkpoint => &self.host,
            StepKind::ToolCall if HostExecutor::has(&work.tool) => &self.host,
            StepKind::ToolCall | StepKind::Verdict if SetupExecutor::has(work) => &self.setup,
            StepKind::ToolCall if self.outside.contains_key(&work.tool) => &*self.outside[&work.tool],
            _ => &*self.jail,
        }
    }
}

impl Executor for Dispatch {
    fn start(&self, work: Work, inbox: Arc<dyn Inbox>) {
        self.route(&work).start(work, inbox);
    }

    fn status(&self, work: Work, inbox: Arc<dyn Inbox>) {
        self.route(&work).status(work, inbox);
    }

    fn probe(&self, work: Work, inbox: Arc<dyn Inbox>) {
        self.route(&work).probe(work, inbox);
    }

    fn kill(&self, work: Work, inbox: Arc<dyn Inbox>) {
        self.route(&work).kill(work, inbox);
    }
}
