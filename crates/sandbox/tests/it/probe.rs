//! What is tried, inside and outside: this test binary runs itself with one of these.

use crate::bomb;

use std::{
    io::{ErrorKind, Write as _},
    net::{TcpListener, TcpStream},
    os::{linux::net::SocketAddrExt, unix::net},
    process::{Command, Output},
};

const NAME: &str = "REGIE_PROBE";
const ARGS: &str = "REGIE_PROBE_ARGS";

/// The arguments by which this binary runs only the probe.
pub(crate) const ARGV: &[&str] = &["probe::entry", "--exact", "--nocapture", "--test-threads=1"];

pub(crate) fn env(name: &str, args: &[&str]) -> Vec<(String, String)> {
    vec![(NAME.into(), name.into()), (ARGS.into(), args.join("\n"))]
}

/// Runs a probe as an ordinary process.
#[expect(clippy::disallowed_methods, reason = "the comparison runs outside of any jail")]
pub(crate) fn outside(name: &str, args: &[&str]) -> Output {
    Command::new(std::env::current_exe().unwrap()).args(ARGV).envs(env(name, args)).output().unwrap()
}

/// Not a test of its own: does what it is told to by its environment, and nothing without.
#[test]
fn entry() {
    let Ok(name) = std::env::var(NAME) else { return };
    let args = std::env::var(ARGS).unwrap_or_default();
    let args: Vec<&str> = args.lines().collect();
    match attempt(&name, &args) {
        Ok(said) => println!("reached {said}"),
        Err(error) => {
            println!("refused {:?} {error}", error.raw_os_error().unwrap_or(0));
            std::process::exit(if error.kind() == ErrorKind::Unsupported { 99 } else { 7 });
        }
    }
}

fn attempt(name: &str, args: &[&str]) -> std::io::Result<String> {
    let arg = |at: usize| args.get(at).copied().unwrap_or_default();
    match name {
        "tcp" => TcpStream::connect(arg(0)).map(|_| arg(0).into()),
        "loopback" => {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            TcpStream::connect(listener.local_addr()?).map(|_| "itself".into())
        }
        "serve" => {
            let listener = TcpListener::bind(arg(0))?;
            std::io::stdout().write_all(b"listening\n")?;
            loop {
                drop(listener.accept()?);
            }
        }
        "unix" => net::UnixStream::connect(arg(0)).map(|_| arg(0).into()),
        "abstract" => {
            let name = net::SocketAddr::from_abstract_name(arg(0))?;
            net::UnixStream::connect_addr(&name).map(|_| arg(0).into())
        }
        "syscall" => syscall(arg(0)),
        "many" => bomb::many(number(arg(0)), arg(1), arg(2)),
        "own" => bomb::own(number(arg(0))),
        "mapped" => bomb::mapped(number(arg(0))),
        "nameless" => bomb::nameless(number(arg(0))),
        "segment" => bomb::segment(number(arg(0))),
        "family" => bomb::family(number(arg(0)), number(arg(1))),
        "files" => bomb::files(number(arg(0))),
        other => panic!("no probe {other}"),
    }
}

fn number(text: &str) -> usize {
    text.parse().unwrap()
}

/// System calls by name, with arguments that do no harm where they are allowed.
#[expect(unsafe_code, reason = "the probes are system calls")]
fn syscall(name: &str) -> std::io::Result<String> {
    let zero = 0_usize;
    let (number, args) = match name {
        "mount" => (libc::SYS_mount, [0, c"/tmp".as_ptr() as usize, c"tmpfs".as_ptr() as usize]),
        "unshare_user" => (libc::SYS_unshare, [libc::CLONE_NEWUSER as usize, zero, zero]),
        "unshare_net" => (libc::SYS_unshare, [libc::CLONE_NEWNET as usize, zero, zero]),
        "unshare_files" => (libc::SYS_unshare, [libc::CLONE_FILES as usize, zero, zero]),
        "clone3" => (libc::SYS_clone3, [zero, zero, zero]),
        "bpf" => (libc::SYS_bpf, [zero, zero, zero]),
        "io_uring" => (libc::SYS_io_uring_setup, [zero, zero, zero]),
        "keyctl" => (libc::SYS_keyctl, [zero, libc::KEY_SPEC_SESSION_KEYRING as isize as usize, zero]),
        "ptrace" => (libc::SYS_ptrace, [libc::PTRACE_TRACEME as usize, zero, zero]),
        "socket_packet" => (libc::SYS_socket, [libc::AF_PACKET as usize, libc::SOCK_DGRAM as usize, zero]),
        "socket_vsock" => (libc::SYS_socket, [libc::AF_VSOCK as usize, libc::SOCK_STREAM as usize, zero]),
        "socket_audit" => (
            libc::SYS_socket,
            [libc::AF_NETLINK as usize, libc::SOCK_RAW as usize, libc::NETLINK_AUDIT as usize],
        ),
        "socket_route" => (
            libc::SYS_socket,
            [libc::AF_NETLINK as usize, libc::SOCK_RAW as usize, libc::NETLINK_ROUTE as usize],
        ),
        "socket_sctp" => (
            libc::SYS_socket,
            [libc::AF_INET as usize, libc::SOCK_STREAM as usize, libc::IPPROTO_SCTP as usize],
        ),
        "tiocsti" => (libc::SYS_ioctl, [zero, 0x5412, c"x".as_ptr() as usize]),
        // Without pages there is nothing to give away, and no descriptor is looked at before the call is let in.
        "vmsplice" => (libc::SYS_vmsplice, [usize::MAX, zero, zero]),
        "no_randomness" => (libc::SYS_personality, [libc::ADDR_NO_RANDOMIZE as usize, zero, zero]),
        "read_implies_exec" => (libc::SYS_personality, [libc::READ_IMPLIES_EXEC as usize, zero, zero]),
        "which_personality" => (libc::SYS_personality, [0xffff_ffff, zero, zero]),
        "x32_getpid" => (0x4000_0000 | libc::SYS_getpid, [zero, zero, zero]),
        other => panic!("no system call {other}"),
    };
    // SAFETY: the pointers among the arguments are C strings that live for ever, and no call
    // here writes through any.
    let done = unsafe { libc::syscall(number, args[0], args[1], args[2], zero, zero) };
    if done == -1 { Err(std::io::Error::last_os_error()) } else { Ok(format!("{done}")) }
}
