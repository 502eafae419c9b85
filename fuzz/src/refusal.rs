//! An error answer: whatever a server says, it becomes one of our errors, waits are sane, and a key that
//! the server repeats is never shown.

use std::time::Duration;

use models::{Secret, Wire, parsers};

const SECRET: &str = "sk-fuzz-0123456789";

/// The status, `Retry-After`, `retry-after-ms` and `date` are the first lines; the body is the rest.
pub fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.splitn(5, '\n');
    let mut line = || lines.next().unwrap_or_default();
    let (status, after, ms, date, body) = (line(), line(), line(), line(), line());
    let headers = [("retry-after", after), ("retry-after-ms", ms), ("date", date)];
    let given: Vec<_> = headers.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    if let Some(wait) = parsers::retry_after(&given, body) {
        assert!(wait <= Duration::from_secs(86_400), "{wait:?}");
    }
    let secret = Secret::new(SECRET);
    for wire in Wire::ALL {
        let error = parsers::refusal(wire, status.parse().ok(), body, Some(&secret));
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains(SECRET), "the key is shown: {shown}");
        assert!(!error.to_string().is_empty());
        let _ = error.is_retryable();
    }
}
