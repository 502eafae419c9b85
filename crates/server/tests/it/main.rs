//! The API over a real Unix socket, with a scripted house behind it.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod house;
mod http;
mod problems;
mod stream;
