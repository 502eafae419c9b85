//! One try of a model call, as it comes over the wire.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use domain::{Digest, Timestamp};
use kernel::port::Work;
use models::tape::{End, Head, Heard, Tap};

use super::format::{CALL, Call, Kept, REQUEST, body_name, call_dir};
use super::recorder::write;
use super::scrub::Scrubber;

/// Hears a call, and writes it down when it is over. One that is ended from this side is written
/// down as far as it came.
pub(crate) struct Taping {
    dir: PathBuf,
    work: Work,
    scrubber: Arc<Scrubber>,
    attempts: Mutex<Vec<Came>>,
    is_over: bool,
}

#[derive(Default)]
struct Came {
    head: Option<Head>,
    body: Vec<u8>,
    end: Option<End>,
}

impl Taping {
    pub(super) fn new(root: &Path, work: &Work, scrubber: Arc<Scrubber>) -> Self {
        Self {
            dir: call_dir(root, work.step, work.attempt),
            work: work.clone(),
            scrubber,
            attempts: Mutex::default(),
            is_over: false,
        }
    }

    /// Writes the call down, whose answer was taken at `at`. The run does not go on before.
    pub(crate) async fn end(mut self, at: Timestamp) {
        self.is_over = true;
        let written = tokio::task::spawn_blocking(move || self.write(Some(at))).await;
        told(written.unwrap_or_else(|error| Err(io::Error::other(error))));
    }

    fn write(&self, at: Option<Timestamp>) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        let mut request = self.work.request.to_vec();
        let masked = self.scrubber.text(&mut request);
        write(&self.dir.join(REQUEST), &request)?;
        let attempts = std::mem::take(&mut *self.attempts.lock().unwrap_or_else(PoisonError::into_inner));
        let mut call = Call { at, request: Digest::of(&request), masked, attempts: Vec::new() };
        for (n, Came { head, mut body, end }) in (1..).zip(attempts) {
            self.scrubber.body(&mut body);
            write(&self.dir.join(body_name(n)), &body)?;
            let head = head.map(|head| Head {
                headers: head
                    .headers
                    .into_iter()
                    .map(|(name, value)| (name, self.scrubber.line(&value)))
                    .collect(),
                ..head
            });
            call.attempts.push(Kept { head, end, body: Digest::of(&body) });
        }
        write(&self.dir.join(CALL), &serde_json::to_vec_pretty(&call)?)
    }
}

impl Tap for Taping {
    fn heard(&self, attempt: u32, heard: Heard<'_>) {
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = usize::try_from(attempt).unwrap_or(usize::MAX);
        while attempts.len() < wanted {
            attempts.push(Came::default());
        }
        let Some(came) = attempts.last_mut() else { return };
        match heard {
            Heard::Head(head) => came.head = Some(head.clone()),
            Heard::Bytes(bytes) => came.body.extend_from_slice(bytes),
            Heard::End(end) => came.end = Some(end.clone()),
        }
    }
}

impl Drop for Taping {
    fn drop(&mut self) {
        if !self.is_over {
            told(self.write(None));
        }
    }
}

fn told(written: io::Result<()>) {
    if let Err(error) = written {
        tracing::warn!(%error, "a call could not be recorded; the recording will not replay beyond it");
    }
}
