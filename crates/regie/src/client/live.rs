//! The live stream of a run, from a cursor on. When it breaks it is opened again from the last event
//! that was received, and the daemon is started again when it is gone.

use std::pin::Pin;
use std::time::Duration;

use control::api;
use futures_util::{Stream, StreamExt};
use sse_stream::{Sse, SseStream};
use tokio::sync::mpsc;

use super::{Client, Error};

/// Tries in a row that may fail before the daemon is started again.
const PATIENT_TRIES: u32 = 5;
/// Tries in a row after which the stream is given up.
const MAX_TRIES: u32 = 8;
/// The wait after the first of them; it grows by as much with each.
const WAIT: Duration = Duration::from_millis(200);

type Blocks = Pin<Box<dyn Stream<Item = Result<Sse, sse_stream::Error>> + Send>>;

/// What arrives.
#[derive(Debug)]
pub(crate) enum Item {
    /// What is on record.
    Event(Box<api::Event>),
    /// What is not, yet.
    Delta(api::Delta),
    /// The stream was opened again; deltas may be missing. Whether the daemon had to be started.
    Again {
        /// A daemon that was started anew holds no vendor key.
        restarted: bool,
    },
}

/// Items that wait for a reader who is slow; the daemon is not read from meanwhile.
const WAITING: usize = 64;

/// Follows in a task of its own, so that a reader who looks away in between costs no connection.
pub(super) fn spawn(client: Client, run: String, after: u64) -> mpsc::Receiver<Result<Item, Error>> {
    let (sender, receiver) = mpsc::channel(WAITING);
    let mut live = Live { client, run, cursor: after, open: None, resumed: false };
    tokio::spawn(async move {
        loop {
            let item = live.next().await;
            let over = item.is_err();
            if sender.send(item).await.is_err() || over {
                return;
            }
        }
    });
    receiver
}

/// A stream that reconnects.
struct Live {
    client: Client,
    run: String,
    cursor: u64,
    open: Option<Blocks>,
    /// Whether it was open before.
    resumed: bool,
}

impl Live {
    async fn next(&mut self) -> Result<Item, Error> {
        loop {
            let Some(blocks) = &mut self.open else {
                let restarted = self.reopen().await?;
                if std::mem::replace(&mut self.resumed, true) {
                    return Ok(Item::Again { restarted });
                }
                continue;
            };
            match blocks.next().await {
                Some(Ok(block)) => {
                    if let Some(item) = self.take(block)? {
                        return Ok(item);
                    }
                }
                // Cut, silent for too long, or closed by a daemon that ends.
                Some(Err(_)) | None => self.open = None,
            }
        }
    }

    async fn reopen(&mut self) -> Result<bool, Error> {
        let mut restarted = false;
        let mut tries = 0;
        loop {
            let error = match self.client.stream(&self.run, self.cursor).await {
                Ok(response) => {
                    self.open = Some(Box::pin(SseStream::from_bytes_stream(response.bytes_stream())));
                    return Ok(restarted);
                }
                Err(error @ (Error::Unreachable { .. } | Error::Broken(_))) => error,
                Err(error) => return Err(error),
            };
            tries += 1;
            if tries >= MAX_TRIES {
                return Err(error);
            }
            if tries == PATIENT_TRIES {
                self.client.start(super::start::Begin::Going).await?;
                restarted = true;
            } else {
                tokio::time::sleep(WAIT * tries).await;
            }
        }
    }

    fn take(&mut self, block: Sse) -> Result<Option<Item>, Error> {
        if let Some(position) = block.id.as_deref().and_then(|id| id.parse().ok()) {
            self.cursor = self.cursor.max(position);
        }
        let data = block.data.as_deref().unwrap_or_default();
        match block.event.as_deref() {
            Some("event") => {
                let event = serde_json::from_str(data).map_err(Error::Unreadable)?;
                Ok(Some(Item::Event(Box::new(event))))
            }
            Some("delta") => {
                serde_json::from_str(data).map(|delta| Some(Item::Delta(delta))).map_err(Error::Unreadable)
            }
            // Heartbeats, and what a newer daemon may add.
            _ => Ok(None),
        }
    }
}
