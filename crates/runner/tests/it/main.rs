//! The runner from outside: through the kernel's port, with real processes in real jails.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod bench;
mod bounds;
mod commands;
mod ending;
#[cfg(feature = "fault")]
mod faults;
mod git;
mod hostile;
mod images;
mod inherited;
mod offload;
mod paths;
mod posture;
mod recovery;
mod services;
mod setup;
mod spec;
mod tools;
