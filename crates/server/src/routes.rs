//! Which request becomes which use case.

use std::sync::Arc;

use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, FromRequest, FromRequestParts, Path, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use axum::{Router, body::Bytes, middleware};
use control::api;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::problem::Problem;
use crate::use_cases::UseCases;
use crate::{authority, handshake, stream};

/// The largest request body, in bytes.
const MAX_BODY_BYTES: usize = 1 << 20;
/// Events in one page.
const PAGE: usize = 500;
/// Events in one page that a client may ask for.
const MAX_PAGE: usize = 1_000;

/// Hits of a search that asks for no number.
const HITS: usize = 50;

pub(crate) type Answer<T> = Result<Json<T>, Problem>;

/// What every handler sees.
pub(crate) struct House<U> {
    pub(crate) use_cases: Arc<U>,
    /// Turns true when streams have to end.
    pub(crate) closing: watch::Receiver<bool>,
}

impl<U> Clone for House<U> {
    fn clone(&self) -> Self {
        Self { use_cases: self.use_cases.clone(), closing: self.closing.clone() }
    }
}

pub(crate) fn router<U: UseCases>(house: House<U>) -> Router {
    let v1 = Router::new()
        .route("/version", get(version::<U>))
        .route("/models", get(model_list::<U>).post(model_read::<U>))
        .route("/missions", post(mission_start::<U>))
        .route("/runs", get(run_list::<U>))
        .route("/runs/{run}", get(run_fetch::<U>))
        .route("/runs/{run}/events", get(run_events::<U>))
        .route("/runs/{run}/diff", get(run_diff::<U>))
        .route("/runs/{run}/fork", post(run_fork::<U>))
        .route("/runs/{run}/pause", post(run_pause::<U>))
        .route("/runs/{run}/stop", post(run_stop::<U>))
        .route("/runs/{run}/cancel", post(run_cancel::<U>))
        .route("/runs/{run}/resume", post(run_resume::<U>))
        .route("/runs/{run}/undo", post(run_undo::<U>))
        .route("/runs/{run}/forget", post(run_forget::<U>))
        .route("/runs/{run}/say", post(run_say::<U>))
        .route("/costs", get(costs::<U>))
        .route("/search", get(search::<U>))
        .route("/gates", get(gate_list::<U>))
        .route("/gates/{gate}", get(gate_fetch::<U>))
        .route("/gates/{gate}/answer", post(gate_answer::<U>))
        .route("/policy", get(policy_list::<U>))
        .route("/policy/explain", post(policy_explain::<U>))
        .route("/policy/why", post(policy_why::<U>))
        .route("/artifacts/{digest}", get(artifact_fetch::<U>))
        .route("/usage", get(usage::<U>))
        .route("/sweep", post(sweep::<U>))
        .route("/bin", get(bin_list::<U>))
        .route("/bin/empty", post(bin_empty::<U>))
        .route("/bin/{run}", get(bin_fetch::<U>))
        .route("/bin/{run}/restore", post(bin_restore::<U>))
        .route("/export", post(project_export::<U>))
        .route("/import", post(project_import::<U>))
        .route("/audit/changed", post(who_changed::<U>))
        .route("/audit/read", post(who_read::<U>))
        .route("/runs/{run}/reads", get(run_reads::<U>))
        .merge(authority::router::<U>())
        .route("/audit/verify", post(audit_verify::<U>))
        .route("/shutdown", post(shutdown::<U>))
        .route("/events", get(events::<U>));
    Router::new()
        .nest("/api/v1", v1)
        .fallback(nowhere)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(middleware::from_fn(handshake::check))
        .with_state(house)
}

#[derive(Deserialize)]
struct Open {
    #[serde(default)]
    open: bool,
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    after: u64,
    limit: Option<usize>,
}

#[derive(Deserialize)]
struct Cursor {
    after: Option<u64>,
    run: Option<String>,
}

#[derive(Deserialize)]
struct Added {
    #[serde(default)]
    by: api::By,
}

#[derive(Deserialize)]
struct Place {
    project: Option<String>,
}

#[derive(Deserialize)]
struct Sought {
    text: String,
    limit: Option<usize>,
}

async fn version<U: UseCases>(State(house): State<House<U>>) -> Answer<api::Hello> {
    Ok(Json(house.use_cases.hello().await?))
}

async fn model_list<U: UseCases>(State(house): State<House<U>>) -> Answer<api::Models> {
    Ok(Json(house.use_cases.model_list().await?))
}

async fn model_read<U: UseCases>(
    State(house): State<House<U>>,
    Body(wanted): Body<api::ReadModels>,
) -> Answer<api::Models> {
    Ok(Json(house.use_cases.model_read(wanted).await?))
}

async fn mission_start<U: UseCases>(
    State(house): State<House<U>>,
    Body(wanted): Body<api::StartMission>,
) -> Result<(StatusCode, Json<api::Started>), Problem> {
    Ok((StatusCode::CREATED, Json(house.use_cases.mission_start(wanted).await?)))
}

async fn run_list<U: UseCases>(
    State(house): State<House<U>>,
    Asked(Open { open }): Asked<Open>,
) -> Answer<Vec<api::Run>> {
    Ok(Json(house.use_cases.run_list(open).await?))
}

async fn run_fetch<U: UseCases>(State(house): State<House<U>>, Named(run): Named) -> Answer<api::Run> {
    Ok(Json(house.use_cases.run_fetch(&run).await?))
}

async fn run_events<U: UseCases>(
    State(house): State<House<U>>,
    Named(run): Named,
    Asked(Page { after, limit }): Asked<Page>,
) -> Answer<Vec<api::Event>> {
    let limit = limit.unwrap_or(PAGE).clamp(1, MAX_PAGE);
    Ok(Json(house.use_cases.run_events(&run, after, limit).await?))
}

async fn run_diff<U: UseCases>(State(house): State<House<U>>, Named(run): Named) -> Answer<api::Diff> {
    Ok(Json(house.use_cases.run_diff(&run).await?))
}

async fn run_fork<U: UseCases>(
    State(house): State<House<U>>,
    Named(run): Named,
    Body(wanted): Body<api::Fork>,
) -> Result<(StatusCode, Json<api::Started>), Problem> {
    Ok((StatusCode::CREATED, Json(house.use_cases.run_fork(&run, wanted).await?)))
}

async fn run_pause<U: UseCases>(
    State(house): State<House<U>>,
    Named(run): Named,
) -> Result<StatusCode, Problem> {
    house.use_cases.run_pause(&run).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn run_stop<U: UseCases>(
    State(house): State<House<U>>,
    Named(run): Named,
) -> Result<StatusCode, Problem> {
    house.use_cases.run_stop(&run).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn run_cancel<U: UseCases>(
    State(house): State<House<U>>,
    Named(run): Named,
) -> Result<StatusCode, Problem> {
    house.use_cases.run_cancel(&run).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn run_resume<U: UseCases>(
    State(house): State<House<U>>,
    Named(run): Named,
    Body(with): Body<api::Resume>,
) -> Result<StatusCode, Problem> {
    house.use_cases.run_resume(&run, with).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn run_undo<U: UseCases>(State(house): State<House<U>>, Named(run): Named) -> Answer<api::Undone> {
    Ok(Json(house.use_cases.run_undo(&run).await?))
}

async fn run_forget<U: UseCases>(
    State(house): State<House<U>>,
    Named(run): Named,
    Body(order): Body<api::Forget>,
) -> Answer<api::Forgotten> {
    Ok(Json(house.use_cases.run_forget(&run, order).await?))
}

async fn run_say<U: UseCases>(
    State(house): State<House<U>>,
    Named(run): Named,
    Body(said): Body<api::Say>,
) -> Result<StatusCode, Problem> {
    house.use_cases.run_say(&run, said).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn costs<U: UseCases>(
    State(house): State<House<U>>,
    Asked(Added { by }): Asked<Added>,
) -> Answer<api::Costs> {
    Ok(Json(house.use_cases.costs(by).await?))
}

async fn search<U: UseCases>(
    State(house): State<House<U>>,
    Asked(Sought { text, limit }): Asked<Sought>,
) -> Answer<Vec<api::Hit>> {
    Ok(Json(house.use_cases.search(&text, limit.unwrap_or(HITS)).await?))
}

async fn gate_list<U: UseCases>(
    State(house): State<House<U>>,
    Asked(Open { open }): Asked<Open>,
) -> Answer<Vec<api::Gate>> {
    Ok(Json(house.use_cases.gate_list(open).await?))
}

async fn gate_fetch<U: UseCases>(State(house): State<House<U>>, Named(gate): Named) -> Answer<api::Gate> {
    Ok(Json(house.use_cases.gate_fetch(&gate).await?))
}

async fn gate_answer<U: UseCases>(
    State(house): State<House<U>>,
    Named(gate): Named,
    Body(answer): Body<api::AnswerGate>,
) -> Answer<api::Gate> {
    Ok(Json(house.use_cases.gate_answer(&gate, answer).await?))
}

async fn policy_list<U: UseCases>(
    State(house): State<House<U>>,
    Asked(Place { project }): Asked<Place>,
) -> Answer<api::Policy> {
    Ok(Json(house.use_cases.policy_list(project).await?))
}

async fn policy_explain<U: UseCases>(
    State(house): State<House<U>>,
    Body(asked): Body<api::Explain>,
) -> Answer<api::Explained> {
    Ok(Json(house.use_cases.policy_explain(asked).await?))
}

async fn policy_why<U: UseCases>(
    State(house): State<House<U>>,
    Body(asked): Body<api::AskWhy>,
) -> Answer<api::Why> {
    Ok(Json(house.use_cases.policy_why(asked).await?))
}

async fn artifact_fetch<U: UseCases>(
    State(house): State<House<U>>,
    Named(digest): Named,
) -> Result<Response, Problem> {
    let bytes = house.use_cases.artifact_fetch(&digest).await?;
    // Agents wrote it: never anything that a reader would render.
    let headers =
        [(header::CONTENT_TYPE, "application/octet-stream"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    Ok((headers, bytes).into_response())
}

async fn usage<U: UseCases>(State(house): State<House<U>>) -> Answer<api::Usage> {
    Ok(Json(house.use_cases.usage().await?))
}

async fn sweep<U: UseCases>(
    State(house): State<House<U>>,
    Body(order): Body<api::Sweep>,
) -> Answer<api::Swept> {
    Ok(Json(house.use_cases.sweep(order).await?))
}

async fn bin_list<U: UseCases>(State(house): State<House<U>>) -> Answer<Vec<api::Binned>> {
    Ok(Json(house.use_cases.bin_list().await?))
}

async fn bin_fetch<U: UseCases>(
    State(house): State<House<U>>,
    Path(run): Path<String>,
) -> Answer<api::BinnedShown> {
    Ok(Json(house.use_cases.bin_fetch(&run).await?))
}

async fn bin_restore<U: UseCases>(
    State(house): State<House<U>>,
    Path(run): Path<String>,
) -> Answer<api::Restored> {
    Ok(Json(house.use_cases.bin_restore(&run).await?))
}

async fn bin_empty<U: UseCases>(
    State(house): State<House<U>>,
    Body(order): Body<api::EmptyBin>,
) -> Answer<Vec<api::Binned>> {
    Ok(Json(house.use_cases.bin_empty(order).await?))
}

async fn project_export<U: UseCases>(
    State(house): State<House<U>>,
    Body(wanted): Body<api::Export>,
) -> Answer<api::Carried> {
    Ok(Json(house.use_cases.project_export(wanted).await?))
}

async fn project_import<U: UseCases>(
    State(house): State<House<U>>,
    Body(wanted): Body<api::Import>,
) -> Answer<api::Carried> {
    Ok(Json(house.use_cases.project_import(wanted).await?))
}

async fn who_changed<U: UseCases>(
    State(house): State<House<U>>,
    Body(wanted): Body<api::WhoChanged>,
) -> Answer<Vec<api::Changed>> {
    Ok(Json(house.use_cases.who_changed(wanted).await?))
}

async fn who_read<U: UseCases>(
    State(house): State<House<U>>,
    Body(wanted): Body<api::WhoRead>,
) -> Answer<Vec<api::Reader>> {
    Ok(Json(house.use_cases.who_read(wanted).await?))
}

async fn run_reads<U: UseCases>(
    State(house): State<House<U>>,
    Path(run): Path<String>,
) -> Answer<api::Manifest> {
    Ok(Json(house.use_cases.run_reads(&run).await?))
}

async fn audit_verify<U: UseCases>(State(house): State<House<U>>) -> Answer<api::Audit> {
    Ok(Json(house.use_cases.audit_verify().await?))
}

async fn shutdown<U: UseCases>(State(house): State<House<U>>) -> Result<StatusCode, Problem> {
    house.use_cases.shutdown().await?;
    Ok(StatusCode::ACCEPTED)
}

/// The cursor is the client's `Last-Event-ID` after a reconnect, else `after`, else now.
async fn events<U: UseCases>(
    State(house): State<House<U>>,
    Asked(cursor): Asked<Cursor>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let last_seen = match headers.get("last-event-id") {
        None => None,
        Some(value) => match value.to_str().ok().and_then(|text| text.trim().parse().ok()) {
            Some(position) => Some(position),
            None => {
                return Err(Problem::new(
                    StatusCode::BAD_REQUEST,
                    "request.cursor",
                    "the header `Last-Event-ID` is not a position",
                    "send the `id` of the last event that was received, or leave the header out",
                ));
            }
        },
    };
    let run = match cursor.run {
        Some(run) => Some(house.use_cases.run_fetch(&run).await?.run),
        None => None,
    };
    Ok(stream::open(house, last_seen.or(cursor.after), run).into_response())
}

async fn nowhere(uri: Uri) -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "route.not_found",
        format!("there is no `{}` in this API", uri.path()),
        "the API lies under /api/v1; see the documentation for its routes",
    )
}

async fn wrong_method(method: Method, uri: Uri) -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "route.method",
        format!("`{}` does not take {method}", uri.path()),
        "reads are GET, changes are POST",
    )
}

/// A JSON body; an empty one stands for `{}`.
pub(crate) struct Body<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let bytes = Bytes::from_request(request, state).await.map_err(unread)?;
        let text: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
        serde_json::from_slice(text).map(Self).map_err(|error| not_json(&error))
    }
}

fn unread(rejection: BytesRejection) -> Problem {
    match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "request.too_large",
            format!("the request body has more than {MAX_BODY_BYTES} bytes"),
            "send a shorter one; large content belongs into the project's files",
        ),
        _ => Problem::new(
            StatusCode::BAD_REQUEST,
            "request.unreadable",
            "the request body ended before it was complete",
            "send the request again",
        ),
    }
}

/// Says where the body is wrong without repeating any of its values: one of them may be a key.
fn not_json(error: &serde_json::Error) -> Problem {
    use serde_json::error::Category;
    let text = error.to_string();
    let place = format!("line {}, column {}", error.line(), error.column());
    let (status, detail) = match error.classify() {
        Category::Data if text.starts_with("missing field") => {
            (StatusCode::UNPROCESSABLE_ENTITY, format!("the request body is wrong: {text}"))
        }
        Category::Data => (
            StatusCode::UNPROCESSABLE_ENTITY,
            format!("the request body has a value of the wrong type at {place}"),
        ),
        _ => (StatusCode::BAD_REQUEST, format!("the request body is not valid JSON at {place}")),
    };
    Problem::new(status, "request.body", detail, "send the JSON object that this route takes")
}

/// What the query asks for.
pub(crate) struct Asked<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let refused = |rejection: QueryRejection| {
            Problem::new(
                StatusCode::BAD_REQUEST,
                "request.query",
                format!("the query is wrong: {}", rejection.body_text()),
                "`open` is true or false; `after` and `limit` are numbers; `by` is run, mission, day or model",
            )
        };
        Query::from_request_parts(parts, state).await.map(|Query(asked)| Self(asked)).map_err(refused)
    }
}

/// The name in the path.
pub(crate) struct Named(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        Path::from_request_parts(parts, state).await.map(|Path(name)| Self(name)).map_err(|_| {
            Problem::new(
                StatusCode::BAD_REQUEST,
                "request.path",
                "the path is not valid UTF-8",
                "send the id as `regie runs` or `regie gate list` prints it",
            )
        })
    }
}
