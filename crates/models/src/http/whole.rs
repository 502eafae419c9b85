//! An answer that came whole although a stream was asked for, as some gateways send it.

use bytes::Bytes;

use super::read::{Fault, Fold};

/// A wire whose whole answer can be told as the events of its stream.
pub(crate) trait Whole: Fold {
    /// The events that a whole answer stands for; `None` when it is no answer of this wire.
    fn events(body: &str) -> Option<Vec<String>>;
}

/// What an answer without the content type of a stream is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// One JSON object.
    Json,
    /// Events all the same.
    Events,
    /// Nothing of the wire.
    Other,
}

impl Form {
    /// Told by the first characters.
    pub(super) fn of(body: &[u8]) -> Self {
        let text = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body).trim_ascii_start();
        let begins = |head: &&str| text.starts_with(head.as_bytes());
        match text.first() {
            Some(b'{') => Self::Json,
            _ if ["data:", "event:", "id:", "retry:", ":"].iter().any(begins) => Self::Events,
            _ => Self::Other,
        }
    }
}

/// Folds a whole answer; `None` when it is no answer of this wire. An error that came as a success is one.
pub(super) fn fold<F: Whole>(body: &Bytes, fold: &mut F) -> Option<Result<(), Fault>> {
    let text = String::from_utf8_lossy(body);
    let text = text.trim_start_matches('\u{feff}').trim();
    if let Some(events) = F::events(text) {
        // Nobody watched it come: the view is told when it is whole.
        return Some(events.iter().try_for_each(|event| fold.take(None, event, &mut |_| {})));
    }
    let is_error = serde_json::from_str::<serde_json::Value>(text)
        .is_ok_and(|value| value.get("error").is_some_and(|error| !error.is_null()));
    is_error.then(|| Err(Fault::Vendor(text.to_owned())))
}
