//! One attempt at a call: what is sent, what comes back as it comes, and what that is worth.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION};

use super::read::{self, Broken, Fault, Stopped, guarded};
use super::refusal::{Refusal, classify};
use super::whole::{self, Form, Whole};
use super::{Client, Failure, encoding, header, request_id, retry, rooms};
use crate::call;
use crate::limit::Permit;
use crate::tape::{Answer, End, Head as Heading, Heard};
use crate::{Delta, Response, Usage};

/// An error answer is read up to here.
const MAX_REFUSAL_BYTES: usize = 64 << 10;

impl Client {
    /// Sends a request and waits for the beginning of the answer.
    async fn begin(&self, body: Bytes, permit: &Permit) -> Result<Answer, call::Error> {
        let idle = self.config.idle_timeout;
        if let Some(tape) = &self.tape {
            return tape.answer(&self.at, idle);
        }
        let sending = self.http.post(self.url.clone()).body(body).send();
        let response = match tokio::time::timeout(idle, sending).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(self.network(error)),
            Err(_) => return Err(self.idle()),
        };
        permit.heard(rooms::of(response.headers()), response.status().is_success());
        let max = match response.status().is_success() {
            true => self.config.max_answer_bytes,
            false => MAX_REFUSAL_BYTES,
        };
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Ok(Answer { status, headers, bytes: guarded(response, idle, max) })
    }

    pub(super) async fn attempt<F: Whole>(
        &self,
        asked: &str,
        body: Bytes,
        permit: &Permit,
        on_delta: &mut (dyn FnMut(Delta) + Send),
        heard: &(dyn Fn(Heard<'_>) + Sync),
    ) -> Result<Response, Failure> {
        let answer = self.begin(body, permit).await;
        let answer = answer.inspect_err(|error| heard(Heard::End(&End::of_error(error))))?;
        heard(Heard::Head(&Heading::of(answer.status, &answer.headers)));
        let idle = self.config.idle_timeout;
        // The end is told where it is seen; an answer that is not read on has been of use.
        let is_over = AtomicBool::new(false);
        let bytes = answer.bytes.inspect(|piece| match piece {
            Ok(piece) => heard(Heard::Bytes(piece)),
            Err(broken) => {
                is_over.store(true, Ordering::Relaxed);
                heard(Heard::End(&End::of_broken(broken, idle)));
            }
        });
        let result = self.read::<F>(asked, answer.status, answer.headers, bytes.boxed(), on_delta).await;
        if !is_over.into_inner() {
            heard(Heard::End(&End::Read));
        }
        result
    }

    async fn read<F: Whole>(
        &self,
        asked: &str,
        status: u16,
        headers: HeaderMap,
        bytes: BoxStream<'_, Result<Bytes, Broken>>,
        on_delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Response, Failure> {
        let request_id = request_id(&headers);
        if !(200..300).contains(&status) {
            return Err(self.refused(asked, status, &headers, bytes, request_id).await);
        }
        if let Some(encoding) = encoding(&headers) {
            return Err(call::Error::Encoded { at: self.at.clone(), encoding }.into());
        }
        let content_type = header(&headers, CONTENT_TYPE.as_str()).unwrap_or_default();
        let is_stream = content_type.starts_with("text/event-stream");
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
            Err(Stopped::Broken(broken)) => Err(Fault::Call(Box::new(self.not_read(broken)))),
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
        mut bytes: BoxStream<'_, Result<Bytes, Broken>>,
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

    /// Why an answer could not be read to its end.
    pub(super) fn not_read(&self, broken: Broken) -> call::Error {
        match broken {
            Broken::Network(source) => call::Error::Cut { at: self.at.clone(), source: Some(source) },
            Broken::Idle => self.idle(),
            Broken::TooLong => self.malformed("the answer is longer than any answer may be"),
        }
    }

    pub(super) fn fault(
        &self,
        fault: Fault,
        model: &str,
        request_id: Option<String>,
        retry_after: Option<Duration>,
    ) -> call::Error {
        match fault {
            Fault::Call(error) => *error,
            Fault::Malformed(what) => self.malformed(&what),
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

    /// What is said in the place of an answer where no model was asked for.
    pub(super) async fn turned_away(&self, response: reqwest::Response) -> call::Error {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = guarded(response, self.config.idle_timeout, MAX_REFUSAL_BYTES);
        self.refused("", status, &headers, bytes, request_id(&headers)).await.error
    }

    async fn refused(
        &self,
        model: &str,
        status: u16,
        headers: &HeaderMap,
        mut bytes: BoxStream<'_, Result<Bytes, Broken>>,
        request_id: Option<String>,
    ) -> Failure {
        let other = header(headers, LOCATION.as_str()).and_then(|to| self.url.join(&to).ok());
        if let (300..400, Some(other)) = (status, other) {
            let to = other.origin().ascii_serialization();
            return call::Error::Redirected { at: self.at.clone(), status, to }.into();
        }
        if let (407, Some(proxy)) = (status, self.at.proxy.clone()) {
            let what = call::ByProxy::WantsPassword;
            return call::Error::Proxy { at: self.at.clone(), proxy, what, source: None }.into();
        }
        let mut body = Vec::new();
        // Whatever can be read explains the refusal; the status alone decides.
        while let Some(Ok(chunk)) = bytes.next().await {
            body.extend_from_slice(&chunk);
        }
        if encoding(headers).is_some() {
            body.clear();
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
}
