//! `regie serve`: the daemon, in the foreground; and its end.

use std::time::Duration;

use tracing_subscriber::EnvFilter;

use super::Context;
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::{args, daemon};

/// What is logged, in the syntax of `tracing`'s filters.
const FILTER_ENV: &str = "REGIE_LOG";

/// How often and how long the end of a daemon is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const LOOKS: u32 = 500;

/// Asks the daemon to end and waits until its socket is gone. Its runs go on when it starts again.
pub(super) async fn stop(context: &Context) -> Result<Exit, Failure> {
    let client = Client::new(&context.home)?;
    if client.shutdown().await.is_err() {
        return Err(Failure::new(format!("no daemon serves {}", context.home.root().display())));
    }
    for _ in 0..LOOKS {
        if !context.home.socket().exists() {
            return Ok(Exit::Done);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Err(Failure::new("the daemon does not end").hint("`regie doctor` names its process"))
}

pub(super) fn run(context: &Context, args: &args::Serve) -> Result<Exit, Failure> {
    if args.detached {
        // A signal to the terminal's processes is not for the daemon. Fails only for a process that
        // leads its group already, which is as well.
        let _ = rustix::process::setsid();
    }
    let filter = EnvFilter::try_from_env(FILTER_ENV).unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(std::io::stderr).init();
    context.home.create().map_err(|error| Failure::new(error.to_string()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("no runtime can be had: {error}")))?;
    let served = runtime.block_on(daemon::serve(&context.home));
    runtime.shutdown_background();
    match served {
        Ok(()) => Ok(Exit::Done),
        Err(error) => Err(Failure::new(format!("{error:#}")).hint("`regie doctor` looks for causes")),
    }
}
