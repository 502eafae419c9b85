//! Message Batches: the batch queue of the Messages wire.
//!
//! <https://docs.anthropic.com/en/api/creating-message-batches>. A batch has no label of its own: what was
//! submitted is known again by the ids of its items, which only the results of a batch show.

use domain::Timestamp;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use reqwest::{Method, Url};
use serde::{Deserialize, Serialize};

use super::Fold;
use crate::batch::{
    Answers, Batches, Found, Handle, Item, Progress, SKEW, Unsent, is_name, lines, unstreamed,
};
use crate::http::{Client, Sent};
use crate::json::Fields;
use crate::{RawJson, Response, call};

/// How many pages of recent batches are looked through: two thousand batches.
const PAGES: usize = 20;

/// The queue behind a client.
pub(crate) struct Queue<'c>(pub(crate) &'c Client);

#[derive(Serialize)]
struct Submission<'a> {
    requests: Vec<Request<'a>>,
}

#[derive(Serialize)]
struct Request<'a> {
    custom_id: &'a str,
    params: RawJson,
}

#[derive(Deserialize)]
struct Batch {
    id: String,
    #[serde(default)]
    processing_status: String,
    #[serde(default)]
    created_at: String,
    #[serde(default)]
    request_counts: Counts,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Counts {
    canceled: u64,
    errored: u64,
    expired: u64,
    processing: u64,
    succeeded: u64,
}

impl Counts {
    fn total(&self) -> u64 {
        [self.canceled, self.errored, self.expired, self.processing, self.succeeded]
            .into_iter()
            .fold(0, u64::saturating_add)
    }
}

#[derive(Deserialize)]
struct Page {
    data: Vec<Batch>,
    #[serde(default)]
    has_more: bool,
}

#[derive(Deserialize)]
struct Line {
    custom_id: String,
    result: Fields,
}

impl Batches for Queue<'_> {
    fn submit<'a>(&'a self, _label: &'a str, items: &'a [Item]) -> BoxFuture<'a, Result<Handle, Unsent>> {
        async move {
            let sent = self.submission(items).map_err(|error| Unsent { error, may_have_arrived: false })?;
            let answer = self.0.exchange(Method::POST, self.0.below("batches"), Some(sent)).await?;
            let batch = self.read::<Batch>(&answer, "batch");
            let batch = batch.map_err(|error| Unsent { error, may_have_arrived: true })?;
            Ok(Handle(batch.id))
        }
        .boxed()
    }

    fn progress<'a>(&'a self, batch: &'a Handle) -> BoxFuture<'a, Result<Progress, call::Error>> {
        async move {
            let answer = self.0.exchange(Method::GET, self.url(batch, "")?, None).await?;
            Ok(match self.read::<Batch>(&answer, "batch")?.processing_status.as_str() {
                "ended" => Progress::Ended,
                _ => Progress::Waiting,
            })
        }
        .boxed()
    }

    fn results<'a>(
        &'a self,
        batch: &'a Handle,
        items: &'a [Item],
    ) -> BoxFuture<'a, Result<Answers, call::Error>> {
        async move {
            // Not where the batch says that its results are: the key goes to the owner's address alone.
            let answer = self.0.exchange(Method::GET, self.url(batch, "/results")?, None).await?;
            let mut all = Answers::new();
            for line in lines(&answer) {
                let line = self.read::<Line>(line, "line of results")?;
                if let Some(item) = items.iter().find(|item| item.id == line.custom_id) {
                    all.push((line.custom_id, self.result(item, &line.result)));
                }
            }
            Ok(all)
        }
        .boxed()
    }

    fn cancel<'a>(&'a self, batch: &'a Handle) -> BoxFuture<'a, Result<(), call::Error>> {
        async move {
            self.0.exchange(Method::POST, self.url(batch, "/cancel")?, None).await?;
            Ok(())
        }
        .boxed()
    }

    fn find<'a>(
        &'a self,
        _label: &'a str,
        size: usize,
        since: Timestamp,
    ) -> BoxFuture<'a, Result<Found, call::Error>> {
        async move {
            let mut found = Vec::new();
            let mut url = self.0.below("batches");
            url.set_query(Some("limit=100"));
            for _ in 0..PAGES {
                let answer = self.0.exchange(Method::GET, url.clone(), None).await?;
                let page = self.read::<Page>(&answer, "list of batches")?;
                let last = page.data.last().map(|batch| batch.id.clone()).filter(|id| is_name(id));
                let mut is_older = false;
                for batch in page.data {
                    // One whose time cannot be read may be the one.
                    let created = instant(&batch.created_at).unwrap_or(u64::MAX);
                    is_older |= created.saturating_add(SKEW) < since.0;
                    let size = u64::try_from(size).unwrap_or(u64::MAX);
                    if created.saturating_add(SKEW) >= since.0 && batch.request_counts.total() == size {
                        found.push(Handle(batch.id));
                    }
                }
                let Some(last) = last.filter(|_| page.has_more && !is_older) else { break };
                url.set_query(Some(&format!("limit=100&after_id={last}")));
            }
            Ok(if found.is_empty() { Found::Nowhere } else { Found::Perhaps(found) })
        }
        .boxed()
    }
}

impl Queue<'_> {
    fn submission(&self, items: &[Item]) -> Result<Sent, call::Error> {
        let not_a_request = |source| call::Error::NotARequest { at: self.0.at().clone(), source };
        let request = |item: &Item| {
            Ok(Request { custom_id: "", params: unstreamed(&item.body).map_err(not_a_request)? })
        };
        let mut requests = items.iter().map(request).collect::<Result<Vec<_>, call::Error>>()?;
        for (request, item) in requests.iter_mut().zip(items) {
            request.custom_id = &item.id;
        }
        Sent::json(&Submission { requests }).map_err(not_a_request)
    }

    fn url(&self, batch: &Handle, rest: &str) -> Result<Url, call::Error> {
        match is_name(&batch.0) {
            true => Ok(self.0.below(&format!("batches/{}{rest}", batch.0))),
            false => Err(self.0.malformed("a batch has a name that cannot be asked for")),
        }
    }

    fn read<'b, T: Deserialize<'b>>(&self, bytes: &'b [u8], what: &str) -> Result<T, call::Error> {
        serde_json::from_slice(bytes)
            .map_err(|_| self.0.malformed(&format!("a {what} is not in the wire's form")))
    }

    fn result(&self, item: &Item, result: &Fields) -> Result<Response, call::Error> {
        let at = self.0.at().clone();
        match (result.text("type").as_deref(), result.get("message"), result.get("error")) {
            (Some("succeeded"), Some(message), _) => self.0.answer::<Fold>(&item.body, message, None),
            (Some("errored"), _, Some(error)) => Err(self.0.told(&item.body, None, error.as_str(), None)),
            (Some("expired"), ..) => Err(call::Error::Expired { at }),
            (Some("canceled"), ..) => Err(call::Error::Withdrawn { at }),
            _ => Err(self.0.malformed("a result of a batch has no known type")),
        }
    }
}

/// Milliseconds since the Unix epoch of an RFC 3339 time; fractions of a second are dropped.
fn instant(text: &str) -> Option<u64> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    // Days since the epoch, with years that begin in March: the leap day is the last of its year.
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let days = year * 365 + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (month * 153 + 2) / 5
        + day
        - 719_469;
    let rest = text.get(19..)?.trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
    let ahead = match rest.chars().next() {
        None | Some('Z' | 'z') => 0,
        Some(sign @ ('+' | '-')) => {
            let minutes = rest.get(1..3)?.parse::<i64>().ok()? * 60 + rest.get(4..6)?.parse::<i64>().ok()?;
            if sign == '+' { minutes } else { -minutes }
        }
        Some(_) => return None,
    };
    let seconds = days * 86_400 + hour * 3_600 + (minute - ahead) * 60 + second;
    u64::try_from(seconds).ok()?.checked_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_vendor_are_read() {
        assert_eq!(instant("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(instant("2024-09-24T18:37:24.100435Z"), Some(1_727_203_044_000));
        assert_eq!(instant("2024-02-29T23:59:59+00:00"), Some(1_709_251_199_000));
        assert_eq!(instant("2024-03-01T01:00:00+01:00"), Some(1_709_251_200_000));
        assert_eq!(instant("2026-11-30T20:00:00-05:00"), Some(1_796_086_800_000));
        for bad in [
            "",
            "soon",
            "2024-09-24",
            "2024-09-24T18:37:24 o'clock",
            "1960-01-01T00:00:00Z",
            "ääääääääääääää",
        ] {
            assert_eq!(instant(bad), None, "{bad}");
        }
    }
}
