//! The parsers themselves, without a network: what fuzzers feed and benchmarks measure. Behind the
//! feature `parsers`; nothing else may rest on it.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, stream};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::read::{events, finish};
use super::refusal::{Refusal, classify};
use super::whole::{self, Whole};
use super::{Fold, retry};
use crate::call::{Endpoint, Error};
use crate::{Delta, Response, Secret, Wire, anthropic, compatible, openai};

/// What becomes of a stream that arrives in these pieces, answering a request for the model `asked`.
///
/// # Errors
/// Why there is no answer, in words that hold nothing of how the stream was split.
pub fn read(
    wire: Wire,
    pieces: Vec<Bytes>,
    asked: &str,
    on_delta: &mut (dyn FnMut(Delta) + Send),
) -> Result<Response, String> {
    match wire {
        Wire::Messages => read_as::<anthropic::Fold>(pieces, asked, on_delta),
        Wire::Responses => read_as::<openai::Fold>(pieces, asked, on_delta),
        Wire::Chat => read_as::<compatible::Fold>(pieces, asked, on_delta),
    }
}

fn read_as<F: Fold>(
    pieces: Vec<Bytes>,
    asked: &str,
    on_delta: &mut (dyn FnMut(Delta) + Send),
) -> Result<Response, String> {
    let mut fold = F::default();
    let stream = stream::iter(pieces.into_iter().map(Ok));
    let read = events(stream, &mut fold, on_delta).now_or_never();
    match read {
        Some(Ok(())) => finish(fold, asked.to_owned()).map_err(|fault| format!("{fault:?}")),
        Some(Err(stopped)) => Err(format!("{stopped:?}")),
        None => Err("the reader waits although every byte is there".to_owned()),
    }
}

/// What becomes of a body that came whole although a stream was asked for; `None` when it is no answer.
#[must_use]
pub fn whole(wire: Wire, body: &Bytes, asked: &str) -> Option<Result<Response, String>> {
    match wire {
        Wire::Messages => whole_as::<anthropic::Fold>(body, asked),
        Wire::Responses => whole_as::<openai::Fold>(body, asked),
        Wire::Chat => whole_as::<compatible::Fold>(body, asked),
    }
}

fn whole_as<F: Whole>(body: &Bytes, asked: &str) -> Option<Result<Response, String>> {
    let mut fold = F::default();
    let read = whole::fold(body, &mut fold)?;
    let answer = read.and_then(|()| finish(fold, asked.to_owned()));
    Some(answer.map_err(|fault| format!("{fault:?}")))
}

/// What an error answer is taken for: its status, if it came with one, and its body.
#[must_use]
pub fn refusal(wire: Wire, status: Option<u16>, body: &str, secret: Option<&Secret>) -> Error {
    classify(Refusal {
        at: &Endpoint { wire, url: "http://127.0.0.1/".into(), proxy: None },
        status,
        body,
        request_id: None,
        model: "scripted",
        retry_after: None,
        secret,
    })
}

/// How long an answer with these headers and this body asks to wait. Headers that no server could send
/// are left out.
#[must_use]
pub fn retry_after(headers: &[(&str, &str)], body: &str) -> Option<Duration> {
    let headers = headers.iter().filter_map(|(name, value)| {
        Some((name.parse::<HeaderName>().ok()?, HeaderValue::from_str(value).ok()?))
    });
    retry::after(&headers.collect::<HeaderMap>(), body)
}
