//! The version handshake: a client says which API it speaks, and client and daemon of different
//! versions refuse each other in words instead of misreading each other.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use control::api;

use crate::problem::Problem;

/// The header by which a client says its version, and the daemon answers with its own.
pub const HEADER: &str = "regie-api";

/// The path that answers whatever version the client speaks, so that it can tell its user.
const OPEN_TO_ALL: &str = "/api/v1/version";

pub(crate) async fn check(request: Request, next: Next) -> Response {
    let refused = match request.uri().path() {
        OPEN_TO_ALL => None,
        _ => mismatch(request.headers()),
    };
    let mut response = match refused {
        Some(problem) => problem.into_response(),
        None => next.run(request).await,
    };
    response.headers_mut().insert(HEADER, HeaderValue::from(api::VERSION));
    response
}

fn mismatch(headers: &HeaderMap) -> Option<Problem> {
    let said = headers.get(HEADER).and_then(|value| value.to_str().ok());
    let theirs = said.and_then(|value| value.trim().parse::<u32>().ok());
    if theirs == Some(api::VERSION) {
        return None;
    }
    let ours = api::VERSION;
    let (detail, hint) = match theirs {
        Some(theirs) if theirs > ours => (
            format!("the daemon speaks API {ours} and the client API {theirs}"),
            "the daemon is older: end it and run the command again, which starts the new one".to_owned(),
        ),
        Some(theirs) => (
            format!("the daemon speaks API {ours} and the client API {theirs}"),
            "the client is older: use the `regie` that started the daemon".to_owned(),
        ),
        None => (
            format!("the daemon speaks API {ours} and the request names no version"),
            format!("send the header `{HEADER}: {ours}`"),
        ),
    };
    Some(Problem::new(StatusCode::UPGRADE_REQUIRED, "api.version", detail, &hint))
}
