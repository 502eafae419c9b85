//! When to try again: what the vendor asks for, or else a capped, jittered, doubling wait.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, SystemTime};

use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use serde::Deserialize;

/// The longest wait that is believed at all: a day.
const LONGEST: Duration = Duration::from_secs(86_400);

/// How long the vendor asks to wait: in milliseconds, in seconds, as an HTTP date, or in the
/// body. A date is compared with the answer's own date, so that no clock of ours matters.
pub(super) fn after(headers: &HeaderMap, body: &str) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let ms = text("retry-after-ms").and_then(|ms| ms.parse::<f64>().ok());
    if let Some(wait) = ms.and_then(|ms| seconds(ms / 1000.0)) {
        return Some(wait);
    }
    if let Some(value) = text(RETRY_AFTER.as_str()) {
        if let Some(wait) = value.parse().ok().and_then(seconds) {
            return Some(wait);
        }
        if let Ok(until) = httpdate::parse_http_date(value) {
            let now = text(DATE.as_str()).and_then(|date| httpdate::parse_http_date(date).ok());
            let now = now.unwrap_or_else(wall_clock);
            return Some(until.duration_since(now).unwrap_or_default().min(LONGEST));
        }
    }
    in_body(body)
}

/// Doubles from `first` up to `cap`, then takes away up to a quarter (`jitter` in 0..1).
pub(super) fn backoff(attempt: u32, first: Duration, cap: Duration, jitter: f64) -> Duration {
    let doubled = first.saturating_mul(2_u32.saturating_pow(attempt.saturating_sub(1))).min(cap);
    doubled.mul_f64(1.0 - jitter.clamp(0.0, 1.0) / 4.0)
}

/// A number in 0..1 that differs between processes and calls. It shapes waits alone, nothing
/// that is recorded, so it needs no seed.
pub(super) fn jitter() -> f64 {
    let bits = RandomState::new().build_hasher().finish() >> 32;
    f64::from(u32::try_from(bits).unwrap_or(0)) / f64::from(u32::MAX)
}

fn seconds(value: f64) -> Option<Duration> {
    (value >= 0.0).then(|| Duration::try_from_secs_f64(value).unwrap_or(LONGEST).min(LONGEST))
}

/// How long an error's own words ask to wait: in a field, or in the sentence that OpenAI has for it.
pub(super) fn in_body(body: &str) -> Option<Duration> {
    #[derive(Deserialize)]
    struct Body {
        #[serde(default)]
        retry_after: Option<f64>,
        #[serde(default)]
        message: Option<String>,
        #[serde(default)]
        error: Option<Inner>,
    }
    #[derive(Deserialize)]
    struct Inner {
        #[serde(default)]
        retry_after: Option<f64>,
        #[serde(default)]
        message: Option<String>,
    }
    let body: Body = serde_json::from_str(body).ok()?;
    let (inner, told) = body.error.map_or((None, None), |inner| (inner.retry_after, inner.message));
    let said = || told.or(body.message).and_then(|message| in_words(&message));
    body.retry_after.or(inner).and_then(seconds).or_else(said)
}

/// `Please try again in 1.5s`, `… in 20ms`.
fn in_words(message: &str) -> Option<Duration> {
    let (_, rest) = message.split_once("try again in ")?;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = rest.split_at(end);
    let number: f64 = number.parse().ok()?;
    match unit {
        _ if unit.starts_with("ms") => seconds(number / 1000.0),
        _ if unit.trim_start().starts_with('s') => seconds(number),
        _ => None,
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "only when a vendor sends a date without its own; shapes a wait alone"
)]
pub(super) fn wall_clock() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[track_caller]
    fn check(pairs: &[(&'static str, &'static str)], body: &str, want: Option<u64>) {
        assert_eq!(after(&headers(pairs), body), want.map(Duration::from_millis));
    }

    #[test]
    fn case_25_retry_after_as_seconds_as_date_or_in_the_body() {
        check(&[], "", None);
        check(&[("retry-after", "7")], "", Some(7_000));
        check(&[("retry-after", "0.5")], "", Some(500));
        check(&[("retry-after-ms", "250"), ("retry-after", "7")], "", Some(250));
        let date = ("date", "Tue, 10 Nov 2026 10:00:00 GMT");
        check(&[("retry-after", "Tue, 10 Nov 2026 10:01:30 GMT"), date], "", Some(90_000));
        check(&[("retry-after", "Tue, 10 Nov 2026 09:00:00 GMT"), date], "", Some(0));
        check(&[], r#"{"error":{"retry_after":3}}"#, Some(3_000));
        check(&[], r#"{"retry_after":4}"#, Some(4_000));
        let said =
            |words: &str| format!(r#"{{"error":{{"message":"Rate limit. Please try again in {words}"}}}}"#);
        check(&[], &said("1.5s. Visit"), Some(1_500));
        check(&[], &said("20ms."), Some(20));
        check(&[], &said("2 seconds"), Some(2_000));
        check(&[], r#"{"message":"try again in 3s"}"#, Some(3_000));
        check(&[], &said("6m0s."), None);
        check(&[], &said("a while"), None);
    }

    #[test]
    fn a_senseless_retry_after_is_capped_or_ignored() {
        check(&[("retry-after", "-3")], "", None);
        check(&[("retry-after", "soon")], "", None);
        check(&[("retry-after", "NaN")], "", None);
        check(&[("retry-after", "1e300")], "", Some(86_400_000));
    }

    #[test]
    fn the_wait_doubles_up_to_the_cap_and_jitter_only_shortens_it() {
        let (first, cap) = (Duration::from_millis(500), Duration::from_secs(30));
        let plain: Vec<u64> = (1..=8)
            .map(|attempt| u64::try_from(backoff(attempt, first, cap, 0.0).as_millis()).unwrap())
            .collect();
        assert_eq!(plain, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
        assert_eq!(backoff(u32::MAX, first, cap, 1.0), Duration::from_millis(22_500));
        let jitter = jitter();
        assert!((0.0..=1.0).contains(&jitter));
    }
}
