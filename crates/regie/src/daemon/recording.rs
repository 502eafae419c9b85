//! What recordings need of this machine: what must not be seen in them, and a task that writes.

use std::path::Path;
use std::sync::Arc;

use control::Control;
use control::recording::recorder::{Parts, Recorder};
use control::recording::scrub::Owner;
use kernel::port::{Artifacts, Clock, Journal, Records};
use tokio::task::JoinHandle;

use crate::home::Home;

/// The recorder of this home. What was being recorded when the last daemon died goes on.
pub(super) fn recorder(
    home: &Home,
    journal: Arc<dyn Journal>,
    records: Arc<dyn Records>,
    artifacts: Arc<dyn Artifacts>,
    clock: Arc<dyn Clock>,
) -> Arc<Recorder> {
    let known = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let owner = Owner { home: known("HOME"), user: known("USER").or_else(|| known("LOGNAME")) };
    let home = home.clone();
    let given = Arc::new(move |repository: &Path| match super::given(&home, repository) {
        Ok(given) => given.0,
        Err(refused) => {
            tracing::warn!(why = refused.hint, "a recording does not know the values that steps are given");
            Vec::new()
        }
    });
    let recorder = Arc::new(Recorder::new(Parts { journal, records, artifacts, clock, given, owner }));
    recorder.reopen();
    recorder
}

/// Starts the writing; it ends when it is aborted.
pub(super) fn start(control: Arc<Control>) -> JoinHandle<()> {
    tokio::spawn(async move { control.recordings_follow().await })
}
