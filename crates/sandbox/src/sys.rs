//! The few system calls that no safe wrapper offers; all of the crate's `unsafe` is here.
#![expect(unsafe_code, reason = "system calls without a safe wrapper, each justified")]

pub(crate) mod notify;
pub(crate) mod stand_in;

use std::{
    convert::Infallible,
    ffi::{CStr, CString},
    io,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
    ptr,
};

use rustix::process::{Pid, PidfdFlags};
use rustix::thread::{LinkNameSpaceType, UnshareFlags as Flags};

use crate::lacks::{self, Lack};

/// `MOUNT_ATTR_RDONLY`.
pub(crate) const MOUNT_READ_ONLY: u64 = 0x1;
/// `MOUNT_ATTR_NOSUID`.
pub(crate) const MOUNT_NO_SUID: u64 = 0x2;
/// `MOUNT_ATTR_NODEV`.
pub(crate) const MOUNT_NO_DEV: u64 = 0x4;
/// `MOUNT_ATTR_NOEXEC`.
pub(crate) const MOUNT_NO_EXEC: u64 = 0x8;

const AT_RECURSIVE: libc::c_uint = 0x8000;
const SYS_MOUNT_SETATTR: libc::c_long = 442;

/// Which side of a fork this is.
pub(crate) enum Fork {
    /// The new process.
    Child,
    /// The old one, and the new one's id.
    Parent(Pid),
}

/// Forks this single-threaded process.
pub(crate) fn fork() -> io::Result<Fork> {
    // SAFETY: the launcher never has more than one thread, so the child is an exact copy in
    // which every lock is free and every invariant holds.
    let pid = unsafe { libc::fork() };
    match Pid::from_raw(pid) {
        _ if pid < 0 => Err(io::Error::last_os_error()),
        Some(pid) => Ok(Fork::Parent(pid)),
        None => Ok(Fork::Child),
    }
}

/// Ends this process at once, without running anything registered for its end.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` has no preconditions and does not return.
    unsafe { libc::_exit(code) }
}

/// Which network namespace a process is to be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Net {
    /// A new one.
    New,
    /// The one that it is in.
    Stay,
}

/// Enters new user, process, IPC, host name and cgroup namespaces, and perhaps a new network. The mounts are
/// left for [`enter_mounts`]: a copy of them is to be no older than the plan.
pub(crate) fn enter_namespaces(net: Net) -> io::Result<()> {
    let all = Flags::NEWUSER | Flags::NEWPID | Flags::NEWIPC | Flags::NEWUTS | Flags::NEWCGROUP;
    unshare(if net == Net::New { all | Flags::NEWNET } else { all })
}

/// Enters a new mount namespace, which has the mounts that there are now.
pub(crate) fn enter_mounts() -> io::Result<()> {
    unshare(Flags::NEWNS)
}

/// Joins a mount namespace of this user namespace's; its root becomes that of this process.
pub(crate) fn join_mounts(mounts: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::thread::move_into_link_name_space(mounts, Some(LinkNameSpaceType::Mount))?)
}

/// Enters a new user and a new network namespace.
pub(crate) fn enter_network() -> io::Result<()> {
    unshare(Flags::NEWUSER | Flags::NEWNET)
}

/// Joins a user namespace that this user made, and the network namespace that belongs to it.
pub(crate) fn join_network(user: BorrowedFd<'_>, net: BorrowedFd<'_>) -> io::Result<()> {
    rustix::thread::move_into_link_name_space(user, Some(LinkNameSpaceType::User))?;
    rustix::thread::move_into_link_name_space(net, Some(LinkNameSpaceType::Network))?;
    Ok(())
}

fn unshare(all: Flags) -> io::Result<()> {
    Lack::UserNamespaces.refuse()?;
    // SAFETY: the file descriptor table is not unshared (no CLONE_FILES), which is the only
    // thing that could invalidate descriptors held elsewhere.
    unsafe { rustix::thread::unshare_unsafe(all) }.map_err(Into::into)
}

/// Adds `attributes` (`MOUNT_*`) to the mount that `fd` stands for, and to all below it.
pub(crate) fn mount_restrict(fd: BorrowedFd<'_>, attributes: u64) -> io::Result<()> {
    mount_setattr(fd, attributes, 0, AT_RECURSIVE)
}

/// Adds `attributes` to the mount that `fd` stands for, and to none below it.
pub(crate) fn mount_restrict_one(fd: BorrowedFd<'_>, attributes: u64) -> io::Result<()> {
    mount_setattr(fd, attributes, 0, 0)
}

/// Takes `attributes` from the mount that `fd` stands for, and from none below it. What the machine itself
/// has set stays set: the kernel refuses.
pub(crate) fn mount_loosen_one(fd: BorrowedFd<'_>, attributes: u64) -> io::Result<()> {
    mount_setattr(fd, 0, attributes, 0)
}

fn mount_setattr(fd: BorrowedFd<'_>, set: u64, clear: u64, flags: libc::c_uint) -> io::Result<()> {
    #[repr(C)]
    struct MountAttr {
        attr_set: u64,
        attr_clr: u64,
        propagation: u64,
        userns_fd: u64,
    }
    let attr = MountAttr { attr_set: set, attr_clr: clear, propagation: 0, userns_fd: 0 };
    // SAFETY: the path is a valid empty C string, `attr` is the kernel's `struct mount_attr`
    // in its first version, lives over the call, and its true size is passed.
    let done = unsafe {
        libc::syscall(
            SYS_MOUNT_SETATTR,
            fd.as_raw_fd(),
            c"".as_ptr(),
            flags | libc::AT_EMPTY_PATH as libc::c_uint,
            ptr::from_ref(&attr),
            size_of::<MountAttr>(),
        )
    };
    check(done)
}

/// Closes every descriptor from 3 on: at the launcher's start, and before it becomes a tool, when nothing that
/// held one is looked at again.
pub(crate) fn close_inherited() -> io::Result<()> {
    close_range(3, 0)
}

/// Has every descriptor from 3 on closed by the next exec.
pub(crate) fn close_on_exec() -> io::Result<()> {
    close_range(3, libc::CLOSE_RANGE_CLOEXEC)
}

fn close_range(first: libc::c_uint, flags: libc::c_uint) -> io::Result<()> {
    // SAFETY: called with no flags only at the launcher's start, when nothing of this process
    // owns a descriptor above 2 yet, and right before a resident tool, which ends the process: no owner of a
    // descriptor is used or dropped after it. With CLOEXEC it closes nothing now.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, flags) })
}

/// Gives every signal its default disposition: a program starts as from a fresh shell.
pub(crate) fn reset_signals() {
    for signal in 1..=64 {
        // SAFETY: SIG_DFL installs no handler; numbers that cannot be set are refused harmlessly.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// The newest Landlock ABI that the kernel offers; 0 without Landlock.
pub(crate) fn landlock_abi() -> i32 {
    const VERSION: libc::c_uint = 1;
    // SAFETY: with the version flag the kernel reads no attributes: null and 0 are what it wants.
    let abi =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, ptr::null::<u8>(), 0_usize, VERSION) };
    lacks::landlock(i32::try_from(abi).unwrap_or(0).max(0))
}

/// A descriptor by which `pid` is followed, also when its number has passed to another.
pub(crate) fn process(pid: Pid) -> rustix::io::Result<OwnedFd> {
    Lack::Pidfd.refuse()?;
    rustix::process::pidfd_open(pid, PidfdFlags::empty())
}

/// Brings up the loopback of this network namespace through any socket of it.
pub(crate) fn loopback_up(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: `ifreq` is plain data for which all zeroes is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed() as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: SIOCSIFFLAGS reads one `ifreq`, which lives over the call.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, ptr::from_ref(&request)) };
    check(done.into())
}

/// Becomes `program`; returns only the reason why it could not.
pub(crate) fn execute(program: &CStr, argv: &[CString], env: &[CString]) -> Result<Infallible, io::Error> {
    let terminated = |strings: &[CString]| -> Vec<*const libc::c_char> {
        strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
    };
    let (argv, env) = (terminated(argv), terminated(env));
    // SAFETY: both arrays end with a null pointer and point to C strings that the caller's
    // slices keep alive; on success nothing of this process remains.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    Err(io::Error::last_os_error())
}

fn check(returned: libc::c_long) -> io::Result<()> {
    if returned == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
