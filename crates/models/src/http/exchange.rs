//! One request and its whole answer, without a stream and without a second try; and whole answers of models.

use bytes::Bytes;
use futures_util::StreamExt as _;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Method, Url};

use super::read::{Broken, Fold, guarded};
use super::refusal::{Refusal, classify};
use super::{Client, Fault, MAX_REFUSAL_BYTES, header, retry};
use crate::call::{self, Endpoint};
use crate::{RawJson, Response};

/// A fold that can also be had from an answer that was not streamed.
pub(crate) trait Whole: Fold {
    /// The answer as if its events had come one by one.
    fn whole(answer: &RawJson) -> Result<Self, Fault>;
}

/// What is sent, and as what.
pub(crate) struct Sent {
    pub bytes: Bytes,
    pub content_type: String,
}

impl Sent {
    pub(crate) fn json(value: &impl serde::Serialize) -> Result<Self, serde_json::Error> {
        let bytes = serde_json::to_vec(value)?.into();
        Ok(Self { bytes, content_type: "application/json".into() })
    }
}

/// A failed exchange.
#[derive(Debug)]
pub(crate) struct Failed {
    pub error: call::Error,
    /// Whether the vendor may have done what it was asked.
    pub may_have_arrived: bool,
}

impl From<Failed> for call::Error {
    fn from(failed: Failed) -> Self {
        failed.error
    }
}

impl Client {
    /// An address below the one that calls go to.
    pub(crate) fn below(&self, path: &str) -> Url {
        let mut url = self.url.clone();
        url.set_path(&format!("{}/{path}", self.url.path()));
        url
    }

    /// An address beside the one that calls go to.
    pub(crate) fn beside(&self, path: &str) -> Url {
        let mut url = self.url.clone();
        let parent = self.url.path().rsplit_once('/').map_or("", |(parent, _)| parent);
        url.set_path(&format!("{parent}/{path}"));
        url
    }

    /// Sends one request and reads its answer.
    pub(crate) async fn exchange(
        &self,
        method: Method,
        url: Url,
        sent: Option<Sent>,
    ) -> Result<Bytes, Failed> {
        let at = Endpoint { wire: self.at.wire, url: url.as_str().to_owned() };
        let mut request = self.http.request(method, url).header(ACCEPT, "application/json");
        if let Some(Sent { bytes, content_type }) = sent {
            request = request.header(CONTENT_TYPE, content_type).body(bytes);
        }
        let unsure = |error| Failed { error, may_have_arrived: true };
        let idle = || call::Error::Idle { at: at.clone(), after: self.config.idle_timeout };
        let response = match tokio::time::timeout(self.config.idle_timeout, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) if error.is_connect() => {
                let error = call::Error::Connect { at, source: Box::new(error.without_url()) };
                return Err(Failed { error, may_have_arrived: false });
            }
            Ok(Err(error)) => {
                let source = Some(Box::new(error.without_url()) as _);
                return Err(unsure(call::Error::Cut { at, source }));
            }
            Err(_) => return Err(unsure(idle())),
        };
        let (status, headers) = (response.status(), response.headers().clone());
        let most = if status.is_success() { self.config.max_answer_bytes } else { MAX_REFUSAL_BYTES };
        let mut chunks = guarded(response, self.config.idle_timeout, most);
        let mut body = Vec::new();
        while let Some(chunk) = chunks.next().await {
            match chunk {
                Ok(chunk) => body.extend_from_slice(&chunk),
                // What could be read explains the refusal; the status alone decides.
                Err(_) if !status.is_success() => break,
                Err(Broken::Network(error)) => {
                    let source = Some(Box::new(error.without_url()) as _);
                    return Err(unsure(call::Error::Cut { at, source }));
                }
                Err(Broken::Idle) => return Err(unsure(idle())),
                Err(Broken::TooLong) => {
                    let what = "the answer is longer than any answer may be".into();
                    return Err(unsure(call::Error::Malformed { at, what }));
                }
            }
        }
        if status.is_success() {
            return Ok(body.into());
        }
        let body = String::from_utf8_lossy(&body);
        let request_id = ["request-id", "x-request-id"].iter().find_map(|name| header(&headers, name));
        let error = classify(Refusal {
            at: &at,
            status: Some(status.as_u16()),
            body: &body,
            request_id,
            model: "",
            retry_after: retry::after(&headers, &body),
            secret: self.secret.as_ref(),
        });
        // A gateway that gave up waiting cannot say what became of it.
        let may_have_arrived = status.is_server_error() && !matches!(status.as_u16(), 503 | 529);
        let error = match error {
            call::Error::NotFound { answer, .. } => call::Error::NoBatch(answer),
            other => other,
        };
        Err(Failed { error, may_have_arrived })
    }

    /// A whole answer to this request.
    pub(crate) fn whole<F: Whole>(
        &self,
        body: &[u8],
        answer: &RawJson,
        request_id: Option<String>,
    ) -> Result<Response, call::Error> {
        let asked = self.asked(body)?;
        match F::whole(answer).and_then(|fold| fold.finish(asked.clone())) {
            Ok(response) => Ok(Response { request_id, ..response }),
            Err(fault) => Err(self.fault(fault, &asked, request_id, None)),
        }
    }

    /// What a vendor says in the place of an answer to this request.
    pub(crate) fn told(
        &self,
        body: &[u8],
        status: Option<u16>,
        said: &str,
        request_id: Option<String>,
    ) -> call::Error {
        let model = match self.asked(body) {
            Ok(model) => model,
            Err(error) => return error,
        };
        classify(Refusal {
            at: &self.at,
            status,
            body: said,
            request_id,
            model: &model,
            retry_after: retry::in_body(said),
            secret: self.secret.as_ref(),
        })
    }

    /// An answer that the wire does not allow.
    pub(crate) fn malformed(&self, what: &str) -> call::Error {
        call::Error::Malformed { at: self.at.clone(), what: what.to_owned() }
    }

    pub(crate) fn at(&self) -> &Endpoint {
        &self.at
    }
}
