//! System calls that wait for another process's word: what `seccomp(2)` calls user notification.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr,
};

use libc::{seccomp_notif, seccomp_notif_resp, sock_filter, sock_fprog};

/// `_IOWR('!', 0, struct seccomp_notif)` and `_IOWR('!', 1, struct seccomp_notif_resp)`.
const RECEIVE: libc::c_ulong = request(0, size_of::<seccomp_notif>());
const SEND: libc::c_ulong = request(1, size_of::<seccomp_notif_resp>());

const fn request(number: libc::c_ulong, size: usize) -> libc::c_ulong {
    (3 << 30) | ((size as libc::c_ulong) << 16) | ((b'!' as libc::c_ulong) << 8) | number
}

/// Applies `program` to this process, for good, and gives the descriptor at which the calls are heard of that
/// it holds back. The process has `no_new_privs`.
pub(crate) fn listen(program: &mut [sock_filter]) -> io::Result<OwnedFd> {
    let length = u16::try_from(program.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let program = sock_fprog { len: length, filter: program.as_mut_ptr() };
    // SAFETY: the kernel copies `len` instructions from `filter`, which live over the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            ptr::from_ref(&program),
        )
    };
    super::check(fd)?;
    let fd = libc::c_int::try_from(fd).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    // SAFETY: the kernel has just made this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Takes the next call that is held back, and lets it happen as it was asked for.
pub(crate) fn let_through(listener: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: all zeroes is a valid value of this plain data, and what the kernel wants to get.
    let mut heard: seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one `seccomp_notif`, which lives over the call.
    let got = unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE as _, ptr::from_mut(&mut heard)) };
    super::check(got.into())?;
    let go_on = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
    let answer = seccomp_notif_resp { id: heard.id, val: 0, error: 0, flags: go_on };
    // SAFETY: the kernel reads one `seccomp_notif_resp`, which lives over the call.
    let sent = unsafe { libc::ioctl(listener.as_raw_fd(), SEND as _, ptr::from_ref(&answer)) };
    super::check(sent.into())
}
