//! A vendor's error answer becomes one of our errors, here and nowhere else.

use serde_json::Value;

use crate::call::{Answer, Endpoint, Error};
use crate::{Parameter, Secret};

/// What is known of an error answer.
pub(super) struct Refusal<'a> {
    pub at: &'a Endpoint,
    /// The HTTP status; `None` for an error inside a stream.
    pub status: Option<u16>,
    pub body: &'a str,
    pub request_id: Option<String>,
    pub model: &'a str,
    pub retry_after: Option<std::time::Duration>,
    /// Never to be repeated, should the vendor echo it.
    pub secret: Option<&'a Secret>,
}

/// Type, code and words of an error.
#[derive(Default)]
struct Said {
    kind: String,
    code: String,
    /// The field of the request that is at fault.
    field: String,
    status: Option<u16>,
    message: Option<String>,
}

pub(super) fn classify(refusal: Refusal<'_>) -> Error {
    let (said, request_id) = read(refusal.body);
    let Said { kind, code, field, status, message } = said;
    let message = message.unwrap_or_else(|| refusal.body.trim().to_owned());
    let status = refusal
        .status
        .or_else(|| status_of(&code).or_else(|| status_of(&kind)))
        .or(status.filter(|status| (400..600).contains(status)))
        .unwrap_or(500);
    let shown = match refusal.secret {
        Some(secret) if !secret.expose().is_empty() => message.replace(secret.expose(), "***"),
        _ => message.clone(),
    };
    let answer = Answer {
        at: refusal.at.clone(),
        status,
        message: shown.chars().take(300).collect(),
        request_id: refusal.request_id.or(request_id),
    };
    let is_overload = ["overloaded_error", "server_is_overloaded", "slow_down", "engine_overloaded"]
        .iter()
        .any(|known| kind == *known || code == *known);
    let is_long = code == "context_length_exceeded" || kind == "exceed_context_size_error";
    match status {
        529 => Error::Overloaded(answer),
        _ if is_overload => Error::Overloaded(answer),
        _ if is_long => Error::ContextTooLong(answer),
        // An account without money answers 429 as well, and waiting does not mend it.
        429 if code == "insufficient_quota" || kind == "insufficient_quota" => Error::Status(answer),
        429 => Error::RateLimited { answer, retry_after: refusal.retry_after },
        401 | 403 => Error::Unauthorized(answer),
        404 => Error::NotFound { answer, model: refusal.model.to_owned() },
        413 => Error::ContextTooLong(answer),
        400 | 500 if is_too_long(&message) => Error::ContextTooLong(answer),
        400 | 422 => match Parameter::refused(refusal.at.wire, &field, &message) {
            Some(parameter) => Error::Unsupported { answer, parameter },
            None => Error::BadRequest(answer),
        },
        _ => Error::Status(answer),
    }
}

/// Vendors and local servers give an error as an object or a text under `error`, or its fields at the top.
fn read(body: &str) -> (Said, Option<String>) {
    let Ok(Value::Object(top)) = serde_json::from_str(body) else {
        return (Said::default(), None);
    };
    let request_id = top.get("request_id").and_then(Value::as_str).map(str::to_owned);
    let inner = match top.get("error") {
        Some(Value::Object(fields)) => fields,
        Some(Value::String(text)) => {
            return (Said { message: Some(text.clone()), ..Said::default() }, request_id);
        }
        _ => &top,
    };
    let text = |name: &str| inner.get(name).and_then(Value::as_str).map(str::to_owned);
    let number = inner.get("code").and_then(Value::as_u64);
    let said = Said {
        kind: text("type").unwrap_or_default(),
        code: text("code").unwrap_or_default(),
        field: text("param").unwrap_or_default(),
        status: number.and_then(|code| u16::try_from(code).ok()),
        message: text("message"),
    };
    (said, request_id)
}

/// The status that an error type or code stands for, as the vendors' documentations list them.
fn status_of(kind: &str) -> Option<u16> {
    Some(match kind {
        "invalid_request_error" | "invalid_prompt" | "BadRequestError" => 400,
        "authentication_error" | "invalid_api_key" => 401,
        "billing_error" => 402,
        "permission_error" => 403,
        "not_found_error" | "model_not_found" => 404,
        "request_too_large" | "context_length_exceeded" => 413,
        "rate_limit_error" | "rate_limit_exceeded" | "insufficient_quota" => 429,
        "timeout_error" => 504,
        "server_error" | "api_error" => 500,
        "server_is_overloaded" | "slow_down" => 503,
        "overloaded_error" => 529,
        _ => return None,
    })
}

/// Not every server has a type of its own for this; all have words.
fn is_too_long(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    [
        "prompt is too long",
        "exceed context limit",
        "exceeds the context",
        "context window",
        "maximum context length",
        "exceeds the available context",
        "context length of only",
        "context size has been exceeded",
    ]
    .iter()
    .any(|words| message.contains(words))
}
