//! Why a call to a model failed, classified once, where the wire is read.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Parameter, Wire, tls};

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Where a call went. Shows as its address, and the proxy in between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The protocol, which says whose variables mend what is wrong.
    pub wire: Wire,
    /// Scheme, host and path that was called; no key, no query.
    pub url: Box<str>,
    /// The proxy in between: scheme, host and port; no name, no password.
    pub proxy: Option<Box<str>>,
}

impl Endpoint {
    /// An address that is reached without a proxy.
    pub fn new(wire: Wire, url: impl Into<Box<str>>) -> Self {
        Self { wire, url: url.into(), proxy: None }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)?;
        match &self.proxy {
            Some(proxy) => write!(f, " (through the proxy {proxy})"),
            None => Ok(()),
        }
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

/// Why nothing came back from an address. Shows as the rest of a sentence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unreached {
    /// The network does not say.
    #[default]
    Unknown,
    /// No address is known for the name.
    NoAddress,
    /// Nothing listens there.
    Refused,
    /// It does not answer.
    Silent,
    /// No way leads there.
    NoWay,
}

impl fmt::Display for Unreached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "",
            Self::NoAddress => ": no address is known for its name",
            Self::Refused => ": nothing listens there",
            Self::Silent => ": it does not answer",
            Self::NoWay => ": no way leads there",
        })
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
    /// 400: the vendor takes the conversation, but not a parameter beside it.
    #[error("{answer}; the model takes no {parameter}: {}", .parameter.mend())]
    Unsupported {
        /// What the vendor said.
        answer: Answer,
        /// What it does not take.
        parameter: Parameter,
    },
    /// The vendor does not take an image of the conversation.
    #[error("{0}; leave the image out, or make it smaller, or of another format")]
    Image(Answer),
    /// The conversation is longer than the model's window, or than the vendor's size limit.
    #[error("{0}; shorten or compact the conversation")]
    ContextTooLong(Answer),
    /// The account has no credit left.
    #[error("{0}; the account has no credit left, add some and resume")]
    NoCredit(Answer),
    /// The model, or its server as it was started, cannot call tools.
    #[error("{answer}; {mend}, and resume")]
    NoTools {
        /// What the server said.
        answer: Answer,
        /// What makes it able to.
        mend: &'static str,
    },
    /// 404, 405 or 501: nothing answers at this path.
    #[error("{0}; nothing takes calls at this path, so check {url}, which is to end before or with /v1", url = .0.at.wire.url_env())]
    NoSuchPath(Answer),
    /// A refusal that is a web page: most likely of somebody in between.
    #[error("{0}; that is a web page and not the vendor's answer, so check {url} and the proxy settings", url = .0.at.wire.url_env())]
    Page(Answer),
    /// The endpoint names another one. It is not followed: the key would go to whoever it names.
    #[error("{at} answered {status} and names {to} instead, where no key is sent unasked; if that is right, set {} to it", .at.wire.url_env())]
    Redirected {
        /// The endpoint.
        at: Endpoint,
        /// The HTTP status.
        status: u16,
        /// Scheme, host and port of the other one.
        to: String,
    },
    /// No TLS connection came about that can be trusted.
    #[error("no TLS with {at}: {fault}; {}", .fault.mend(.at))]
    Tls {
        /// The endpoint.
        at: Endpoint,
        /// What is wrong.
        fault: tls::Fault,
        /// What the TLS stack said; nothing when the server said it in HTTP.
        #[source]
        source: Option<Source>,
    },
    /// The proxy lets nothing through.
    #[error("the proxy {proxy} {what}, so {} was not asked; {}", .at.url, .what.mend())]
    Proxy {
        /// The endpoint.
        at: Endpoint,
        /// Scheme, host and port of the proxy.
        proxy: Box<str>,
        /// What it did.
        what: ByProxy,
        /// What the network said; nothing when the proxy answered.
        #[source]
        source: Option<Source>,
    },
    /// An answer in an encoding that was not asked for.
    #[error(
        "{at} answered in the encoding `{encoding}`, which was not asked for; have the gateway send it plain"
    )]
    Encoded {
        /// The endpoint.
        at: Endpoint,
        /// How it is encoded.
        encoding: String,
    },
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
    #[error("{at} could not be reached{how}; {}check {}, the network and the proxy settings", start(.at), .at.wire.url_env())]
    Connect {
        /// The endpoint.
        at: Endpoint,
        /// What is known of why.
        how: Unreached,
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
    /// A success that is no list of models: most likely not the vendor's API.
    #[error("{at} gave no list of models: {what}; check {}", .at.wire.url_env())]
    NotAList {
        /// The endpoint.
        at: Endpoint,
        /// What is wrong, without the content.
        what: &'static str,
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

/// What a proxy did instead of letting a call through. Shows as what follows its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByProxy {
    /// It cannot be connected to.
    Unreachable,
    /// 407.
    WantsPassword,
    /// It connects to nobody for us.
    Refuses,
}

impl ByProxy {
    const fn mend(self) -> &'static str {
        match self {
            Self::Unreachable => "start it, or check HTTPS_PROXY, HTTP_PROXY and NO_PROXY, and resume",
            Self::WantsPassword => "put them into its variable as http://NAME:PASSWORD@HOST:PORT, and resume",
            Self::Refuses => "ask who keeps it, or name the vendor's host in NO_PROXY, and resume",
        }
    }
}

impl fmt::Display for ByProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreachable => "cannot be reached",
            Self::WantsPassword => "answered 407: it wants a name and a password",
            Self::Refuses => "opened no connection",
        })
    }
}

impl Error {
    /// Where it happened.
    pub(crate) fn place(&mut self) -> &mut Endpoint {
        match self {
            Self::Unauthorized(answer)
            | Self::Overloaded(answer)
            | Self::BadRequest(answer)
            | Self::Image(answer)
            | Self::ContextTooLong(answer)
            | Self::NoCredit(answer)
            | Self::NoSuchPath(answer)
            | Self::NoBatch(answer)
            | Self::Page(answer)
            | Self::Status(answer)
            | Self::RateLimited { answer, .. }
            | Self::Unsupported { answer, .. }
            | Self::NoTools { answer, .. }
            | Self::NotFound { answer, .. } => &mut answer.at,
            Self::Redirected { at, .. }
            | Self::Tls { at, .. }
            | Self::Proxy { at, .. }
            | Self::Encoded { at, .. }
            | Self::Connect { at, .. }
            | Self::Cut { at, .. }
            | Self::Idle { at, .. }
            | Self::Malformed { at, .. }
            | Self::NotAStream { at, .. }
            | Self::NotAList { at, .. }
            | Self::Expired { at, .. }
            | Self::Withdrawn { at, .. }
            | Self::NotARequest { at, .. } => at,
        }
    }

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
            Self::Tls { fault, .. } => fault.may_pass(),
            Self::Proxy { what, .. } => matches!(what, ByProxy::Unreachable),
            Self::Unauthorized(_)
            | Self::BadRequest(_)
            | Self::Image(_)
            | Self::Unsupported { .. }
            | Self::ContextTooLong(_)
            | Self::NotFound { .. }
            | Self::NoCredit(_)
            | Self::NoTools { .. }
            | Self::NoSuchPath(_)
            | Self::Page(_)
            | Self::Redirected { .. }
            | Self::Encoded { .. }
            | Self::NotAStream { .. }
            | Self::NotAList { .. }
            | Self::NoBatch(_)
            | Self::Withdrawn { .. }
            | Self::NotARequest { .. } => false,
        }
    }
}

/// A server of one's own is most likely not running.
const fn start(at: &Endpoint) -> &'static str {
    match at.wire {
        Wire::Chat => "start the server, or ",
        Wire::Messages | Wire::Responses => "",
    }
}

fn mend(answer: &Answer) -> String {
    match answer.status {
        500.. => "the fault is the vendor's, resume later".to_owned(),
        _ => format!("check {} and the account", answer.at.wire.url_env()),
    }
}

fn wait(after: &Option<Duration>) -> String {
    after.map_or_else(String::new, |after| format!(" {} s", after.as_secs()))
}
