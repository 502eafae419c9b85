//! The port to a model vendor.

use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::batch::Batches;
use crate::catalogue::Listing;
use crate::tape::Tap;
use crate::{Count, Request, Response, call, compose, count};

/// A model vendor's wire. Adapters hold the key; nothing else of the house sees it.
pub trait Provider: Send + Sync {
    /// The exact bytes of a request. Pure: the same request gives the same bytes, and a longer
    /// conversation keeps the bytes of its prefix but for the moving cache mark.
    ///
    /// # Errors
    /// When the vendor would refuse the request for its form.
    fn compose(&self, request: &Request) -> Result<Bytes, compose::Error>;

    /// Sends exactly those bytes and waits for the whole answer. Transient failures are
    /// retried inside, each time as a whole call; dropping the future cancels it.
    ///
    /// `on_delta` is called with what arrives, for the live view only: it may be taken back by
    /// a [`Delta::Retrying`].
    fn call<'a>(
        &'a self,
        body: Bytes,
        on_delta: &'a mut (dyn FnMut(Delta) + Send),
    ) -> BoxFuture<'a, Result<Response, call::Error>>;

    /// The vendor's batch queue; `None` where there is none.
    fn batches(&self) -> Option<Box<dyn Batches + '_>> {
        None
    }

    /// The same, and what comes over the wire is shown to `tap` as it comes. A provider without a
    /// wire shows nothing.
    fn call_tapped<'a>(
        &'a self,
        body: Bytes,
        on_delta: &'a mut (dyn FnMut(Delta) + Send),
        tap: &'a dyn Tap,
    ) -> BoxFuture<'a, Result<Response, call::Error>> {
        let _ = tap;
        self.call(body, on_delta)
    }

    /// The tokens of a composed request, by the best means at hand.
    fn count<'a>(&'a self, body: &'a Bytes) -> BoxFuture<'a, Count> {
        std::future::ready(count::estimate(body)).boxed()
    }

    /// What the endpoint says of its models: read once, and not again when that fails. One that is no
    /// endpoint says nothing.
    fn list(&self) -> BoxFuture<'_, Result<Listing, call::Error>> {
        Box::pin(std::future::ready(Ok(Listing::default())))
    }

    /// The adapter's name, such as `anthropic`.
    fn name(&self) -> &str;

    /// Where the calls go: scheme, host and path, without key or query.
    fn endpoint(&self) -> &str;

    /// The proxy that they go through, without its password.
    fn proxy(&self) -> Option<&str> {
        None
    }
}

/// A piece of an answer as it arrives. Ephemeral: the [`Response`] alone is the truth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// Prose.
    Text(String),
    /// Readable reasoning.
    Thinking(String),
    /// The model began to write a call of this tool.
    ToolUse {
        /// The tool's name.
        name: String,
    },
    /// The attempt failed and is made again: what came before does not count.
    Retrying {
        /// The attempt that failed, from 1.
        attempt: u32,
        /// How long until the next one.
        wait: Duration,
        /// What went wrong, for a person.
        why: String,
    },
    /// The call waits for the vendor's limits; told once a call, and not of a moment.
    Waiting {
        /// For how long, where the vendor's limits say so; else until another call is over.
        wait: Option<Duration>,
    },
}
