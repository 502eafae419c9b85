//! The driver of a run, from the artifacts that its first event names: a resumed run gets the same
//! words and tools, whatever a newer Regie would say.

use std::sync::Arc;

use domain::{Digest, Fact, Mission, Recorded};
use engine::config::Compose;
use engine::native::Patience;
use engine::{Config, Native, Toolbox};
use kernel::Driver;
use kernel::host::Drivers;
use kernel::port::{Artifacts, Refused};
use models::catalogue;

use crate::view;

/// Makes native drivers.
pub struct NativeDrivers {
    artifacts: Arc<dyn Artifacts>,
    compose: Compose,
    patience: Patience,
}

impl NativeDrivers {
    /// Drivers whose requests are composed by `compose`.
    pub fn new(artifacts: Arc<dyn Artifacts>, compose: Compose) -> Self {
        Self { artifacts, compose, patience: Patience::default() }
    }

    /// With another patience for a vendor that is out.
    #[must_use]
    pub fn with_patience(self, patience: Patience) -> Self {
        Self { patience, ..self }
    }

    fn artifact(&self, digest: Digest) -> Result<Vec<u8>, Refused> {
        self.artifacts.get(digest).map_err(|error| refused(view::with_causes(&error)))
    }
}

impl Drivers for NativeDrivers {
    fn driver(&self, started: &Recorded) -> Result<Box<dyn Driver>, Refused> {
        let Fact::RunStarted(fact) = &started.header.fact else {
            return Err(refused("the run's first event does not start it".into()));
        };
        if !engine::native::drives(&fact.driver) {
            return Err(refused(format!(
                "the run was started with driver `{}`, and this Regie drives `{}`; resume it with the Regie that \
                 started it, or end it with `regie cancel`",
                fact.driver,
                engine::native::NAME
            )));
        }
        let payload = started.payload.as_ref().map(|payload| payload.0.as_slice()).unwrap_or_default();
        let mission: Mission = serde_json::from_slice(payload)
            .map_err(|_| refused("the run's mission was forgotten or cannot be read".into()))?;
        let system = String::from_utf8(self.artifact(fact.system)?)
            .map_err(|_| refused("the run's system prompt is no text".into()))?;
        let toolbox = Toolbox::from_bytes(&self.artifact(fact.tools)?)
            .map_err(|error| refused(view::with_causes(&error)))?;
        let terms = catalogue::terms_of(&mission);
        let artifacts = Arc::clone(&self.artifacts);
        let images = move |digest| artifacts.get(digest).map_err(|error| view::with_causes(&error));
        let config = Config::new(system, toolbox, Arc::clone(&self.compose)).on(terms);
        let config = Config { images: Arc::new(images), patience: self.patience, ..config };
        Ok(Box::new(Native::new(Arc::new(config))))
    }
}

fn refused(hint: String) -> Refused {
    Refused { code: "run.undrivable".into(), hint }
}
