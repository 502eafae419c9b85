//! The test kit is held to its own promises.
#![allow(clippy::unwrap_used, reason = "a test may panic; the lint knows test functions alone")]

mod script;
