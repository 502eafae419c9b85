//! Probes that use up memory and files, each up to an amount that it is told, and then stay for a while: who
//! is not ended meanwhile says so.
#![expect(unsafe_code, reason = "the probes are system calls")]
#![expect(clippy::disallowed_methods, reason = "a probe starts others like itself")]

use std::{
    fs::File,
    io::{Error, Result, Write as _},
    os::fd::FromRawFd as _,
    process::Command,
    thread::sleep,
    time::Duration,
};

use crate::probe;

/// How long one stays that is not ended, as a whole.
const STAY: Duration = Duration::from_secs(20);
const MIB: usize = 1 << 20;

fn stay() -> Result<String> {
    sleep(STAY);
    Ok("the end".into())
}

/// So many probes of one kind, with one argument.
pub(crate) fn many(count: usize, name: &str, argument: &str) -> Result<String> {
    let start =
        || Command::new("/proc/self/exe").args(probe::ARGV).envs(probe::env(name, &[argument])).spawn();
    let started = (0..count).map(|_| start()).collect::<Result<Vec<_>>>()?;
    for mut child in started {
        child.wait()?;
    }
    Ok("the end".into())
}

/// Memory of its own, in MiB.
pub(crate) fn own(mib: usize) -> Result<String> {
    let held = vec![1_u8; mib * MIB];
    std::hint::black_box(&held);
    stay()
}

fn map(mib: usize, flags: i32) -> Result<*mut u8> {
    let (length, rights) = (mib * MIB, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: a new mapping at a place of the kernel's choice.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), length, rights, flags | libc::MAP_ANONYMOUS, -1, 0) };
    if at == libc::MAP_FAILED {
        return Err(Error::last_os_error());
    }
    // SAFETY: the mapping is that long, writable, and nobody else's.
    unsafe { std::ptr::write_bytes(at.cast::<u8>(), 1, length) };
    Ok(at.cast())
}

/// Shared memory without a file, in MiB.
pub(crate) fn mapped(mib: usize) -> Result<String> {
    map(mib, libc::MAP_SHARED)?;
    stay()
}

/// A file in memory without a name, in MiB, which is mapped by nobody.
pub(crate) fn nameless(mib: usize) -> Result<String> {
    // SAFETY: the name is a C string.
    let fd = unsafe { libc::memfd_create(c"bomb".as_ptr(), 0) };
    if fd < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: the descriptor is new and owned by nobody else.
    let mut file = unsafe { File::from_raw_fd(fd) };
    for _ in 0..mib {
        file.write_all(&[1; MIB])?;
    }
    stay()
}

/// A System V segment, in MiB, that nobody is attached to any more.
pub(crate) fn segment(mib: usize) -> Result<String> {
    // SAFETY: a new segment, attached at a place of the kernel's choice, written within its length, and let
    // go of.
    unsafe {
        let id = libc::shmget(libc::IPC_PRIVATE, mib * MIB, libc::IPC_CREAT | 0o600);
        let at = libc::shmat(id, std::ptr::null(), 0);
        if id < 0 || at.addr() == usize::MAX {
            return Err(Error::last_os_error());
        }
        std::ptr::write_bytes(at.cast::<u8>(), 1, mib * MIB);
        libc::shmdt(at);
    }
    stay()
}

/// So many processes that share the memory of one, in MiB, for long enough to be looked at, and then end well.
pub(crate) fn family(count: usize, mib: usize) -> Result<String> {
    map(mib, libc::MAP_PRIVATE)?;
    for _ in 0..count {
        // SAFETY: the child calls nothing but what is safe after a fork.
        unsafe {
            if libc::fork() == 0 {
                libc::usleep(400_000);
                libc::_exit(0);
            }
        }
    }
    for _ in 0..count {
        // SAFETY: nothing is written through the null pointer.
        unsafe { libc::wait(std::ptr::null_mut()) };
    }
    Ok("the end".into())
}

/// So many files in the working directory.
pub(crate) fn files(count: usize) -> Result<String> {
    for number in 0..count {
        File::create(format!("file-{number}"))?;
    }
    stay()
}
