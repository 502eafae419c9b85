//! The wire to the scripted model, as the daemon's composition root makes it.

use std::sync::Arc;

use control::error::Kind;
use control::vendors::Connect;
use models::Provider;
use models::anthropic::{Anthropic, Config, ConfigError};

pub(crate) fn connect() -> Connect {
    Arc::new(|vendor| {
        let lookup = |name: &str| match name {
            "ANTHROPIC_API_KEY" => vendor.api_key.clone(),
            "ANTHROPIC_BASE_URL" => vendor.base_url.clone(),
            _ => None,
        };
        let connected = Config::from_lookup(lookup).and_then(Anthropic::new);
        connected.map(|provider| Arc::new(provider) as Arc<dyn Provider>).map_err(|error| {
            let code = match error {
                ConfigError::NoKey => "model.key_missing",
                _ => "model.config",
            };
            control::Error::new(Kind::Invalid, code, error.to_string())
        })
    })
}
