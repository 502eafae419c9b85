//! An HTTP proxy: tunnels (`CONNECT`) and requests with a whole address. Whatever host is asked for, the
//! connection goes to the one server behind it, so that a test may name hosts that do not exist.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// How a proxy treats who comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Lets everything through.
    Open,
    /// Lets through what carries this `Proxy-Authorization`, and answers 407 otherwise.
    Keyed(String),
    /// Answers everything with this status line and page.
    Refuse(String, String),
}

/// A running proxy; dropping it ends it.
pub struct Proxy {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    serving: JoinHandle<()>,
}

impl Proxy {
    /// Serves on the current runtime.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(mode: Mode, behind: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&heads);
        let serving = tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(serve(connection, mode.clone(), behind, Arc::clone(&seen)));
            }
        });
        Ok(Self { address, heads, serving })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The first head of each connection.
    #[must_use]
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(
    mut connection: TcpStream,
    mode: Mode,
    behind: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
) -> io::Result<()> {
    let mut read = Vec::new();
    let end = loop {
        if let Some(at) = read.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if connection.read_buf(&mut read).await? == 0 {
            return Ok(());
        }
    };
    let head = String::from_utf8_lossy(read.get(..end).unwrap_or_default()).into_owned();
    let allowed = match &mode {
        Mode::Open => true,
        Mode::Keyed(key) => head.lines().any(|line| {
            line.split_once(": ")
                .is_some_and(|(name, value)| name.eq_ignore_ascii_case("proxy-authorization") && value == key)
        }),
        Mode::Refuse(..) => false,
    };
    let is_tunnel = head.starts_with("CONNECT ");
    seen.lock().unwrap_or_else(PoisonError::into_inner).push(head);
    if !allowed {
        let (status, page) = match mode {
            Mode::Refuse(status, page) => (status, page),
            _ => ("407 Proxy Authentication Required".to_owned(), String::new()),
        };
        let length = page.len();
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/html\r\nproxy-authenticate: Basic realm=\"test\"\r\n\
             content-length: {length}\r\nconnection: close\r\n\r\n{page}"
        );
        connection.write_all(answer.as_bytes()).await?;
        // What the caller still sends is taken, so that the answer is not lost to a reset.
        connection.shutdown().await?;
        while connection.read_buf(&mut read).await? > 0 {
            read.clear();
        }
        return Ok(());
    }
    let mut behind = TcpStream::connect(behind).await?;
    if is_tunnel {
        connection.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
        behind.write_all(read.get(end..).unwrap_or_default()).await?;
    } else {
        behind.write_all(&read).await?;
    }
    tokio::io::copy_bidirectional(&mut connection, &mut behind).await?;
    Ok(())
}
