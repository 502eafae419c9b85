//! A vendor's error answer becomes one of our errors, here and nowhere else.

use serde::Deserialize;

use crate::call::{Answer, Error};

/// What is known of an error answer.
pub(super) struct Refusal<'a> {
    pub at: &'a str,
    /// The HTTP status; `None` for an error inside a stream.
    pub status: Option<u16>,
    pub body: &'a str,
    pub request_id: Option<String>,
    pub model: &'a str,
    pub retry_after: Option<std::time::Duration>,
    /// Never to be repeated, should the vendor echo it.
    pub secret: &'a str,
}

#[derive(Default, Deserialize)]
struct Body {
    #[serde(default)]
    error: Option<Inner>,
    #[serde(default)]
    request_id: Option<String>,
}

#[derive(Default, Deserialize)]
struct Inner {
    #[serde(default)]
    r#type: Option<String>,
    #[serde(default)]
    message: Option<String>,
}

pub(super) fn classify(refusal: Refusal<'_>) -> Error {
    let Body { error, request_id } = serde_json::from_str(refusal.body).unwrap_or_default();
    let Inner { r#type: kind, message } = error.unwrap_or_default();
    let kind = kind.unwrap_or_default();
    let message = message.unwrap_or_else(|| refusal.body.trim().to_owned());
    let status = refusal.status.unwrap_or_else(|| status_of(&kind));
    let answer = Answer {
        at: refusal.at.to_owned(),
        status,
        message: message.replace(refusal.secret, "***").chars().take(300).collect(),
        request_id: refusal.request_id.or(request_id),
    };
    match (status, kind.as_str()) {
        (529, _) | (_, "overloaded_error") => Error::Overloaded(answer),
        (429, _) => Error::RateLimited { answer, retry_after: refusal.retry_after },
        (401 | 403, _) => Error::Unauthorized(answer),
        (404, _) => Error::NotFound { answer, model: refusal.model.to_owned() },
        (413, _) => Error::ContextTooLong(answer),
        (400, _) if is_too_long(&message) => Error::ContextTooLong(answer),
        (400 | 422, _) => Error::BadRequest(answer),
        _ => Error::Status(answer),
    }
}

/// The status that an error type stands for, as the vendor's documentation lists them.
fn status_of(kind: &str) -> u16 {
    match kind {
        "invalid_request_error" => 400,
        "authentication_error" => 401,
        "billing_error" => 402,
        "permission_error" => 403,
        "not_found_error" => 404,
        "request_too_large" => 413,
        "rate_limit_error" => 429,
        "timeout_error" => 504,
        "overloaded_error" => 529,
        _ => 500,
    }
}

/// The vendor has no type of its own for this, only words.
fn is_too_long(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    ["prompt is too long", "exceed context limit", "exceeds the context", "context window"]
        .iter()
        .any(|words| message.contains(words))
}
