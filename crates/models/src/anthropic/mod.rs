//! Anthropic Messages: composes, sends, streams and retries.
//!
//! <https://docs.anthropic.com/en/api/messages>; `anthropic-version: 2023-06-01`.

mod compose;
mod config;
mod fold;
mod refusal;
mod retry;
mod wire;

use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

pub use config::{Config, Credential, Error as ConfigError, IDLE_ENV};

use crate::{Delta, Provider, Request, Response, Usage, call};
use wire::{Failure, Wire};

/// The adapter. Cheap to share behind an `Arc`; holds one connection pool.
#[derive(Debug)]
pub struct Anthropic {
    wire: Wire,
    config: Config,
}

impl Anthropic {
    /// Builds the adapter; connects to nothing yet.
    ///
    /// # Errors
    /// When the base URL or the key cannot be used.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        Ok(Self { wire: Wire::new(&config)?, config })
    }

    async fn call_until_done(
        &self,
        body: Bytes,
        on_delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Response, call::Error> {
        let asked = self.wire.model_of(&body)?;
        let mut lost = Usage::default();
        let mut attempt = 1;
        loop {
            let failure = match self.wire.attempt(&asked, body.clone(), on_delta).await {
                Ok(response) => return Ok(Response { attempts: attempt, lost, ..response }),
                Err(failure) => failure,
            };
            lost = lost.plus(failure.usage);
            let Some(wait) = self.wait_before_next(attempt, &failure) else {
                return Err(failure.error);
            };
            tracing::warn!(attempt, wait_ms = wait.as_millis(), error = %failure.error, "model call is made again");
            on_delta(Delta::Retrying { attempt, wait, why: failure.error.to_string() });
            tokio::time::sleep(wait).await;
            attempt += 1;
        }
    }

    /// How long to wait before the next attempt; `None` when there is none to make.
    fn wait_before_next(&self, attempt: u32, failure: &Failure) -> Option<Duration> {
        let retryable = failure.told_to_retry.unwrap_or_else(|| failure.error.is_retryable());
        if !retryable || attempt >= self.config.max_attempts {
            return None;
        }
        match failure.retry_after {
            // A longer wait is the caller's to make, durably.
            Some(wait) if wait > self.config.max_retry_after => None,
            Some(wait) => Some(wait),
            None => {
                Some(retry::backoff(attempt, self.config.backoff, self.config.max_backoff, retry::jitter()))
            }
        }
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
        self.call_until_done(body, on_delta).boxed()
    }

    fn name(&self) -> &str {
        "anthropic"
    }

    fn endpoint(&self) -> &str {
        self.wire.at()
    }
}
