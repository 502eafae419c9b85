//! The bytes of an answer as events, and the events as a fold: what every wire has in common.

use std::pin::{Pin, pin};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};
use sse_stream::{Error as SseError, SseByteStream};
use tokio::time::{Instant, Sleep, sleep};

use crate::block::{Origin, View};
use crate::{Block, Delta, Response, Usage, call};

/// The events of one stream, folded into one answer.
pub(crate) trait Fold: Default + Send {
    /// The wire whose blocks it folds.
    const ORIGIN: Origin;

    /// Takes one event: its name on the wire, if any, and its data.
    fn take(
        &mut self,
        name: Option<&str>,
        data: &str,
        on_delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<(), Fault>;

    /// Whether the answer is complete, so that the stream need not be read on.
    fn has_ended(&self) -> bool;

    /// Whether the answer may be taken although the stream ended without its last event.
    fn is_whole(&self) -> bool;

    /// What the vendor said so far that it took.
    fn usage(&self) -> Usage;

    /// The answer to a request for the model `asked`.
    fn finish(self, asked: String) -> Result<Response, Fault>;
}

/// Why a stream cannot go on.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The vendor says so in the stream; holds its words as an error body.
    Vendor(String),
    /// The stream breaks the wire's rules; says which, without content.
    Malformed(String),
    /// Something below the wire, classified already.
    Call(Box<call::Error>),
}

/// Why the reading of a stream stopped before its end.
#[derive(Debug)]
pub(super) enum Stopped {
    Broken(Broken),
    Fault(Fault),
    /// It ended too early; holds what the network said, if anything.
    Lost(Option<Box<dyn std::error::Error + Send + Sync>>),
}

/// Why the bytes stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    #[error("the connection broke")]
    Network(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("nothing came for too long")]
    Idle,
    #[error("too many bytes came")]
    TooLong,
}

/// Folds a whole stream.
pub(super) async fn events<F: Fold>(
    bytes: impl Stream<Item = Result<Bytes, Broken>> + Send + Unpin,
    fold: &mut F,
    on_delta: &mut (dyn FnMut(Delta) + Send),
) -> Result<(), Stopped> {
    let mut events = SseByteStream::new(bytes);
    while let Some(event) = events.next().await {
        let event = event.map_err(stopped)?;
        let Some(data) = event.data.filter(|data| !data.is_empty()) else { continue };
        fold.take(event.event.as_deref(), &data, on_delta).map_err(Stopped::Fault)?;
        if fold.has_ended() {
            return Ok(());
        }
    }
    match fold.is_whole() {
        true => Ok(()),
        false => Err(Stopped::Lost(None)),
    }
}

/// The answer of a fold, if it can go back where it came from: with a block of another wire, or the result
/// of a call in place of a call, the run could never go on.
pub(super) fn finish<F: Fold>(fold: F, asked: String) -> Result<Response, Fault> {
    let response = fold.finish(asked)?;
    let is_foreign = |block: &&Block| {
        let of_another = block.origin().is_some_and(|origin| origin != F::ORIGIN);
        of_another || matches!(block.view(), View::ToolResult { .. })
    };
    if response.blocks.iter().any(|block| !block.raw().is_readable()) {
        return Err(Fault::Malformed("it holds half a character, which nobody takes back".to_owned()));
    }
    match response.blocks.iter().find(is_foreign) {
        Some(block) => {
            Err(Fault::Malformed(format!("a `{}` is no part of an answer on this wire", block.kind())))
        }
        None => Ok(response),
    }
}

fn stopped(error: SseError) -> Stopped {
    match error {
        SseError::Body(source) => match source.downcast::<Broken>() {
            Ok(broken) => Stopped::Broken(*broken),
            Err(source) => Stopped::Lost(Some(source)),
        },
        _ => Stopped::Fault(Fault::Malformed("it is not UTF-8".to_owned())),
    }
}

/// The bytes of an answer, ended by an error when none come for `idle` or more than `max` did.
/// Both look at bytes and not at events: comments are a sign of life too, and a line without
/// end must not fill the memory.
pub(super) fn guarded(
    response: reqwest::Response,
    idle: Duration,
    max: usize,
) -> BoxStream<'static, Result<Bytes, Broken>> {
    let silence = Box::pin(sleep(idle));
    futures_util::stream::unfold(Some((response, silence, 0_usize)), move |state| async move {
        let (mut response, mut silence, so_far) = state?;
        match within(idle, &mut silence, response.chunk()).await {
            Some(Ok(Some(chunk))) => {
                let total = so_far.saturating_add(chunk.len());
                match total <= max {
                    true => Some((Ok(chunk), Some((response, silence, total)))),
                    false => Some((Err(Broken::TooLong), None)),
                }
            }
            Some(Ok(None)) => None,
            Some(Err(error)) => Some((Err(Broken::Network(Box::new(error.without_url()))), None)),
            None => Some((Err(Broken::Idle), None)),
        }
    })
    .boxed()
}

/// What comes within `idle` from now; `None` when nothing does. The timer is one for the whole stream and
/// only moved when it goes off: setting one for each chunk costs as much as reading it.
async fn within<T>(
    idle: Duration,
    timer: &mut Pin<Box<Sleep>>,
    coming: impl Future<Output = T>,
) -> Option<T> {
    let until = Instant::now() + idle;
    let mut coming = pin!(coming);
    loop {
        tokio::select! {
            biased;
            come = &mut coming => return Some(come),
            () = timer.as_mut() => {}
        }
        if Instant::now() >= until {
            return None;
        }
        timer.as_mut().reset(until);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One recorded stream of each wire, with reasoning, text and two calls, and letters of all lengths.
    const MESSAGES: &str = include_str!("../../tests/recorded/messages.sse");
    const RESPONSES: &str = include_str!("../../tests/recorded/responses.sse");
    const CHAT: &str = include_str!("../../tests/recorded/chat.sse");

    /// What becomes of a stream that arrives in these pieces: the answer, and what was told on the way.
    fn read<F: Fold>(pieces: Vec<Bytes>) -> (Response, Vec<Delta>) {
        let mut seen = Vec::new();
        let mut on_delta = |delta| seen.push(delta);
        let mut fold = F::default();
        let stream = futures_util::stream::iter(pieces.into_iter().map(Ok));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(events(stream, &mut fold, &mut on_delta)).unwrap();
        (finish(fold, "asked".into()).unwrap(), seen)
    }

    fn split(recorded: &str, cuts: &[prop::sample::Index]) -> Vec<Bytes> {
        let bytes = Bytes::from(recorded.to_owned());
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        places.extend([0, bytes.len()]);
        places.sort_unstable();
        places.windows(2).map(|pair| bytes.slice(pair[0]..pair[1])).collect()
    }

    fn check<F: Fold>(recorded: &str, cuts: &[prop::sample::Index]) {
        let whole = read::<F>(vec![Bytes::from(recorded.to_owned())]);
        assert_eq!(whole.0.calls().count(), 2, "the recording is worth reading");
        assert!(whole.0.text().contains('🦀') && whole.1.len() > 5);
        assert_eq!(read::<F>(split(recorded, cuts)), whole);
        let returns = recorded.replace('\n', "\r\n");
        assert_eq!(read::<F>(split(&returns, cuts)), whole);
    }

    proptest! {
        #[test]
        fn case_24_any_split_of_a_recorded_stream_gives_the_same_events(
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40)
        ) {
            check::<crate::anthropic::Fold>(MESSAGES, &cuts);
            check::<crate::openai::Fold>(RESPONSES, &cuts);
            check::<crate::compatible::Fold>(CHAT, &cuts);
        }
    }

    #[test]
    fn case_24_byte_by_byte_is_the_same() {
        fn each<F: Fold>(recorded: &str) {
            let bytes = Bytes::from(recorded.to_owned());
            let single = (0..bytes.len()).map(|at| bytes.slice(at..=at)).collect();
            assert_eq!(read::<F>(single), read::<F>(vec![bytes]));
        }
        each::<crate::anthropic::Fold>(MESSAGES);
        each::<crate::openai::Fold>(RESPONSES);
        each::<crate::compatible::Fold>(CHAT);
    }
}
