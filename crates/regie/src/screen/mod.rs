//! How things look: calm, aligned, few colours. Data goes to stdout, all else to stderr.

pub(crate) mod card;
pub(crate) mod clock;
pub(crate) mod export;
pub(crate) mod patch;
pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod text;

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

/// The widest that text is set, however wide the terminal.
const MAX_WIDTH: usize = 100;

/// Writes data to stdout.
pub(crate) fn put(text: &str) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes bytes to stdout as they are.
pub(crate) fn put_raw(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Writes one JSON document, on one line, to stdout.
pub(crate) fn put_json(document: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(document)?;
    line.push(b'\n');
    put_raw(&line)
}

/// Says something beside the data, on stderr.
pub(crate) fn say(text: &str) -> io::Result<()> {
    let mut err = anstream::stderr().lock();
    err.write_all(text.as_bytes())?;
    err.flush()
}

/// How to go on, on stderr.
pub(crate) fn hint(text: &str) -> io::Result<()> {
    say(&format!("{} {text}\n", style::hint("hint:")))
}

/// What the owner should know, on stderr.
pub(crate) fn warning(text: &str) -> io::Result<()> {
    say(&format!("{} {}\n", style::waiting("warning:"), text::line(text)))
}

/// Whether a person can be asked: both sides of the conversation are a terminal.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Whether data is read by a person.
pub(crate) fn is_read() -> bool {
    io::stdout().is_terminal()
}

/// Columns of text.
pub(crate) fn width() -> usize {
    let found = [rustix::termios::tcgetwinsize(io::stderr()), rustix::termios::tcgetwinsize(io::stdout())];
    let columns =
        found.into_iter().flatten().map(|size| usize::from(size.ws_col)).find(|columns| *columns > 0);
    columns.unwrap_or(MAX_WIDTH).clamp(40, MAX_WIDTH)
}
