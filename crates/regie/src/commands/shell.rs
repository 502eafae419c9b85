//! `regie completions` and `regie man`: what a package brings along beside the binary.

use std::fs;

use clap::CommandFactory;

use crate::args::{self, Args};
use crate::failure::{Exit, Failure};
use crate::screen;

const NAME: &str = "regie";

pub(super) fn completions(args: &args::Completions) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), NAME, &mut script);
    screen::put_raw(&script)?;
    Ok(Exit::Done)
}

/// One page for each command, as `regie-gate-approve.1`.
pub(super) fn man(args: &args::Man) -> Result<Exit, Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(format!("the man pages cannot be written to {}: {error}", args.dir.display()))
            .hint("name a directory that you may write to")
    };
    fs::create_dir_all(&args.dir).map_err(failed)?;
    // Built without clap's own `help`, whose pages would say nothing.
    let command = Args::command().disable_help_subcommand(true);
    clap_mangen::generate_to(command, &args.dir).map_err(failed)?;
    Ok(Exit::Done)
}
