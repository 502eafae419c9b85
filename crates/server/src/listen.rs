//! Serving a Unix socket to its owner, until a shutdown.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::Listener;
use tokio::net::unix::SocketAddr;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

use crate::routes::{self, House};
use crate::use_cases::UseCases;

/// How long requests that are under way may take after the shutdown.
const GRACE: Duration = Duration::from_secs(5);

/// Why serving ended early.
#[derive(Debug, thiserror::Error)]
#[error("the socket can no longer be served; start the daemon again")]
pub struct Error(#[source] io::Error);

/// Serves `/api/v1` on `listener` until `shutdown` is over; streams end then, and requests under
/// way have five seconds. Only processes of the user who runs this one, and root, are let in.
///
/// # Errors
/// When the socket fails.
pub async fn serve<U: UseCases>(
    listener: UnixListener,
    use_cases: Arc<U>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Error> {
    let (close, closing) = watch::channel(false);
    let router = routes::router(House { use_cases, closing: closing.clone() });
    let mut closed = closing;
    let graceful = async move {
        let _ = closed.wait_for(|closed| *closed).await;
    };
    let serving = axum::serve(Owner(listener), router).with_graceful_shutdown(graceful);
    let bound = async {
        shutdown.await;
        close.send_replace(true);
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        served = async { serving.await } => served.map_err(Error),
        () = bound => Ok(()),
    }
}

/// Lets in the processes of one user.
struct Owner(UnixListener);

impl Listener for Owner {
    type Io = UnixStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (UnixStream, SocketAddr) {
        loop {
            let (stream, address) = Listener::accept(&mut self.0).await;
            if is_owner(&stream) {
                return (stream, address);
            }
            tracing::warn!("a process of another user was turned away from the socket");
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

fn is_owner(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == own || peer.uid() == 0)
}
