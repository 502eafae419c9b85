//! The runner without Regie around it: what this crate's tests start as runner, launcher and
//! file tool.

use std::process::ExitCode;

fn main() -> ExitCode {
    runner::dispatch(std::env::args_os().skip(1)).unwrap_or(ExitCode::from(2))
}
