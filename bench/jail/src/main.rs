//! What a jail costs, as ratios that come from one run on one machine.
//!
//!     REGIE=target/release/regie cargo run --release --package bench-jail -- [--npm DIR] [start|read|many …]
//!
//! Everything is started by this one process, which stays, as Regie's runner does; each sample goes from the
//! start of a program in its jail to its end. The peers are Debian's bubblewrap and two npm packages in pinned
//! versions; nothing of theirs or ours is called but `/bin/true`. Exits with 1 when a target is missed.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a program whose output is a table")]

mod clock;
mod ground;
mod many;
mod peers;
mod read;
mod start;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};

use crate::{ground::Ground, table::Table};

fn main() -> Result<ExitCode> {
    let (mut parts, mut npm) = (Vec::new(), PathBuf::from("target/bench/npm-jail"));
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--npm" => npm = arguments.next().context("--npm needs a directory")?.into(),
            "start" | "read" | "many" => parts.push(argument),
            other => bail!("there is no part {other}; give some of start, read, many"),
        }
    }
    if parts.is_empty() {
        parts = ["start", "read", "many"].map(str::to_owned).to_vec();
    }
    let regie = std::env::var_os("REGIE").context("REGIE names no release binary of Regie")?;
    let ground = Ground::make(regie.as_ref())?;
    let mut table = Table::begin();
    for part in parts {
        match part.as_str() {
            "start" => start::measure(&mut table, &ground, &npm)?,
            "read" => read::measure(&mut table, &ground)?,
            _ => many::measure(&mut table, &ground)?,
        }
    }
    Ok(table.end())
}
