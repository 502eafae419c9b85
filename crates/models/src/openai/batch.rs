//! The Batch API: the batch queue of the Responses wire.
//!
//! <https://platform.openai.com/docs/guides/batch>. Items go up as a file, and the batch that works on it
//! carries a label of ours, by which it is found again.

use std::collections::BTreeMap;

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
use crate::{RawJson, Response, call};

/// How many pages of recent batches are looked through: two thousand batches.
const PAGES: usize = 20;

/// The name that a batch's label has at the vendor.
const LABEL: &str = "regie";

/// How long the vendor keeps questions and answers, in seconds: three days. It needs them for one.
const FORGOTTEN_AFTER: u32 = 3 * 86_400;

/// The queue behind a client.
pub(crate) struct Queue<'c>(pub(crate) &'c Client);

#[derive(Serialize)]
struct Request<'a> {
    custom_id: &'a str,
    method: &'static str,
    url: &'static str,
    body: RawJson,
}

#[derive(Serialize)]
struct Submission<'a> {
    input_file_id: &'a str,
    endpoint: &'static str,
    completion_window: &'static str,
    metadata: BTreeMap<&'static str, &'a str>,
    output_expires_after: Expiry,
}

/// When the vendor forgets a file.
#[derive(Serialize)]
struct Expiry {
    anchor: &'static str,
    seconds: u32,
}

#[derive(Deserialize)]
struct Uploaded {
    id: String,
}

#[derive(Deserialize)]
struct Batch {
    id: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    created_at: u64,
    #[serde(default)]
    metadata: Option<BTreeMap<String, String>>,
    #[serde(default)]
    output_file_id: Option<String>,
    #[serde(default)]
    error_file_id: Option<String>,
    #[serde(default)]
    errors: Option<Errors>,
}

/// Why the vendor did not take a file.
#[derive(Deserialize)]
struct Errors {
    #[serde(default)]
    data: Option<Vec<RawJson>>,
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
    #[serde(default)]
    response: Option<Answer>,
    #[serde(default)]
    error: Option<RawJson>,
}

#[derive(Deserialize)]
struct Answer {
    status_code: u16,
    #[serde(default)]
    request_id: Option<String>,
    body: RawJson,
}

impl Batches for Queue<'_> {
    fn submit<'a>(&'a self, label: &'a str, items: &'a [Item]) -> BoxFuture<'a, Result<Handle, Unsent>> {
        async move {
            let never = |error| Unsent { error, may_have_arrived: false };
            // A file that nothing works on costs nothing: whether it arrived does not matter.
            let file = self.upload(label, items).await.map_err(never)?;
            let submission = Submission {
                input_file_id: &file,
                endpoint: "/v1/responses",
                completion_window: "24h",
                metadata: BTreeMap::from([(LABEL, label)]),
                output_expires_after: Expiry { anchor: "created_at", seconds: FORGOTTEN_AFTER },
            };
            let sent = Sent::json(&submission).map_err(|source| never(self.not_a_request(source)))?;
            let answer = self.0.exchange(Method::POST, self.0.beside("batches"), Some(sent)).await?;
            let batch = self.read::<Batch>(&answer, "batch");
            let batch = batch.map_err(|error| Unsent { error, may_have_arrived: true })?;
            Ok(Handle(batch.id))
        }
        .boxed()
    }

    fn progress<'a>(&'a self, batch: &'a Handle) -> BoxFuture<'a, Result<Progress, call::Error>> {
        async move {
            Ok(match self.batch(batch).await?.status.as_str() {
                "completed" | "failed" | "expired" | "cancelled" => Progress::Ended,
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
            let batch = self.batch(batch).await?;
            let mut all = Answers::new();
            for file in [&batch.output_file_id, &batch.error_file_id].into_iter().flatten() {
                let url = self.url("files", file, "/content")?;
                let answer = self.0.exchange(Method::GET, url, None).await?;
                for line in lines(&answer) {
                    let line = self.read::<Line>(line, "line of results")?;
                    if let Some(item) = items.iter().find(|item| item.id == line.custom_id) {
                        all.push((line.custom_id.clone(), self.result(item, line)));
                    }
                }
            }
            // What a batch that broke off never came to has no line.
            for item in items {
                if all.iter().all(|(id, _)| *id != item.id)
                    && let Some(error) = self.broken_off(&batch, item)
                {
                    all.push((item.id.clone(), Err(error)));
                }
            }
            Ok(all)
        }
        .boxed()
    }

    fn cancel<'a>(&'a self, batch: &'a Handle) -> BoxFuture<'a, Result<(), call::Error>> {
        async move {
            let url = self.url("batches", &batch.0, "/cancel")?;
            self.0.exchange(Method::POST, url, None).await?;
            Ok(())
        }
        .boxed()
    }

    fn find<'a>(
        &'a self,
        label: &'a str,
        _size: usize,
        since: Timestamp,
    ) -> BoxFuture<'a, Result<Found, call::Error>> {
        async move {
            let mut url = self.0.beside("batches");
            url.set_query(Some("limit=100"));
            for _ in 0..PAGES {
                let answer = self.0.exchange(Method::GET, url.clone(), None).await?;
                let page = self.read::<Page>(&answer, "list of batches")?;
                let is_ours = |batch: &&Batch| {
                    batch.metadata.as_ref().and_then(|all| all.get(LABEL)).is_some_and(|found| found == label)
                };
                if let Some(batch) = page.data.iter().find(is_ours) {
                    return Ok(Found::Here(Handle(batch.id.clone())));
                }
                let last = page.data.last().filter(|last| page.has_more && is_name(&last.id));
                let is_older =
                    |batch: &&Batch| batch.created_at.saturating_mul(1000).saturating_add(SKEW) >= since.0;
                let Some(last) = last.filter(is_older) else { break };
                url.set_query(Some(&format!("limit=100&after={}", last.id)));
            }
            Ok(Found::Nowhere)
        }
        .boxed()
    }
}

impl Queue<'_> {
    async fn upload(&self, label: &str, items: &[Item]) -> Result<String, call::Error> {
        let mut lines = String::new();
        for item in items {
            let body = unstreamed(&item.body).map_err(|source| self.not_a_request(source))?;
            let request = Request { custom_id: &item.id, method: "POST", url: "/v1/responses", body };
            lines.push_str(&serde_json::to_string(&request).map_err(|source| self.not_a_request(source))?);
            lines.push('\n');
        }
        let url = self.0.beside("files");
        let answer = self.0.exchange(Method::POST, url, Some(form(label, &lines))).await?;
        Ok(self.read::<Uploaded>(&answer, "file")?.id)
    }

    async fn batch(&self, batch: &Handle) -> Result<Batch, call::Error> {
        let url = self.url("batches", &batch.0, "")?;
        let answer = self.0.exchange(Method::GET, url, None).await?;
        self.read(&answer, "batch")
    }

    fn url(&self, kind: &str, name: &str, rest: &str) -> Result<Url, call::Error> {
        match is_name(name) {
            true => Ok(self.0.beside(&format!("{kind}/{name}{rest}"))),
            false => Err(self.0.malformed("a batch or file has a name that cannot be asked for")),
        }
    }

    fn read<'b, T: Deserialize<'b>>(&self, bytes: &'b [u8], what: &str) -> Result<T, call::Error> {
        serde_json::from_slice(bytes)
            .map_err(|_| self.0.malformed(&format!("a {what} is not in the wire's form")))
    }

    fn not_a_request(&self, source: serde_json::Error) -> call::Error {
        call::Error::NotARequest { at: self.0.at().clone(), source }
    }

    fn result(&self, item: &Item, line: Line) -> Result<Response, call::Error> {
        let at = self.0.at().clone();
        match (line.response, line.error) {
            (Some(answer), _) if (200..300).contains(&answer.status_code) => {
                self.0.answer::<Fold>(&item.body, &answer.body, answer.request_id)
            }
            (Some(Answer { status_code, request_id, body }), _) => {
                Err(self.0.told(&item.body, Some(status_code), body.as_str(), request_id))
            }
            (None, Some(error)) => Err(match code(&error).as_str() {
                "batch_expired" => call::Error::Expired { at },
                "batch_cancelled" => call::Error::Withdrawn { at },
                _ => self.0.told(&item.body, None, error.as_str(), None),
            }),
            (None, None) => Err(self.0.malformed("a line of results has neither answer nor error")),
        }
    }

    /// What stands for an item that has no line in the results.
    fn broken_off(&self, batch: &Batch, item: &Item) -> Option<call::Error> {
        let at = self.0.at().clone();
        match batch.status.as_str() {
            "expired" => Some(call::Error::Expired { at }),
            "cancelled" => Some(call::Error::Withdrawn { at }),
            "failed" => {
                let errors = batch.errors.as_ref().and_then(|errors| errors.data.as_ref());
                let first = errors.and_then(|all| all.first());
                // The account has too much in the queue, which passes.
                let is_full = first.is_some_and(|error| code(error).ends_with("limit_exceeded"));
                let status = if is_full { 429 } else { 400 };
                Some(self.0.told(&item.body, Some(status), first.map_or("{}", RawJson::as_str), None))
            }
            _ => None,
        }
    }
}

fn code(error: &RawJson) -> String {
    #[derive(Deserialize)]
    struct Coded {
        #[serde(default)]
        code: Option<String>,
    }
    error.decode::<Coded>().ok().and_then(|coded| coded.code).unwrap_or_default()
}

/// The upload of a file of lines, as browsers send it.
fn form(label: &str, lines: &str) -> Sent {
    let mut boundary = format!("regie-{label}");
    while lines.contains(&boundary) {
        boundary.push('-');
    }
    let part = |head: &str, body: &str| {
        format!("--{boundary}\r\nContent-Disposition: form-data; {head}\r\n\r\n{body}\r\n")
    };
    let purpose = part("name=\"purpose\"", "batch");
    let anchor = part("name=\"expires_after[anchor]\"", "created_at");
    let seconds = part("name=\"expires_after[seconds]\"", &FORGOTTEN_AFTER.to_string());
    let file = part("name=\"file\"; filename=\"batch.jsonl\"\r\nContent-Type: application/jsonl", lines);
    Sent {
        bytes: format!("{purpose}{anchor}{seconds}{file}--{boundary}--\r\n").into(),
        content_type: format!("multipart/form-data; boundary={boundary}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boundary_occurs_nowhere_in_the_file() {
        let sent = form("x", "regie-x regie-x- and regie-x--");
        let boundary = sent.content_type.rsplit_once('=').unwrap().1.to_owned();
        let text = String::from_utf8(sent.bytes.to_vec()).unwrap();
        assert_eq!(text.matches(&boundary).count(), 5);
        assert!(boundary.len() <= 70 && text.ends_with(&format!("--{boundary}--\r\n")));
    }
}
