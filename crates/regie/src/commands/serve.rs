//! `regie serve`: the daemon, in the foreground; and its end.

use std::time::Duration;

use tracing_subscriber::EnvFilter;

use super::Context;
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::{args, daemon};

/// What is logged, in the syntax of `tracing`'s filters.
const FILTER_ENV: &str = "REGIE_LOG";

/// How long what cannot be cut, such as a commit, may take after the daemon's end.
const LAST_WORK: Duration = Duration::from_secs(10);

/// Asks the daemon to end and waits until it is gone, with all that it has started. Its runs go on when it
/// starts again.
pub(super) async fn stop(context: &Context) -> Result<Exit, Failure> {
    let client = Client::new(&context.home)?;
    let none = || Failure::new(format!("no daemon serves {}", context.home.root().display()));
    let hello = client.hello().await.map_err(|_| none())?;
    client.shutdown().await.map_err(|_| none())?;
    let ended = daemon::lock::given_back(&context.home, hello.pid).await;
    ended.map(|()| Exit::Done).map_err(|error| {
        Failure::new(error.to_string())
            .hint(format!("`kill -KILL {}` ends it, and nothing is lost", hello.pid))
    })
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
    let served = runtime.block_on(daemon::serve(&context.home, args.halted));
    runtime.shutdown_timeout(LAST_WORK);
    match served {
        Ok(lock) => {
            // It goes with the process: who finds it free finds nobody alive.
            std::mem::forget(lock);
            Ok(Exit::Done)
        }
        Err(error) => Err(Failure::new(format!("{error:#}")).hint("`regie doctor` looks for causes")),
    }
}
