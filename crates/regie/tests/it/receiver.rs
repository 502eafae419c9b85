//! Somebody who listens on loopback for what Regie posts, over real HTTP.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::Value;

/// What was posted.
#[derive(Debug, Clone)]
pub(crate) struct Posted {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Posted {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

#[derive(Default)]
struct Shared {
    posted: Mutex<Vec<Posted>>,
    came: Condvar,
    /// Takes what is posted and never answers.
    is_mute: AtomicBool,
    /// Answers that it failed.
    fails: AtomicBool,
}

pub(crate) struct Receiver {
    port: u16,
    shared: Arc<Shared>,
}

impl Receiver {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared::default());
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            let mut held = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let (mut head, mut line) = (String::new(), String::new());
                while reader.read_line(&mut line).unwrap_or(0) > 2 {
                    head.push_str(&line);
                    line.clear();
                }
                let mut posted = Posted { head, body: Vec::new() };
                let length = posted.header("content-length").and_then(|text| text.trim().parse().ok());
                posted.body.resize(length.unwrap_or(0), 0);
                if reader.read_exact(&mut posted.body).is_err() {
                    continue;
                }
                serving.posted.lock().unwrap().push(posted);
                serving.came.notify_all();
                if serving.is_mute.load(Ordering::SeqCst) {
                    held.push(stream);
                    continue;
                }
                let status = if serving.fails.load(Ordering::SeqCst) { "503 Busy" } else { "204 No Content" };
                let answer = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        Self { port, shared }
    }

    pub(crate) fn address(&self) -> String {
        format!("http://127.0.0.1:{}/hook/very-secret", self.port)
    }

    pub(crate) fn mute(&self, is_mute: bool) {
        self.shared.is_mute.store(is_mute, Ordering::SeqCst);
    }

    pub(crate) fn fail(&self, fails: bool) {
        self.shared.fails.store(fails, Ordering::SeqCst);
    }

    /// Waits until so many came, and gives all of them.
    #[track_caller]
    pub(crate) fn wait(&self, count: usize) -> Vec<Posted> {
        let posted = self.shared.posted.lock().unwrap();
        let patience = Duration::from_secs(90);
        let waited = self.shared.came.wait_timeout_while(posted, patience, |posted| posted.len() < count);
        let posted = waited.unwrap().0;
        assert!(posted.len() >= count, "only {} of {count} came: {posted:?}", posted.len());
        posted.clone()
    }
}
