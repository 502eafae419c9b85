//! What a tool that turned against its owner would try. Harmless where it works: programs are `true`, and the
//! memory that becomes executable is never executed.
#![expect(unsafe_code, reason = "memory protections have no safe wrapper")]
#![expect(clippy::print_stdout, reason = "printing is how it tells")]
#![expect(clippy::disallowed_methods, reason = "starting a program is what it tries")]

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// A page, of which nothing is ever executed.
const PAGE: usize = 4096;

/// Tries what its second argument names, on its third, and says what came of it.
pub(crate) fn tool(args: &[OsString]) -> i32 {
    let arg = |at: usize| args.get(at).map(|arg| arg.to_string_lossy()).unwrap_or_default();
    match attempt(&arg(1), &arg(2)) {
        Ok(said) => {
            // Not ended by a line, as what is left in a buffer must get out too.
            print!("reached {said}");
            0
        }
        Err(error) => {
            println!("refused {}", error.raw_os_error().unwrap_or_default());
            7
        }
    }
}

fn attempt(what: &str, on: &str) -> io::Result<String> {
    match what {
        "echo" => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text)?;
            Ok(text)
        }
        "read" => std::fs::read_to_string(on),
        "write" => std::fs::write(on, "written").map(|()| on.into()),
        "thread" => Ok(std::thread::spawn(|| "thread").join().unwrap_or("panic").into()),
        "panic" => panic!("as it was told"),
        "descriptors" => {
            let open = std::fs::read_dir("/proc/self/fd")?.flatten().map(|entry| entry.file_name());
            Ok(format!("{:?}", open.collect::<Vec<_>>()))
        }
        "exec" => Err(Command::new(on).exec()),
        "start" => Command::new(on).status().map(|ended| ended.to_string()),
        "exec-nameless" => {
            let file = nameless()?;
            io::copy(&mut std::fs::File::open("/bin/true")?, &mut &file)?;
            Err(Command::new(format!("/proc/self/fd/{}", file.as_raw_fd())).exec())
        }
        "fork" => fork(),
        "socket" => std::net::UdpSocket::bind("127.0.0.1:0").map(|_| "a socket".into()),
        "map-file" => {
            let mut file = std::fs::File::create_new(on)?;
            file.write_all(&[0; PAGE])?;
            map(std::fs::File::open(on)?.as_raw_fd(), libc::MAP_PRIVATE, libc::PROT_EXEC).map(|_| on.into())
        }
        "map-memory" => {
            map(-1, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, libc::PROT_EXEC).map(|_| "memory".into())
        }
        "protect" => protect(),
        other => Err(io::Error::other(format!("no attempt {other}"))),
    }
}

fn nameless() -> io::Result<std::fs::File> {
    // SAFETY: the name is a C string, and the descriptor is owned by nobody else.
    unsafe {
        let fd = libc::memfd_create(c"regie".as_ptr(), 0);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd).into()) }
    }
}

fn map(fd: i32, flags: i32, protection: i32) -> io::Result<*mut libc::c_void> {
    // SAFETY: a new mapping at a place of the kernel's choice touches nothing that is there.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), PAGE, libc::PROT_READ | protection, flags, fd, 0) };
    if page == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(page) }
}

fn protect() -> io::Result<String> {
    let page = map(-1, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, libc::PROT_WRITE)?;
    // SAFETY: the page is this function's own, and stays mapped.
    let done = unsafe { libc::mprotect(page, PAGE, libc::PROT_READ | libc::PROT_EXEC) };
    if done == 0 { Ok("memory".into()) } else { Err(io::Error::last_os_error()) }
}

fn fork() -> io::Result<String> {
    // SAFETY: this process has one thread, and the new one ends at once.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: as above.
        0 => unsafe { libc::_exit(0) },
        _ => Ok("a process".into()),
    }
}
