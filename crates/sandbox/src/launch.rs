//! The launcher: a fresh, single-threaded process between the caller and the jail. It enters
//! the namespaces, starts the jail's first process, watches over it, and ends as the program
//! ended.

use std::{
    io::Read,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    pipe::PipeFlags,
    process::{Pid, Signal, WaitOptions},
};

use crate::{
    Bound, Failure, Limits, Part,
    cgroup::Group,
    confine,
    init::{self, End, Ends},
    spare,
    sys::{self, Fork, Net},
    tree::PidBound,
    watch::{Before, Watch},
    wire::{self, Answer, Handed, Mode, Order, Request},
};

/// The exit code of a launcher that started nothing.
const NOTHING_STARTED: i32 = 125;

/// How long the caller may take until it has heard how a jail ended.
const CALLER_FIRST: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// What the hidden subcommand is: reads a request from the control socket that is its standard
/// input, starts the jail, and ends as the program in it ended (with its exit code, or killed
/// by the same signal). To be called first thing: the process must have no other thread, and
/// loses every descriptor above the standard ones.
pub fn launch_main() -> ! {
    match launch() {
        Ok(End::Code(code)) => sys::exit_now(code),
        Ok(End::Signal(signal)) => {
            sys::reset_signals();
            if let Some(signal) = Signal::from_named_raw(signal) {
                let _ = rustix::process::kill_process(rustix::process::getpid(), signal);
            }
            // Blocked or unknown: as a shell would say it.
            sys::exit_now(128 + signal)
        }
        Err(_) => sys::exit_now(NOTHING_STARTED),
    }
}

fn launch() -> Result<End, Failure> {
    let fail = |doing: &'static str| Part::Launch.failed::<Errno>(doing);
    sys::close_inherited().map_err(Part::Launch.failed("closing inherited descriptors"))?;
    let control = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)
        .map_err(fail("taking the control socket"))?;
    let control = UnixStream::from(control);
    let received = wire::receive::<Order>(&control);
    let (order, fds) = received.map_err(Part::Launch.failed("reading the plan"))?;
    // Out of the caller's terminal: an interrupt there is the caller's to judge.
    let _ = rustix::process::setsid();
    let request = match order {
        Order::Launch(request) => request,
        Order::Network => return network(&control),
        Order::Prepare(limits) => return spare::wait(control, &limits),
    };
    let started = request.accept(fds).and_then(|Handed { stdin, network }| match request.mode {
        Mode::Confine | Mode::Rehearse => jailed(&request, stdin, network.as_ref()),
        Mode::Degrade => unjailed(&request, stdin),
    });
    follow(&control, started, &request)
}

/// Answers how the start went, and follows what runs to its end.
pub(crate) fn follow(
    control: &UnixStream,
    started: Result<Started, Failure>,
    request: &Request,
) -> Result<End, Failure> {
    let started = match started {
        Ok(started) => started,
        Err(failure) => return Err(refused(control, failure)),
    };
    if let Err(error) = wire::send(control, &Answer::Started, &[started.pidfd.as_fd()]) {
        // The caller died meanwhile: nobody would follow what runs.
        end(&started);
        return Err(Part::Launch.failed("answering")(error));
    }
    confine::let_go_of_stdio()?;
    watch(control, started, request)
}

/// Says that nothing runs. Whether anybody is left to hear it makes no difference.
pub(crate) fn refused(control: &UnixStream, failure: Failure) -> Failure {
    let _ = wire::send(control, &Answer::Failed(failure.clone()), &[]);
    failure
}

/// Makes a network and hands it over: it lasts as long as somebody holds it or is in it.
fn network(control: &UnixStream) -> Result<End, Failure> {
    let made = || -> Result<[OwnedFd; 2], Failure> {
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        sys::enter_network().map_err(Part::Namespaces.failed("entering a new network"))?;
        map_ids(user.as_raw(), group.as_raw())?;
        init::raise_loopback()?;
        let open = |name: &str| {
            std::fs::File::open(format!("/proc/self/ns/{name}"))
                .map(OwnedFd::from)
                .map_err(Part::Namespaces.failed(format!("opening the network's {name} namespace")))
        };
        Ok([open("user")?, open("net")?])
    };
    let sent = match made() {
        Ok(fds) => wire::send(control, &Answer::Network, &fds.each_ref().map(AsFd::as_fd)),
        Err(failure) => return Err(refused(control, failure)),
    };
    sent.map_err(Part::Launch.failed("answering"))?;
    Ok(End::Code(0))
}

/// Says who the user of this process is in its new user namespace.
fn map_ids(user: u32, group: u32) -> Result<(), Failure> {
    for (file, text) in [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("1000 {user} 1")),
        ("gid_map", format!("1000 {group} 1")),
    ] {
        std::fs::write(format!("/proc/self/{file}"), text)
            .map_err(Part::Namespaces.failed(format!("writing the jail's {file}")))?;
    }
    Ok(())
}

/// A program that runs, as the launcher holds it.
pub(crate) struct Started {
    pid: Pid,
    pidfd: OwnedFd,
    /// Where init says how the program ended; without a jail the process says it itself.
    outcome: Option<OwnedFd>,
    /// Looks at what the jail as a whole uses up; not without a jail.
    watch: Option<Watch>,
    /// Holds the jail as a whole, where the machine lets this user make one. Removed with this.
    group: Option<Group>,
}

/// A jail's first process, and the ends of its pipes that are not its own.
pub(crate) struct First {
    pid: Pid,
    report: OwnedFd,
    outcome: OwnedFd,
    group: Option<Group>,
}

/// Who enters the mount namespace of a jail: its launcher at once, or its first process alone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mounts {
    Now,
    Later,
}

impl First {
    /// Enters the namespaces of a jail and starts its first process, which does `begin`.
    pub(crate) fn start(
        limits: &Limits,
        net: Net,
        network: Option<&(OwnedFd, OwnedFd)>,
        mounts: Mounts,
        begin: impl FnOnce(PidBound, Ends),
    ) -> Result<Self, Failure> {
        let group = Group::enter(limits).ok();
        let is_root = rustix::process::geteuid().is_root();
        let pids = if is_root && group.is_none() { PidBound::Needed } else { PidBound::Extra };
        // When memory runs out, jails go first.
        let _ = std::fs::write("/proc/self/oom_score_adj", "500");
        if is_root {
            // Supplementary groups are reach that the plan does not name. Only root can let go.
            let _ = rustix::thread::set_thread_groups(&[]);
        }
        if let Some((user, net)) = network {
            sys::join_network(user.as_fd(), net.as_fd())
                .map_err(Part::Network.failed("joining the network of the run"))?;
        }
        // Who this is in the namespace that it is in now.
        let (user, group_id) = (rustix::process::geteuid(), rustix::process::getegid());
        sys::enter_namespaces(net).map_err(Part::Namespaces.failed("entering new namespaces"))?;
        map_ids(user.as_raw(), group_id.as_raw())?;
        if mounts == Mounts::Now {
            enter_mounts()?;
        }
        let (alive, alive_here) = pipe()?;
        let (report_here, report) = pipe()?;
        let (outcome_here, outcome) = pipe()?;
        match sys::fork().map_err(Part::Launch.failed("starting the jail's first process"))? {
            Fork::Child => {
                drop((alive_here, report_here, outcome_here, group));
                begin(pids, Ends { alive, report, outcome });
                // It ends by itself.
                sys::exit_now(1)
            }
            Fork::Parent(pid) => {
                drop((alive, report, outcome, begin));
                // Held open until this process ends: its closing is what init looks for.
                std::mem::forget(alive_here);
                group.iter().for_each(Group::leave);
                Ok(Self { pid, report: report_here, outcome: outcome_here, group })
            }
        }
    }

    /// Has its start told of by whoever holds the other end of `report`.
    pub(crate) fn told_by(self, report: OwnedFd) -> Self {
        Self { report, ..self }
    }

    /// Waits until the program of `request` runs, and begins to watch it.
    pub(crate) fn follow(self, request: &Request, before: Before) -> Result<Started, Failure> {
        let mut started = started(self.pid, self.report, Some(self.outcome))?;
        started.group = self.group;
        if request.mode == Mode::Confine {
            let watch = Watch::begin(&request.plan, before);
            started.watch = Some(watch.inspect_err(|_| end(&started))?);
        }
        Ok(started)
    }
}

/// The mounts that there are now, for this process and those that it starts. The root of this process becomes
/// the jail's when the first process makes it so.
pub(crate) fn enter_mounts() -> Result<(), Failure> {
    sys::enter_mounts().map_err(Part::Namespaces.failed("entering a new mount namespace"))
}

fn jailed(
    request: &Request,
    stdin: Option<OwnedFd>,
    network: Option<&(OwnedFd, OwnedFd)>,
) -> Result<Started, Failure> {
    let before = Before::note()?;
    let begin = |pids, ends| init::run(request, stdin, pids, ends);
    let first = First::start(&request.plan.limits, request.net(), network, Mounts::Now, begin)?;
    first.follow(request, before)
}

fn unjailed(request: &Request, stdin: Option<OwnedFd>) -> Result<Started, Failure> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(Part::Launch.failed("adopting the program's orphans"))?;
    let (report_here, report) = pipe()?;
    match sys::fork().map_err(Part::Launch.failed("starting the program's process"))? {
        Fork::Child => {
            let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
            let Err(failure) = confine::become_program_unjailed(&request.plan, stdin);
            init::tell(&report, &failure);
            sys::exit_now(1)
        }
        Fork::Parent(pid) => {
            drop((report, stdin));
            started(pid, report_here, None)
        }
    }
}

/// Waits until the program runs or its start has failed.
fn started(pid: Pid, report: OwnedFd, outcome: Option<OwnedFd>) -> Result<Started, Failure> {
    let pidfd = sys::process(pid).map_err(Part::Launch.failed("following the jail's first process"))?;
    let mut text = Vec::new();
    std::fs::File::from(report)
        .read_to_end(&mut text)
        .map_err(Part::Launch.failed("hearing of the start"))?;
    if text.is_empty() {
        return Ok(Started { pid, pidfd, outcome, watch: None, group: None });
    }
    let _ = rustix::process::pidfd_send_signal(&pidfd, Signal::KILL);
    let _ = reap(pid);
    Err(serde_json::from_slice(&text).unwrap_or_else(|_| Failure {
        part: Part::Launch,
        doing: "hearing why the start failed".into(),
        errno: None,
    }))
}

/// Until the jail has ended; ends it when the caller's end of the control socket closes, and when it has
/// reached a bound.
fn watch(control: &UnixStream, mut started: Started, request: &Request) -> Result<End, Failure> {
    let mut reached: Option<Bound> = None;
    loop {
        let mut fds = [
            PollFd::new(&started.pidfd, PollFlags::IN),
            PollFd::new(control, PollFlags::IN | PollFlags::RDHUP),
        ];
        let patience = started.watch.as_ref().map(Watch::pause).and_then(|pause| pause.try_into().ok());
        match poll(&mut fds, patience.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(Part::Launch.failed("watching over the jail")(error)),
        }
        let [ended, caller] = fds.map(|fd| !fd.revents().is_empty());
        if ended {
            break;
        }
        // Nothing is ever sent after the request: a caller that is heard of is gone.
        reached = started.watch.as_mut().filter(|_| !caller).and_then(Watch::look);
        if caller || reached.is_some() {
            let _ = rustix::process::pidfd_send_signal(&started.pidfd, Signal::KILL);
            break;
        }
    }
    let own = reap(started.pid);
    if request.mode == Mode::Degrade {
        end_orphans(started.pid);
    }
    let is_ended = |outcome: Option<End>| outcome.is_none_or(|end| end != End::Code(0));
    let outcome = match started.outcome {
        None => Some(own),
        Some(outcome) => {
            let mut status = [0; 4];
            let read = std::fs::File::from(outcome).read_exact(&mut status);
            // Otherwise init was killed, from outside or for lack of memory.
            read.ok().map(|()| End::from_bytes(status))
        }
    };
    if started.group.as_ref().is_some_and(Group::is_out_of_memory) && is_ended(outcome) {
        reached = reached.or(Some(Bound::Memory(request.plan.limits.memory_bytes)));
    }
    drop(started.group);
    let end = if reached.is_some() { End::KILLED } else { outcome.unwrap_or(own) };
    // This process takes a while to end, as it takes the jail's mounts down: nobody has to wait for that.
    let _ = wire::send(control, &Answer::Ended { end: end.to_bytes(), bound: reached }, &[]);
    // It is woken on the processor that this process is on, and is to go on before that is kept busy.
    let _ = poll(&mut [PollFd::new(control, PollFlags::RDHUP)], Some(&CALLER_FIRST));
    Ok(end)
}

/// Ends a jail that nobody will follow.
fn end(started: &Started) {
    let _ = rustix::process::pidfd_send_signal(&started.pidfd, Signal::KILL);
    let _ = reap(started.pid);
}

fn reap(pid: Pid) -> End {
    loop {
        match rustix::process::waitpid(Some(pid), WaitOptions::empty()) {
            Ok(Some((_, status))) => return status.into(),
            Ok(None) | Err(Errno::INTR) => {}
            Err(_) => return End::KILLED,
        }
    }
}

/// Best effort, without a process namespace: everything that the program left is adopted by
/// this process, and killed until nothing is left.
fn end_orphans(program: Pid) {
    let _ = rustix::process::kill_process_group(program, Signal::KILL);
    let children = format!("/proc/self/task/{}/children", rustix::process::getpid());
    loop {
        // Where the kernel does not list them there is nothing more that could be done.
        let Ok(list) = std::fs::read_to_string(&children) else { return };
        let pids = list.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?));
        for pid in pids {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

pub(crate) fn pipe() -> Result<(OwnedFd, OwnedFd), Failure> {
    rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(Part::Launch.failed("making a pipe"))
}
