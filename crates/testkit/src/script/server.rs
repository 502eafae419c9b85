//! The HTTP side of the scripted model.

mod queue;

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

pub use queue::Queued;

use super::cache::Cache;
use super::ledger::{Ledger, Line};
use super::limits::{Limits, Meter, Metered};
use super::rules;
use super::scenario::{Fault, FaultKind, Scenario, Turn};
use super::wire::{Act, Asked, Wire, sha256};

/// The most bytes that the vendor takes in one request.
const MAX_BODY_BYTES: usize = 32 << 20;

/// How to serve.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The port on 127.0.0.1; 0 takes a free one.
    pub port: u16,
    /// Whether it keeps a prompt cache.
    pub caches: bool,
    /// The file that every request is written to before it is answered.
    pub ledger: Option<PathBuf>,
    /// The directory that every request's bytes are written to.
    pub record: Option<PathBuf>,
    /// The only key that is let in; any key when `None`.
    pub key: Option<String>,
    /// How much may be asked for; as much as anybody wants when `None`.
    pub limits: Option<Limits>,
}

/// One request that was served.
#[derive(Clone, Debug)]
pub struct Served {
    /// What the ledger says of it.
    pub line: Line,
    /// The request's bytes.
    pub body: Bytes,
}

/// Why the server cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The port is not free.
    #[error("port {port} of 127.0.0.1 cannot be listened on; choose another, or 0 for any")]
    Listen {
        /// The port that was asked for.
        port: u16,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Ledger or record directory cannot be written.
    #[error("{} cannot be opened for writing; check the path and its permissions", path.display())]
    Open {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The runtime or the listener failed.
    #[error("the scripted model server failed; start it again")]
    Run(#[source] io::Error),
}

/// A running server; dropping it ends it and every stream it holds open.
#[derive(Debug)]
pub struct Server {
    base_url: String,
    house: Arc<House>,
    stop: watch::Sender<bool>,
}

#[derive(Debug)]
pub(super) struct House {
    pub(super) scenarios: Vec<Scenario>,
    ledger: Option<Ledger>,
    record: Option<PathBuf>,
    cache: Option<Cache>,
    key: Option<String>,
    meter: Option<Meter>,
    /// Attempts per scenario, turn and conversation.
    attempts: Mutex<HashMap<(usize, usize, String), u32>>,
    served: Mutex<Vec<Served>>,
    queue: Mutex<queue::Queue>,
    entries: Mutex<Vec<String>>,
    stop: watch::Receiver<bool>,
}

impl Server {
    /// Starts serving on the current runtime.
    ///
    /// # Errors
    /// When the port, the ledger or the record directory cannot be had.
    pub async fn start(scenarios: Vec<Scenario>, options: Options) -> Result<Self, Error> {
        let Options { port, caches, ledger, record, key, limits } = options;
        let ledger = match ledger {
            Some(path) => {
                Some(Ledger::open(&path).map_err(|source| Error::Open { path: path.clone(), source })?)
            }
            None => None,
        };
        if let Some(path) = &record {
            std::fs::create_dir_all(path).map_err(|source| Error::Open { path: path.clone(), source })?;
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .await
            .map_err(|source| Error::Listen { port, source })?;
        let address: SocketAddr = listener.local_addr().map_err(Error::Run)?;
        let (stop, stopped) = watch::channel(false);
        let house = Arc::new(House {
            scenarios,
            ledger,
            record,
            cache: caches.then(Cache::default),
            key,
            meter: limits.map(Meter::new),
            attempts: Mutex::default(),
            served: Mutex::default(),
            queue: Mutex::default(),
            entries: Mutex::default(),
            stop: stopped.clone(),
        });
        let serving = axum::serve(listener, router(house.clone())).with_graceful_shutdown(until(stopped));
        tokio::spawn(async move { serving.await });
        Ok(Self { base_url: format!("http://{address}"), house, stop })
    }

    /// What `ANTHROPIC_BASE_URL`, `OPENAI_BASE_URL` or `REGIE_LOCAL_BASE_URL` is to be.
    #[must_use]
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// The requests for turns so far, in the order they were answered.
    #[must_use]
    pub fn served(&self) -> Vec<Served> {
        self.house.served.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The batches so far, in the order they were submitted.
    #[must_use]
    pub fn queued(&self) -> Vec<Queued> {
        self.house.queued()
    }

    /// How many requests asked for more than [`Options::limits`] has; they are not among those served.
    #[must_use]
    pub fn limited(&self) -> usize {
        self.house.meter.as_ref().map_or(0, Meter::refused)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

/// Serves until the process ends; `ready` is told the address.
///
/// # Errors
/// As [`Server::start`], or when no runtime can be had.
pub fn serve_forever(
    scenarios: Vec<Scenario>,
    options: Options,
    ready: impl FnOnce(&Server),
) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Error::Run)?;
    runtime.block_on(async {
        let server = Server::start(scenarios, options).await?;
        ready(&server);
        std::future::pending().await
    })
}

fn router(house: Arc<House>) -> Router {
    Router::new()
        .route("/v1/messages", post(messages))
        .route("/v1/responses", post(responses))
        .route("/v1/chat/completions", post(chat))
        .route("/v1/messages/count_tokens", post(count_tokens))
        .merge(queue::routes())
        .route("/v1/responses/input_tokens", post(input_tokens))
        .route("/tokenize", post(tokenize))
        .route("/v1/models", get(super::models::list))
        .route("/ledger", get(ledger_entries).post(ledger_append))
        .fallback(async || refusal(Wire::Messages, 404, "no such endpoint"))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(house)
}

async fn messages(State(house): State<Arc<House>>, headers: HeaderMap, body: Bytes) -> Response {
    serve(house, Wire::Messages, &headers, body).await
}

async fn responses(State(house): State<Arc<House>>, headers: HeaderMap, body: Bytes) -> Response {
    serve(house, Wire::Responses, &headers, body).await
}

async fn chat(State(house): State<Arc<House>>, headers: HeaderMap, body: Bytes) -> Response {
    serve(house, Wire::Chat, &headers, body).await
}

async fn serve(house: Arc<House>, wire: Wire, headers: &HeaderMap, body: Bytes) -> Response {
    if let Some(refused) = house.stranger(wire, headers) {
        return refused;
    }
    let request: Value = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(_) => return refusal(wire, 400, "the request body is not valid JSON"),
    };
    let size = rules::images::counted(&request, body.len());
    let metered = house.meter.as_ref().map(|meter| meter.take(wire, wire.counted(&request, size)));
    if let Some(Metered { is_served: false, headers }) = metered {
        return (headers, refusal(wire, 429, "this request would exceed the limit of your organization"))
            .into_response();
    }
    let plan = house.plan(wire, &request);
    let served = plan.served(&request, body.clone());
    if let Err(error) = house.clone().note(served).await {
        return refusal(wire, 500, &format!("the ledger cannot be written: {error}"));
    }
    let body_sha256 = sha256(&body);
    let mut response = house.answer(&plan, &request, size).await;
    let id = format!("req_{}", body_sha256.chars().take(24).collect::<String>());
    if let Ok(id) = id.parse() {
        response.headers_mut().insert(wire.request_id(), id);
    }
    if let Some(Metered { headers, .. }) = metered {
        response.headers_mut().extend(headers);
    }
    response
}

async fn count_tokens(State(house): State<Arc<House>>, headers: HeaderMap, body: Bytes) -> Response {
    if let Some(refused) = house.stranger(Wire::Messages, &headers) {
        return refused;
    }
    match serde_json::from_slice::<Value>(&body) {
        Ok(request) if request["stream"].is_null() && request["max_tokens"].is_null() => {
            Json(json!({ "input_tokens": body.len() / 4 })).into_response()
        }
        Ok(_) => refusal(Wire::Messages, 400, "max_tokens: Extra inputs are not permitted"),
        Err(_) => refusal(Wire::Messages, 400, "the request body is not valid JSON"),
    }
}

async fn input_tokens(State(house): State<Arc<House>>, headers: HeaderMap, body: Bytes) -> Response {
    if let Some(refused) = house.stranger(Wire::Responses, &headers) {
        return refused;
    }
    match serde_json::from_slice::<Value>(&body) {
        Ok(request) if request["stream"].is_null() && request["max_output_tokens"].is_null() => {
            Json(json!({ "object": "response.input_tokens", "input_tokens": body.len() / 4 })).into_response()
        }
        Ok(_) => refusal(Wire::Responses, 400, "Unknown parameter: 'stream'."),
        Err(_) => refusal(Wire::Responses, 400, "the request body is not valid JSON"),
    }
}

/// As vLLM has it: the messages of a chat, as the model's own template makes them.
async fn tokenize(body: Bytes) -> Response {
    match serde_json::from_slice::<Value>(&body) {
        Ok(request) if request["messages"].is_array() => {
            let count = body.len() / 4;
            Json(json!({ "count": count, "max_model_len": 32_768, "tokens": [] })).into_response()
        }
        Ok(_) => refusal(Wire::Chat, 400, "messages: field required"),
        Err(_) => refusal(Wire::Chat, 400, "the request body is not valid JSON"),
    }
}

#[derive(Deserialize)]
struct Entry {
    key: String,
    text: String,
}

/// Reads the entry whatever its content type, so that a bare `curl -d` serves as a test tool.
async fn ledger_append(State(house): State<Arc<House>>, body: Bytes) -> Response {
    let Ok(Entry { key, text }) = serde_json::from_slice(&body) else {
        return refusal(Wire::Messages, 400, "send JSON with the texts `key` and `text`");
    };
    let appended = house.clone().append(Line::Entry { key: key.clone(), text }).await;
    match appended {
        Ok(()) => house.count(&key),
        Err(error) => refusal(Wire::Messages, 500, &format!("the ledger cannot be written: {error}")),
    }
}

#[derive(Deserialize)]
struct Key {
    key: String,
}

async fn ledger_entries(State(house): State<Arc<House>>, Query(key): Query<Key>) -> Response {
    house.count(&key.key)
}

/// Which answer a request gets: decided before anything is written or sent.
struct Plan<'a> {
    wire: Wire,
    scenario: &'a str,
    turn: usize,
    attempt: u32,
    conversation: String,
    what: What<'a>,
}

enum What<'a> {
    Answer(&'a Turn),
    Fault(&'a Turn, &'a Fault),
    Refuse(String),
}

impl Plan<'_> {
    fn served(&self, request: &Value, body: Bytes) -> Served {
        let outcome = match &self.what {
            What::Answer(_) => "answer".to_owned(),
            What::Fault(_, fault) => match fault.status {
                Some(status) => format!("status {status}"),
                None => format!("{:?} after {} events", fault.kind, fault.after_events).to_lowercase(),
            },
            What::Refuse(why) => format!("refused: {why}"),
        };
        let line = Line::Turn {
            scenario: self.scenario.to_owned(),
            turn: self.turn,
            summary: rules::compaction_of(request),
            attempt: self.attempt,
            outcome,
            model: request["model"].as_str().unwrap_or_default().to_owned(),
            body_sha256: sha256(&body),
            first_user_sha256: self.conversation.clone(),
        };
        Served { line, body }
    }
}

impl House {
    /// The refusal of a caller without the vendor's headers.
    pub(super) fn stranger(&self, wire: Wire, headers: &HeaderMap) -> Option<Response> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let bearer = text("authorization").and_then(|value| value.strip_prefix("Bearer "));
        let key = text("x-api-key").or(bearer).filter(|key| !key.is_empty());
        let welcome = match (&self.key, key) {
            // A server on one's own machine asks for none.
            (None, None) => wire == Wire::Chat,
            (Some(_), None) => false,
            (None, Some(_)) => true,
            (Some(only), Some(key)) => only == key,
        };
        if !welcome {
            return Some(refusal(wire, 401, "invalid api key"));
        }
        let is_bare = wire == Wire::Messages && text("anthropic-version").is_none();
        is_bare.then(|| refusal(wire, 400, "anthropic-version: header is required"))
    }

    fn plan(&self, wire: Wire, request: &Value) -> Plan<'_> {
        let talk = wire.conversation(request);
        let first = rules::first_user_text(&talk);
        let conversation = sha256(first.as_bytes());
        let turn = rules::turn_of(&talk);
        let all = rules::all_user_texts(&talk);
        let serves = |scenario: &Scenario| {
            scenario.matches.as_ref().is_none_or(|text| first.contains(text.as_str()))
                && scenario.heard.as_ref().is_none_or(|text| all.contains(text.as_str()))
        };
        let Some(place) = self.scenarios.iter().position(serves) else {
            let what = What::Refuse("no scenario matches the first user message".to_owned());
            return Plan { wire, scenario: "", turn, attempt: 1, conversation, what };
        };
        let attempt = {
            let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
            // Summaries are counted from the other end, so that none is taken for a turn.
            let key = rules::compaction_of(&talk).map_or(turn, |summary| usize::MAX.saturating_sub(summary));
            let attempt = attempts.entry((place, key, conversation.clone())).or_default();
            *attempt = attempt.saturating_add(1);
            *attempt
        };
        let Some(scenario) = self.scenarios.get(place) else {
            let what = What::Refuse("no such scenario".to_owned());
            return Plan { wire, scenario: "", turn, attempt, conversation, what };
        };
        let what = match wire.objection(request) {
            Some(why) => What::Refuse(why),
            None => self.what(scenario, turn, attempt, &talk),
        };
        Plan { wire, scenario: &scenario.name, turn, attempt, conversation, what }
    }

    fn what<'a>(&self, scenario: &'a Scenario, turn: usize, attempt: u32, talk: &Value) -> What<'a> {
        let script = match rules::compaction_of(talk) {
            Some(summary) => scenario.compactions.get(summary).or(scenario.compactions.last()),
            None => scenario.turns.get(turn),
        };
        let Some(script) = script else {
            let count = scenario.turns.len();
            return What::Refuse(format!(
                "scenario `{}` has {count} turns and {} summaries and the request is for turn {turn}, counted \
                 from 0, or for a summary",
                scenario.name,
                scenario.compactions.len()
            ));
        };
        let last = rules::last_user_text(talk);
        if let Some(text) = script.expect.iter().find(|text| !last.contains(text.as_str())) {
            return What::Refuse(format!(
                "turn {turn} of scenario `{}` expects the last user message to contain {text:?}",
                scenario.name
            ));
        }
        match script.fault(attempt) {
            Some(fault) => What::Fault(script, fault),
            None => What::Answer(script),
        }
    }

    /// Writes ledger and record, on disk before the answer begins.
    async fn note(self: Arc<Self>, served: Served) -> io::Result<()> {
        let place = {
            let mut all = self.served.lock().unwrap_or_else(PoisonError::into_inner);
            all.push(served.clone());
            all.len()
        };
        self.clone().append(served.line.clone()).await?;
        let Some(directory) = self.record.clone() else { return Ok(()) };
        let Line::Turn { turn, body_sha256, .. } = served.line else { return Ok(()) };
        let short: String = body_sha256.chars().take(8).collect();
        let path = directory.join(format!("{place:05}-turn{turn}-{short}.json"));
        tokio::task::spawn_blocking(move || std::fs::write(path, &served.body)).await?
    }

    async fn append(self: Arc<Self>, line: Line) -> io::Result<()> {
        if let Line::Entry { key, .. } = &line {
            self.entries.lock().unwrap_or_else(PoisonError::into_inner).push(key.clone());
        }
        let append = move || self.ledger.as_ref().map_or(Ok(()), |ledger| ledger.append(&line));
        tokio::task::spawn_blocking(append).await?
    }

    fn count(&self, key: &str) -> Response {
        let keys = match &self.ledger {
            // The file outlives this process.
            Some(ledger) => ledger.lines().map(|lines| {
                let entry = |line| match line {
                    Line::Entry { key, .. } => Some(key),
                    Line::Turn { .. } | Line::Batch { .. } => None,
                };
                lines.into_iter().filter_map(entry).collect()
            }),
            None => Ok(self.entries.lock().unwrap_or_else(PoisonError::into_inner).clone()),
        };
        match keys {
            Ok(keys) => {
                let count = keys.iter().filter(|known| *known == key).count();
                Json(json!({ "key": key, "found": count > 0, "count": count })).into_response()
            }
            Err(error) => refusal(Wire::Messages, 500, &format!("the ledger cannot be read: {error}")),
        }
    }

    async fn answer(&self, plan: &Plan<'_>, request: &Value, body_bytes: usize) -> Response {
        let (turn, fault) = match &plan.what {
            What::Refuse(why) => return refusal(plan.wire, 400, why),
            What::Answer(turn) => (*turn, None),
            What::Fault(turn, fault) => (*turn, Some(*fault)),
        };
        tokio::time::sleep(Duration::from_millis(turn.delay_ms)).await;
        if let Some(Fault { kind: FaultKind::Status, status, retry_after, message, .. }) = fault {
            let message = message.as_deref().unwrap_or("scripted fault");
            let mut response = refusal(plan.wire, status.unwrap_or(500), message);
            if let Some(value) = retry_after.as_ref().and_then(|value| value.parse().ok()) {
                response.headers_mut().insert(header::RETRY_AFTER, value);
            }
            return response;
        }
        let asked = Asked {
            request,
            model: request["model"].as_str().unwrap_or_default(),
            conversation: &plan.conversation,
            scenario: plan.scenario,
            turn: plan.turn,
            body_bytes,
            input: self.cache.as_ref().map(|cache| cache.ask(plan.wire, request)),
        };
        if request["stream"] != true {
            return Json(plan.wire.message(turn, &asked)).into_response();
        }
        let acts = plan.wire.stream(turn, &asked, fault);
        let pace = Duration::from_millis(turn.pace_ms);
        let headers = [(header::CONTENT_TYPE, "text/event-stream; charset=utf-8")];
        (headers, play(acts, pace, self.stop.clone())).into_response()
    }
}

/// The acts as a body; ends early when the server stops.
fn play(acts: Vec<Act>, pace: Duration, stop: watch::Receiver<bool>) -> Body {
    let acts = acts.into_iter();
    Body::from_stream(futures_util::stream::unfold((acts, stop), move |(mut acts, stop)| async move {
        loop {
            match acts.next()? {
                Act::Send(bytes) => return Some((Ok(bytes), (acts, stop))),
                Act::Pause => tokio::time::sleep(pace).await,
                Act::Cut => {
                    // Lets the connection flush what was said before.
                    for _ in 0..8 {
                        tokio::task::yield_now().await;
                    }
                    return Some((Err(io::Error::other("scripted cut")), (acts, stop)));
                }
                Act::Hang => {
                    until(stop).await;
                    return None;
                }
            }
        }
    }))
}

async fn until(mut stop: watch::Receiver<bool>) {
    // A sender that is gone stops as well.
    let _ = stop.wait_for(|stop| *stop).await;
}

fn refusal(wire: Wire, status: u16, message: &str) -> Response {
    let code = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (code, Json(wire.refusal(status, message))).into_response()
}
