//! Just enough HTTP to see exactly what is on the wire.

use std::path::Path;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

/// The handshake of a client of this version.
pub(crate) const HELLO: &str = "regie-api: 1\r\n";

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// The problem document that it must be.
    pub(crate) fn problem(&self) -> control::api::Problem {
        assert!(self.head.contains("content-type: application/problem+json"), "{}\n{}", self.head, self.body);
        let problem: control::api::Problem = serde_json::from_str(&self.body).unwrap();
        assert_eq!(problem.status, self.status);
        problem
    }
}

/// One request on a connection of its own.
pub(crate) async fn ask(socket: &Path, line: &str, headers: &str, body: &str) -> Answer {
    let mut stream = UnixStream::connect(socket).await.unwrap();
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    // A server that refuses a long body early stops reading.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_lowercase(), body: body.into() }
}

/// One block of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) event: String,
    pub(crate) id: Option<u64>,
    pub(crate) data: serde_json::Value,
}

/// An open stream.
pub(crate) struct Stream(BufReader<UnixStream>);

impl Stream {
    pub(crate) async fn open(socket: &Path, query: &str, headers: &str) -> Self {
        let mut stream = UnixStream::connect(socket).await.unwrap();
        let request = format!("GET /api/v1/events{query} HTTP/1.0\r\nhost: x\r\n{HELLO}{headers}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut opened = Self(BufReader::new(stream));
        while opened.line().await.is_some_and(|line| !line.is_empty()) {}
        opened
    }

    async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.0.read_line(&mut line).await.unwrap();
        (read > 0).then(|| line.trim_end().to_owned())
    }

    /// The next block; `None` when the stream ended.
    pub(crate) async fn next(&mut self) -> Option<Block> {
        let mut block = Block { event: String::new(), id: None, data: serde_json::Value::Null };
        loop {
            let line = self.line().await?;
            match line.split_once(": ") {
                Some(("event", name)) => block.event = name.into(),
                Some(("id", id)) => block.id = id.parse().ok(),
                Some(("data", data)) => block.data = serde_json::from_str(data).unwrap(),
                _ if line.is_empty() && !block.event.is_empty() => return Some(block),
                _ => {}
            }
        }
    }

    /// The ids of the next `count` events.
    pub(crate) async fn ids(&mut self, count: usize) -> Vec<u64> {
        let mut ids = Vec::new();
        while ids.len() < count {
            let block = self.next().await.expect("the stream ended early");
            if block.event == "event" {
                ids.push(block.id.unwrap());
            }
        }
        ids
    }
}
