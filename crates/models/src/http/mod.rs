//! Calls over HTTP, whatever the wire: the bytes out, the event stream in, and again when that makes
//! sense.

mod read;
mod refusal;
mod retry;

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client as Http, Url};
use serde::Deserialize;

pub(crate) use read::{Broken, Fault, Fold};

use crate::call::{self, Endpoint};
use crate::config::{Config, Credential, Error as ConfigError};
use crate::tape::{Answer, End, Head, Heard, Tap, Tape};
use crate::{Delta, Response, Secret, Usage, Wire};
use read::{Stopped, guarded};
use refusal::{Refusal, classify};

/// An error answer is read up to here.
const MAX_REFUSAL_BYTES: usize = 64 << 10;

/// One vendor's endpoint and what is known about calling it. Holds one connection pool.
#[derive(Debug)]
pub(crate) struct Client {
    line: Line,
    at: Endpoint,
    secret: Option<Secret>,
    config: Config,
}

/// Where answers come from.
#[derive(Debug)]
enum Line {
    /// The vendor.
    Network(Http, Url),
    /// What was heard of a vendor earlier.
    Tape(Tape),
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

impl Client {
    pub(crate) fn new(config: Config) -> Result<Self, ConfigError> {
        let url = config.endpoint()?;
        // Fails when another provider is installed already, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut http = Http::builder()
            .default_headers(headers(config.wire, &config.credential)?)
            .connect_timeout(config.connect_timeout)
            // A redirect would carry the key to whoever it names.
            .redirect(Policy::none());
        if is_loopback(&url) {
            http = http.no_proxy();
        }
        Ok(Self {
            at: Endpoint { wire: config.wire, url: url.as_str().to_owned() },
            line: Line::Network(http.build().map_err(ConfigError::Client)?, url),
            secret: config.credential.secret().cloned(),
            config,
        })
    }

    /// One that reads what was heard earlier. The base URL is the whole address then.
    pub(crate) fn of_tape(config: Config, tape: Tape) -> Self {
        Self {
            at: Endpoint { wire: config.wire, url: config.base_url.clone() },
            line: Line::Tape(tape),
            secret: config.credential.secret().cloned(),
            config,
        }
    }

    /// How much of a tape is left, and whether there was too little; nothing for the network.
    pub(crate) fn reel(&self) -> Option<(usize, bool)> {
        match &self.line {
            Line::Tape(tape) => Some(tape.reel()),
            Line::Network(..) => None,
        }
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.at.url
    }

    pub(crate) async fn call<F: Fold>(
        &self,
        body: Bytes,
        on_delta: &mut (dyn FnMut(Delta) + Send),
        tap: &dyn Tap,
    ) -> Result<Response, call::Error> {
        let asked = self.asked(&body)?;
        let mut lost = Usage::default();
        let mut attempt = 1;
        loop {
            let heard = |heard: Heard<'_>| tap.heard(attempt, heard);
            let failure = match self.attempt::<F>(&asked, body.clone(), on_delta, &heard).await {
                Ok(response) => return Ok(Response { attempts: attempt, lost, ..response }),
                Err(failure) => failure,
            };
            lost = lost.plus(failure.usage);
            let Some(wait) = self.wait_before_next(attempt, &failure) else {
                return Err(failure.error);
            };
            tracing::warn!(attempt, wait_ms = wait.as_millis(), error = %failure.error, "model call is made again");
            on_delta(Delta::Retrying { attempt, wait, why: failure.error.to_string() });
            if let Line::Network(..) = self.line {
                tokio::time::sleep(wait).await;
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

    /// The model that a request asks for, by the name that Regie has for it: a local model keeps its
    /// prefix, so that it is never taken for the vendor's model of the same name and price.
    fn asked(&self, body: &[u8]) -> Result<String, call::Error> {
        #[derive(Deserialize)]
        struct Head {
            model: String,
        }
        match (serde_json::from_slice::<Head>(body), self.config.wire) {
            (Ok(head), Wire::Chat) => Ok(format!("local/{}", head.model)),
            (Ok(head), Wire::Messages | Wire::Responses) => Ok(head.model),
            (Err(source), _) => Err(call::Error::NotARequest { at: self.at.clone(), source }),
        }
    }

    /// Sends a request and waits for the beginning of the answer.
    async fn answer(&self, body: Bytes) -> Result<Answer, call::Error> {
        let idle = self.config.idle_timeout;
        let (http, url) = match &self.line {
            Line::Network(http, url) => (http, url),
            Line::Tape(tape) => return tape.answer(&self.at, idle),
        };
        let sending = http.post(url.clone()).body(body).send();
        let response = match tokio::time::timeout(idle, sending).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(self.network(error)),
            Err(_) => return Err(self.idle()),
        };
        let max = match response.status().is_success() {
            true => self.config.max_answer_bytes,
            false => MAX_REFUSAL_BYTES,
        };
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Ok(Answer { status, headers, bytes: guarded(response, idle, max) })
    }

    async fn attempt<F: Fold>(
        &self,
        asked: &str,
        body: Bytes,
        on_delta: &mut (dyn FnMut(Delta) + Send),
        heard: &(dyn Fn(Heard<'_>) + Sync),
    ) -> Result<Response, Failure> {
        let answer = self.answer(body).await.inspect_err(|error| heard(Heard::End(&End::of_error(error))))?;
        let Answer { status, headers, bytes } = answer;
        heard(Heard::Head(&Head::of(status, &headers)));
        let idle = self.config.idle_timeout;
        // The end is told where it is seen; a stream that is not read on has been of use.
        let is_over = AtomicBool::new(false);
        let bytes = bytes.inspect(|piece| match piece {
            Ok(piece) => heard(Heard::Bytes(piece)),
            Err(broken) => {
                is_over.store(true, Ordering::Relaxed);
                heard(Heard::End(&End::of_broken(broken, idle)));
            }
        });
        let result = self.read::<F>(asked, (status, headers), bytes, on_delta).await;
        if !is_over.into_inner() {
            heard(Heard::End(&End::Read));
        }
        result
    }

    async fn read<F: Fold>(
        &self,
        asked: &str,
        (status, headers): (u16, HeaderMap),
        bytes: impl Stream<Item = Result<Bytes, Broken>> + Send + Unpin,
        on_delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Response, Failure> {
        let request_id = ["request-id", "x-request-id"].iter().find_map(|name| header(&headers, name));
        if !(200..300).contains(&status) {
            return Err(self.refused(asked, status, &headers, bytes, request_id).await);
        }
        let content_type = header(&headers, CONTENT_TYPE.as_str()).unwrap_or_default();
        if !content_type.starts_with("text/event-stream") {
            return Err(call::Error::NotAStream { at: self.at.clone(), content_type }.into());
        }
        let mut fold = F::default();
        let read = read::events(bytes, &mut fold, on_delta).await;
        let usage = fold.usage();
        let finished = match read {
            Ok(()) => fold.finish(asked.to_owned()),
            Err(Stopped::Broken(broken)) => Err(self.broken(broken)),
            Err(Stopped::Fault(fault)) => Err(fault),
            Err(Stopped::Lost(source)) => {
                let error = call::Error::Cut { at: self.at.clone(), source };
                return Err(Failure { usage, ..error.into() });
            }
        };
        match finished {
            Ok(response) => Ok(Response { request_id, ..response }),
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

    fn broken(&self, broken: Broken) -> Fault {
        match broken {
            Broken::Network(source) => {
                Fault::Call(Box::new(call::Error::Cut { at: self.at.clone(), source: Some(source) }))
            }
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

    async fn refused(
        &self,
        model: &str,
        status: u16,
        headers: &HeaderMap,
        mut bytes: impl Stream<Item = Result<Bytes, Broken>> + Send + Unpin,
        request_id: Option<String>,
    ) -> Failure {
        let mut body = Vec::new();
        // Whatever can be read explains the refusal; the status alone decides.
        while let Some(Ok(chunk)) = bytes.next().await {
            body.extend_from_slice(&chunk);
        }
        let body = String::from_utf8_lossy(&body);
        let retry_after = retry::after(headers, &body);
        let told_to_retry = match header(headers, "x-should-retry").as_deref() {
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
        let at = self.at.clone();
        if error.is_connect() {
            return call::Error::Connect { at, source: Box::new(error.without_url()) };
        }
        call::Error::Cut { at, source: Some(Box::new(error.without_url())) }
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
    Ok(headers)
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
