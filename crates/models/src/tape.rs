//! What came over the wire, attempt by attempt: shown to a [`Tap`] while it comes, and read again
//! later by the very code that reads it from the network.
//!
//! Nothing of a request but its body is ever shown, so no key; of an answer's headers only those
//! that the reading goes by, or that the vendor's support asks for.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

use crate::call::{self, Endpoint, Unreached};
use crate::config::{Config, Credential, Error as ConfigError};
use crate::http::{Broken, Client};
use crate::{Response, Secret, Wire, anthropic, compatible, openai};

/// Headers that are kept, beside those that speak of rate limits.
const KEPT: [&str; 8] = [
    "content-type",
    "content-encoding",
    "date",
    "retry-after",
    "retry-after-ms",
    "x-should-retry",
    "request-id",
    "x-request-id",
];

/// Hears what comes over the wire. Called between two pieces of an answer: it must not wait.
pub trait Tap: Send + Sync {
    /// Takes one piece in; attempts are counted from 1.
    fn heard(&self, attempt: u32, heard: Heard<'_>);
}

/// A tap that hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deaf;

impl Tap for Deaf {
    fn heard(&self, _: u32, _: Heard<'_>) {}
}

/// A piece of an attempt.
#[derive(Clone, Copy, Debug)]
pub enum Heard<'a> {
    /// The answer begins.
    Head(&'a Head),
    /// Bytes of its body, in order.
    Bytes(&'a [u8]),
    /// The attempt is over.
    End(&'a End),
}

/// The beginning of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The HTTP status.
    pub status: u16,
    /// The headers that are kept, in the vendor's order.
    pub headers: Vec<(String, String)>,
}

/// How an attempt ended on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum End {
    /// It was read to its end, or as far as it was of use.
    Read,
    /// No connection came about.
    Unreachable {
        /// What the network said.
        why: String,
        /// The same, as far as it is understood.
        #[serde(default)]
        how: Unreached,
    },
    /// The connection broke.
    Broken {
        /// What the network said.
        why: String,
    },
    /// Nothing came for so long, in milliseconds.
    Silent {
        /// The idle timeout.
        after: u64,
    },
    /// It was longer than any answer may be.
    TooLong,
    /// It was not made: the vendor's limits keep it for too long, in milliseconds.
    Held {
        /// The status that the vendor's limits were told with.
        status: u16,
        /// The vendor's words.
        message: String,
        /// How long.
        wait: u64,
    },
    /// Something on the way to the vendor was in the way, as its certificates or a proxy.
    Outside {
        /// What the network said.
        why: String,
    },
}

/// One attempt, as it was heard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attempt {
    /// Nothing when there was no answer.
    pub head: Option<Head>,
    /// The bytes of the body, as far as they came.
    pub body: Bytes,
    /// Nothing when the call was ended from this side.
    pub end: Option<End>,
}

/// A call that was made again from its attempts.
#[derive(Debug)]
pub struct Played {
    /// What it led to.
    pub result: Result<Response, call::Error>,
    /// How many of the attempts were not asked for.
    pub left: usize,
    /// Whether more attempts were asked for than there are.
    pub is_short: bool,
    /// Whether it hung on this machine's network, so that it cannot be made again.
    pub is_outside: bool,
}

/// What the network said, in its words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Said(String);

/// Makes a call again from what was heard, without a network and without waiting: the same
/// classification, the same retries, the same fold. `at` is what the errors name, and `echo`
/// what stands for the key, should the vendor have repeated it.
/// # Errors
/// When no client can be made at all.
pub async fn play(
    at: Endpoint,
    echo: Option<Secret>,
    attempts: Vec<Attempt>,
    request: Bytes,
) -> Result<Played, ConfigError> {
    let wire = at.wire;
    let mut config = Config::new(wire, echo.map_or(Credential::Nobody, Credential::Key), wire.default_url());
    for attempt in &attempts {
        if let Some(End::Silent { after }) = attempt.end {
            config.idle_timeout = Duration::from_millis(after);
        }
    }
    let reel = Reel { attempts: attempts.into(), is_short: false, is_outside: false };
    let client = Client::of_tape(config, at, Tape(Mutex::new(reel)))?;
    let mut nobody_watches = |_| {};
    let result = match wire {
        Wire::Messages => client.call::<anthropic::Fold>(request, &mut nobody_watches, &Deaf).await,
        Wire::Responses => client.call::<openai::Fold>(request, &mut nobody_watches, &Deaf).await,
        Wire::Chat => client.call::<compatible::Fold>(request, &mut nobody_watches, &Deaf).await,
    };
    let (left, is_short, is_outside) = client.tape().map(Tape::reel).unwrap_or_default();
    Ok(Played { result, left, is_short, is_outside })
}

/// The attempts that are still to be read.
#[derive(Debug)]
pub(crate) struct Tape(Mutex<Reel>);

#[derive(Debug)]
struct Reel {
    attempts: VecDeque<Attempt>,
    is_short: bool,
    is_outside: bool,
}

/// The beginning of an answer, and its bytes.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: BoxStream<'static, Result<Bytes, Broken>>,
}

impl Tape {
    /// The next answer.
    pub(crate) fn answer(&self, at: &Endpoint, idle: Duration) -> Result<Answer, call::Error> {
        let mut reel = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let said = |why: String| Box::new(Said(why)) as Box<dyn std::error::Error + Send + Sync>;
        let at = at.clone();
        let Some(attempt) = reel.attempts.pop_front() else {
            reel.is_short = true;
            return Err(call::Error::Cut { at, source: None });
        };
        let Some(head) = attempt.head else {
            return Err(match attempt.end {
                Some(End::Unreachable { why, how }) => call::Error::Connect { at, how, source: said(why) },
                Some(End::Silent { .. }) => call::Error::Idle { at, after: idle },
                Some(End::Broken { why }) => call::Error::Cut { at, source: Some(said(why)) },
                Some(End::Outside { why }) => {
                    reel.is_outside = true;
                    call::Error::Cut { at, source: Some(said(why)) }
                }
                Some(End::Read | End::TooLong | End::Held { .. }) | None => {
                    call::Error::Cut { at, source: None }
                }
            });
        };
        let broken = match attempt.end {
            Some(End::Broken { why } | End::Unreachable { why, .. }) => Some(Broken::Network(said(why))),
            Some(End::Silent { .. }) => Some(Broken::Idle),
            Some(End::TooLong) => Some(Broken::TooLong),
            Some(End::Read | End::Held { .. } | End::Outside { .. }) | None => None,
        };
        let pieces = stream::iter([Ok(attempt.body)].into_iter().chain(broken.map(Err)));
        Ok(Answer { status: head.status, headers: head.map(), bytes: pieces.boxed() })
    }

    /// Why the next attempt was not made, if it was not.
    pub(crate) fn held(&self, at: &Endpoint) -> Option<call::Error> {
        let mut reel = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Attempt { head: None, end: Some(End::Held { status, message, wait }), .. }) =
            reel.attempts.front().cloned()
        else {
            return None;
        };
        reel.attempts.pop_front();
        let answer = call::Answer { at: at.clone(), status, message, request_id: None };
        Some(call::Error::RateLimited { answer, retry_after: Some(Duration::from_millis(wait)) })
    }

    /// How many attempts are left, whether there were too few, and whether they hung on the network.
    pub(crate) fn reel(&self) -> (usize, bool, bool) {
        let reel = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (reel.attempts.len(), reel.is_short, reel.is_outside)
    }
}

impl Head {
    pub(crate) fn of(status: u16, headers: &HeaderMap) -> Self {
        let kept = |name: &str, value: &str| match name {
            // Where it leads is said, and not with which words of access.
            "location" => {
                Some(Url::parse(value).map_or("/".to_owned(), |to| to.origin().ascii_serialization()))
            }
            _ if KEPT.contains(&name) || name.contains("ratelimit") => Some(value.to_owned()),
            _ => None,
        };
        let pair = |(name, value): (&HeaderName, &HeaderValue)| {
            Some((name.to_string(), kept(name.as_str(), value.to_str().ok()?)?))
        };
        Self { status, headers: headers.iter().filter_map(pair).collect() }
    }

    fn map(&self) -> HeaderMap {
        let header = |(name, value): &(String, String)| {
            Some((HeaderName::try_from(name.as_str()).ok()?, HeaderValue::from_str(value).ok()?))
        };
        self.headers.iter().filter_map(header).collect()
    }
}

impl End {
    /// Why there was no answer.
    pub(crate) fn of_error(error: &call::Error) -> Self {
        let why = || std::error::Error::source(error).map(domain::causes::in_full).unwrap_or_default();
        match error {
            call::Error::Connect { how, .. } => Self::Unreachable { why: why(), how: *how },
            call::Error::Idle { after, .. } => Self::silent(*after),
            call::Error::Cut { .. } => Self::Broken { why: why() },
            other => Self::Outside { why: other.to_string() },
        }
    }

    /// Why an attempt was not made.
    pub(crate) fn of_late(error: &call::Error) -> Self {
        match error {
            call::Error::RateLimited { answer, retry_after } => Self::Held {
                status: answer.status,
                message: answer.message.clone(),
                wait: u64::try_from(retry_after.unwrap_or_default().as_millis()).unwrap_or(u64::MAX),
            },
            other => Self::of_error(other),
        }
    }

    /// How the reading of a body stopped.
    pub(crate) fn of_broken(broken: &Broken, idle: Duration) -> Self {
        match broken {
            Broken::Network(source) => Self::Broken { why: domain::causes::in_full(&**source) },
            Broken::Idle => Self::silent(idle),
            Broken::TooLong => Self::TooLong,
        }
    }

    fn silent(after: Duration) -> Self {
        Self::Silent { after: u64::try_from(after.as_millis()).unwrap_or(u64::MAX) }
    }
}
