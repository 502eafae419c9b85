//! A process that runs in its parent's memory while the parent stands still: what `vfork(2)` makes, on a stack of
//! its own.
//!
//! A large process that forks has its memory's tables copied, and the copy's taken down again by the execution that
//! follows; here nothing of that happens. The parent goes on when the other one has executed a program or ended.

use std::{convert::Infallible, io, ptr};

use rustix::process::Pid;

/// As much as a process's first thread has by default. What is not used is not there.
const STACK_BYTES: usize = 8 << 20;
/// Below the stack, so that what outgrows it ends; more than a page of any architecture.
const GUARD_BYTES: usize = 64 << 10;

/// Starts a process that does `begin` in this single-threaded process's own memory, and waits until it has executed
/// a program or ended.
///
/// What `begin` owns is dropped in neither of the two; what it only looks at stays this process's. It has
/// descriptors of its own.
pub(crate) fn start<F: FnOnce() -> Infallible>(begin: F) -> io::Result<Pid> {
    let stack = stack()?;
    let mut begin = Some(begin);
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: `enter::<F>` gets the pointer that it expects, to a value that lives until this call returns. This
    // process has no other thread and stands still (CLONE_VFORK) while the new one runs in its memory, so nothing is
    // ever used by two at once, thread-local data included. The stack is the new process's alone: it is mapped above,
    // aligned to a page at its top, and given back only when that process uses this memory no more. `begin` does not
    // return, and unwinds only into an abort, as `enter` is `extern "C"`.
    let pid = unsafe {
        libc::clone(enter::<F>, stack.byte_add(STACK_BYTES), flags, ptr::from_mut(&mut begin).cast())
    };
    let error = io::Error::last_os_error();
    // SAFETY: mapped above, and nothing is on it any more.
    unsafe { libc::munmap(stack, STACK_BYTES) };
    std::mem::forget(begin);
    Pid::from_raw(pid.max(0)).ok_or(error)
}

extern "C" fn enter<F: FnOnce() -> Infallible>(begin: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `start` passes a pointer to such a value, which nothing else uses meanwhile.
    let begin = unsafe { (*begin.cast::<Option<F>>()).take() };
    match begin.map(|begin| begin()) {
        Some(never) => match never {},
        None => 1,
    }
}

/// A fresh stack with a guard at its lower end.
fn stack() -> io::Result<*mut libc::c_void> {
    let (access, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK);
    // SAFETY: a fresh mapping, at a place that the kernel chooses.
    let stack = unsafe { libc::mmap(ptr::null_mut(), STACK_BYTES, access, flags, -1, 0) };
    if stack == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: within what was just mapped, which holds nothing.
    super::check(unsafe { libc::mprotect(stack, GUARD_BYTES, libc::PROT_NONE) }.into())?;
    Ok(stack)
}
