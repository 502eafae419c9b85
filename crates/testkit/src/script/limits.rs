//! The limits that the scripted vendor holds its callers to, and says in the head of each answer: buckets
//! that refill steadily. Whoever asks for more than there is gets a 429.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use tokio::time::Instant;

use super::wire::Wire;

/// How much a vendor lets its callers ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests in that time.
    pub requests: u64,
    /// Tokens of input in that time, a token for four bytes of a request; at OpenAI those that the answer may
    /// have, when they are more.
    pub tokens: u64,
    /// The time in which all of it is there again.
    pub per: Duration,
}

/// The limits of a server, and what is left of them.
#[derive(Debug)]
pub(super) struct Meter {
    limits: Limits,
    left: Mutex<Left>,
}

#[derive(Debug)]
struct Left {
    at: Instant,
    requests: f64,
    tokens: f64,
    refused: usize,
}

/// Whether a request is served, and the head that says what is left.
pub(super) struct Metered {
    pub(super) is_served: bool,
    pub(super) headers: HeaderMap,
}

impl Meter {
    pub(super) fn new(limits: Limits) -> Self {
        let left = Left {
            at: Instant::now(),
            requests: real(limits.requests),
            tokens: real(limits.tokens),
            refused: 0,
        };
        Self { limits, left: Mutex::new(left) }
    }

    /// How many requests asked for more than there was.
    pub(super) fn refused(&self) -> usize {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).refused
    }

    /// Takes what a request takes, or nothing when there is not enough.
    pub(super) fn take(&self, wire: Wire, tokens: u64) -> Metered {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let Limits { requests: most_requests, tokens: most_tokens, per } = self.limits;
        let share = left.at.elapsed().as_secs_f64() / per.as_secs_f64();
        left.at = Instant::now();
        left.requests = (left.requests + share * real(most_requests)).min(real(most_requests));
        left.tokens = (left.tokens + share * real(most_tokens)).min(real(most_tokens));
        let (wants_request, wants_tokens) = (1.0, real(tokens));
        let is_served = left.requests >= wants_request && left.tokens >= wants_tokens;
        let mut headers = HeaderMap::new();
        if is_served {
            left.requests -= wants_request;
            left.tokens -= wants_tokens;
        } else {
            left.refused += 1;
            let missing = ((wants_request - left.requests) / real(most_requests))
                .max((wants_tokens - left.tokens) / real(most_tokens));
            let wait = (per.as_secs_f64() * missing).ceil();
            put(&mut headers, header::RETRY_AFTER, &format!("{wait}"));
        }
        for (name, most, left) in
            [("requests", most_requests, left.requests), ("tokens", most_tokens, left.tokens)]
        {
            let full_in = per.mul_f64((1.0 - left / real(most)).clamp(0.0, 1.0));
            say(&mut headers, wire, name, most, left.floor(), full_in);
        }
        Metered { is_served, headers }
    }
}

fn say(headers: &mut HeaderMap, wire: Wire, name: &str, most: u64, left: f64, full_in: Duration) {
    let (limit, left) = (most.to_string(), format!("{left}"));
    let name = |what: &str| match (wire, name) {
        (Wire::Messages, "tokens") => format!("anthropic-ratelimit-input-tokens-{what}"),
        (Wire::Messages, _) => format!("anthropic-ratelimit-{name}-{what}"),
        (Wire::Responses | Wire::Chat, _) => format!("x-ratelimit-{what}-{name}"),
    };
    let reset = match wire {
        Wire::Messages => moment(full_in),
        Wire::Responses | Wire::Chat => format!("{}ms", full_in.as_millis() + 1),
    };
    for (what, value) in [("limit", limit), ("remaining", left), ("reset", reset)] {
        if let Ok(name) = HeaderName::try_from(name(what)) {
            put(headers, name, &value);
        }
    }
}

fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// A moment from now as RFC 3339 has it, in whole seconds.
#[expect(clippy::disallowed_methods, reason = "a vendor says its limits by the wall clock")]
fn moment(from_now: Duration) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + from_now;
    let date = httpdate::HttpDate::from(UNIX_EPOCH + since).to_string();
    // `Tue, 10 Nov 2026 10:00:00 GMT` has all of it, in another order.
    let part = |from: usize, to: usize| date.get(from..to).unwrap_or_default();
    let months = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let month = months.find(part(8, 11)).unwrap_or_default() / 3 + 1;
    format!("{}-{month:02}-{}T{}Z", part(12, 16), part(5, 7), part(17, 25))
}

/// Numbers of a test's size.
#[expect(clippy::cast_precision_loss, reason = "limits are far below 2^52")]
fn real(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_gone_and_said() {
        let meter = Meter::new(Limits { requests: 2, tokens: 100, per: Duration::from_secs(3_600) });
        let first = meter.take(Wire::Responses, 60);
        assert!(first.is_served);
        assert_eq!(first.headers["x-ratelimit-remaining-requests"], "1");
        let second = meter.take(Wire::Messages, 60);
        assert!(!second.is_served);
        assert_eq!(second.headers["anthropic-ratelimit-input-tokens-remaining"], "40");
        let wait: u64 = second.headers["retry-after"].to_str().unwrap().parse().unwrap();
        assert!((700..=720).contains(&wait), "{wait}");
        assert_eq!(meter.refused(), 1);
        assert!(meter.take(Wire::Chat, 40).is_served);
        assert!(!meter.take(Wire::Chat, 0).is_served);
    }

    #[test]
    fn a_moment_is_as_rfc_3339_has_it() {
        let said = moment(Duration::ZERO);
        assert_eq!(said.len(), "2026-11-10T10:00:00Z".len());
        let parts: Vec<u32> =
            said.trim_end_matches('Z').split(['-', 'T', ':']).map(|part| part.parse().unwrap()).collect();
        assert!(parts[0] > 2000 && (1..=12).contains(&parts[1]) && (1..=31).contains(&parts[2]));
    }
}
