//! Vendors' keys and connections: handed over by a client, held in memory only, one a run. After a
//! restart they are gone, and a run that needs one rests until the owner hands it over again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use domain::RunId;
use models::{Provider, Wire};

use crate::Error;
use crate::api::Vendor;
use crate::health::Health;

/// Makes the provider of a model from what a client handed over. Fails with code `model.key_missing` when there is
/// no key.
pub type Connect = Arc<dyn Fn(&str, &Vendor) -> Result<Arc<dyn Provider>, Error> + Send + Sync>;

/// The providers of the runs of one daemon.
pub struct Vendors {
    connect: Connect,
    of: Mutex<HashMap<RunId, Arc<dyn Provider>>>,
    health: Health,
}

impl Vendors {
    /// None yet.
    pub fn new(connect: Connect) -> Self {
        Self { connect, of: Mutex::default(), health: Health::default() }
    }

    /// Connects to the vendor of a model; nothing is kept.
    ///
    /// # Errors
    /// When there is no key or the address makes no sense.
    pub fn connect(&self, model: &str, vendor: &Vendor) -> Result<Arc<dyn Provider>, Error> {
        (self.connect)(model, vendor).map_err(Error::mend_apart)
    }

    /// Keeps a provider for a run.
    pub fn keep(&self, run: RunId, provider: Arc<dyn Provider>) {
        self.lock().insert(run, provider);
    }

    /// Connects and keeps when a client handed the model's key over; otherwise what is kept stays. A server of
    /// one's own needs no key: it is the address that counts, and none is taken for the usual one only where
    /// nothing is kept.
    ///
    /// # Errors
    /// When the address or the key makes no sense.
    pub fn renew(&self, run: RunId, model: &str, vendor: &Vendor) -> Result<(), Error> {
        let is_handed_over = match Wire::of(model) {
            Wire::Messages => vendor.api_key.is_some() || vendor.auth_token.is_some(),
            Wire::Responses => vendor.openai_api_key.is_some(),
            Wire::Chat => vendor.local_base_url.is_some() || self.provider(run).is_none(),
        };
        if !is_handed_over {
            return Ok(());
        }
        let provider = self.connect(model, vendor)?;
        self.keep(run, provider);
        Ok(())
    }

    /// Who did not answer lately.
    pub(crate) const fn health(&self) -> &Health {
        &self.health
    }

    /// The provider of a run.
    pub fn provider(&self, run: RunId) -> Option<Arc<dyn Provider>> {
        self.lock().get(&run).cloned()
    }

    /// Drops the provider of a run that is over.
    pub fn forget(&self, run: RunId) {
        self.lock().remove(&run);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, Arc<dyn Provider>>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
