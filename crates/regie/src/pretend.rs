//! What a test may pretend about the machine: the kind of its disk and the time of day. A release build
//! has none of it, so nobody can talk an installation into another clock.

/// The magic number of the file system that the home is said to lie on.
#[cfg(all(target_os = "linux", any(debug_assertions, feature = "testkit")))]
pub(crate) fn filesystem() -> Option<u32> {
    std::env::var("REGIE_PRETEND_FILESYSTEM").ok()?.parse().ok()
}

#[cfg(all(target_os = "linux", not(any(debug_assertions, feature = "testkit"))))]
pub(crate) fn filesystem() -> Option<u32> {
    None
}

/// By how many milliseconds the wall clock is said to be off: what a file says at this moment, so that a
/// clock can be set while a daemon runs.
#[cfg(any(debug_assertions, feature = "testkit"))]
pub(crate) fn clock_offset() -> i64 {
    let Some(path) = std::env::var_os("REGIE_PRETEND_CLOCK") else { return 0 };
    std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

#[cfg(not(any(debug_assertions, feature = "testkit")))]
pub(crate) fn clock_offset() -> i64 {
    0
}
