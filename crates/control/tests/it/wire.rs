//! The wire to the scripted model, as the daemon's composition root makes it.

use std::sync::Arc;

use control::error::Kind;
use control::vendors::Connect;
use models::config::{Config, Error as ConfigError};
use models::{Adapter, Wire};

pub(crate) fn connect() -> Connect {
    Arc::new(|model, vendor| {
        let connected =
            Config::from_lookup(Wire::of(model), |name| vendor.get(name)).and_then(Adapter::connect);
        connected.map_err(|error| {
            let code = match error {
                ConfigError::NoKey(_) => "model.key_missing",
                _ => "model.config",
            };
            control::Error::new(Kind::Invalid, code, error.to_string())
        })
    })
}
