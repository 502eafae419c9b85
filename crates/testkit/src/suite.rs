//! One behaviour suite per port of the kernel, run against every adapter.
//!
//! A suite fails by panicking; it can be called from a test of any crate.

pub mod history;
pub mod journal;
