//! What is on record of a model call that failed: the payload of a `model_call` step with the outcome
//! *failed*. The daemon's model executor writes it and the driver reads it.

use domain::{Millis, Timestamp};
use kernel::port::Refused;
use models::Parameter;
use models::call::Error;
use serde::{Deserialize, Serialize};

/// The wait after a 429 that names none.
const RATE_LIMIT_WAIT: Millis = 30_000;
/// The wait after the vendor said that it is overloaded.
const OVERLOAD_WAIT: Millis = 60_000;

/// A failed model call, after the adapter's own retries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelFailure {
    /// A stable code, as `model.overloaded`.
    pub code: String,
    /// What happened, where, and how to mend it.
    pub message: String,
    /// What the owner can do, in one line; may be empty.
    #[serde(default)]
    pub hint: String,
    /// When to ask again; the driver sleeps until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
    /// Whether asking again at once may help.
    #[serde(default)]
    pub retryable: bool,
}

/// The codes of a parameter that the vendor does not take.
const PARAMETERS: [(Parameter, &str); 5] = [
    (Parameter::CacheKey, "model.no_cache_key"),
    (Parameter::Reasoning, "model.no_reasoning"),
    (Parameter::Effort, "model.no_effort"),
    (Parameter::Recall, "model.no_recall"),
    (Parameter::Images, "model.no_images"),
];

/// The code of an image that the vendor does not take.
pub const IMAGE: &str = "model.image";

/// The code of a conversation that is longer than the model's window.
pub const CONTEXT_TOO_LONG: &str = "model.context_too_long";

impl ModelFailure {
    /// Classifies an adapter's error at `now`.
    pub fn new(error: &Error, now: Timestamp) -> Self {
        let (code, hint) = words(error);
        let wait = match error {
            Error::RateLimited { retry_after, .. } => Some(retry_after.map_or(RATE_LIMIT_WAIT, |after| {
                Millis::try_from(after.as_millis()).unwrap_or(RATE_LIMIT_WAIT)
            })),
            Error::Overloaded(_) => Some(OVERLOAD_WAIT),
            _ => None,
        };
        Self {
            code: code.into(),
            message: error.to_string(),
            hint: hint.into(),
            retry_at: wait.map(|wait| now.plus(wait)),
            retryable: error.is_retryable(),
        }
    }

    /// The parameter that the vendor does not take, when that is why.
    pub fn parameter(&self) -> Option<Parameter> {
        PARAMETERS.iter().find(|(_, code)| *code == self.code).map(|(parameter, _)| *parameter)
    }

    /// What only the owner can mend: the run is parked with it instead of failing.
    pub fn refusal(error: &Error) -> Option<Refused> {
        let (code, _) = words(error);
        let is_mendable = matches!(
            error,
            Error::Unauthorized(_)
                | Error::NotFound { .. }
                | Error::NoCredit(_)
                | Error::NoTools { .. }
                | Error::NoSuchPath(_)
                | Error::Page(_)
                | Error::Redirected { .. }
                | Error::Tls { .. }
                | Error::Proxy { .. }
                | Error::Encoded { .. }
                | Error::NotAStream { .. }
                | Error::NoBatch(_)
                | Error::Withdrawn { .. }
        );
        is_mendable.then(|| Refused { code: code.into(), hint: error.to_string() })
    }
}

fn words(error: &Error) -> (&'static str, &'static str) {
    match error {
        Error::Unauthorized(_) => ("model.unauthorized", "check the key, then `regie resume`"),
        Error::RateLimited { .. } => ("model.rate_limited", "lower the load on this key"),
        Error::Overloaded(_) => ("model.overloaded", "the vendor is overloaded; try again later"),
        Error::Unsupported { parameter, .. } => {
            let known = PARAMETERS.iter().find(|(known, _)| known == parameter);
            (known.map_or("model.bad_request", |(_, code)| code), "")
        }
        Error::BadRequest(_) => ("model.bad_request", "the vendor does not take this request"),
        Error::Image(_) => (IMAGE, "leave the image out"),
        Error::ContextTooLong(_) => (CONTEXT_TOO_LONG, "cut the goal into smaller missions"),
        Error::NoCredit(_) => ("model.no_credit", "add credit to the account, then `regie resume`"),
        Error::NoTools { .. } => ("model.no_tools", "choose a model that calls tools"),
        Error::NoSuchPath(_) => ("model.no_such_path", "check the base URL"),
        Error::Page(_) => ("model.web_page", "check the base URL and the proxy"),
        Error::Redirected { .. } => ("model.redirected", "check the base URL"),
        Error::Tls { .. } => ("model.tls", "check the base URL and the certificates"),
        Error::Proxy { .. } => ("model.proxy", "check the proxy"),
        Error::Encoded { .. } => ("model.encoded", "check the gateway"),
        Error::NotFound { .. } => ("model.not_found", "choose another model with --model"),
        Error::Connect { .. } => ("model.unreachable", "check the network and the base URL"),
        Error::Cut { .. } => ("model.cut", "the connection broke; try again"),
        Error::Idle { .. } => ("model.idle", "the vendor went silent; try again"),
        Error::Malformed { .. } => ("model.malformed", "check the base URL"),
        Error::NotAStream { .. } => ("model.not_a_stream", "check the base URL"),
        Error::NoBatch(_) => ("model.no_batch", "go without --batch"),
        Error::Expired { .. } => ("model.batch_expired", "the vendor's queue is full; go without --batch"),
        Error::Withdrawn { .. } => ("model.batch_withdrawn", "`regie resume` queues it again"),
        Error::NotARequest { .. } => ("model.not_a_request", "please report it"),
        _ => ("model.status", "the vendor answered with an error; try again later"),
    }
}
