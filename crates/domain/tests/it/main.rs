//! The rules and the format, held by random commands, golden bytes and tampering.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod chain;
mod format;
mod rules;
mod samples;
