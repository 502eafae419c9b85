//! What the model wires cost, as ratios that come from one run on one machine.
//!
//!     cargo run --release --package bench-models [fold|turn|http …]
//!
//! No vendor is called: streams are made as the vendors write them, and served on loopback by a process of
//! their own. Exits with 1 when a target is missed.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a program whose output is a table")]

mod clock;
mod fold;
mod http;
mod serve;
mod stream;
mod table;
mod turn;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::table::Table;

fn main() -> Result<ExitCode> {
    let mut parts: Vec<String> = std::env::args().skip(1).collect();
    if parts.first().is_some_and(|part| part == serve::ARGUMENT) {
        serve::run()?;
        return Ok(ExitCode::SUCCESS);
    }
    if parts.is_empty() {
        parts = ["fold", "turn", "http"].map(str::to_owned).to_vec();
    }
    let mut table = Table::begin();
    for part in parts {
        match part.as_str() {
            "fold" => fold::measure(&mut table)?,
            "turn" => turn::measure(&mut table)?,
            "http" => http::measure(&mut table)?,
            other => bail!("there is no part {other}; give some of fold, turn, http"),
        }
    }
    Ok(table.end())
}
