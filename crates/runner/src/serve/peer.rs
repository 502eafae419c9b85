//! A connected daemon: lines in, lines out, and never a reason to wait.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::desk::Desk;
use crate::wire::{Answer, LONGEST_LINE, Request, VERSION};

/// How many lines may wait for a daemon that does not read.
const MOST_WAITING: usize = 256;

/// The runner's end of a connection.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) id: u64,
    /// Whether it has said hello; it is told nothing before.
    pub(super) is_greeted: bool,
    lines: SyncSender<String>,
    stream: UnixStream,
}

impl Peer {
    /// Queues an answer. A daemon that does not keep up is disconnected: it connects again and asks.
    pub(super) fn send(&self, answer: &Answer) {
        if let Ok(line) = serde_json::to_string(answer)
            && self.lines.try_send(line + "\n").is_err()
        {
            let _ = self.stream.shutdown(Shutdown::Both);
        }
    }

    /// Queues what may as well be dropped.
    pub(super) fn offer(&self, answer: &Answer) {
        if let Ok(line) = serde_json::to_string(answer) {
            let _ = self.lines.try_send(line + "\n");
        }
    }
}

/// Serves a connection on threads of its own.
pub(super) fn welcome(desk: &Arc<Desk>, stream: UnixStream) {
    let (Ok(writing), Ok(reading)) = (stream.try_clone(), stream.try_clone()) else { return };
    let (lines, queue) = sync_channel(MOST_WAITING);
    let id = desk.admit(|id| Peer { id, is_greeted: false, lines, stream });
    let serving = Arc::clone(desk);
    let threads = thread("answers", move || write(writing, &queue)).and_then(|()| {
        thread("requests", move || {
            read(&serving, id, &reading);
            let _ = reading.shutdown(Shutdown::Both);
            serving.dismiss(id);
        })
    });
    if let Err(error) = threads {
        tracing::error!(%error, "a daemon cannot be served; it is disconnected");
        desk.dismiss(id);
    }
}

fn thread(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().name(name.into()).spawn(body).map(drop)
}

fn write(mut stream: UnixStream, queue: &Receiver<String>) {
    while let Ok(line) = queue.recv() {
        if stream.write_all(line.as_bytes()).is_err() {
            break;
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
}

/// Until the connection ends or something is said that no daemon of ours says.
fn read(desk: &Arc<Desk>, id: u64, stream: &UnixStream) {
    let mut reader = BufReader::new(stream);
    let mut is_known = false;
    loop {
        let mut line = String::new();
        match reader.by_ref().take(LONGEST_LINE).read_line(&mut line) {
            Ok(read) if read > 0 && line.ends_with('\n') => {}
            _ => return,
        }
        match serde_json::from_str(&line) {
            Ok(Request::Hello { version }) => {
                // Said in any case, so that the other side can say what does not fit.
                desk.greet(id);
                is_known = version == VERSION;
                if !is_known {
                    return;
                }
            }
            Ok(request) if is_known => desk.handle(id, request),
            _ => {
                tracing::warn!("a line on the socket is no request; its sender is disconnected");
                return;
            }
        }
    }
}
