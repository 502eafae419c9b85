//! The time of day, for ages and for spinners. Nothing is decided by it.

use std::time::{SystemTime, UNIX_EPOCH};

use engine::words::date;
pub(crate) use engine::words::time_of_day;

/// Milliseconds since the Unix epoch.
#[expect(clippy::disallowed_methods, reason = "the edge of the program; only shown, never recorded")]
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The moment in UTC, as `2026-03-01 14:03:21`.
pub(crate) fn moment(millis: u64) -> String {
    format!("{} {}", date(millis / 86_400_000), time_of_day(millis))
}

#[cfg(test)]
mod tests {
    use super::moment;

    #[test]
    fn moments_are_civil() {
        assert_eq!(moment(0), "1970-01-01 00:00:00");
        assert_eq!(moment(951_782_400_000), "2000-02-29 00:00:00");
        assert_eq!(moment(1_767_225_599_000), "2025-12-31 23:59:59");
    }
}
