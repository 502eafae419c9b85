//! Why a call to a model failed, classified once, where the wire is read.

use std::fmt;
use std::time::Duration;

use crate::Wire;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Where a call went. Shows as its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The protocol, which says whose variables mend what is wrong.
    pub wire: Wire,
    /// Scheme, host and path that was called; no key, no query.
    pub url: String,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

/// What a vendor answered instead of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Who answered.
    pub at: Endpoint,
    /// The HTTP status; of an error inside a stream, the one its type stands for.
    pub status: u16,
    /// The vendor's words, at most 300 characters.
    pub message: String,
    /// The vendor's id of the request.
    pub request_id: Option<String>,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} answered {}", self.at, self.status)?;
        if !self.message.is_empty() {
            write!(f, ": {}", self.message.trim_end_matches('.'))?;
        }
        match &self.request_id {
            Some(id) => write!(f, " (request {id})"),
            None => Ok(()),
        }
    }
}

/// A failed call, after the retries that made sense.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// 401 or 403.
    #[error("{0}; check {key} and what the key may use", key = .0.at.wire.key_env())]
    Unauthorized(Answer),
    /// 429.
    #[error("{answer}; wait{} and resume, or lower the load on this key", wait(.retry_after))]
    RateLimited {
        /// What the vendor said.
        answer: Answer,
        /// How long it asks to wait.
        retry_after: Option<Duration>,
    },
    /// 529: the vendor is overloaded.
    #[error("{0}; the vendor is overloaded, resume later")]
    Overloaded(Answer),
    /// 400: the request is not what the vendor accepts.
    #[error("{0}; the request will not pass unchanged")]
    BadRequest(Answer),
    /// The conversation is longer than the model's window, or than the vendor's size limit.
    #[error("{0}; shorten or compact the conversation")]
    ContextTooLong(Answer),
    /// 404: no such model or endpoint.
    #[error("{answer}; check the model name `{model}` and {}", .answer.at.wire.url_env())]
    NotFound {
        /// What the vendor said.
        answer: Answer,
        /// The model that was asked for.
        model: String,
    },
    /// Any other status.
    #[error("{0}; {mend}", mend = mend(.0))]
    Status(Answer),
    /// No connection came about.
    #[error("{at} could not be reached; check the network, {} and the proxy settings", .at.wire.url_env())]
    Connect {
        /// The endpoint.
        at: Endpoint,
        /// What the network said.
        #[source]
        source: Source,
    },
    /// The connection broke before the answer was complete.
    #[error("{at} cut the answer before its end; resume to ask again")]
    Cut {
        /// The endpoint.
        at: Endpoint,
        /// What the network said; nothing when the stream just ended.
        #[source]
        source: Option<Source>,
    },
    /// Nothing came for the idle timeout.
    #[error("{at} sent nothing for {} s; resume to ask again", .after.as_secs_f32())]
    Idle {
        /// The endpoint.
        at: Endpoint,
        /// The idle timeout.
        after: Duration,
    },
    /// The stream is not what the wire allows.
    #[error(
        "{at} sent a stream that cannot be read: {what}; resume to ask again, or check {}",
        .at.wire.url_env()
    )]
    Malformed {
        /// The endpoint.
        at: Endpoint,
        /// What is wrong, without the content.
        what: String,
    },
    /// A success that is no event stream: most likely not the vendor's API.
    #[error("{at} answered with `{content_type}` instead of an event stream; check {}", .at.wire.url_env())]
    NotAStream {
        /// The endpoint.
        at: Endpoint,
        /// What it said it sends.
        content_type: String,
    },
    /// 404 where the batch queue should be.
    #[error("{0}; there is no such batch, or no batch queue: check {url}, or go without --batch", url = .0.at.wire.url_env())]
    NoBatch(Answer),
    /// The vendor's queue did not come to it in time.
    #[error("the batch queue of {at} did not come to this call within its day; resume to queue it again")]
    Expired {
        /// The endpoint.
        at: Endpoint,
    },
    /// The batch was cancelled at the vendor, and not by this run.
    #[error("the batch was cancelled at {at}; resume to queue the call again")]
    Withdrawn {
        /// The endpoint.
        at: Endpoint,
    },
    /// The bytes to send are not a request of this wire.
    #[error("the request for {at} names no model, so nothing was sent; compose it with the same provider")]
    NotARequest {
        /// The endpoint.
        at: Endpoint,
        /// What is wrong with the bytes.
        #[source]
        source: serde_json::Error,
    },
}

impl Error {
    /// Whether the same request may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::RateLimited { .. }
            | Self::Overloaded(_)
            | Self::Connect { .. }
            | Self::Cut { .. }
            | Self::Idle { .. }
            | Self::Malformed { .. }
            | Self::Expired { .. } => true,
            Self::Status(answer) => answer.status >= 500 || matches!(answer.status, 408 | 409),
            Self::Unauthorized(_)
            | Self::BadRequest(_)
            | Self::ContextTooLong(_)
            | Self::NotFound { .. }
            | Self::NotAStream { .. }
            | Self::NoBatch(_)
            | Self::Withdrawn { .. }
            | Self::NotARequest { .. } => false,
        }
    }
}

fn mend(answer: &Answer) -> String {
    match answer.status {
        500.. => "the fault is the vendor's, resume later".to_owned(),
        429 => "the account has no credit left, add some and resume".to_owned(),
        _ => format!("check {} and the account", answer.at.wire.url_env()),
    }
}

fn wait(after: &Option<Duration>) -> String {
    after.map_or_else(String::new, |after| format!(" {} s", after.as_secs()))
}
