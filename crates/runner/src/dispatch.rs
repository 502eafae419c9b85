//! The hidden subcommands of the binary that embeds this crate.

use std::ffi::OsString;
use std::process::ExitCode;

use crate::config::{Config, SERVE_ARG};
use crate::{serve, tool};

/// Becomes what a hidden first argument says: a jail's launcher, which may become a file tool, or a
/// runner. `None` for any other argument, and the binary goes on. To be called first thing in
/// `main`, before there is a second thread; `args` are the arguments after the program's name.
pub fn dispatch(args: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut args = args.into_iter();
    let first = args.next()?;
    match first.to_str()? {
        sandbox::LAUNCH_ARG => sandbox::launch_resident_main(tool::tool_main),
        SERVE_ARG => Some(run(args.next())),
        _ => None,
    }
}

/// What a runner has to say goes to its standard error, which is its log.
#[expect(clippy::print_stderr, reason = "the log of this process is its standard error")]
fn run(config: Option<OsString>) -> ExitCode {
    let config = config.as_ref().and_then(|text| text.to_str()).unwrap_or_default();
    let read = serde_json::from_str::<Config>(config).and_then(|mut config| {
        config.take_given()?;
        Ok(config)
    });
    let config = match read {
        Ok(config) => config,
        Err(error) => {
            eprintln!("the runner's configuration cannot be read: {error}");
            return ExitCode::from(2);
        }
    };
    let log = tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stderr);
    // Somebody who embeds this may have their own.
    let _ = log.with_max_level(tracing::Level::INFO).try_init();
    match serve(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", domain::causes::in_full(&error));
            ExitCode::FAILURE
        }
    }
}
