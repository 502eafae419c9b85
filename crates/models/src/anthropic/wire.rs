//! One attempt over HTTP: the bytes out, the event stream in.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use serde::Deserialize;
use sse_stream::{Error as SseError, SseByteStream};

use super::config::{Config, Credential, Error as ConfigError};
use super::fold::{Fault, Fold};
use super::refusal::{Refusal, classify};
use super::retry;
use crate::{Delta, Response, Secret, Usage, call};

/// An error answer is read up to here.
const MAX_REFUSAL_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Wire {
    http: Client,
    url: Url,
    at: String,
    secret: Secret,
    idle_timeout: Duration,
    max_answer_bytes: usize,
}

/// A failed attempt, and what decides about the next one.
#[derive(Debug)]
pub(super) struct Failure {
    pub error: call::Error,
    /// What the vendor asks to wait.
    pub retry_after: Option<Duration>,
    /// What the vendor says about trying again, if anything.
    pub told_to_retry: Option<bool>,
    /// What the attempt took, as far as was said.
    pub usage: Usage,
}

impl From<call::Error> for Failure {
    fn from(error: call::Error) -> Self {
        Self { error, retry_after: None, told_to_retry: None, usage: Usage::default() }
    }
}

impl Wire {
    pub(super) fn new(config: &Config) -> Result<Self, ConfigError> {
        let url = config.messages_url()?;
        // Fails when another provider is installed already, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut http = Client::builder()
            .default_headers(headers(&config.credential)?)
            .connect_timeout(config.connect_timeout)
            // A redirect would carry the key to whoever it names.
            .redirect(Policy::none());
        if is_loopback(&url) {
            http = http.no_proxy();
        }
        Ok(Self {
            http: http.build().map_err(ConfigError::Client)?,
            at: url.as_str().to_owned(),
            url,
            secret: config.credential.secret().clone(),
            idle_timeout: config.idle_timeout,
            max_answer_bytes: config.max_answer_bytes,
        })
    }

    pub(super) fn at(&self) -> &str {
        &self.at
    }

    pub(super) fn model_of(&self, body: &[u8]) -> Result<String, call::Error> {
        #[derive(Deserialize)]
        struct Head {
            model: String,
        }
        match serde_json::from_slice::<Head>(body) {
            Ok(head) => Ok(head.model),
            Err(source) => Err(call::Error::NotARequest { at: self.at.clone(), source }),
        }
    }

    pub(super) async fn attempt(
        &self,
        asked: &str,
        body: Bytes,
        on_delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Response, Failure> {
        let sending = self.http.post(self.url.clone()).body(body).send();
        let response = match tokio::time::timeout(self.idle_timeout, sending).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(self.network(error).into()),
            Err(_) => return Err(self.idle().into()),
        };
        let request_id = header(response.headers(), "request-id");
        if !response.status().is_success() {
            return Err(self.refused(asked, response, request_id).await);
        }
        let content_type = header(response.headers(), CONTENT_TYPE.as_str()).unwrap_or_default();
        if !content_type.starts_with("text/event-stream") {
            return Err(call::Error::NotAStream { at: self.at.clone(), content_type }.into());
        }
        let mut fold = Fold::default();
        let read = self.read(response, &mut fold, on_delta).await;
        let usage = fold.usage();
        let finished = match read {
            Ok(()) => fold.finish(asked.to_owned()),
            Err(Stopped::Network(error)) => return Err(Failure { usage, ..error.into() }),
            Err(Stopped::Fault(fault)) => Err(fault),
        };
        match finished {
            Ok(response) => Ok(Response { request_id, ..response }),
            Err(fault) => {
                let error = self.fault(fault, asked, request_id);
                Err(Failure { usage, ..error.into() })
            }
        }
    }

    async fn read(
        &self,
        response: reqwest::Response,
        fold: &mut Fold,
        on_delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<(), Stopped> {
        let bytes = guarded(response, self.idle_timeout, self.max_answer_bytes);
        let mut events = SseByteStream::new(bytes);
        while let Some(event) = events.next().await {
            let event = event.map_err(|error| self.broken(error))?;
            let Some(data) = event.data.filter(|data| !data.is_empty()) else { continue };
            fold.take(event.event.as_deref(), &data, on_delta).map_err(Stopped::Fault)?;
            if fold.has_ended() {
                return Ok(());
            }
        }
        if fold.is_whole() {
            return Ok(());
        }
        Err(Stopped::Network(call::Error::Cut { at: self.at.clone(), source: None }))
    }

    fn broken(&self, error: SseError) -> Stopped {
        let malformed = |what: &str| Stopped::Fault(Fault::Malformed(what.to_owned()));
        match error {
            SseError::Body(source) => match source.downcast::<Broken>() {
                Ok(broken) => match *broken {
                    Broken::Network(error) => Stopped::Network(self.network(error)),
                    Broken::Idle => Stopped::Network(self.idle()),
                    Broken::TooLong => malformed("the answer is longer than any answer may be"),
                },
                Err(source) => {
                    Stopped::Network(call::Error::Cut { at: self.at.clone(), source: Some(source) })
                }
            },
            _ => malformed("it is not UTF-8"),
        }
    }

    fn fault(&self, fault: Fault, model: &str, request_id: Option<String>) -> call::Error {
        match fault {
            Fault::Malformed(what) => call::Error::Malformed { at: self.at.clone(), what },
            Fault::Vendor(body) => classify(Refusal {
                at: &self.at,
                status: None,
                body: &body,
                request_id,
                model,
                retry_after: None,
                secret: self.secret.expose(),
            }),
        }
    }

    async fn refused(&self, model: &str, response: reqwest::Response, request_id: Option<String>) -> Failure {
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let mut body = Vec::new();
        let mut chunks = guarded(response, self.idle_timeout, MAX_REFUSAL_BYTES);
        // Whatever can be read explains the refusal; the status alone decides.
        while let Some(Ok(chunk)) = chunks.next().await {
            body.extend_from_slice(&chunk);
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
            secret: self.secret.expose(),
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
        call::Error::Idle { at: self.at.clone(), after: self.idle_timeout }
    }
}

/// Why the reading of a stream stopped before its end.
enum Stopped {
    Network(call::Error),
    Fault(Fault),
}

/// Why the bytes stopped.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("the connection broke")]
    Network(#[source] reqwest::Error),
    #[error("nothing came for too long")]
    Idle,
    #[error("too many bytes came")]
    TooLong,
}

/// The bytes of an answer, ended by an error when none come for `idle` or more than `max` did.
/// Both look at bytes and not at events: comments are a sign of life too, and a line without
/// end must not fill the memory.
fn guarded(
    response: reqwest::Response,
    idle: Duration,
    max: usize,
) -> BoxStream<'static, Result<Bytes, Broken>> {
    futures_util::stream::unfold(Some((response, 0_usize)), move |state| async move {
        let (mut response, so_far) = state?;
        match tokio::time::timeout(idle, response.chunk()).await {
            Ok(Ok(Some(chunk))) => {
                let total = so_far.saturating_add(chunk.len());
                match total <= max {
                    true => Some((Ok(chunk), Some((response, total)))),
                    false => Some((Err(Broken::TooLong), None)),
                }
            }
            Ok(Ok(None)) => None,
            Ok(Err(error)) => Some((Err(Broken::Network(error)), None)),
            Err(_) => Some((Err(Broken::Idle), None)),
        }
    })
    .boxed()
}

fn headers(credential: &Credential) -> Result<HeaderMap, ConfigError> {
    let (name, text) = match credential {
        Credential::Key(key) => ("x-api-key".parse(), key.expose().to_owned()),
        Credential::Token(token) => (Ok(AUTHORIZATION), format!("Bearer {}", token.expose())),
    };
    let name = name.map_err(|_| ConfigError::BadKey)?;
    let mut value = HeaderValue::from_str(&text).map_err(|_| ConfigError::BadKey)?;
    value.set_sensitive(true);
    let mut headers = HeaderMap::new();
    headers.insert(name, value);
    headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
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
