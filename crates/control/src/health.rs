//! Which vendors did not answer lately, as the model calls of all runs have it. Held in memory only: a guess
//! about the next minutes, which one answer takes back.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain::{Millis, Timestamp};
use models::call::Error;

/// How long a vendor counts as out that could not be reached or failed, in milliseconds.
const FAILED: Millis = 2 * 60_000;
/// How long one counts as out that says it is overloaded, or wants to be paid.
const OVERLOADED: Millis = 5 * 60_000;
/// The failed attempt of one call from which on its vendor counts as out: the call itself goes on for a minute.
const ATTEMPTS: u32 = 3;

/// What is known, by the address that is called.
#[derive(Debug, Default)]
pub(crate) struct Health {
    out: Mutex<HashMap<String, Out>>,
}

#[derive(Debug)]
struct Out {
    until: Timestamp,
    /// Without the address.
    why: String,
}

impl Health {
    /// A call was answered.
    pub(crate) fn answered(&self, at: &str) {
        if self.lock().remove(at).is_some() {
            tracing::info!(at, "a model vendor answers again");
        }
    }

    /// A call failed for good.
    pub(crate) fn failed(&self, at: &str, error: &Error, now: Timestamp) {
        let millis = |wait: &Duration| Millis::try_from(wait.as_millis()).unwrap_or(Millis::MAX);
        let (span, why) = match error {
            Error::Connect { .. } => (FAILED, "could not be reached".to_owned()),
            Error::Idle { .. } => (FAILED, "sent nothing for too long".to_owned()),
            Error::Overloaded(answer) => (OVERLOADED, format!("answered {}: overloaded", answer.status)),
            Error::NoCredit(answer) => (OVERLOADED, format!("answered {}: no credit is left", answer.status)),
            Error::RateLimited { answer, retry_after } => {
                let asked = retry_after.as_ref().map_or(0, millis);
                (asked.max(FAILED), format!("answered {}: too many requests", answer.status))
            }
            Error::Status(answer) if answer.status >= 500 => (FAILED, format!("answered {}", answer.status)),
            // An answer, or the mistake of one run.
            _ => return,
        };
        self.note(at, Out { until: now.plus(span), why });
    }

    /// An attempt of a call that goes on has failed.
    pub(crate) fn struggles(&self, at: &str, attempt: u32, now: Timestamp) {
        if attempt >= ATTEMPTS {
            let why = format!("failed {attempt} times in a row");
            self.note(at, Out { until: now.plus(FAILED), why });
        }
    }

    /// How an address counts as out, for people; `None` when it does not.
    pub(crate) fn out(&self, at: &str, now: Timestamp) -> Option<String> {
        let mut all = self.lock();
        all.retain(|_, out| out.until > now);
        let Out { until, why } = all.get(at)?;
        let minutes = until.0.saturating_sub(now.0).div_ceil(60_000);
        Some(format!("{at} {why} (counted as out for {minutes} min more)"))
    }

    fn note(&self, at: &str, out: Out) {
        tracing::warn!(at, why = out.why, "a model vendor is out");
        self.lock().insert(at.to_owned(), out);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Out>> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use models::Wire;
    use models::call::{Answer, Endpoint};

    use super::*;

    const AT: &str = "https://models.example/v1/messages";

    fn answer(status: u16) -> Answer {
        let at = Endpoint::new(Wire::Messages, AT);
        Answer { at, status, message: String::new(), request_id: None }
    }

    fn minutes(count: u64) -> Timestamp {
        Timestamp(1_000_000 + count * 60_000)
    }

    /// Until which minute an error keeps a vendor out; 0 when it does not.
    #[track_caller]
    fn check(error: &Error, until: u64, why: &str) {
        let health = Health::default();
        health.failed(AT, error, minutes(0));
        let said = health.out(AT, minutes(0)).unwrap_or_default();
        assert!(said.contains(why) && said.is_empty() == (until == 0), "{said}");
        assert_eq!(health.out("https://other.example", minutes(0)), None);
        if until > 0 {
            assert!(said.ends_with(&format!("(counted as out for {until} min more)")), "{said}");
            assert!(health.out(AT, minutes(until - 1)).is_some());
        }
        assert_eq!(health.out(AT, minutes(until)), None);
    }

    #[test]
    fn an_outage_counts_for_as_long_as_its_kind_says() {
        let limited = |wait: Option<u64>| Error::RateLimited {
            answer: answer(429),
            retry_after: wait.map(Duration::from_secs),
        };
        let at = || Endpoint::new(Wire::Messages, AT);
        check(
            &Error::Connect { at: at(), how: models::call::Unreached::Refused, source: "refused".into() },
            2,
            "could not be reached",
        );
        check(&Error::Idle { at: at(), after: Duration::from_secs(180) }, 2, "sent nothing");
        check(&Error::Overloaded(answer(529)), 5, "answered 529");
        check(&Error::NoCredit(answer(429)), 5, "no credit is left");
        check(&Error::Status(answer(503)), 2, "answered 503");
        check(&limited(None), 2, "answered 429");
        check(&limited(Some(3_600)), 60, "answered 429");
        for mistake in [
            Error::Status(answer(402)),
            Error::BadRequest(answer(400)),
            Error::Unauthorized(answer(401)),
            Error::ContextTooLong(answer(413)),
        ] {
            check(&mistake, 0, "");
        }
    }

    #[test]
    fn one_answer_takes_an_outage_back() {
        let health = Health::default();
        health.struggles(AT, 2, minutes(0));
        assert_eq!(health.out(AT, minutes(0)), None);
        health.struggles(AT, 3, minutes(0));
        assert!(health.out(AT, minutes(1)).is_some());
        health.answered(AT);
        assert_eq!(health.out(AT, minutes(1)), None);
    }
}
