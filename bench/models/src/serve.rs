//! The other end: a process of its own that serves the streams on loopback, an event a write.
//!
//! Below `/paced` it waits between events, as a vendor's model does, so that whoever reads sleeps in
//! between; below `/flood` it writes as fast as it can.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use models::Wire;

use crate::stream::Stream;

/// What the program is called with to be this end.
pub(crate) const ARGUMENT: &str = "__serve";
/// The deltas of a served stream.
pub(crate) const DELTAS: usize = 1_000;
/// Between two events of a paced stream; a model that writes ten thousand a second is a fast one.
const PACE: Duration = Duration::from_micros(100);

/// The server; ends with this value.
pub(crate) struct Server {
    child: Child,
    pub url: String,
}

impl Server {
    #[expect(clippy::disallowed_methods, reason = "the other end must not count for this one")]
    pub(crate) fn start() -> Result<Self> {
        let this = std::env::current_exe()?;
        let mut child =
            Command::new(this).arg(ARGUMENT).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("the server has no output")?).read_line(&mut line)?;
        Ok(Self { child, url: format!("http://{}", line.trim()) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves until its input ends.
pub(crate) fn run() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            std::thread::spawn(move || answer_all(connection));
        }
    });
    let _ = std::io::stdin().read(&mut [0]);
    Ok(())
}

fn answer_all(connection: TcpStream) -> Result<()> {
    connection.set_nodelay(true)?;
    let mut writer = connection.try_clone()?;
    let mut reader = BufReader::new(connection);
    loop {
        let (mut path, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let line = line.trim().to_ascii_lowercase();
            if let Some(rest) = line.strip_prefix("post ") {
                path = rest.split(' ').next().unwrap_or_default().to_owned();
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
            if line.is_empty() {
                break;
            }
        }
        std::io::copy(&mut (&mut reader).take(length), &mut std::io::sink())?;
        answer(&mut writer, &path)?;
    }
}

fn answer(writer: &mut impl Write, path: &str) -> Result<()> {
    let wire = match path.rsplit('/').next() {
        Some("messages") => Wire::Messages,
        Some("responses") => Wire::Responses,
        Some("completions") => Wire::Chat,
        _ => bail!("there is no {path}"),
    };
    let is_paced = path.starts_with("/paced/");
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    writer.write_all(head.as_bytes())?;
    for event in Stream::of(wire, DELTAS).events {
        if is_paced {
            std::thread::sleep(PACE);
        }
        writer.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes())?;
    }
    Ok(writer.write_all(b"0\r\n\r\n")?)
}
