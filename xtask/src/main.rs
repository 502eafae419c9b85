//! Repository chores.
//!
//! - `cargo xtask layers` prints the floors, and fails when a crate imports one that it must not.
//! - `cargo xtask sources` fails on a file without a reason, too long, or forgotten by its tests.
//! - `cargo xtask deny` holds the dependencies against `deny.toml`.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool")]

mod deny;
mod layers;
mod metadata;
mod sources;

use std::process::ExitCode;

fn main() -> ExitCode {
    let task = std::env::args().nth(1).unwrap_or_default();
    let done = match task.as_str() {
        "layers" => layers::check(),
        "sources" => sources::check(),
        "deny" => deny::check(),
        _ => Err(anyhow::anyhow!("usage: cargo xtask layers | sources | deny")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
