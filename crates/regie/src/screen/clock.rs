//! The time of day, for ages and for spinners. Nothing is decided by it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch.
#[expect(clippy::disallowed_methods, reason = "the edge of the program; only shown, never recorded")]
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The time of day in UTC, as `14:03:21`.
pub(crate) fn time_of_day(millis: u64) -> String {
    let seconds = millis / 1_000 % 86_400;
    format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

/// The moment in UTC, as `2026-03-01 14:03:21`.
pub(crate) fn moment(millis: u64) -> String {
    let (year, month, day) = date(millis / 86_400_000);
    format!("{year:04}-{month:02}-{day:02} {}", time_of_day(millis))
}

/// The civil date of a day counted from 1970-01-01, by Howard Hinnant's `civil_from_days`.
fn date(days: u64) -> (u64, u64, u64) {
    let shifted = days.saturating_add(719_468);
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
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
