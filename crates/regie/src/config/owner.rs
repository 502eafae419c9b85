//! Values that only the owner's file has: addresses that something is sent to, ages and sizes.

use std::net::IpAddr;

use reqwest::Url;
use toml::Spanned;
use toml::de::DeValue;

use super::value::Value;

/// What an owner can be told of.
pub(super) const EVENTS: [&str; 3] = ["gate", "ended", "parked"];
/// What was expected.
pub(super) const EVENTS_WANTED: &str = "expected a list of \"gate\", \"ended\" and \"parked\"";
/// What was expected.
pub(super) const AGE_WANTED: &str = "expected an age in quotes, as \"14d\", \"12h\" or \"0d\"";
/// What was expected.
pub(super) const SIZE_WANTED: &str = "expected a size in quotes, as \"10 GiB\" or \"500 MiB\"";

/// What was expected.
pub(super) const FINDINGS_WANTED: &str =
    "expected a list of kinds, as \"ci\", and of patterns of paths, as \"scripts/**\"";

const DAY: u64 = 86_400_000;

/// A list, each item read by `read`.
///
/// # Errors
/// What was expected, in words.
pub(super) fn names(
    items: &[Spanned<DeValue<'_>>],
    read: impl Fn(&str) -> Result<String, String>,
) -> Result<Value, String> {
    let texts = items.iter().map(|item| item.get_ref().as_str().ok_or("expected a list of strings"));
    texts.map(|text| read(text?)).collect::<Result<_, String>>().map(Value::Names)
}

/// A kind of notification.
pub(super) fn event(text: &str) -> Result<String, String> {
    if EVENTS.contains(&text) { Ok(text.to_owned()) } else { Err(EVENTS_WANTED.into()) }
}

/// A kind of finding, a pattern of paths, or both.
pub(super) fn finding(text: &str) -> Result<String, String> {
    let one = [text.to_owned()];
    match trust::export::Rules::parse(&one, &[], &[]) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// An address: what is sent there says what you work on, so in the clear it goes to loopback only.
pub(super) fn address(text: &str) -> Result<String, String> {
    let url = Url::parse(text).map_err(|error| format!("this is no address: {error}"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("an address with a name and password in it; use webhook_secret_env instead".into());
    }
    let here = url.host_str().is_some_and(is_loopback);
    match url.scheme() {
        "https" if url.host_str().is_some() => Ok(text.to_owned()),
        "http" if here => Ok(text.to_owned()),
        "http" => {
            Err("http goes over the network in the clear: write https, or an address on loopback".into())
        }
        _ => Err("expected an address, as \"https://example.org/hook\"".into()),
    }
}

/// Whether a host of an address is this machine.
fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// An address for people and logs: its path and query may be all that keeps others from using it.
pub(crate) fn shown(text: &str) -> String {
    match Url::parse(text) {
        Ok(url) if url.has_host() => {
            let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
            let rest = if url.path() == "/" && url.query().is_none() { "" } else { "/…" };
            format!("{}://{}{port}{rest}", url.scheme(), url.host_str().unwrap_or_default())
        }
        _ => crate::screen::text::line(text),
    }
}

/// An age, in milliseconds.
///
/// # Errors
/// What was expected, in words.
pub(crate) fn age(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let millis = match unit.trim() {
        "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => DAY,
        "w" => 7 * DAY,
        _ => return Err(AGE_WANTED.into()),
    };
    let number: u64 = number.parse().map_err(|_| AGE_WANTED.to_owned())?;
    number.checked_mul(millis).ok_or_else(|| AGE_WANTED.to_owned())
}

/// An age as [`age`] reads it.
pub(super) fn age_written(millis: u64) -> String {
    let units = [(DAY, "d"), (3_600_000, "h"), (60_000, "m")];
    match units.into_iter().find(|(unit, _)| millis.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", millis / unit),
        None => format!("{}s", millis / 1_000),
    }
}

/// A size, in bytes.
///
/// # Errors
/// What was expected, in words.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let bytes: u64 = match unit.trim() {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return Err(SIZE_WANTED.into()),
    };
    let number: u64 = number.parse().map_err(|_| SIZE_WANTED.to_owned())?;
    number.checked_mul(bytes).ok_or_else(|| SIZE_WANTED.to_owned())
}

/// A size as [`size`] reads it.
pub(super) fn size_written(bytes: u64) -> String {
    let units = [(1u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{} {name}", bytes / unit),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_sent_in_the_clear_but_to_this_machine() {
        for good in
            ["https://example.org/hook?k=v", "http://127.0.0.1:9/x", "http://[::1]:80/", "http://localhost:1"]
        {
            assert_eq!(address(good), Ok(good.to_owned()));
        }
        for wrong in [
            "http://example.org/",
            "http://localhost.example.org/",
            "http://127.0.0.1.example.org/",
            "https://me:secret@example.org/",
            "ftp://127.0.0.1/",
            "file:///etc/passwd",
            "example.org",
            "",
        ] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_address_is_shown_without_what_makes_it_secret() {
        assert_eq!(shown("https://hooks.example.org/T0/B1/secret"), "https://hooks.example.org/…");
        assert_eq!(shown("http://127.0.0.1:9"), "http://127.0.0.1:9");
        assert_eq!(shown("gate"), "gate");
    }

    #[test]
    fn ages_and_sizes() {
        assert_eq!(
            (age("14d"), age("0d"), age("2w"), age("90m")),
            (Ok(14 * DAY), Ok(0), Ok(14 * DAY), Ok(5_400_000))
        );
        for wrong in ["", "14", "d", "-1d", "1.5d", "1y", "99999999999999999999d"] {
            assert!(age(wrong).is_err(), "{wrong}");
        }
        assert_eq!((size("10 GiB"), size("1B")), (Ok(10 << 30), Ok(1)));
        for wrong in ["", "10", "10GB", "-1 GiB", "99999999999 TiB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
