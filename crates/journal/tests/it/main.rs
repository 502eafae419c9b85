//! The tests of the journal, in one binary.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "tests may panic and print; the lints know test functions alone"
)]

mod artifacts;
mod erasure;
mod open;
mod power;
mod property;
mod search;
mod suite;
mod torn;
mod verify;
