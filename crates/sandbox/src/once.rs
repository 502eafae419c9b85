//! One program and no other: the first execution in a jail is let through, every later one fails.
//!
//! A filter cannot tell executions apart, as it does not see what a pointer leads to. So the jail's first process
//! is asked for each: it says yes to the one that the launcher's own code makes, before anything else could ask,
//! and closes its ear. From then on the kernel itself answers that there is no such call (`ENOSYS`), to every
//! process of the jail. So nothing has to be known of loaders, interpreters of scripts, or files without a name.

use std::os::fd::{AsFd, OwnedFd};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    process::Pid,
};

use crate::{
    Failure, Part,
    sys::{self, notify},
};

/// The ear of the jail's first process.
pub(crate) struct Once {
    listener: OwnedFd,
}

impl Once {
    /// Holds back executions of this process and of all that it starts.
    pub(crate) fn hold() -> Result<Self, Failure> {
        let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs();
        let mut program = [
            op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
            op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, number(libc::SYS_execve)),
            op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_USER_NOTIF),
            // The launcher's own code does not use this one.
            op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, number(libc::SYS_execveat)),
            op(libc::BPF_RET | libc::BPF_K, 0, 0, refused),
            op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let listener = notify::listen(&mut program).map_err(|error| {
            // One ear a process is all that the kernel gives.
            let doing = if error.raw_os_error() == Some(libc::EBUSY) {
                "holding back the execution of programs, which what Regie runs in has taken for itself"
            } else {
                "holding back the execution of programs"
            };
            Part::Seccomp.failed(doing)(error)
        })?;
        Ok(Self { listener })
    }

    /// Lets the execution of `program` happen, which is still the launcher's own code, and none after it.
    pub(crate) fn let_through(self, program: Pid) -> Result<(), Failure> {
        let fail = |doing: &'static str| Part::Launch.failed::<Errno>(doing);
        let pidfd = sys::process(program).map_err(fail("following the program's process"))?;
        loop {
            let mut fds = [PollFd::new(&self.listener, PollFlags::IN), PollFd::new(&pidfd, PollFlags::IN)];
            match poll(&mut fds, None) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(error) => return Err(fail("waiting for the program's execution")(error)),
            }
            let [asks, ended] = fds.map(|fd| !fd.revents().is_empty());
            if asks {
                // It may have been killed meanwhile, which is for whoever waits for it to tell.
                let _ = notify::let_through(self.listener.as_fd());
                return Ok(());
            }
            // It has said why, and executed nothing.
            if ended {
                return Ok(());
            }
        }
    }
}

fn op(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// A system call's number as filters see it.
fn number(call: libc::c_long) -> u32 {
    call as u32
}
