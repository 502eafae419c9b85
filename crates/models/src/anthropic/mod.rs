//! Anthropic Messages: composes and folds; HTTP does the rest.
//!
//! <https://docs.anthropic.com/en/api/messages>; `anthropic-version: 2023-06-01`.

mod compose;
mod fold;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::config::{Config, Error as ConfigError};
use crate::http::Client;
use crate::{Delta, Provider, Request, Response, Wire, call};
pub(crate) use fold::Fold;

/// The adapter. Cheap to share behind an `Arc`; holds one connection pool.
#[derive(Debug)]
pub struct Anthropic {
    client: Client,
}

impl Anthropic {
    /// Builds the adapter; connects to nothing yet.
    ///
    /// # Errors
    /// When the base URL or the key cannot be used.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        Ok(Self { client: Client::new(Config { wire: Wire::Messages, ..config })? })
    }
}

/// The exact bytes of a request on this wire; needs no key. The same as [`Provider::compose`].
///
/// # Errors
/// When the vendor would refuse the request for its form.
pub fn compose(request: &Request) -> Result<Bytes, crate::compose::Error> {
    compose::body(request)
}

impl Provider for Anthropic {
    fn compose(&self, request: &Request) -> Result<Bytes, crate::compose::Error> {
        compose::body(request)
    }

    fn call<'a>(
        &'a self,
        body: Bytes,
        on_delta: &'a mut (dyn FnMut(Delta) + Send),
    ) -> BoxFuture<'a, Result<Response, call::Error>> {
        self.client.call::<Fold>(body, on_delta).boxed()
    }

    fn name(&self) -> &str {
        "anthropic"
    }

    fn endpoint(&self) -> &str {
        self.client.endpoint()
    }
}
