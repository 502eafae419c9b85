//! A jail that is begun before anybody knows what for: what needs no plan is done, and three processes wait.
//!
//! The launcher waits for the plan. The jail's first process has built what every jail begins with, has given up
//! what it no longer needs, and stands still: the third one runs in its memory until it executes the program, and has
//! all the walls around it already that no plan is needed for. The launcher passes the plan on to it, completes the
//! tree by what the plan shows, from the machine's mounts of that moment, and then says that it may go on.

use std::{
    cell::Cell,
    convert::Infallible,
    io::{Read as _, Write as _},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    process::Pid,
};

use crate::{
    Exec, Failure, Limits, Part, confine,
    init::{self, End, Ends},
    launch::{self, First, Mounts, Started},
    sys::{self, Fork, Net, stand_in},
    tree::{
        PidBound,
        ahead::{self, Changes, Ready, Shown, Trees},
    },
    watch::Before,
    wire::{self, Handed, Order, Request},
};

/// What the launcher says to the one that waits to become the program, once its jail is complete.
const GO: &[u8] = b"!";

/// Gets ready for a plan with these limits, and waits for it.
pub(crate) fn wait(control: UnixStream, limits: &Limits) -> Result<End, Failure> {
    let control = Cell::new(Some(control));
    let changes = Changes::begin();
    let begun = || -> Result<(First, UnixStream), Failure> {
        let (told, telling) =
            UnixStream::pair().map_err(Part::Launch.failed("making a socket for the first process"))?;
        let telling = Cell::new(Some(telling));
        let begin = |pids, ends| {
            // With these it would keep itself waiting for ever, and a dead launcher would look alive.
            drop((telling.take(), control.take()));
            stand_by(&told, limits, pids, ends)
        };
        let first = First::start(limits, Net::New, None, Mounts::Later, begin)?;
        let telling = telling.take().ok_or_else(|| lost("keeping the first process's socket"))?;
        Ok((first, telling))
    };
    let begun = begun();
    let control = control.take().ok_or_else(|| lost("keeping the control socket"))?;
    let control = &control;
    let (first, telling) = begun.map_err(|failure| launch::refused(control, failure))?;
    let ready = ready(&telling, changes).map_err(|failure| launch::refused(control, failure))?;
    let received = wire::receive_body(control).map_err(Part::Launch.failed("reading the plan"));
    let (body, fds) = received.map_err(|failure| launch::refused(control, failure))?;
    let passed = pass_on(&telling, &body, &fds).map_err(|failure| launch::refused(control, failure))?;
    let Ok(Order::Launch(request)) = wire::decode::<Order>(&body) else {
        // Nobody needs it any more. The jail ends with this process.
        return Err(launch::refused(control, lost("taking a plan")));
    };
    let started = begin(&request, fds, limits, ready, first.told_by(passed), &telling);
    drop(telling);
    launch::follow(control, started, &request)
}

/// Has the plan read by the one that becomes the program while it is read here: it does nothing that counts before
/// it is told to. Gives where it tells why it could not.
fn pass_on(telling: &UnixStream, body: &[u8], fds: &[OwnedFd]) -> Result<OwnedFd, Failure> {
    let (report_here, report) = launch::pipe()?;
    let fds: Vec<BorrowedFd<'_>> = [&report].into_iter().chain(fds).map(AsFd::as_fd).collect();
    wire::send_body(telling, body, &fds).map_err(Part::Launch.failed("passing the plan on"))?;
    Ok(report_here)
}

/// Waits until the jail's first process has built what can be built.
fn ready(telling: &UnixStream, changes: Option<Changes>) -> Result<Ready, Failure> {
    let received = wire::receive::<Vec<Shown>>(telling);
    let (shown, fds) = received.map_err(Part::Launch.failed("hearing that the jail is ready"))?;
    let Ok([mounts, full, bare]) = <[OwnedFd; 3]>::try_from(fds) else {
        return Err(lost("taking what was made ready"));
    };
    Ok(Ready { mounts, trees: Trees { full, bare }, shown, changes })
}

fn begin(
    request: &Request,
    fds: Vec<OwnedFd>,
    limits: &Limits,
    ready: Ready,
    first: First,
    mut telling: &UnixStream,
) -> Result<Started, Failure> {
    drop(request.accept(fds)?);
    if !request.suits_prepared(limits) {
        return Err(lost("taking a plan that is for another kind of launcher"));
    }
    let before = Before::note()?;
    launch::enter_mounts()?;
    let rest = ready.enter(&request.plan)?;
    telling.write_all(GO).map_err(Part::Launch.failed("having the program started"))?;
    rest.let_go();
    first.follow(request, before)
}

/// The jail's first process before anybody has said what it is for: does what needs no plan, and starts the
/// process that waits for one. It ends when that does, and when the launcher does.
fn stand_by(told: &UnixStream, limits: &Limits, pids: PidBound, ends: Ends) -> ! {
    let Ends { alive, report, outcome } = ends;
    match begin_first(told, limits, pids, &alive) {
        Ok(program) => {
            drop((alive, report));
            init::outlive(program, &outcome)
        }
        Err(failure) => {
            init::tell(&report, &failure);
            sys::exit_now(1)
        }
    }
}

/// Returns when the program runs or could not, with its process.
fn begin_first(told: &UnixStream, limits: &Limits, pids: PidBound, alive: &OwnedFd) -> Result<Pid, Failure> {
    init::die_with_launcher(alive)?;
    init::name_jail()?;
    init::raise_loopback()?;
    launch::enter_mounts()?;
    let (trees, shown) = ahead::build(limits, pids)?;
    let mounts = ahead::own_mounts()?;
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(Part::Launch.failed::<Errno>("opening /dev/null"))?;
    // The control socket, still.
    rustix::stdio::dup2_stdin(&null)
        .map_err(Part::Launch.failed::<Errno>("letting go of the control socket"))?;
    init::confine_this(alive)?;
    let instead = Cell::new(None);
    // What is made ready is told by the one that is made last: a process that is just being made would keep the
    // root that it has when that is swapped.
    let fds = [mounts.as_fd(), trees.full.as_fd(), trees.bare.as_fd()];
    let program = stand_in::start(|| {
        if wire::send(told, &shown, &fds).is_ok() {
            become_program(told, &instead);
        }
        sys::exit_now(1)
    });
    let program = program.map_err(Part::Launch.failed("starting the program's process"))?;
    confine::point_stdio_to(null.as_fd())?;
    Ok(instead.get().unwrap_or(program))
}

/// Waits for the plan, and for the word that the jail is complete, and becomes the program; or has that done
/// by another process, which it says. Returns when it could not, and has told why.
fn become_program(told: &UnixStream, instead: &Cell<Option<Pid>>) {
    let ready = confine::fresh_session();
    let Ok((body, fds)) = wire::receive_body(told) else { return };
    let mut fds = fds.into_iter();
    let Some(report) = fds.next() else { return };
    let become_it = || become_ordered(told, &body, fds.collect(), instead);
    let Err(failure) = ready.and_then(|()| become_it());
    init::tell(&report, &failure);
}

fn become_ordered(
    mut told: &UnixStream,
    body: &[u8],
    fds: Vec<OwnedFd>,
    instead: &Cell<Option<Pid>>,
) -> Result<Infallible, Failure> {
    let order = wire::decode::<Order>(body).map_err(Part::Launch.failed("reading the plan"))?;
    let Order::Launch(request) = order else { return Err(lost("taking a plan")) };
    let Handed { stdin, .. } = request.accept(fds)?;
    let mut word = [0; GO.len()];
    if told.read_exact(&mut word).is_err() || word != GO {
        // The launcher has found a reason against it, and told that.
        sys::exit_now(1);
    }
    if request.plan.exec == Exec::Resident {
        // It executes nothing, so it would go on in the memory of the process that says how it ended. Not before
        // the word: a process that is just being made would keep the root that it has when that is swapped.
        if let Fork::Parent(tool) = sys::fork().map_err(Part::Launch.failed("starting the tool's process"))? {
            instead.set(Some(tool));
            sys::exit_now(0);
        }
        confine::fresh_session()?;
    }
    confine::become_program(&request.plan, request.mode, stdin)
}

fn lost(doing: &'static str) -> Failure {
    Part::Launch.failed::<Errno>(doing)(Errno::INVAL)
}
