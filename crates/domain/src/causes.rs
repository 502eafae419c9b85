//! An error and what led to it, in one text. `Display` of an error never prints its source, so whoever
//! shows it at an edge walks the chain: here, and nowhere else.

use std::error::Error;
use std::fmt::Write as _;

/// The error and all its causes, each after a colon.
pub fn in_full(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        // Writing to a string cannot fail.
        let _ = write!(text, ": {inner}");
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::in_full;

    #[derive(Debug, thiserror::Error)]
    #[error("the outer one")]
    struct Outer(#[source] Inner);

    #[derive(Debug, thiserror::Error)]
    #[error("the inner one")]
    struct Inner;

    #[test]
    fn causes_follow_in_order() {
        assert_eq!(in_full(&Outer(Inner)), "the outer one: the inner one");
        assert_eq!(in_full(&Inner), "the inner one");
    }
}
