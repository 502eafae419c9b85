//! The first process of the jail's process namespace: builds the jail, starts the program,
//! reaps what is orphaned, and by its own end has the kernel end everything else in there.

use std::{
    os::{
        fd::{AsFd, OwnedFd},
        unix::process::ExitStatusExt,
    },
    process::ExitStatus,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::{AddressFamily, SocketType},
    process::{DumpableBehavior, Pid, Signal, WaitOptions, WaitStatus},
};

use crate::{
    Exec, Failure, Part, confine, filter,
    once::Once,
    sys::{self, Fork, Net},
    tree::{self, PidBound},
    wire::Request,
};

/// The pipes between launcher and init, as init holds them.
pub(crate) struct Ends {
    /// Hangs up when the launcher has ended.
    pub(crate) alive: OwnedFd,
    /// Takes a failure; closed empty once the program runs.
    pub(crate) report: OwnedFd,
    /// Takes the program's raw wait status.
    pub(crate) outcome: OwnedFd,
}

/// Runs as init until the program has ended. Does not return to the caller's code.
pub(crate) fn run(request: &Request, stdin: Option<OwnedFd>, pids: PidBound, ends: Ends) -> ! {
    let Ends { alive, report, outcome } = ends;
    match start(request, stdin, pids, &alive, report.as_fd().try_clone_to_owned()) {
        Ok(program) => {
            drop((alive, report));
            outlive(program, &outcome)
        }
        Err(failure) => {
            tell(&report, &failure);
            sys::exit_now(1)
        }
    }
}

/// Ends this process, and so the jail, when `program` has ended, and says how it did.
pub(crate) fn outlive(program: Pid, outcome: &OwnedFd) -> ! {
    let end = reap_until(program);
    let _ = rustix::io::write(outcome, &end.to_bytes());
    sys::exit_now(0)
}

/// Writes a failure for the launcher to pass on.
pub(crate) fn tell(report: &OwnedFd, failure: &Failure) {
    let text = serde_json::to_vec(failure).unwrap_or_default();
    // Shorter than a pipe's buffer; nobody is left to hear of an error here.
    let _ = rustix::io::write(report, &text);
}

fn start(
    request: &Request,
    stdin: Option<OwnedFd>,
    pids: PidBound,
    alive: &OwnedFd,
    report: std::io::Result<OwnedFd>,
) -> Result<Pid, Failure> {
    let report = report.map_err(Part::Launch.failed("copying a pipe"))?;
    die_with_launcher(alive)?;
    name_jail()?;
    if request.net() == Net::New {
        raise_loopback()?;
    }
    tree::enter(&request.plan, pids)?;
    confine_this(alive)?;
    let once = if request.plan.exec == Exec::Once { Some(Once::hold()?) } else { None };
    match sys::fork().map_err(Part::Launch.failed("starting the program's process"))? {
        Fork::Child => {
            let become_it = || confine::become_program(&request.plan, request.mode, stdin);
            let Err(failure) = confine::fresh_session().and_then(|()| become_it());
            tell(&report, &failure);
            sys::exit_now(1)
        }
        Fork::Parent(program) => {
            drop((report, stdin));
            let _ = confine::let_go_of_stdio();
            if let Some(once) = once {
                once.let_through(program)?;
            }
            Ok(program)
        }
    }
}

/// The jail's own name, in its own namespace of such names.
pub(crate) fn name_jail() -> Result<(), Failure> {
    rustix::system::sethostname(b"regie").map_err(Part::Namespaces.failed::<Errno>("naming the jail"))
}

/// Takes from this process what it no longer needs once there is nothing more to mount. Before the fork, so that
/// nothing can fail here once the program may run; and the program must not reach into the process that says how
/// it ended.
pub(crate) fn confine_this(alive: &OwnedFd) -> Result<(), Failure> {
    let filters = filter::programs()?;
    confine::drop_privileges()?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(Part::Privileges.failed("shielding the jail's first process"))?;
    die_with_launcher(alive)?;
    filter::apply(&filters)
}

/// Has the kernel kill this process, and so the whole jail, with its single-threaded launcher.
pub(crate) fn die_with_launcher(alive: &OwnedFd) -> Result<(), Failure> {
    let fail = |doing: &'static str| Part::Launch.failed::<Errno>(doing);
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(fail("binding the jail to its launcher"))?;
    // It may have ended before that; its id cannot be asked for across process namespaces.
    let mut fds = [PollFd::new(alive, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).map_err(fail("looking after the launcher"))?;
    if fds.iter().any(|fd| fd.revents().contains(PollFlags::HUP)) {
        sys::exit_now(1);
    }
    Ok(())
}

pub(crate) fn raise_loopback() -> Result<(), Failure> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)
        .map_err(Part::Network.failed("opening a socket for the loopback"))?;
    sys::loopback_up(socket.as_fd()).map_err(Part::Network.failed("raising the loopback"))
}

/// How a program ended, also as it is told from init to the launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// With this exit code.
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
}

impl End {
    /// Killed, by whoever.
    pub(crate) const KILLED: Self = Self::Signal(libc::SIGKILL);

    /// The form in which it crosses a pipe.
    pub(crate) fn to_bytes(self) -> [u8; 4] {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => -signal,
        }
        .to_le_bytes()
    }

    /// Back from that form.
    pub(crate) fn from_bytes(bytes: [u8; 4]) -> Self {
        match i32::from_le_bytes(bytes) {
            signal if signal < 0 => Self::Signal(-signal),
            code => Self::Code(code),
        }
    }
}

impl From<End> for ExitStatus {
    /// As a launcher would end that says it by its own end.
    fn from(end: End) -> Self {
        match end {
            End::Code(code) => Self::from_raw((code & 0xff) << 8),
            End::Signal(signal) if Signal::from_named_raw(signal).is_some() => Self::from_raw(signal),
            End::Signal(signal) => Self::from_raw(((128 + signal) & 0xff) << 8),
        }
    }
}

impl From<WaitStatus> for End {
    fn from(status: WaitStatus) -> Self {
        match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Self::Code(code),
            (None, Some(signal)) => Self::Signal(signal),
            (None, None) => Self::KILLED,
        }
    }
}

/// Reaps everything until `program` has ended.
fn reap_until(program: Pid) -> End {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == program => return status.into(),
            Ok(_) | Err(Errno::INTR) => {}
            // There is no child left, so the program's end was missed: say "killed".
            Err(_) => return End::KILLED,
        }
    }
}
