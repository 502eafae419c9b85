//! One request and its whole answer, without a stream and without a second try; and whole answers of models.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::StreamExt as _;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Method, Url};

use super::read::guarded;
use super::refusal::{Refusal, classify};
use super::{Client, Fault, Whole, encoding, retry, whole};
use crate::call::{self, Endpoint};
use crate::{RawJson, Response};

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
        let there = self.moved(url);
        let mut request = self.http.request(method, there.url.clone()).header(ACCEPT, "application/json");
        if let Some(Sent { bytes, content_type }) = sent {
            request = request.header(CONTENT_TYPE, content_type).body(bytes);
        }
        let unsure = |error| Failed { error, may_have_arrived: true };
        let response = match tokio::time::timeout(self.config.idle_timeout, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                let may_have_arrived = !error.is_connect();
                return Err(Failed { error: there.network(error), may_have_arrived });
            }
            Err(_) => return Err(unsure(there.idle())),
        };
        let status = response.status();
        if !status.is_success() {
            let error = match there.turned_away(response).await {
                call::Error::NotFound { answer, .. } | call::Error::NoSuchPath(answer) => {
                    call::Error::NoBatch(answer)
                }
                other => other,
            };
            // A gateway that gave up waiting cannot say what became of it.
            let may_have_arrived = status.is_server_error() && !matches!(status.as_u16(), 503 | 529);
            return Err(Failed { error, may_have_arrived });
        }
        if let Some(encoding) = encoding(response.headers()) {
            return Err(unsure(call::Error::Encoded { at: there.at, encoding }));
        }
        let mut chunks = guarded(response, self.config.idle_timeout, self.config.max_answer_bytes);
        let mut body = Vec::new();
        while let Some(chunk) = chunks.next().await {
            body.extend_from_slice(&chunk.map_err(|broken| unsure(there.not_read(broken)))?);
        }
        Ok(body.into())
    }

    /// The same client, that speaks of another address.
    fn moved(&self, url: Url) -> Self {
        let at = Endpoint { url: url.as_str().into(), ..self.at.clone() };
        let (http, secret, config) = (self.http.clone(), self.secret.clone(), self.config.clone());
        let (limiter, warm) = (Arc::clone(&self.limiter), Mutex::new(None));
        Self { http, url, at, secret, config, limiter, warm, tape: None }
    }

    /// A whole answer to this request.
    pub(crate) fn answer<F: Whole>(
        &self,
        body: &[u8],
        answer: &RawJson,
        request_id: Option<String>,
    ) -> Result<Response, call::Error> {
        let asked = self.asked(body)?.model;
        let mut fold = F::default();
        let folded = whole::fold(&Bytes::copy_from_slice(answer.as_str().as_bytes()), &mut fold);
        let foreign = || Err(Fault::Malformed("a result of the batch is no answer of this wire".to_owned()));
        match folded.unwrap_or_else(foreign).and_then(|()| fold.finish(asked.clone())) {
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
            Ok(asked) => asked.model,
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
