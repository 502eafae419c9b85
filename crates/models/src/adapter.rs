//! The adapter: one HTTP client, and what a wire says of composing and folding.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::batch::Batches;
use crate::catalogue::Listing;
use crate::config::{Config, Error as ConfigError};
use crate::http::Client;
use crate::tape::{Deaf, Tap};
use crate::{
    Count, Delta, Limits, Provider, Request, Response, Wire, anthropic, call, compatible, compose, openai,
};

/// The adapter of one wire. Holds one connection pool.
#[derive(Debug)]
pub struct Adapter {
    wire: Wire,
    client: Client,
}

impl Adapter {
    /// Builds the adapter of the configuration's wire; connects to nothing yet.
    ///
    /// # Errors
    /// When the base URL or the key cannot be used.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        Self::within(config, &Limits::new())
    }

    /// The same, which keeps the vendor's limits together with all others of the same account.
    ///
    /// # Errors
    /// When the base URL or the key cannot be used.
    pub fn within(config: Config, limits: &Limits) -> Result<Self, ConfigError> {
        Ok(Self { wire: config.wire, client: Client::new(config, limits)? })
    }

    /// An adapter on its own, to be shared.
    ///
    /// # Errors
    /// When the base URL or the key cannot be used.
    pub fn connect(config: Config) -> Result<Arc<dyn Provider>, ConfigError> {
        Ok(Arc::new(Self::new(config)?))
    }
}

impl Provider for Adapter {
    fn compose(&self, request: &Request) -> Result<Bytes, compose::Error> {
        self.wire.compose(request)
    }

    fn call<'a>(
        &'a self,
        body: Bytes,
        on_delta: &'a mut (dyn FnMut(Delta) + Send),
    ) -> BoxFuture<'a, Result<Response, call::Error>> {
        self.call_tapped(body, on_delta, &Deaf)
    }

    fn call_tapped<'a>(
        &'a self,
        body: Bytes,
        on_delta: &'a mut (dyn FnMut(Delta) + Send),
        tap: &'a dyn Tap,
    ) -> BoxFuture<'a, Result<Response, call::Error>> {
        match self.wire {
            Wire::Messages => self.client.call::<anthropic::Fold>(body, on_delta, tap).boxed(),
            Wire::Responses => self.client.call::<openai::Fold>(body, on_delta, tap).boxed(),
            Wire::Chat => self.client.call::<compatible::Fold>(body, on_delta, tap).boxed(),
        }
    }

    fn batches(&self) -> Option<Box<dyn Batches + '_>> {
        match self.wire {
            Wire::Messages => Some(Box::new(anthropic::Queue(&self.client))),
            Wire::Responses => Some(Box::new(openai::Queue(&self.client))),
            Wire::Chat => None,
        }
    }

    fn count<'a>(&'a self, body: &'a Bytes) -> BoxFuture<'a, Count> {
        self.client.count(body).boxed()
    }

    fn list(&self) -> BoxFuture<'_, Result<Listing, call::Error>> {
        match self.wire {
            Wire::Messages => anthropic::list(&self.client).boxed(),
            Wire::Responses => openai::list(&self.client).boxed(),
            Wire::Chat => compatible::list(&self.client).boxed(),
        }
    }

    fn name(&self) -> &str {
        self.wire.name()
    }

    fn endpoint(&self) -> &str {
        self.client.endpoint()
    }

    fn proxy(&self) -> Option<&str> {
        self.client.at().proxy.as_deref()
    }
}
