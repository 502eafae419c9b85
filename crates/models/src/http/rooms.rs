//! What the head of an answer says of the vendor's limits. Each vendor has its own names and its own way
//! to say when; who says nothing has no limits.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::header::{DATE, HeaderMap};

use super::retry;
use crate::limit::rules::{Each, Kind, Room};

/// Where a vendor does not say when there is all of it again.
const UNSAID: Duration = Duration::from_secs(60);
/// A second, in nanoseconds.
const WHOLE: u64 = 1_000_000_000;
/// The longest that is believed: a day.
const LONGEST: Duration = Duration::from_secs(86_400);

/// The limits that an answer names.
pub(super) fn of(headers: &HeaderMap) -> Each<Option<Room>> {
    Kind::ALL.map(|kind| anthropic(headers, kind).or_else(|| openai(headers, kind)))
}

/// `anthropic-ratelimit-tokens-remaining`, with the moment as RFC 3339 has it.
fn anthropic(headers: &HeaderMap, kind: Kind) -> Option<Room> {
    let name = match kind {
        Kind::Requests => "requests",
        Kind::Tokens => "tokens",
        Kind::Input => "input-tokens",
        Kind::Output => "output-tokens",
    };
    let said = |what: &str| text(headers, &format!("anthropic-ratelimit-{name}-{what}"));
    let full_in = said("reset").and_then(moment).map(|at| at.saturating_sub(now(headers)));
    room(said("limit"), said("remaining"), full_in)
}

/// `x-ratelimit-remaining-tokens`, with the time that it takes as Go writes it.
fn openai(headers: &HeaderMap, kind: Kind) -> Option<Room> {
    let name = match kind {
        Kind::Requests => "requests",
        Kind::Tokens => "tokens",
        Kind::Input | Kind::Output => return None,
    };
    let said = |what: &str| text(headers, &format!("x-ratelimit-{what}-{name}"));
    room(said("limit"), said("remaining"), said("reset").and_then(span))
}

fn room(limit: Option<&str>, remaining: Option<&str>, full_in: Option<Duration>) -> Option<Room> {
    let limit = limit?.parse().ok().filter(|limit| *limit > 0)?;
    let remaining: u64 = remaining?.parse().ok()?;
    Some(Room { limit, remaining: remaining.min(limit), full_in: full_in.unwrap_or(UNSAID).min(LONGEST) })
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// The vendor's own clock, so that no clock of ours matters; since 1970. It says whole seconds, so it is
/// never ahead.
fn now(headers: &HeaderMap) -> Duration {
    let date = text(headers, DATE.as_str()).and_then(|date| httpdate::parse_http_date(date).ok());
    let date: SystemTime = date.unwrap_or_else(retry::wall_clock);
    date.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// `1s`, `6m0s`, `20ms`, `1h2m3.5s`; a bare number is seconds.
fn span(text: &str) -> Option<Duration> {
    let seconds = |value: f64| Duration::try_from_secs_f64(value).ok();
    if let Ok(value) = text.parse::<f64>() {
        return seconds(value);
    }
    let mut rest = text;
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(end);
        let units = [("ms", 0.001), ("µs", 1e-6), ("us", 1e-6), ("ns", 1e-9)];
        let units = units.into_iter().chain([("h", 3600.0), ("m", 60.0), ("s", 1.0)]);
        let (unit, worth) = units.into_iter().find(|(unit, _)| after.starts_with(unit))?;
        sum = sum.checked_add(seconds(number.parse::<f64>().ok()? * worth)?)?;
        rest = after.get(unit.len()..)?;
    }
    (!text.is_empty()).then_some(sum)
}

/// `2026-11-10T10:00:05Z`, since 1970; also with parts of a second, and with an offset. A whole second may
/// have been cut off: it is taken for its end.
fn moment(text: &str) -> Option<Duration> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let marks = [(4, "-"), (7, "-"), (13, ":"), (16, ":")];
    if marks.iter().any(|(at, mark)| text.get(*at..at + 1) != Some(mark)) {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let rest = text.get(19..)?;
    let end = rest.find(['Z', 'z', '+', '-'])?;
    let (part, zone) = rest.split_at(end);
    let fraction = match part.strip_prefix('.') {
        Some(digits) => format!("{digits:0<9}").get(..9)?.parse::<u64>().ok()?,
        None if part.is_empty() => WHOLE,
        None => return None,
    };
    let offset = match zone {
        "Z" | "z" => 0,
        _ => {
            let (hours, minutes) =
                (zone.get(1..3)?.parse::<i64>().ok()?, zone.get(4..6)?.parse::<i64>().ok()?);
            let east = hours * 3600 + minutes * 60;
            if zone.starts_with('+') { east } else { -east }
        }
    };
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
    Some(Duration::from_secs(u64::try_from(seconds).ok()?) + Duration::from_nanos(fraction))
}

/// Days from 1970-01-01 to a civil date; by Howard Hinnant's `days_from_civil`.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn room(limit: u64, remaining: u64, millis: u64) -> Option<Room> {
        Some(Room { limit, remaining, full_in: Duration::from_millis(millis) })
    }

    #[test]
    fn anthropic_says_when_by_its_own_clock() {
        let said = headers(&[
            ("date", "Tue, 10 Nov 2026 10:00:00 GMT"),
            ("anthropic-ratelimit-requests-limit", "50"),
            ("anthropic-ratelimit-requests-remaining", "49"),
            ("anthropic-ratelimit-requests-reset", "2026-11-10T10:00:02Z"),
            ("anthropic-ratelimit-input-tokens-limit", "30000"),
            ("anthropic-ratelimit-input-tokens-remaining", "0"),
            ("anthropic-ratelimit-input-tokens-reset", "2026-11-10T12:01:00.5+02:00"),
            ("anthropic-ratelimit-output-tokens-limit", "8000"),
            ("anthropic-ratelimit-output-tokens-remaining", "8000"),
            ("anthropic-ratelimit-output-tokens-reset", "2026-11-10T09:59:00Z"),
        ]);
        assert_eq!(of(&said), [room(50, 49, 3_000), None, room(30_000, 0, 60_500), room(8_000, 8_000, 0)]);
    }

    #[test]
    fn openai_says_how_long() {
        let said = headers(&[
            ("x-ratelimit-limit-requests", "60"),
            ("x-ratelimit-remaining-requests", "59"),
            ("x-ratelimit-reset-requests", "1s"),
            ("x-ratelimit-limit-tokens", "150000"),
            ("x-ratelimit-remaining-tokens", "149984"),
            ("x-ratelimit-reset-tokens", "6m0s"),
        ]);
        assert_eq!(of(&said), [room(60, 59, 1_000), room(150_000, 149_984, 360_000), None, None]);
        for (text, millis) in
            [("20ms", 20), ("1h2m3.5s", 3_723_500), ("7.66s", 7_660), ("12", 12_000), ("0s", 0)]
        {
            assert_eq!(span(text), Some(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_no_limit() {
        assert_eq!(of(&HeaderMap::new()), [None; 4]);
        for (limit, remaining) in [("0", "0"), ("-1", "-1"), ("many", "1"), ("5", "")] {
            let said = [("x-ratelimit-limit-requests", limit), ("x-ratelimit-remaining-requests", remaining)];
            assert_eq!(of(&headers(&said)), [None; 4], "{limit} {remaining}");
        }
        let unsaid = headers(&[("x-ratelimit-limit-tokens", "5"), ("x-ratelimit-remaining-tokens", "9")]);
        assert_eq!(of(&unsaid)[1], room(5, 5, 60_000));
        for text in ["", "soon", "5x", "1s2", "-1s", "1e400", "s"] {
            assert_eq!(span(text), None, "{text}");
        }
        for text in ["", "2026-11-10", "2026-13-10T10:00:00Z", "2026-11-10T10:00:00", "ä026-11-10T10:00:00Z"]
        {
            assert_eq!(moment(text), None, "{text}");
        }
        assert_eq!(moment("1970-01-01T00:00:01.25Z"), Some(Duration::from_millis(1_250)));
    }
}
