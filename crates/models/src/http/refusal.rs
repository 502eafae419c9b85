//! A vendor's error answer becomes one of our errors, here and nowhere else.

use serde_json::Value;

use crate::call::{Answer, Endpoint, Error};
use crate::{Parameter, Secret, Wire, tls};

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
    let is_typed = !kind.is_empty() || !code.is_empty();
    let page = page(refusal.body);
    let is_page = page.is_some();
    let message = message.or(page).unwrap_or_else(|| refusal.body.trim().to_owned());
    let status = refusal
        .status
        .or_else(|| status_of(&code).or_else(|| status_of(&kind)))
        .or(status.filter(|status| (400..600).contains(status)))
        .unwrap_or(500);
    let hidden = |text: &str| match refusal.secret {
        Some(secret) if !secret.expose().is_empty() => text.replace(secret.expose(), "***"),
        _ => text.to_owned(),
    };
    let answer = Answer {
        at: refusal.at.clone(),
        status,
        message: hidden(&message).chars().take(300).collect(),
        request_id: refusal.request_id.or(request_id).map(|id| hidden(&id)),
    };
    let is_overload = ["overloaded_error", "server_is_overloaded", "slow_down", "engine_overloaded"]
        .iter()
        .any(|known| kind == *known || code == *known);
    let is_long = code == "context_length_exceeded" || kind == "exceed_context_size_error";
    if status == 400 && wants_tls(&message) {
        let fault = tls::Fault::Encrypted;
        return Error::Tls { at: answer.at, fault, source: None };
    }
    if let Some(mend) = no_tools(&message, status) {
        return Error::NoTools { answer, mend };
    }
    let is_broke =
        [&kind, &code].iter().any(|said| matches!(said.as_str(), "insufficient_quota" | "billing_error"))
            || message.to_ascii_lowercase().contains("credit balance is too low");
    if let Some(fault) =
        image_fault(refusal.at.wire, &code, &message, status).filter(|_| !is_page && !is_long)
    {
        return match fault {
            OfImages::All => Error::Unsupported { answer, parameter: Parameter::Images },
            OfImages::One => Error::Image(answer),
        };
    }
    match status {
        // What a proxy or a firewall says has a page around it; the vendor's own words never have.
        300..500 | 501 if is_page && !matches!(status, 408 | 409 | 425 | 429) => Error::Page(answer),
        402 => Error::NoCredit(answer),
        // An account without money answers 429 or 400 as well, and waiting does not mend it.
        400 | 403 | 429 if is_broke => Error::NoCredit(answer),
        529 => Error::Overloaded(answer),
        _ if is_overload => Error::Overloaded(answer),
        _ if is_long => Error::ContextTooLong(answer),
        429 => Error::RateLimited { answer, retry_after: refusal.retry_after },
        401 | 403 => Error::Unauthorized(answer),
        404 if !is_typed && !message.to_ascii_lowercase().contains("model") => Error::NoSuchPath(answer),
        405 | 501 => Error::NoSuchPath(answer),
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
        message: text("message").or(text("detail")),
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

/// A server of TLS that was spoken to without it, in the words of nginx, Apache and Go.
fn wants_tls(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    let words = [
        "plain http request was sent to https port",
        "speaking plain http to an ssl",
        "http request to an https server",
    ];
    words.iter().any(|words| message.contains(words))
}

/// What is refused of images.
enum OfImages {
    /// The model, or its server, takes none.
    All,
    /// One of those that were sent.
    One,
}

/// Whether a request is refused for its images. The vendors have many words for it; all name the thing, and
/// who has sent no image knows better.
fn image_fault(wire: Wire, code: &str, message: &str, status: u16) -> Option<OfImages> {
    let (code, message) = (code.to_ascii_lowercase(), message.to_ascii_lowercase());
    let says = |words: &[&str]| words.iter().any(|words| message.contains(words));
    let is_of_request = match status {
        400 | 415 | 422 => true,
        // llama.cpp and Ollama.
        500 | 501 => wire == Wire::Chat,
        _ => false,
    };
    let is_named = code.contains("image") || says(&["image", "multimodal", "multi-modal", "mmproj"]);
    if !is_named || !is_of_request && !code.contains("image") {
        return None;
    }
    let refuses_all = [
        "not support image",
        "not support vision",
        "not support multimodal",
        "image input is not supported",
        "images are not supported",
        "image inputs are not supported",
        "not a multimodal model",
        "not a multi-modal model",
        "only supported by certain models",
        "missing data required for image",
        "unsupported content part type",
        "at most 0 image",
        "mmproj",
    ];
    Some(if says(&refuses_all) { OfImages::All } else { OfImages::One })
}

/// What makes a server or model take tools that has refused them; `None` for any other refusal.
fn no_tools(message: &str, status: u16) -> Option<&'static str> {
    let message = message.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|words| message.contains(words));
    if !matches!(status, 400 | 404 | 422 | 500 | 501) {
        return None;
    }
    if says(&["--enable-auto-tool-choice", "--tool-call-parser"]) {
        return Some("start vLLM with --enable-auto-tool-choice and --tool-call-parser NAME");
    }
    if says(&["requires --jinja", "use --jinja"]) {
        return Some("start llama.cpp with --jinja");
    }
    let refuses = [
        "does not support tool",
        "doesn't support tool",
        "not support tool use",
        "tools is not supported",
        "tools are not supported",
        "'tools' is not supported",
        "tool use is not supported",
        "tool calling is not supported",
        "does not support function calling",
        "function calling is not supported",
        "endpoints found that support tool use",
    ];
    says(&refuses).then_some("Regie works with models that call tools alone: start a run with another model, or give this server one under the same name")
}

/// The words of a web page: its title, or else its text.
fn page(body: &str) -> Option<String> {
    let body = body.trim_start_matches('\u{feff}').trim_start();
    let lower = body.to_ascii_lowercase();
    if !["<!doctype html", "<html", "<head", "<body"].iter().any(|head| lower.starts_with(head)) {
        return None;
    }
    let title = lower.find("<title").and_then(|from| {
        let from = from + lower.get(from..)?.find('>')? + 1;
        let until = from + lower.get(from..)?.find("</title")?;
        body.get(from..until)
    });
    let mut depth = 0_u32;
    let mut text = String::new();
    for c in title.unwrap_or(body).chars() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ if depth == 0 => text.push(c),
            _ => {}
        }
    }
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
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
