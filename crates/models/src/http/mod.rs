//! Calls over HTTP, whatever the wire: the bytes out, the event stream in, and again when that makes
//! sense.

mod attempt;
mod count;
mod exchange;
mod list;
mod network;
#[cfg(feature = "parsers")]
pub mod parsers;
mod read;
mod refusal;
mod retry;
mod rooms;
mod whole;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName,
    HeaderValue,
};
use reqwest::redirect::Policy;
use reqwest::{Client as Http, Url};
use serde::Deserialize;
use tokio::time::Instant;

pub(crate) use exchange::{Failed, Sent};
pub(crate) use read::{Broken, Fault, Fold};
pub(crate) use whole::Whole;

use crate::call::{self, Endpoint};
use crate::catalogue;
use crate::config::{Config, Credential, Error as ConfigError};
use crate::limit::rules::{Need, Said};
use crate::limit::{Limiter, Limits, Permit, TooLong};
use crate::tape::{End, Heard, Tap, Tape};
use crate::{Delta, Response, Secret, Usage, Wire, image};

/// A shorter wait for the vendor's limits is not told.
const WORTH_TELLING: Duration = Duration::from_secs(1);
/// How long a prompt that was sent is in the vendor's cache at the least.
const WARM: Duration = Duration::from_secs(240);

/// One vendor's endpoint and what is known about calling it. Holds one connection pool.
#[derive(Debug)]
pub(crate) struct Client {
    http: Http,
    url: Url,
    at: Endpoint,
    secret: Option<Secret>,
    config: Config,
    limiter: Arc<Limiter>,
    warm: Mutex<Option<Warm>>,
    /// What is read instead of the network.
    tape: Option<Tape>,
}

/// A prompt that the vendor has in its cache: what is read from there does not count against its limits.
#[derive(Clone, Copy, Debug)]
struct Warm {
    bytes: usize,
    since: Instant,
}

/// What a request says of itself.
struct Asked {
    /// The model, by the name that Regie has for it.
    model: String,
    need: Need,
}

/// A failed attempt, and what decides about the next one.
#[derive(Debug)]
struct Failure {
    error: call::Error,
    /// What the vendor asks to wait.
    retry_after: Option<Duration>,
    /// What the vendor says about trying again, if anything.
    told_to_retry: Option<bool>,
    /// What the attempt took, as far as was said.
    usage: Usage,
}

impl From<call::Error> for Failure {
    fn from(error: call::Error) -> Self {
        Self { error, retry_after: None, told_to_retry: None, usage: Usage::default() }
    }
}

impl Failure {
    /// Whether the vendor said when to come again because of its limits: then nobody calls it before.
    fn shuts(&self, permit: &Permit) -> bool {
        let (call::Error::RateLimited { answer, .. } | call::Error::Overloaded(answer)) = &self.error else {
            return false;
        };
        let said = Said { status: answer.status, message: answer.message.clone() };
        permit.refused(said, self.retry_after);
        self.retry_after.is_some()
    }
}

impl Client {
    pub(crate) fn new(config: Config, limits: &Limits) -> Result<Self, ConfigError> {
        let url = config.endpoint()?;
        // Fails when another provider is installed already, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut http = Http::builder()
            .default_headers(headers(config.wire, &config.credential)?)
            .connect_timeout(config.connect_timeout)
            // A redirect would carry the key to whoever it names.
            .redirect(Policy::none());
        // The environment of the process is not the owner's: what holds is in the configuration.
        http = http.no_proxy();
        let proxy = match is_loopback(&url) {
            true => None,
            false => config.network.proxy(&url)?,
        };
        if let Some(proxy) = &proxy {
            http = http.proxy(proxy.to_client().map_err(ConfigError::Client)?);
        }
        let is_tls =
            url.scheme() == "https" || proxy.as_ref().is_some_and(|proxy| proxy.shown.starts_with("https:"));
        let certificates = match is_tls {
            true => config.network.certificates()?,
            // Without TLS none is read, and none can be in the way.
            false => Some(Vec::new()),
        };
        if let Some(certificates) = certificates {
            http = http.tls_certs_only(certificates);
        }
        let proxy = proxy.map(|proxy| proxy.shown.into());
        let secret = config.credential.secret().cloned();
        Ok(Self {
            limiter: limits.limiter(config.wire, &url, secret.as_ref()),
            warm: Mutex::new(None),
            tape: None,
            http: http.build().map_err(ConfigError::Client)?,
            at: Endpoint { wire: config.wire, url: url.as_str().into(), proxy },
            url,
            secret,
            config,
        })
    }

    /// One that reads what was heard earlier, of calls to `at`.
    pub(crate) fn of_tape(config: Config, at: Endpoint, tape: Tape) -> Result<Self, ConfigError> {
        let client = Self::new(config, &Limits::new())?;
        let url = Url::parse(&at.url).unwrap_or_else(|_| client.url.clone());
        Ok(Self { url, at, tape: Some(tape), ..client })
    }

    /// What is read instead of the network.
    pub(crate) fn tape(&self) -> Option<&Tape> {
        self.tape.as_ref()
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.at.url
    }

    pub(crate) async fn call<F: Whole>(
        &self,
        body: Bytes,
        on_delta: &mut (dyn FnMut(Delta) + Send),
        tap: &dyn Tap,
    ) -> Result<Response, call::Error> {
        let Asked { model: asked, need } = self.asked(&body)?;
        let place = self.limiter.place();
        let mut is_told = false;
        let mut lost = Usage::default();
        let mut attempt = 1;
        loop {
            let mut on_wait = |wait: Option<Duration>| {
                // What is over before it is read is not worth a line.
                let is_long = wait.is_none_or(|wait| wait >= WORTH_TELLING);
                if is_long && !std::mem::replace(&mut is_told, true) {
                    on_delta(Delta::Waiting { wait });
                }
            };
            let heard = |heard: Heard<'_>| tap.heard(attempt, heard);
            if let Some(held) = self.tape.as_ref().and_then(|tape| tape.held(&self.at)) {
                return Err(held);
            }
            let admitted =
                self.limiter.admit(place, need.clone(), self.config.max_retry_after, &mut on_wait).await;
            let permit = admitted
                .map_err(|late| self.late(late))
                .inspect_err(|late| heard(Heard::End(&End::of_late(late))))?;
            let failure = match self.attempt::<F>(&asked, body.clone(), &permit, on_delta, &heard).await {
                Ok(response) => {
                    self.warmed(image::weight(&body), &response.usage);
                    return Ok(Response { attempts: attempt, lost, ..response });
                }
                Err(failure) => failure,
            };
            // What is read again is waited for no second time.
            let is_shut = self.tape.is_none() && failure.shuts(&permit);
            drop(permit);
            lost = lost.plus(failure.usage);
            let Some(wait) = self.wait_before_next(attempt, &failure) else {
                return Err(failure.error);
            };
            tracing::warn!(attempt, wait_ms = wait.as_millis(), error = %failure.error, "model call is made again");
            on_delta(Delta::Retrying { attempt, wait, why: failure.error.to_string() });
            // Where the vendor said when to come again, nobody is let in before, and this call first.
            match is_shut {
                true => is_told = true,
                false if self.tape.is_none() => tokio::time::sleep(wait).await,
                false => {}
            }
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

    /// What a request asks for, and what it takes of the vendor's limits. A local model keeps its prefix, so
    /// that it is never taken for the vendor's model of the same name and price.
    fn asked(&self, body: &[u8]) -> Result<Asked, call::Error> {
        #[derive(Deserialize)]
        struct Head {
            model: String,
            #[serde(alias = "max_output_tokens", default)]
            max_tokens: u64,
        }
        let head: Head = serde_json::from_slice(body)
            .map_err(|source| call::Error::NotARequest { at: self.at.clone(), source })?;
        let input = self.expected_input(image::weight(body));
        let of = match self.config.wire {
            // Answers are counted as they come.
            Wire::Messages => [1, input, input, 1],
            // What is bigger is counted: the request, or all that the answer may have.
            Wire::Responses | Wire::Chat => [1, input.max(head.max_tokens), input, 1],
        };
        let model = match self.config.wire {
            Wire::Chat => format!("local/{}", head.model),
            Wire::Messages | Wire::Responses => head.model,
        };
        Ok(Asked { need: Need { model: model.clone(), of }, model })
    }

    /// Tokens of input that a request of so many bytes will be counted with, rather too many than too few.
    fn expected_input(&self, bytes: usize) -> u64 {
        let warm = *self.warm.lock().unwrap_or_else(PoisonError::into_inner);
        let cached = warm.filter(|warm| warm.bytes <= bytes && warm.since.elapsed() < WARM);
        let fresh = bytes.saturating_sub(cached.map_or(0, |warm| warm.bytes));
        catalogue::estimate(fresh, 0, None).input.max(1)
    }

    fn warmed(&self, bytes: usize, usage: &Usage) {
        let is_cached = usage.cache_read > 0 || usage.cache_write > 0;
        // OpenAI counts what is read from the cache like all else.
        let warm =
            (self.config.wire == Wire::Messages && is_cached).then(|| Warm { bytes, since: Instant::now() });
        *self.warm.lock().unwrap_or_else(PoisonError::into_inner) = warm;
    }

    fn late(&self, late: TooLong) -> call::Error {
        let said = late.said.unwrap_or_else(|| Said {
            status: 429,
            message: "by its last answer there is no room left for this call".to_owned(),
        });
        let Said { status, message } = said;
        let answer = call::Answer { at: self.at.clone(), status, message, request_id: None };
        call::Error::RateLimited { answer, retry_after: Some(late.wait) }
    }

    fn network(&self, error: reqwest::Error) -> call::Error {
        network::classify(&self.at, error)
    }

    fn idle(&self) -> call::Error {
        call::Error::Idle { at: self.at.clone(), after: self.config.idle_timeout }
    }
}

fn headers(wire: Wire, credential: &Credential) -> Result<HeaderMap, ConfigError> {
    let mut headers = HeaderMap::new();
    if let Some(secret) = credential.secret() {
        let (name, text) = match (wire, credential) {
            (Wire::Messages, Credential::Key(key)) => {
                (HeaderName::from_static("x-api-key"), key.expose().to_owned())
            }
            _ => (AUTHORIZATION, format!("Bearer {}", secret.expose())),
        };
        let mut value = HeaderValue::from_str(&text).map_err(|_| ConfigError::BadKey(wire))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    if wire == Wire::Messages {
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    Ok(headers)
}

/// How a body is encoded, if it is.
fn encoding(headers: &HeaderMap) -> Option<String> {
    header(headers, CONTENT_ENCODING.as_str()).filter(|encoding| !encoding.eq_ignore_ascii_case("identity"))
}

/// The vendor's id of a request, as the head of its answer names it.
fn request_id(headers: &HeaderMap) -> Option<String> {
    ["request-id", "x-request-id"].iter().find_map(|name| header(headers, name))
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

fn is_loopback(url: &Url) -> bool {
    match url.host_str() {
        Some("localhost") => true,
        Some(host) => {
            host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        None => false,
    }
}
