//! The binary: command line and composition root.
//!
//! | module | what lives there |
//! |---|---|
//! | `args` | the commands and their options |
//! | `commands` | what each command does |
//! | `follow` | the live view of a run, and the questions that it asks |
//! | `client` | the daemon's API over its socket; starts the daemon on demand |
//! | `daemon` | the composition root |
//! | `config` | what holds where nothing is said, and who said it |
//! | `init` | what a repository and this machine have, and its first `regie.toml` |
//! | `check` | whether a model works, tried out |
//! | `notify` | the ways of telling the owner |
//! | `doctor` | what this machine lacks, and how to mend it |
//! | `home` | where everything of an installation lies |
//! | `disk` | whether a journal can live on the disk under the home |
//! | `pretend` | what a test may pretend about the machine |
//! | `screen` | how things look |
//! | `failure` | exit codes and the last words of a command that failed |
#![forbid(unsafe_code)]

mod args;
mod check;
mod client;
mod commands;
mod config;
mod daemon;
mod disk;
mod doctor;
mod failure;
mod follow;
mod home;
mod init;
mod notify;
mod pretend;
mod screen;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    // Before anything else: a launcher needs a process without other threads.
    if let Some(code) = runner::dispatch(std::env::args_os().skip(1)) {
        return code;
    }
    let args = args::Args::parse();
    let exit = commands::run(args).unwrap_or_else(|failure| failure.tell());
    // A thread may still wait for a key: the process does not wait for it.
    std::process::exit(exit.code())
}
