//! What the launcher and its caller read from their socket, shown to fuzzers alone.

use std::{
    io::{self, IoSlice, Write as _},
    mem::MaybeUninit,
    os::{fd::BorrowedFd, unix::net::UnixStream},
};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

use crate::{
    Failure, Mount, Plan, tree,
    wire::{self, Answer, Order},
};

/// What the launcher makes of the frame that a socket gives it.
#[derive(Debug)]
pub enum Asked {
    /// It makes a network.
    Network,
    /// It gets ready for a plan that comes later.
    Prepare,
    /// It starts this, with so many descriptors.
    Start(Box<Plan>, usize),
    /// It starts nothing.
    Refused(Failure),
}

/// Reads what the launcher is asked, as far as it goes before it does anything.
///
/// # Errors
/// When it is no order.
pub fn asked(socket: &UnixStream) -> io::Result<Asked> {
    let (order, fds) = wire::receive::<Order>(socket)?;
    let request = match order {
        Order::Launch(request) => request,
        Order::Network => return Ok(Asked::Network),
        Order::Prepare(_) => return Ok(Asked::Prepare),
    };
    let count = fds.len();
    Ok(match request.accept(fds) {
        Ok(_) => Asked::Start(Box::new(request.plan), count),
        Err(failure) => Asked::Refused(failure),
    })
}

/// Reads what a caller is answered; the words of a failure, if it is one.
///
/// # Errors
/// When it is no answer.
pub fn answered(socket: &UnixStream) -> io::Result<Option<String>> {
    let (answer, _) = wire::receive::<Answer>(socket)?;
    Ok(match answer {
        Answer::Failed(failure) => Some(failure.to_string()),
        Answer::Started | Answer::Network | Answer::Ended { .. } => None,
    })
}

/// A frame as a caller sends it.
///
/// # Errors
/// When the plan cannot be put into words.
pub fn order(plan: &Plan) -> io::Result<Vec<u8>> {
    let (here, there) = UnixStream::pair()?;
    let mode = wire::Mode::Confine;
    let request = wire::Request { plan: plan.clone(), mode, is_piped: false, is_joined: false };
    let sending = std::thread::spawn(move || wire::send(&here, &Order::Launch(Box::new(request)), &[]));
    let mut frame = Vec::new();
    io::Read::read_to_end(&mut &there, &mut frame)?;
    sending.join().map_err(|_| io::Error::other("the sender is gone"))??;
    Ok(frame)
}

/// Sends bytes as they are, and descriptors with the first of them: also more than any frame has.
///
/// # Errors
/// When the socket does not take them.
pub fn put(mut socket: &UnixStream, frame: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(fds));
    }
    let sent = rustix::net::sendmsg(socket, &[IoSlice::new(frame)], &mut control, SendFlags::NOSIGNAL)?;
    socket.write_all(frame.get(sent..).unwrap_or_default())
}

/// Whether a mount is taken from what one of those before it shows at the same place.
#[must_use]
pub fn is_inside(before: &[Mount], mount: &Mount) -> bool {
    tree::is_inside(before, mount)
}
