//! The port to a vendor's batch queue: answers that take minutes to hours, for half the price.
//!
//! A batch costs money from the moment that the vendor has it, so submitting is the one thing here that must
//! not happen twice: [`Unsent`] says whether the vendor may have the batch, and [`Batches::find`] looks for it
//! there. Everything else can be asked again at will; nothing is retried inside.

use bytes::Bytes;
use domain::{Price, Terms, Timestamp};
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::http::Failed;
use crate::json::Fields;
use crate::{RawJson, Response, call};

/// One call of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// What it is called in the batch: at most 64 letters, digits, `_` and `-`.
    pub id: String,
    /// The request as it was composed for the wire; that it asks for a stream is left out.
    pub body: Bytes,
}

/// The vendor's name of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Handle(pub String);

/// Where a batch stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The vendor has not ended it.
    Waiting,
    /// Every item has what it gets.
    Ended,
}

/// What a vendor knows of a batch whose submission was not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// It is this one.
    Here(Handle),
    /// It may be one of these; their results will tell.
    Perhaps(Vec<Handle>),
    /// It never arrived.
    Nowhere,
}

/// A submission that was not acknowledged.
#[derive(Debug)]
pub struct Unsent {
    /// What went wrong.
    pub error: call::Error,
    /// Whether the vendor may have the batch all the same.
    pub may_have_arrived: bool,
}

impl From<Failed> for Unsent {
    fn from(Failed { error, may_have_arrived }: Failed) -> Self {
        Self { error, may_have_arrived }
    }
}

/// The lines of a file of results.
pub(crate) fn lines(file: &[u8]) -> impl Iterator<Item = &[u8]> {
    file.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty())
}

/// What a batch gave to its items, by their ids.
pub type Answers = Vec<(String, Result<Response, call::Error>)>;

/// The batch queue of a vendor.
pub trait Batches: Send + Sync {
    /// Hands items over as one batch under a label, which [`find`](Self::find) knows it by.
    fn submit<'a>(&'a self, label: &'a str, items: &'a [Item]) -> BoxFuture<'a, Result<Handle, Unsent>>;

    /// Where a batch stands.
    fn progress<'a>(&'a self, batch: &'a Handle) -> BoxFuture<'a, Result<Progress, call::Error>>;

    /// What a batch that has ended gave to these items, by their ids. An item that it never held is left out.
    fn results<'a>(
        &'a self,
        batch: &'a Handle,
        items: &'a [Item],
    ) -> BoxFuture<'a, Result<Answers, call::Error>>;

    /// Asks the vendor to drop what it has not answered yet. Harmless for a batch that has ended.
    fn cancel<'a>(&'a self, batch: &'a Handle) -> BoxFuture<'a, Result<(), call::Error>>;

    /// Looks for a batch of `size` items that was submitted under this label at `since` or later.
    fn find<'a>(
        &'a self,
        label: &'a str,
        size: usize,
        since: Timestamp,
    ) -> BoxFuture<'a, Result<Found, call::Error>>;
}

/// The terms of a run that asks its model by batch: both vendors take half.
#[must_use]
pub fn terms(terms: Terms) -> Terms {
    let half = |price: Price| Price {
        input: price.input.div_ceil(2),
        output: price.output.div_ceil(2),
        cache_read: price.cache_read.div_ceil(2),
        cache_write: price.cache_write.div_ceil(2),
        record: format!("batch, half of the {}", price.record).into(),
    };
    Terms { price: terms.price.map(half), batch: true, ..terms }
}

/// How much earlier than ours the vendor's clock may be, in milliseconds.
pub(crate) const SKEW: u64 = 10 * 60 * 1000;

/// A composed request without its wish for a stream.
pub(crate) fn unstreamed(body: &[u8]) -> Result<RawJson, serde_json::Error> {
    let mut fields = serde_json::from_slice::<Fields>(body)?;
    fields.remove("stream");
    Ok(fields.to_raw())
}

/// Whether a vendor's name of something may stand in a path.
pub(crate) fn is_name(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    (1..=128).contains(&name.len()) && name.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_the_stream_is_left_out() {
        let body = br#"{"model":"m","stream":true,"n":1.50,"messages":[{"stream":true}]}"#;
        let item = unstreamed(body).unwrap();
        assert_eq!(item.as_str(), r#"{"model":"m","n":1.50,"messages":[{"stream":true}]}"#);
        assert!(unstreamed(b"[]").is_err());
    }

    #[test]
    fn half_the_price_is_on_record_as_that() {
        let terms = terms(crate::catalogue::terms("claude-haiku-5-5"));
        let (whole, half) = (crate::catalogue::price("claude-haiku-5-5").unwrap(), terms.price.unwrap());
        assert!(terms.batch);
        assert_eq!((half.input * 2, half.output * 2), (whole.input, whole.output));
        assert!(half.cache_read * 2 >= whole.cache_read);
        assert!(half.record.starts_with("batch, half of the built-in table"), "{}", half.record);
        assert_eq!(super::terms(crate::catalogue::terms("claude-unheard-of")).price, None);
    }

    #[test]
    fn a_name_leads_nowhere_else() {
        assert!(is_name("msgbatch_01-x"));
        for bad in ["", "..", "a/b", "a?b", "a%2fb", "ä"] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
