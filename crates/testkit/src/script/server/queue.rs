//! The batch queues of the scripted vendors: `POST /v1/messages/batches` and what belongs to it, and `POST
//! /v1/files` with `POST /v1/batches`. Items are answered from the same scenarios as any other request, when
//! they are submitted; the answers are handed out when the batch has ended.

use std::io;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::SystemTime;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};

use super::{House, Line, Plan, What, refusal, until};
use crate::script::scenario::{QueueFaultKind, Scenario};
use crate::script::wire::{Asked, Wire, sha256};

/// The batches and files of a server.
#[derive(Debug, Default)]
pub(super) struct Queue {
    batches: Vec<Queued>,
    /// How many submissions there were, also those that were not taken.
    submissions: usize,
    /// Files by their ids.
    files: Vec<(String, Bytes)>,
}

/// A batch as the server has it.
#[derive(Clone, Debug)]
pub struct Queued {
    /// The vendor's id of it.
    pub id: String,
    /// The ids of its items.
    pub items: Vec<String>,
    /// How often its state was asked for.
    pub polls: u32,
    /// Whether it was cancelled by a request.
    pub cancelled: bool,
    wire: Wire,
    input_file: String,
    metadata: Value,
    created: u64,
    answers: Vec<Answer>,
    /// How often its state is asked for until it has ended.
    ends_after: u32,
    fault: Option<QueueFaultKind>,
}

/// What an item gets: a status, and a message or an error body.
#[derive(Clone, Debug)]
struct Answer {
    status: u16,
    body: Value,
}

impl Queued {
    fn has_ended(&self) -> bool {
        self.cancelled || self.polls >= self.ends_after
    }

    /// How it ended, where it did not end well.
    fn bad_end(&self) -> Option<QueueFaultKind> {
        let bad = [QueueFaultKind::Expired, QueueFaultKind::Canceled, QueueFaultKind::Failed];
        let fault = self.fault.filter(|fault| bad.contains(fault));
        if self.cancelled { Some(QueueFaultKind::Canceled) } else { fault }
    }

    fn count(&self, is_good: bool) -> usize {
        self.answers.iter().filter(|answer| (answer.status < 300) == is_good).count()
    }

    fn view(&self) -> Value {
        match self.wire {
            Wire::Messages => self.message_batch(),
            Wire::Responses | Wire::Chat => self.batch(),
        }
    }

    fn message_batch(&self) -> Value {
        let (all, ended) = (self.items.len(), self.has_ended());
        let mut counts =
            json!({ "processing": 0, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0 });
        match (ended, self.bad_end()) {
            (false, _) => counts["processing"] = all.into(),
            (true, Some(QueueFaultKind::Expired)) => counts["expired"] = all.into(),
            (true, Some(_)) => counts["canceled"] = all.into(),
            (true, None) => {
                counts["succeeded"] = self.count(true).into();
                counts["errored"] = self.count(false).into();
            }
        }
        let created = rfc3339(self.created);
        json!({
            "id": self.id, "type": "message_batch", "archived_at": null, "created_at": created,
            "expires_at": rfc3339(self.created + 86_400), "cancel_initiated_at": self.cancelled.then_some(&created),
            "ended_at": ended.then_some(&created), "request_counts": counts,
            "processing_status": if ended { "ended" } else { "in_progress" },
            "results_url": ended.then(|| format!("http://elsewhere.invalid/{}", self.id)),
        })
    }

    fn batch(&self) -> Value {
        let ended = self.has_ended();
        let status = match (ended, self.bad_end()) {
            (false, _) => "in_progress",
            (true, None) => "completed",
            (true, Some(QueueFaultKind::Expired)) => "expired",
            (true, Some(QueueFaultKind::Failed)) => "failed",
            (true, Some(_)) => "cancelled",
        };
        let file = |kind: &str, is_good: bool| {
            let has = ended && self.bad_end().is_none() && self.count(is_good) > 0;
            has.then(|| format!("file-{kind}-{}", self.id))
        };
        let errors = (status == "failed").then(|| {
            let error = json!({ "code": "invalid_file", "message": "the file is not taken", "line": 1, "param": null });
            json!({ "object": "list", "data": [error] })
        });
        json!({
            "id": self.id, "object": "batch", "endpoint": "/v1/responses", "completion_window": "24h",
            "input_file_id": self.input_file, "status": status, "created_at": self.created, "errors": errors,
            "output_file_id": file("output", true), "error_file_id": file("error", false),
            "metadata": self.metadata,
            "request_counts": { "total": self.items.len(), "completed": self.count(true), "failed": self.count(false) },
        })
    }

    /// The results of a message batch, last item first: their order means nothing.
    fn message_results(&self) -> String {
        let result = |answer: &Answer| match (self.bad_end(), answer.status) {
            (Some(QueueFaultKind::Expired), _) => json!({ "type": "expired" }),
            (Some(_), _) => json!({ "type": "canceled" }),
            (None, ..300) => json!({ "type": "succeeded", "message": answer.body }),
            (None, _) => json!({ "type": "errored", "error": answer.body }),
        };
        let line = |(id, answer): (&String, &Answer)| json!({ "custom_id": id, "result": result(answer) });
        lines(self.items.iter().zip(&self.answers).rev().map(line))
    }

    fn file(&self, is_good: bool) -> String {
        let line = |(id, answer): (&String, &Answer)| {
            let Answer { status, body } = answer;
            let response = json!({ "status_code": status, "request_id": format!("req_{id}"), "body": body });
            json!({ "id": format!("batch_req_{id}"), "custom_id": id, "response": response, "error": null })
        };
        let all = self.items.iter().zip(&self.answers).rev();
        lines(all.filter(|(_, answer)| (answer.status < 300) == is_good).map(line))
    }
}

fn lines(all: impl Iterator<Item = Value>) -> String {
    all.map(|line| format!("{line}\n")).collect()
}

pub(super) fn routes() -> Router<Arc<House>> {
    Router::new()
        .route("/v1/messages/batches", post(message_submit).get(message_list))
        .route("/v1/messages/batches/{id}", get(message_fetch))
        .route("/v1/messages/batches/{id}/results", get(message_results))
        .route("/v1/messages/batches/{id}/cancel", post(message_cancel))
        .route("/v1/files", post(file_upload))
        .route("/v1/files/{id}/content", get(file_content))
        .route("/v1/batches", post(batch_submit).get(batch_list))
        .route("/v1/batches/{id}", get(batch_fetch))
        .route("/v1/batches/{id}/cancel", post(batch_cancel))
}

type Shared = State<Arc<House>>;

async fn message_submit(State(house): Shared, headers: HeaderMap, body: Bytes) -> Response {
    let wire = Wire::Messages;
    if let Some(refused) = house.stranger(wire, &headers) {
        return refused;
    }
    let submission: Value = serde_json::from_slice(&body).unwrap_or_default();
    let items = submission["requests"].as_array().map(|all| {
        let item = |one: &Value| Some((one["custom_id"].as_str()?.to_owned(), one["params"].clone()));
        all.iter().map(item).collect::<Option<Vec<_>>>()
    });
    match items {
        Some(Some(items)) => house.submit(wire, items, String::new(), Value::Null).await,
        _ => refusal(wire, 400, "requests: a list of objects with `custom_id` and `params` is required"),
    }
}

async fn file_upload(State(house): Shared, headers: HeaderMap, body: Bytes) -> Response {
    if let Some(refused) = house.stranger(Wire::Responses, &headers) {
        return refused;
    }
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let text = String::from_utf8_lossy(&body);
    let part = |name: &str| {
        let boundary = kind.split_once("boundary=")?.1;
        let mark = format!("name=\"{name}\"");
        let part = text.split(&format!("--{boundary}")).find(|part| part.contains(&mark))?;
        let (_, content) = part.split_once("\r\n\r\n")?;
        content.strip_suffix("\r\n").map(str::to_owned)
    };
    let (Some(file), Some("batch")) = (part("file"), part("purpose").as_deref()) else {
        return refusal(Wire::Responses, 400, "a form with `file` and the purpose `batch` is required");
    };
    let id = format!("file-{}", &sha256(file.as_bytes())[..24]);
    let bytes = file.len();
    house.queue().files.push((id.clone(), file.into()));
    Json(json!({ "id": id, "object": "file", "bytes": bytes, "purpose": "batch", "filename": "batch.jsonl",
        "created_at": now(), "status": "processed" }))
    .into_response()
}

async fn batch_submit(State(house): Shared, headers: HeaderMap, body: Bytes) -> Response {
    let wire = Wire::Responses;
    if let Some(refused) = house.stranger(wire, &headers) {
        return refused;
    }
    let submission: Value = serde_json::from_slice(&body).unwrap_or_default();
    if submission["completion_window"] != "24h" || submission["endpoint"] != "/v1/responses" {
        return refusal(wire, 400, "completion_window must be `24h`, and endpoint one that there is");
    }
    let file = submission["input_file_id"].as_str().unwrap_or_default().to_owned();
    let content = house.queue().files.iter().find(|(id, _)| *id == file).map(|(_, content)| content.clone());
    let Some(content) = content else { return refusal(wire, 404, "no such file") };
    let text = String::from_utf8_lossy(&content).into_owned();
    let items = text.lines().map(|line| {
        let line: Value = serde_json::from_str(line).ok()?;
        let fits = line["method"] == "POST" && line["url"] == "/v1/responses";
        fits.then_some((line["custom_id"].as_str()?.to_owned(), line["body"].clone()))
    });
    match items.collect::<Option<Vec<_>>>() {
        Some(items) => house.submit(wire, items, file, submission["metadata"].clone()).await,
        None => refusal(wire, 400, "each line of the file must be a request for /v1/responses"),
    }
}

async fn message_list(State(house): Shared, headers: HeaderMap) -> Response {
    house.list(Wire::Messages, &headers)
}

async fn batch_list(State(house): Shared, headers: HeaderMap) -> Response {
    house.list(Wire::Responses, &headers)
}

async fn message_fetch(State(house): Shared, Path(id): Path<String>, headers: HeaderMap) -> Response {
    house.with(Wire::Messages, &id, &headers, Queued::poll)
}

async fn batch_fetch(State(house): Shared, Path(id): Path<String>, headers: HeaderMap) -> Response {
    house.with(Wire::Responses, &id, &headers, Queued::poll)
}

async fn message_results(State(house): Shared, Path(id): Path<String>, headers: HeaderMap) -> Response {
    house.with(Wire::Messages, &id, &headers, |batch| match batch.has_ended() {
        true => batch.message_results().into_response(),
        false => refusal(Wire::Messages, 404, "the batch has not ended"),
    })
}

async fn file_content(State(house): Shared, Path(id): Path<String>, headers: HeaderMap) -> Response {
    let (batch, is_good) = match (id.strip_prefix("file-output-"), id.strip_prefix("file-error-")) {
        (Some(batch), _) => (batch, true),
        (_, Some(batch)) => (batch, false),
        _ => return refusal(Wire::Responses, 404, "no such file"),
    };
    house.with(Wire::Responses, batch, &headers, |batch| batch.file(is_good).into_response())
}

async fn message_cancel(State(house): Shared, Path(id): Path<String>, headers: HeaderMap) -> Response {
    cancel(house, Wire::Messages, &id, &headers).await
}

async fn batch_cancel(State(house): Shared, Path(id): Path<String>, headers: HeaderMap) -> Response {
    cancel(house, Wire::Responses, &id, &headers).await
}

async fn cancel(house: Arc<House>, wire: Wire, id: &str, headers: &HeaderMap) -> Response {
    let response = house.with(wire, id, headers, |batch| {
        batch.cancelled |= !batch.has_ended();
        Json(batch.view()).into_response()
    });
    let line = Line::Batch { id: id.to_owned(), act: "cancel".into(), items: Vec::new() };
    match house.append(line).await {
        Ok(()) => response,
        Err(error) => refusal(wire, 500, &format!("the ledger cannot be written: {error}")),
    }
}

impl Queued {
    fn poll(&mut self) -> Response {
        self.polls = self.polls.saturating_add(1);
        Json(self.view()).into_response()
    }
}

impl House {
    pub(super) fn queued(&self) -> Vec<Queued> {
        self.queue().batches.clone()
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What `act` makes of a batch.
    fn with(
        &self,
        wire: Wire,
        id: &str,
        headers: &HeaderMap,
        act: impl FnOnce(&mut Queued) -> Response,
    ) -> Response {
        if let Some(refused) = self.stranger(wire, headers) {
            return refused;
        }
        match self.queue().batches.iter_mut().find(|batch| batch.id == id && batch.wire == wire) {
            Some(batch) => act(batch),
            None => refusal(wire, 404, "no such batch"),
        }
    }

    /// All batches, the newest first.
    fn list(&self, wire: Wire, headers: &HeaderMap) -> Response {
        if let Some(refused) = self.stranger(wire, headers) {
            return refused;
        }
        let queue = self.queue();
        let views = queue.batches.iter().rev().filter(|batch| batch.wire == wire).map(Queued::view);
        Json(json!({ "object": "list", "data": views.collect::<Vec<_>>(), "has_more": false }))
            .into_response()
    }

    async fn submit(
        self: Arc<Self>,
        wire: Wire,
        items: Vec<(String, Value)>,
        input_file: String,
        metadata: Value,
    ) -> Response {
        let (ids, requests): (Vec<_>, Vec<_>) = items.into_iter().unzip();
        let plans: Vec<_> = requests.iter().map(|request| self.plan(wire, request)).collect();
        let of_first =
            |scenario: &&Scenario| plans.first().is_some_and(|plan| plan.scenario == scenario.name);
        let script = self.scenarios.iter().find(of_first).map(|scenario| &scenario.batch);
        let fault = {
            let mut queue = self.queue();
            queue.submissions = queue.submissions.saturating_add(1);
            script.and_then(|script| script.fault(queue.submissions.saturating_sub(1)))
        };
        if fault == Some(QueueFaultKind::Broken) {
            return refusal(wire, 500, "scripted fault");
        }
        let mut answers = Vec::new();
        for (plan, request) in plans.iter().zip(&requests) {
            let body = Bytes::from(request.to_string());
            answers.push(self.item(plan, request, body.len()));
            if let Err(error) = self.clone().note(plan.served(request, body)).await {
                return refusal(wire, 500, &format!("the ledger cannot be written: {error}"));
            }
        }
        let (view, id) = {
            let mut queue = self.queue();
            let place = queue.batches.len();
            let id = format!("{}_{place}", if wire == Wire::Messages { "msgbatch" } else { "batch" });
            let batch = Queued {
                id: id.clone(),
                items: ids.clone(),
                polls: 0,
                cancelled: false,
                wire,
                input_file,
                metadata,
                created: now(),
                answers,
                ends_after: script.map_or(1, |script| script.polls),
                fault,
            };
            let view = batch.view();
            queue.batches.push(batch);
            (view, id)
        };
        if let Err(error) = self.clone().append(Line::Batch { id, act: "submit".into(), items: ids }).await {
            return refusal(wire, 500, &format!("the ledger cannot be written: {error}"));
        }
        match fault {
            Some(QueueFaultKind::Unacknowledged) => {
                let cut =
                    futures_util::stream::once(async { Err::<Bytes, _>(io::Error::other("scripted cut")) });
                Body::from_stream(cut).into_response()
            }
            Some(QueueFaultKind::Silent) => {
                until(self.stop.clone()).await;
                refusal(wire, 503, "the server ends")
            }
            _ => Json(view).into_response(),
        }
    }

    /// What an item of a batch gets.
    fn item(&self, plan: &Plan<'_>, request: &Value, body_bytes: usize) -> Answer {
        let refused = |status: u16, why: &str| Answer { status, body: plan.wire.refusal(status, why) };
        let turn = match &plan.what {
            What::Refuse(why) => return refused(400, why),
            What::Fault(_, fault) => {
                let broken = || (500, plan.wire.refusal(500, "scripted fault"));
                let (status, body) = plan.wire.fault(fault, body_bytes).unwrap_or_else(broken);
                return Answer { status, body };
            }
            What::Answer(turn) => turn,
        };
        let asked = Asked {
            request,
            model: request["model"].as_str().unwrap_or_default(),
            conversation: &plan.conversation,
            scenario: plan.scenario,
            turn: plan.turn,
            body_bytes,
            input: self.cache.as_ref().map(|cache| cache.ask(plan.wire, request)),
        };
        Answer { status: 200, body: plan.wire.message(turn, &asked) }
    }
}

/// Seconds since the Unix epoch.
#[expect(clippy::disallowed_methods, reason = "a vendor stamps its batches with the time of the day")]
fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A time as the Messages wire writes it.
fn rfc3339(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days since 1 March of the year 0: the leap day is the last of its year.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year_of_era + era * 400 + next;
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_the_vendor_writes_them() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(1_709_251_199), "2024-02-29T23:59:59Z");
        assert_eq!(rfc3339(1_709_251_200), "2024-03-01T00:00:00Z");
        assert_eq!(rfc3339(1_798_675_200), "2026-12-31T00:00:00Z");
    }
}
