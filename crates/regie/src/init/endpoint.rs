//! Model servers on this machine: a short look at the loopback ports that they use by default. No
//! other address is ever asked.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::screen::text;

/// How long a server may take to say what it is.
const PATIENCE: Duration = Duration::from_millis(300);
/// How many of its models are named.
const NAMED: usize = 3;

/// Name, port, where it lists its models, and the name of that list.
const KNOWN: [(&str, u16, &str, &str); 3] = [
    ("Ollama", 11434, "/api/tags", "models"),
    ("LM Studio", 1234, "/v1/models", "data"),
    ("llama.cpp", 8080, "/v1/models", "data"),
];

/// A server that answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Endpoint {
    pub(super) name: &'static str,
    url: String,
    models: Vec<String>,
}

impl Endpoint {
    /// For people.
    pub(super) fn shown(&self) -> String {
        let named: Vec<String> =
            self.models.iter().take(NAMED).map(|name| text::short(&text::line(name), 40)).collect();
        let more = self.models.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let models =
            if named.is_empty() { "no model yet".into() } else { format!("{}{more}", named.join(", ")) };
        format!("{} · {models} · use it with --model local/NAME", self.url)
    }
}

/// The servers that answer now.
pub(super) async fn probe() -> Vec<Endpoint> {
    let asked =
        KNOWN.map(|(name, port, path, list)| look(name, format!("http://127.0.0.1:{port}"), path, list));
    futures_util::future::join_all(asked).await.into_iter().flatten().collect()
}

/// What listens there, when it answers as that server does.
async fn look(name: &'static str, url: String, path: &str, list: &str) -> Option<Endpoint> {
    let client = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .redirect(reqwest::redirect::Policy::none())
        .timeout(PATIENCE)
        .build()
        .ok()?;
    let response = client.get(format!("{url}{path}")).send().await.ok()?;
    if !response.status().is_success() {
        return None;
    }
    let said: Value = response.json().await.ok()?;
    let models = said.get(list)?.as_array()?.iter().filter_map(|model| {
        let name = model.get("name").or_else(|| model.get("id"))?;
        name.as_str().map(str::to_owned)
    });
    Some(Endpoint { name, models: models.collect(), url })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use super::*;

    /// What is found where a server gives one answer.
    fn check(answer: &'static str) -> Option<Endpoint> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream);
            let mut line = String::new();
            while line != "\r\n" {
                line.clear();
                reader.read_line(&mut line).unwrap();
            }
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", answer.len());
            let _ = reader.get_mut().write_all(format!("{head}{answer}").as_bytes());
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let found = runtime.block_on(look("It", url, "/api/tags", "models"));
        server.join().unwrap();
        found
    }

    #[test]
    fn a_server_is_known_by_its_answer() {
        let found = check(r#"{"models":[{"name":"a"},{"name":"b"},{"id":"c"},{"name":"d"}]}"#).unwrap();
        assert_eq!(found.models, ["a", "b", "c", "d"]);
        assert!(found.shown().contains("a, b, c and 1 more"), "{}", found.shown());
        assert!(check(r#"{"models":[]}"#).unwrap().shown().contains("no model yet"));
    }

    #[test]
    fn another_program_on_the_port_is_none() {
        assert_eq!(check("<html>hello</html>"), None);
        assert_eq!(check(r#"{"other":[]}"#), None);
    }

    #[test]
    fn a_port_that_nobody_listens_on_is_none() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        assert_eq!(runtime.block_on(look("It", format!("http://{free}"), "/", "models")), None);
    }
}
