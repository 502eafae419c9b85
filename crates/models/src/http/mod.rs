//! Calls over HTTP, whatever the wire: the bytes out, the event stream in, and again when that makes
//! sense.

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
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName,
    HeaderValue, LOCATION,
};
use reqwest::redirect::Policy;
use reqwest::{Client as Http, Url};
use serde::Deserialize;
use tokio::time::Instant;

pub(crate) use exchange::{Failed, Sent};
pub(crate) use network::causes;
pub(crate) use read::{Fault, Fold};
pub(crate) use whole::Whole;

use crate::call::{self, Endpoint};
use crate::catalogue;
use crate::config::{Config, Credential, Error as ConfigError};
use crate::limit::rules::{Need, Said};
use crate::limit::{Limiter, Limits, Permit, TooLong};
use crate::{Delta, Response, Secret, Usage, Wire};
use read::{Broken, Stopped, guarded};
use refusal::{Refusal, classify};
use whole::Form;

/// An error answer is read up to here.
const MAX_REFUSAL_BYTES: usize = 64 << 10;
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
            http: http.build().map_err(ConfigError::Client)?,
            at: Endpoint { wire: config.wire, url: url.as_str().into(), proxy },
            url,
            secret,
            config,
        })
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.at.url
    }

    pub(crate) async fn call<F: Whole>(
        &self,
        body: Bytes,
        on_delta: &mut (dyn FnMut(Delta) + Send),
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
            let admitted =
                self.limiter.admit(place, need.clone(), self.config.max_retry_after, &mut on_wait).await;
            let permit = admitted.map_err(|late| self.late(late))?;
            let failure = match self.attempt::<F>(&asked, body.clone(), &permit, on_delta).await {
                Ok(response) => {
                    self.warmed(body.len(), &response.usage);
                    return Ok(Response { attempts: attempt, lost, ..response });
                }
                Err(failure) => failure,
            };
            let is_shut = failure.shuts(&permit);
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
                false => tokio::time::sleep(wait).await,
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
        let input = self.expected_input(body.len());
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

    async fn attempt<F: Whole>(
        &self,
        asked: &str,
        body: Bytes,
        permit: &Permit,
        on_delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Response, Failure> {
        let sending = self.http.post(self.url.clone()).body(body).send();
        let response = match tokio::time::timeout(self.config.idle_timeout, sending).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(self.network(error).into()),
            Err(_) => return Err(self.idle().into()),
        };
        permit.heard(rooms::of(response.headers()), response.status().is_success());
        let request_id =
            ["request-id", "x-request-id"].iter().find_map(|name| header(response.headers(), name));
        if !response.status().is_success() {
            return Err(self.refused(asked, response, request_id).await);
        }
        if let Some(encoding) = encoding(response.headers()) {
            return Err(call::Error::Encoded { at: self.at.clone(), encoding }.into());
        }
        let content_type = header(response.headers(), CONTENT_TYPE.as_str()).unwrap_or_default();
        let is_stream = content_type.starts_with("text/event-stream");
        let bytes = guarded(response, self.config.idle_timeout, self.config.max_answer_bytes);
        let mut fold = F::default();
        let mut at_once = false;
        let read = match is_stream {
            true => read::events(bytes, &mut fold, on_delta).await,
            false => match self.whole(bytes, content_type, &mut fold, on_delta).await {
                Ok(form) => {
                    at_once = form == Form::Json;
                    Ok(())
                }
                Err(stopped) => Err(stopped),
            },
        };
        let usage = fold.usage();
        let finished = match read {
            Ok(()) => read::finish(fold, asked.to_owned()),
            Err(Stopped::Broken(broken)) => Err(self.broken(broken)),
            Err(Stopped::Fault(fault)) => Err(fault),
            Err(Stopped::Lost(source)) => {
                let error = call::Error::Cut { at: self.at.clone(), source };
                return Err(Failure { usage, ..error.into() });
            }
        };
        match finished {
            Ok(response) => {
                if at_once && !response.text().is_empty() {
                    on_delta(Delta::Text(response.text()));
                }
                Ok(Response { request_id, ..response })
            }
            Err(fault) => {
                let retry_after = match &fault {
                    Fault::Vendor(body) => retry::in_body(body),
                    Fault::Malformed(_) | Fault::Call(_) => None,
                };
                let error = self.fault(fault, asked, request_id, retry_after);
                Err(Failure { usage, retry_after, ..error.into() })
            }
        }
    }

    /// Reads an answer that does not say that it is a stream. Some gateways send the whole as JSON although
    /// they were asked for a stream, and some call a stream by another name.
    async fn whole<F: Whole>(
        &self,
        mut bytes: BoxStream<'static, Result<Bytes, Broken>>,
        content_type: String,
        fold: &mut F,
        on_delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Form, Stopped> {
        let mut body = Vec::new();
        while let Some(chunk) = bytes.next().await {
            body.extend_from_slice(&chunk.map_err(Stopped::Broken)?);
        }
        let body = Bytes::from(body);
        let foreign = || {
            let error = call::Error::NotAStream { at: self.at.clone(), content_type };
            Err(Stopped::Fault(Fault::Call(Box::new(error))))
        };
        let form = Form::of(&body);
        match form {
            Form::Json => match whole::fold(&body, fold) {
                Some(folded) => folded.map_err(Stopped::Fault)?,
                None => return foreign(),
            },
            Form::Events => {
                let once = futures_util::stream::once(async { Ok(body) });
                read::events(once.boxed(), fold, on_delta).await?;
            }
            Form::Other => return foreign(),
        }
        Ok(form)
    }

    fn broken(&self, broken: Broken) -> Fault {
        match broken {
            Broken::Network(error) => Fault::Call(Box::new(self.network(error))),
            Broken::Idle => Fault::Call(Box::new(self.idle())),
            Broken::TooLong => Fault::Malformed("the answer is longer than any answer may be".into()),
        }
    }

    fn fault(
        &self,
        fault: Fault,
        model: &str,
        request_id: Option<String>,
        retry_after: Option<Duration>,
    ) -> call::Error {
        match fault {
            Fault::Call(error) => *error,
            Fault::Malformed(what) => call::Error::Malformed { at: self.at.clone(), what },
            Fault::Vendor(body) => classify(Refusal {
                at: &self.at,
                status: None,
                body: &body,
                request_id,
                model,
                retry_after,
                secret: self.secret.as_ref(),
            }),
        }
    }

    async fn refused(&self, model: &str, response: reqwest::Response, request_id: Option<String>) -> Failure {
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let other = header(&headers, LOCATION.as_str()).and_then(|to| self.url.join(&to).ok());
        if let (300..400, Some(other)) = (status, other) {
            let to = other.origin().ascii_serialization();
            return call::Error::Redirected { at: self.at.clone(), status, to }.into();
        }
        if let (407, Some(proxy)) = (status, self.at.proxy.clone()) {
            let what = call::ByProxy::WantsPassword;
            return call::Error::Proxy { at: self.at.clone(), proxy, what, source: None }.into();
        }
        let mut body = Vec::new();
        let mut chunks = guarded(response, self.config.idle_timeout, MAX_REFUSAL_BYTES);
        // Whatever can be read explains the refusal; the status alone decides.
        while let Some(Ok(chunk)) = chunks.next().await {
            body.extend_from_slice(&chunk);
        }
        if encoding(&headers).is_some() {
            body.clear();
        }
        let body = String::from_utf8_lossy(&body);
        let retry_after = retry::after(&headers, &body);
        let told_to_retry = match header(&headers, "x-should-retry").as_deref() {
            Some("true") => Some(true),
            Some("false") => Some(false),
            _ => None,
        };
        let error = classify(Refusal {
            at: &self.at,
            status: Some(status),
            body: &body,
            request_id,
            model,
            retry_after,
            secret: self.secret.as_ref(),
        });
        Failure { error, retry_after, told_to_retry, usage: Usage::default() }
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
