//! A launcher that is started before anybody knows what for: it enters the namespaces, has a first process make
//! what every jail begins with, and waits for the plan. What it then starts is held as any other jail.
//!
//! The plan comes to the launcher, which copies the mounts of that moment and hands both to the first process. So a
//! jail sees what was mounted since, and the launcher watches from within the jail's mounts, as it always does.

use std::{
    cell::Cell,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
};

use rustix::{io::Errno, process::Signal};

use crate::{
    Failure, Limits, Part, filter,
    init::{self, End, Ends},
    launch::{self, First, Mounts, Started},
    sys::{self, Net},
    tree::{self, PidBound},
    watch::Before,
    wire::{self, Handed, Order, Request},
};

/// Gets ready for a plan with these limits, or others where no control group holds it to them, and waits for it.
pub(crate) fn wait(control: UnixStream, limits: &Limits) -> Result<End, Failure> {
    let control = Cell::new(Some(control));
    let ready = || -> Result<(First, UnixStream), Failure> {
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
    let ready = ready();
    let control = control.take().ok_or_else(|| lost("keeping the control socket"))?;
    let control = &control;
    let (first, telling) = ready.map_err(|failure| launch::refused(control, failure))?;
    let received = wire::receive::<Order>(control).map_err(Part::Launch.failed("reading the plan"));
    let Ok((Order::Launch(request), fds)) = received else {
        // Nobody needs it any more. Its first process ends with this one.
        return Err(launch::refused(control, lost("taking a plan")));
    };
    let started = begin(&request, fds, limits, first, &telling);
    launch::follow(control, started, &request)
}

fn begin(
    request: &Request,
    fds: Vec<OwnedFd>,
    limits: &Limits,
    first: First,
    telling: &UnixStream,
) -> Result<Started, Failure> {
    let Handed { stdin, .. } = request.accept(fds)?;
    if !request.suits_prepared() || (first.is_in_a_group() && request.plan.limits != *limits) {
        return Err(lost("taking a plan that is for another kind of launcher"));
    }
    let before = Before::note()?;
    launch::enter_mounts()?;
    let mounts = std::fs::File::open("/proc/self/ns/mnt")
        .map_err(Part::Namespaces.failed("opening the mount namespace"))?;
    let fds: Vec<BorrowedFd<'_>> =
        [mounts.as_fd()].into_iter().chain(stdin.iter().map(AsFd::as_fd)).collect();
    wire::send(telling, request, &fds).map_err(Part::Launch.failed("telling the first process"))?;
    drop(fds);
    drop((stdin, mounts));
    first.follow(request, before)
}

/// The jail's first process before anybody has said what it is for: does what needs no plan, then waits for
/// the plan and goes on as if it had just been started. It ends when the launcher does.
fn stand_by(told: &UnixStream, limits: &Limits, pids: PidBound, ends: Ends) -> ! {
    // The launcher may have ended just before: then its socket is closed, and nothing is waited for.
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)) {
        refuse(&ends, Part::Launch.failed("binding the jail to its launcher")(error));
    }
    // What fails here fails again where it is due, and is told there.
    let _ = filter::programs();
    let _ = init::raise_loopback();
    tree::prepare(limits.scratch_bytes);
    let (request, fds) = match wire::receive::<Request>(told) {
        Ok(told) => told,
        Err(error) => refuse(&ends, Part::Launch.failed("reading the plan")(error)),
    };
    let mut fds = fds.into_iter();
    let Some(mounts) = fds.next() else { refuse(&ends, lost("taking the mounts")) };
    if let Err(error) = sys::join_mounts(mounts.as_fd()) {
        refuse(&ends, Part::Namespaces.failed("joining the launcher's mounts")(error));
    }
    drop(mounts);
    init::run(&request, fds.next(), pids, ends)
}

fn refuse(ends: &Ends, failure: Failure) -> ! {
    init::tell(&ends.report, &failure);
    sys::exit_now(1)
}

fn lost(doing: &'static str) -> Failure {
    Part::Launch.failed::<Errno>(doing)(Errno::INVAL)
}
