//! A server that answers each connection with given bytes, for answers no server would give.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub(crate) struct Canned {
    pub(crate) base_url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Canned {
    /// Answers connection after connection, the last answer again for all later ones.
    pub(crate) async fn start(answers: Vec<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        tokio::spawn(async move {
            let mut answers = answers.into_iter();
            let mut answer = Vec::new();
            loop {
                let (mut connection, _) = listener.accept().await.unwrap();
                let request = read(&mut connection).await;
                seen.lock().unwrap().push(request);
                answer = answers.next().unwrap_or(answer);
                let _ = connection.write_all(&answer).await;
                let _ = connection.shutdown().await;
            }
        });
        Self { base_url, requests }
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// An event stream that ends when the connection does.
pub(crate) fn stream(body: &str) -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    format!("{head}{body}").into_bytes()
}

pub(crate) fn answer(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}")
        .into_bytes()
}

/// Events as the vendor frames them, named after their type.
pub(crate) fn events(data: &[&str]) -> String {
    let frame = |data: &&str| {
        let value: serde_json::Value = serde_json::from_str(data).unwrap();
        format!("event: {}\ndata: {data}\n\n", value["type"].as_str().unwrap())
    };
    data.iter().map(frame).collect()
}

pub(crate) async fn read(connection: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 8192];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.to_lowercase().strip_prefix("content-length: ").map(str::to_owned))
                .map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                return text;
            }
        }
        match connection.read(&mut buffer).await {
            Ok(0) | Err(_) => return text,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}
