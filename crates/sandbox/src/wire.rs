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

use crate::{Bound, Exec, Failure, Limits, Network, Part, Plan, Posture, sys::Net};

/// A frame beyond this is no plan of ours.
const MAX_BYTES: u32 = 64 << 20;

/// What the launcher is asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// Start a program.
    Launch(Box<Request>),
    /// Do what can be done before anybody knows which program it will be, and wait for that. Its limits are probably
    /// these.
    Prepare(Box<Limits>),
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

    /// Whether a launcher that was started before the plan was known, for plans with these limits, can start this.
    pub(crate) fn suits_prepared(&self, limits: &Limits) -> bool {
        let is_usual = self.mode == Mode::Confine && self.net() == Net::New;
        // What lets one execution through has to be there before the process that executes.
        is_usual && self.plan.exec != Exec::Once && self.plan.limits == *limits
    }

    /// The descriptors that it needs, out of those that came along. Looks at the plan once more: whoever asks has
    /// done so, and what comes over a socket is not believed.
    pub(crate) fn accept(&self, fds: Vec<OwnedFd>) -> Result<Handed, Failure> {
        let refuse = |doing: String| Failure { part: Part::Plan, doing, errno: None };
        self.plan.check().map_err(|error| refuse(error.to_string()))?;
        if self.mode == Mode::Degrade && (self.plan.posture == Posture::Deny || self.plan.layers.is_some()) {
            return Err(refuse(
                "the plan is to be enforced or not started, and was to run without a jail".into(),
            ));
        }
        let wanted = usize::from(self.is_piped) + if self.is_joined { 2 } else { 0 };
        if fds.len() != wanted {
            let came = fds.len();
            return Err(refuse(format!("the plan needs {wanted} descriptors, and {came} came along")));
        }
        let mut fds = fds.into_iter();
        let stdin = if self.is_piped { fds.next() } else { None };
        Ok(Handed { stdin, network: fds.next().zip(fds.next()) })
    }
}

/// What came along with a request.
#[derive(Debug)]
pub(crate) struct Handed {
    /// The program's standard input.
    pub(crate) stdin: Option<OwnedFd>,
    /// The user and the network namespace to join.
    pub(crate) network: Option<(OwnedFd, OwnedFd)>,
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
    /// What was started has ended, and all of the jail with it. Comes second, unless the launcher was killed.
    Ended {
        /// How, as [`End::to_bytes`](crate::init::End::to_bytes) has it.
        end: [u8; 4],
        /// The bound for which it was ended.
        bound: Option<Bound>,
    },
}

/// The most descriptors of one frame.
const MOST_FDS: usize = 5;

/// A value as the body of a frame.
pub(crate) fn encode<T: Serialize>(value: &T) -> serde_json::Result<Vec<u8>> {
    // Most plans fit.
    let mut body = Vec::with_capacity(8 << 10);
    serde_json::to_writer(&mut body, value)?;
    Ok(body)
}

/// Sends one frame and at most [`MOST_FDS`] descriptors.
pub(crate) fn send<T: Serialize>(socket: &UnixStream, value: &T, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    send_body(socket, &encode(value)?, fds)
}

/// Sends one frame that is encoded already.
pub(crate) fn send_body(mut socket: &UnixStream, body: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
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
    let parts = [IoSlice::new(&length), IoSlice::new(body)];
    let sent = rustix::net::sendmsg(socket, &parts, &mut control, SendFlags::NOSIGNAL)?;
    socket.write_all(length.get(sent..).unwrap_or_default())?;
    socket.write_all(body.get(sent.saturating_sub(length.len())..).unwrap_or_default())
}

/// Receives one frame and its descriptors.
pub(crate) fn receive<T: DeserializeOwned>(socket: &UnixStream) -> io::Result<(T, Vec<OwnedFd>)> {
    let (body, fds) = receive_body(socket)?;
    Ok((decode(&body)?, fds))
}

/// What the body of a frame says.
pub(crate) fn decode<T: DeserializeOwned>(body: &[u8]) -> io::Result<T> {
    Ok(serde_json::from_slice(body)?)
}

/// Receives one frame as it is, and its descriptors.
pub(crate) fn receive_body(mut socket: &UnixStream) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
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
    Ok((body(socket, length)?, fds))
}

/// Room that is made before there is anything to put into it.
const MOST_ROOM: u32 = 16 << 10;

/// As many bytes as were announced. Room is made as they come: the length is only a claim.
fn body(from: impl Read, length: u32) -> io::Result<Vec<u8>> {
    let mut body = Vec::with_capacity(length.min(MOST_ROOM) as usize);
    from.take(length.into()).read_to_end(&mut body)?;
    if body.len() == length as usize { Ok(body) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives what it has, and remembers how much room it was ever offered.
    struct Offered<'a>(&'a [u8], usize);

    impl Read for Offered<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.1 = self.1.max(into.len());
            self.0.read(into)
        }
    }

    #[test]
    fn a_length_that_lies_takes_no_memory() {
        let mut from = Offered(b"{}", 0);
        let error = body(&mut from, MAX_BYTES).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert!(from.1 > 0 && from.1 <= 64 << 10, "{} bytes for 2", from.1);
        assert_eq!(body(&b"{}more"[..], 2).unwrap(), b"{}");
    }

    #[test]
    fn a_frame_that_is_cut_anywhere_is_none() {
        let plan = Plan::new("/w", ["true"]);
        let request = Request { plan, mode: Mode::Confine, is_piped: false, is_joined: false };
        let (here, there) = UnixStream::pair().unwrap();
        send(&here, &Order::Launch(Box::new(request)), &[]).unwrap();
        drop(here);
        let mut whole = Vec::new();
        (&there).read_to_end(&mut whole).unwrap();
        for end in 0..=whole.len() {
            let (here, there) = UnixStream::pair().unwrap();
            (&here).write_all(&whole[..end]).unwrap();
            drop(here);
            assert_eq!(receive::<Order>(&there).is_ok(), end == whole.len(), "after {end} bytes");
        }
    }

    #[test]
    fn what_does_not_fit_the_plan_is_not_accepted() {
        let request = |change: fn(&mut Request)| {
            let plan = Plan::new("/w", ["true"]);
            let mut request = Request { plan, mode: Mode::Confine, is_piped: false, is_joined: false };
            change(&mut request);
            request
        };
        let fds = |count: usize| -> Vec<OwnedFd> {
            (0..count).map(|_| std::fs::File::open("/dev/null").unwrap().into()).collect()
        };
        assert!(request(|_| {}).accept(vec![]).is_ok());
        let both = request(|request| (request.is_piped, request.is_joined) = (true, true));
        let handed = both.accept(fds(3)).unwrap();
        assert!(handed.stdin.is_some() && handed.network.is_some());
        for count in [0, 1, 2, 4] {
            assert!(both.accept(fds(count)).is_err(), "{count}");
        }
        for wrong in [
            request(|request| request.mode = Mode::Degrade),
            request(|request| request.plan.argv.clear()),
            request(|request| request.plan.mounts.push(crate::Mount::write("/proc/sys"))),
            request(|request| request.plan.mounts.push(crate::Mount::read("/a\0b"))),
        ] {
            let failure = wrong.accept(vec![]).unwrap_err();
            assert_eq!(failure.part, Part::Plan, "{failure}");
        }
    }
}
