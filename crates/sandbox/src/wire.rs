//! What caller and launcher say to each other over the control socket: one request, one
//! answer, each a length and JSON, with descriptors attached.
//!
//! The socket is also the lifeline: when the caller's end closes, however it ended, the
//! launcher ends the jail. (A parent-death signal is not used between these two: it fires when
//! the *thread* that forked ends, and callers fork from pools whose threads come and go.)

use std::{
    io::{self, IoSlice, IoSliceMut, Read, Write},
    mem::MaybeUninit,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{Failure, Network, Plan, sys::Net};

/// A frame beyond this is no plan of ours.
const MAX_BYTES: u32 = 64 << 20;

/// What the launcher is asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// Start a program.
    Launch(Box<Request>),
    /// Do what can be done before anybody knows which program it will be, and wait for that.
    Prepare,
    /// Make a network that jails can share, and start nothing.
    Network,
}

/// A program to start. What comes along as descriptors, in this order: its standard input when that is
/// piped, and the user and the network namespace of a network to join.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    /// What to start.
    pub(crate) plan: Plan,
    /// How.
    pub(crate) mode: Mode,
    /// Whether a standard input comes along.
    pub(crate) is_piped: bool,
    /// Whether a network comes along.
    pub(crate) is_joined: bool,
}

impl Request {
    /// Which network namespace the jail is in.
    pub(crate) fn net(&self) -> Net {
        if self.is_joined || self.plan.network == Network::Host { Net::Stay } else { Net::New }
    }

    /// Whether a launcher that was started before the plan was known can start this.
    pub(crate) fn suits_prepared(&self) -> bool {
        self.mode == Mode::Confine && self.net() == Net::New
    }
}

/// How a plan is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    /// Confined, or not at all.
    Confine,
    /// Confined, then nothing is executed: shows that it could be.
    Rehearse,
    /// Without a jail: session and resource limits only.
    Degrade,
}

/// What the launcher answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// The program runs; a process descriptor of the jail's first process comes along.
    Started,
    /// A network was made; its user and its network namespace come along.
    Network,
    /// Nothing was started.
    Failed(Failure),
}

/// The most descriptors of one frame.
const MOST_FDS: usize = 5;

/// Sends one frame and at most [`MOST_FDS`] descriptors.
pub(crate) fn send<T: Serialize>(
    mut socket: &UnixStream,
    value: &T,
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let body = serde_json::to_vec(value)?;
    let length = u32::try_from(body.len())
        .ok()
        .filter(|length| *length <= MAX_BYTES)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the frame is too large"))?
        .to_le_bytes();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(fds));
    }
    let sent = rustix::net::sendmsg(socket, &[IoSlice::new(&length)], &mut control, SendFlags::NOSIGNAL)?;
    socket.write_all(length.get(sent..).unwrap_or_default())?;
    socket.write_all(&body)
}

/// Receives one frame and its descriptors.
pub(crate) fn receive<T: DeserializeOwned>(mut socket: &UnixStream) -> io::Result<(T, Vec<OwnedFd>)> {
    let mut length = [0; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = loop {
        let got = rustix::net::recvmsg(
            socket,
            &mut [IoSliceMut::new(&mut length)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        );
        match got {
            Err(rustix::io::Errno::INTR) => {}
            other => break other?.bytes,
        }
    };
    if got == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            fds.extend(received);
        }
    }
    socket.read_exact(length.get_mut(got..).unwrap_or_default())?;
    let length = u32::from_le_bytes(length);
    if length > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the frame is too large"));
    }
    let mut body = vec![0; length as usize];
    socket.read_exact(&mut body)?;
    Ok((serde_json::from_slice(&body)?, fds))
}
