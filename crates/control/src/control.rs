//! One installation's use cases over its ports.

use std::sync::Arc;

use domain::{Recorded, RunId};
use kernel::host::{Host, Ports};
use kernel::port::{Artifacts, Clock, Index, Journal, Records, Rng};
use sandbox::Status as JailStatus;
use tokio::sync::{Notify, broadcast, watch};

use crate::api::{self, Hello};
use crate::catalogue::Catalogue;
use crate::error::{Error, Kind};
use crate::executor::Manners;
use crate::layout::Layout;
use crate::policy::Files;
use crate::recording::Recorder;
use crate::vendors::Vendors;
use crate::view::Lines;

/// How many events of the live output are kept for a slow watcher.
const DELTAS: usize = 1024;

/// A channel for what arrives before it is on record.
pub fn deltas() -> broadcast::Sender<api::Delta> {
    broadcast::Sender::new(DELTAS)
}

/// What an installation is made of.
pub struct Parts {
    /// Where things lie.
    pub layout: Layout,
    /// The kernel's ports.
    pub ports: Ports,
    /// Small typed state.
    pub records: Arc<dyn Records>,
    /// Content-addressed files.
    pub artifacts: Arc<dyn Artifacts>,
    /// Words in all runs.
    pub index: Arc<dyn Index>,
    /// Vendors' keys.
    pub vendors: Arc<Vendors>,
    /// What arrives before it is on record.
    pub deltas: broadcast::Sender<api::Delta>,
    /// The tools of a new run.
    pub toolbox: engine::Toolbox,
    /// What the operating system can confine.
    pub jail: JailStatus,
    /// What a delivery may do in the owner's name.
    pub manners: Manners,
    /// Who this daemon is, for claims.
    pub holder: String,
}

/// One installation's use cases.
pub struct Control {
    pub(crate) layout: Layout,
    pub(crate) host: Host,
    pub(crate) ports: Ports,
    pub(crate) records: Arc<dyn Records>,
    pub(crate) artifacts: Arc<dyn Artifacts>,
    pub(crate) index: Arc<dyn Index>,
    pub(crate) vendors: Arc<Vendors>,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) toolbox: engine::Toolbox,
    pub(crate) jail: JailStatus,
    pub(crate) lines: Lines,
    pub(crate) sweeping: Arc<std::sync::Mutex<()>>,
    pub(crate) indexing: Arc<std::sync::Mutex<()>>,
    pub(crate) manners: Manners,
    pub(crate) files: Files,
    pub(crate) recorder: Option<Arc<Recorder>>,
    deltas: broadcast::Sender<api::Delta>,
    ending: Notify,
}

impl Control {
    /// Over these parts. Nothing moves before [`recover`](Self::recover).
    pub fn new(parts: Parts) -> Self {
        let host = Host::new(parts.ports.clone(), parts.holder);
        let files = Files::new(parts.layout.clone(), Arc::clone(&parts.ports.journal));
        Self {
            files,
            catalogue: Arc::new(Catalogue::new(&parts.layout.home)),
            layout: parts.layout,
            host,
            ports: parts.ports,
            records: parts.records,
            artifacts: parts.artifacts,
            index: parts.index,
            vendors: parts.vendors,
            toolbox: parts.toolbox,
            jail: parts.jail,
            lines: Lines::default(),
            sweeping: Arc::default(),
            indexing: Arc::default(),
            manners: parts.manners,
            recorder: None,
            deltas: parts.deltas,
            ending: Notify::new(),
        }
    }

    /// With what writes recordings.
    #[must_use]
    pub fn with_recorder(self, recorder: Arc<Recorder>) -> Self {
        Self { recorder: Some(recorder), ..self }
    }

    /// Takes every run over that was moving when the last daemon died. Gives those that could not be
    /// taken over, with the reason: they stay as they are.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn recover(&self) -> Result<Vec<(RunId, String)>, Error> {
        let journal = self.journal();
        let open = self.blocking(move || Ok(journal.runs(true, usize::MAX)?)).await?;
        let mut left = Vec::new();
        for row in open.into_iter().filter(|row| row.status == "active") {
            if let Err(error) = self.take_over(row.run).await {
                left.push((row.run, error.to_string()));
            }
        }
        match self.forget_complete().await {
            Ok(incomplete) => {
                for (run, error) in incomplete {
                    tracing::warn!(%run, %error, "what was to be forgotten is not all gone; `regie forget` goes on");
                }
            }
            Err(error) => tracing::warn!(%error, "what was to be forgotten cannot be read"),
        }
        Ok(left)
    }

    /// What the daemon says of itself.
    pub fn hello(&self) -> Hello {
        Hello {
            api: api::VERSION,
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            home: self.layout.home.display().to_string(),
            position: self.ports.journal.position(),
            is_halted: trust::halt::state(&*self.records).map_or(true, |halt| halt.is_on),
        }
    }

    /// Rings with the position of the last durable event.
    pub fn bell(&self) -> watch::Receiver<u64> {
        self.host.bell()
    }

    /// What arrives before it is on record.
    pub fn deltas(&self) -> broadcast::Receiver<api::Delta> {
        self.deltas.subscribe()
    }

    /// Publishes what arrived before it is on record.
    pub fn publish(&self, delta: api::Delta) {
        // Nobody watching is not an error.
        let _ = self.deltas.send(delta);
    }

    /// Recorded events of all runs after a position, for the daemon's own housekeeping.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn recorded_after(&self, position: u64, limit: usize) -> Result<Vec<Recorded>, Error> {
        let journal = self.journal();
        self.blocking(move || Ok(journal.stream(position, limit)?)).await
    }

    /// Lets go of what served a run that is over.
    pub fn release(&self, run: RunId) {
        self.vendors.forget(run);
    }

    /// Lets the lease of a run that is over end with it.
    pub async fn lease_end(&self, run: RunId) {
        let (records, journal, now) = (Arc::clone(&self.records), self.journal(), self.clock().now());
        let ended = self.blocking(move || {
            let lease = crate::runs::Charter::read(&*journal, run)?.started.lease;
            trust::leases::end(&*records, lease, now)
                .map_err(|error| crate::missions::unavailable("lease.failed", &error))
        });
        if let Err(error) = ended.await {
            tracing::warn!(%run, %error, "the lease of a run that is over stays until it expires");
        }
    }

    /// Asks the daemon to end. Runs go on when it starts again.
    pub fn shutdown(&self) {
        self.ending.notify_one();
    }

    /// Lets go of every run as the death of the daemon would, and launches none any more. What is on
    /// record counts.
    pub async fn close(&self) {
        self.host.close().await;
    }

    /// Returns when somebody asked the daemon to end.
    pub async fn ended(&self) {
        self.ending.notified().await;
    }

    pub(crate) fn journal(&self) -> Arc<dyn Journal> {
        Arc::clone(&self.ports.journal)
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.ports.clock
    }

    pub(crate) fn rng(&self) -> &dyn Rng {
        &*self.ports.rng
    }

    /// Runs what may wait for a disk or a program away from the tasks that drive runs.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
            Err(Error::new(
                Kind::Internal,
                "internal",
                format!("the request could not be carried out: {error}"),
            ))
        })
    }
}
