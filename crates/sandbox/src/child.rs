//! The caller's side: starts the launcher, hands it the plan, and follows what runs.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, PipeWriter},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::PathBuf,
    process::{self, ChildStderr, ChildStdout, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        mpsc::{self, Sender},
    },
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::Signal,
};

use crate::{
    Bound, Error, Failure, LAUNCH_ARG, Limits, Network, Part, Plan, Posture, Status,
    init::End,
    lacks,
    place::Places,
    support,
    wire::{self, Answer, Mode, Order, Request},
};

/// A launcher answers within milliseconds; one that has not by then never will.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// The binary that launches jails: one that calls [`crate::launch_main`] when its first
/// argument is [`LAUNCH_ARG`].
#[derive(Clone, Debug)]
pub struct Launcher {
    program: PathBuf,
    args: Vec<OsString>,
    /// Shared by all copies of this launcher.
    spare: Arc<Mutex<Option<Spare>>>,
}

impl Launcher {
    /// The running binary, even when its file has been replaced meanwhile.
    #[must_use]
    pub fn this_binary() -> Self {
        Self::at("/proc/self/exe", vec![LAUNCH_ARG.into()])
    }

    /// Another binary, and the arguments that make it call [`crate::launch_main`].
    #[must_use]
    pub fn at(program: impl Into<PathBuf>, args: Vec<OsString>) -> Self {
        Self { program: program.into(), args, spare: Arc::default() }
    }

    /// Starts the processes of the next jail ahead of its plan, unless they wait already: they enter the
    /// namespaces, build what every jail has, give up what the program must not have, and wait, with the limits
    /// that the plan will probably have. The next [`Launcher::spawn`] that this suits is that much faster; what
    /// it does not suit is started as without it: other limits, a jail that joins a network or keeps the machine's,
    /// one with the caller's own streams, one for a single execution, and one that failed. It holds about as much
    /// memory as a launcher does, and ends with this launcher's last copy or with the caller.
    ///
    /// Whether it can be had is not told: a start that needs it no longer is the same start, and slower.
    pub fn prepare(&self, limits: &Limits) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.as_ref().is_none_or(|spare| spare.limits != *limits) {
            *spare = Spare::start(self, limits).ok();
        }
    }

    fn take_spare(&self, request: &Request, is_inherited: bool) -> Option<Spare> {
        let mut held = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let suits = |spare: &mut Spare| !is_inherited && request.suits_prepared(&spare.limits);
        let mut spare = held.take_if(suits)?;
        drop(held);
        spare.waits().then_some(spare)
    }

    /// Starts `plan`. Blocks until the program runs (a few milliseconds), from any thread.
    ///
    /// # Errors
    /// [`Error::Plan`], [`Error::Encode`] and [`Error::Program`] for a plan that runs nowhere;
    /// [`Error::Refused`] when this machine cannot enforce it and the posture is
    /// [`Posture::Deny`]; [`Error::Launcher`], [`Error::Silent`] and [`Error::Follow`] when
    /// the launcher itself fails. Nothing was executed in any of these cases.
    pub fn spawn(&self, plan: &Plan, stdin: Stdin) -> Result<Child, Error> {
        self.spawn_in(None, plan, stdin)
    }

    /// Starts `plan` in a network that other jails are in too; one that keeps the machine's network stays
    /// there. What shows layers is never started without a jail: it would write to what nobody changes.
    ///
    /// # Errors
    /// Those of [`Launcher::spawn`].
    pub fn spawn_in(
        &self,
        network: Option<&SharedNetwork>,
        plan: &Plan,
        stdin: Stdin,
    ) -> Result<Child, Error> {
        plan.check()?;
        let network = network.filter(|_| plan.network == Network::None);
        match self.start(plan, Mode::Confine, stdin, network) {
            Err(Error::Refused { failure, mend })
                if plan.posture == Posture::Ask && plan.layers.is_none() =>
            {
                let mut child = self.start(plan, Mode::Degrade, stdin, None)?;
                child.status = Status::Degraded(format!(
                    "no jail: {failure}; it runs with your own rights and network, held by \
                     resource limits only; {mend}"
                ));
                Ok(child)
            }
            other => other,
        }
    }

    /// Builds a whole jail and executes nothing in it.
    pub(crate) fn rehearse(&self, plan: &Plan) -> Result<(), Error> {
        let ended = self.start(plan, Mode::Rehearse, Stdin::Null, None)?.wait()?;
        if ended.success() { Ok(()) } else { Err(Error::Silent { ended: Some(ended) }) }
    }

    /// Makes a network of its own, with nothing but a loopback, that jails can share. It lasts as long as
    /// this is held or a jail is in it.
    ///
    /// # Errors
    /// [`Error::Refused`] when this machine cannot make one; [`Error::Launcher`], [`Error::Silent`] and
    /// [`Error::Follow`] when the launcher fails.
    pub fn network(&self) -> Result<SharedNetwork, Error> {
        let follow = |doing| move |source| Error::Follow { doing, source };
        let (control, theirs) = UnixStream::pair().map_err(follow("making a socket"))?;
        let launcher = Running::start(self, theirs.into(), false)?;
        let answer = wire::send(&control, &Order::Network, &[]).and_then(|()| answer(&control));
        drop(control);
        let ended = launcher.end();
        match answer {
            Ok((Answer::Network, fds)) => match <[OwnedFd; 2]>::try_from(fds) {
                Ok([user, net]) => Ok(SharedNetwork { user: Arc::new(user), net: Arc::new(net) }),
                Err(_) => Err(Error::Silent { ended }),
            },
            Ok((Answer::Failed(failure), _)) => Err(refusal(failure)),
            Ok((Answer::Started | Answer::Ended { .. }, _)) | Err(_) => Err(Error::Silent { ended }),
        }
    }

    fn start(
        &self,
        plan: &Plan,
        mode: Mode,
        stdin: Stdin,
        network: Option<&SharedNetwork>,
    ) -> Result<Child, Error> {
        let follow = |doing| move |source| Error::Follow { doing, source };
        let places = if mode == Mode::Confine { Places::make(plan)? } else { Places::default() };
        let (is_piped, is_joined) = (stdin != Stdin::Null, network.is_some());
        let is_inherited = stdin == Stdin::Inherited;
        let request = Request { plan: plan.clone(), mode, is_piped, is_joined };
        let spare = self.take_spare(&request, is_inherited);
        let request = Order::Launch(Box::new(request));
        let request = wire::encode(&request).map_err(|source| Error::Encode { source })?;
        let (reader, stdin) = match stdin {
            Stdin::Null => (None, None),
            Stdin::Inherited => {
                let own = io::stdin().as_fd().try_clone_to_owned();
                (Some(own.map_err(follow("taking the standard input"))?), None)
            }
            Stdin::Piped => {
                let (reader, writer) = io::pipe().map_err(follow("making a pipe"))?;
                (Some(OwnedFd::from(reader)), Some(writer))
            }
        };
        let mut fds: Vec<BorrowedFd<'_>> = reader.iter().map(AsFd::as_fd).collect();
        fds.extend(network.iter().flat_map(|network| [network.user.as_fd(), network.net.as_fd()]));
        if let Some(Spare { control, launcher, .. }) = spare
            && wire::send_body(&control, &request, &fds).is_ok()
        {
            match answer(&control) {
                // It could not, and nothing ran: the start below says why, or can.
                Ok((Answer::Failed(_), _)) => {}
                answer => return answered(answer, launcher, control, stdin, places),
            }
        }
        let (control, theirs) = UnixStream::pair().map_err(follow("making a socket"))?;
        let launcher = Running::start(self, theirs.into(), is_inherited)?;
        let answer = wire::send_body(&control, &request, &fds).and_then(|()| answer(&control));
        drop(fds);
        drop(reader);
        answered(answer, launcher, control, stdin, places)
    }
}

/// What came of an order to start something.
fn answered(
    answer: io::Result<(Answer, Vec<OwnedFd>)>,
    launcher: Running,
    control: UnixStream,
    stdin: Option<PipeWriter>,
    places: Places,
) -> Result<Child, Error> {
    match answer {
        Ok((Answer::Started, mut fds)) if fds.len() == 1 => {
            let jail = fds.swap_remove(0);
            launcher.into_child(control, jail, stdin, places)
        }
        Ok((Answer::Started | Answer::Network | Answer::Ended { .. }, _)) | Err(_) => {
            drop(control);
            Err(Error::Silent { ended: launcher.end() })
        }
        Ok((Answer::Failed(failure), _)) => {
            drop(control);
            launcher.end();
            Err(refusal(failure))
        }
    }
}

/// Waits for what a launcher says.
fn answer(control: &UnixStream) -> io::Result<(Answer, Vec<OwnedFd>)> {
    control.set_read_timeout(Some(ANSWER_WITHIN))?;
    wire::receive(control)
}

/// A launcher that waits for its plan.
#[derive(Debug)]
struct Spare {
    control: UnixStream,
    launcher: Running,
    /// What it was started for.
    limits: Limits,
}

impl Spare {
    fn start(launcher: &Launcher, limits: &Limits) -> io::Result<Self> {
        let (control, theirs) = UnixStream::pair()?;
        let running = Running::start(launcher, theirs.into(), false).map_err(io::Error::other)?;
        let spare = Self { control, launcher: running, limits: *limits };
        wire::send(&spare.control, &Order::Prepare(Box::new(*limits)), &[])?;
        Ok(spare)
    }

    /// Whether it lives and has said nothing yet: what it says before it is asked is that it is of no use.
    fn waits(&mut self) -> bool {
        let lives = self.launcher.0.as_mut().is_some_and(|process| matches!(process.try_wait(), Ok(None)));
        let mut fds = [PollFd::new(&self.control, PollFlags::IN)];
        lives && poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(0)
    }
}

/// A network of its own that jails share, as its two namespaces. None of them may change it.
#[derive(Clone, Debug)]
pub struct SharedNetwork {
    user: Arc<OwnedFd>,
    net: Arc<OwnedFd>,
}

/// Starts `plan` through the running binary; see [`Launcher::spawn`].
///
/// # Errors
/// Those of [`Launcher::spawn`].
pub fn spawn(plan: &Plan, stdin: Stdin) -> Result<Child, Error> {
    Launcher::this_binary().spawn(plan, stdin)
}

/// What the jailed program reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing.
    Null,
    /// What the caller writes to [`Child::stdin`].
    Piped,
    /// What the caller itself would read; and the caller's output and error output are the program's. It has
    /// no controlling terminal, also when these are one.
    Inherited,
}

/// A confined process and all that it starts. Dropping it ends them.
#[derive(Debug)]
pub struct Child {
    /// Where the program's input is written, when it is piped; drop it to end the input.
    pub stdin: Option<PipeWriter>,
    /// The program's output.
    pub stdout: Option<ChildStdout>,
    /// The program's error output.
    pub stderr: Option<ChildStderr>,
    launcher: Following,
    /// The lifeline: the jail ends when this closes, so when this process ends in any way.
    control: UnixStream,
    jail: Arc<OwnedFd>,
    status: Status,
    ended: Option<ExitStatus>,
    bound: Option<Bound>,
    /// What stands where something denied is not there, until the jail has ended.
    places: Places,
}

impl Child {
    /// The launcher's process id, for display: it is the jail's parent, outside of it.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.launcher.id
    }

    /// The bound of the step as a whole for which it was ended, once [`Child::wait`] has said that it was killed.
    #[must_use]
    pub fn bound(&self) -> Option<Bound> {
        self.bound
    }

    /// What is enforced: [`Status::Enforced`], or [`Status::Degraded`] under posture `Ask`.
    #[must_use]
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// A handle that ends the jail from elsewhere, while somebody waits here.
    #[must_use]
    pub fn killer(&self) -> Killer {
        Killer { jail: Arc::clone(&self.jail) }
    }

    /// Ends the jail and all in it. [`Child::wait`] then says killed.
    ///
    /// # Errors
    /// [`Error::Follow`] when the kernel refuses.
    pub fn kill(&self) -> Result<(), Error> {
        self.killer().kill()
    }

    /// Blocks until the program has ended *and nothing of the jail is alive any more*: after
    /// this no jailed process writes anywhere. Gives the program's own exit code or signal.
    ///
    /// # Errors
    /// [`Error::Follow`] when the launcher cannot be waited for.
    pub fn wait(&mut self) -> Result<ExitStatus, Error> {
        if let Some(ended) = self.ended {
            return Ok(ended);
        }
        let follow = |source| Error::Follow { doing: "waiting for its end", source };
        self.control.set_read_timeout(None).map_err(follow)?;
        let (ended, bound) = match wire::receive(&self.control) {
            Ok((Answer::Ended { end, bound }, _)) => (End::from_bytes(end).into(), bound),
            // It was killed, or is about to end by itself.
            _ => (self.launcher.wait().map_err(follow)?, None),
        };
        // Words alone are not believed, and a launcher that was killed leaves the jail dying; the first process
        // of a process namespace is only dead when all others of it are.
        loop {
            match poll(&mut [PollFd::new(&self.jail, PollFlags::IN)], None) {
                Ok(_) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(follow(error.into())),
            }
        }
        self.ended = Some(ended);
        self.bound = bound;
        self.launcher.let_go();
        self.places.clear();
        Ok(ended)
    }
}

/// The jail as a process descriptor: it polls as readable once nothing of the jail is alive,
/// and [`Child::wait`] does not block any more.
impl AsFd for Child {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.jail.as_fd()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.ended.is_none() {
            let _ = self.kill();
            let _ = self.control.shutdown(std::net::Shutdown::Both);
            let _ = self.wait();
        }
    }
}

/// Ends a jail from anywhere; harmless once it has ended.
#[derive(Clone, Debug)]
pub struct Killer {
    jail: Arc<OwnedFd>,
}

impl Killer {
    /// Ends the jail and all in it.
    ///
    /// # Errors
    /// [`Error::Follow`] when the kernel refuses.
    pub fn kill(&self) -> Result<(), Error> {
        match rustix::process::pidfd_send_signal(&*self.jail, Signal::KILL) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(Error::Follow { doing: "ending it", source: error.into() }),
        }
    }
}

/// The launcher of a jail that runs.
#[derive(Debug)]
struct Following {
    id: u32,
    process: Option<process::Child>,
}

impl Following {
    fn wait(&mut self) -> io::Result<ExitStatus> {
        self.process.as_mut().ok_or(io::ErrorKind::NotFound)?.wait()
    }

    /// Has somebody else wait for its end, once it has said how the jail ended.
    fn let_go(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        if let Ok(Some(_)) = process.try_wait() {
            return;
        }
        let unheard = match waiter() {
            Some(waiter) => waiter.send(process).err().map(|error| error.0),
            None => Some(process),
        };
        if let Some(mut process) = unheard {
            let _ = process.wait();
        }
    }
}

/// The thread that waits for the ends of launchers whose jails have ended; `None` where none can be had.
fn waiter() -> Option<&'static Sender<process::Child>> {
    static WAITER: OnceLock<Option<Sender<process::Child>>> = OnceLock::new();
    let start = || {
        let (sender, receiver) = mpsc::channel::<process::Child>();
        let wait = move || {
            for mut process in receiver {
                let _ = process.wait();
            }
        };
        let thread = std::thread::Builder::new().name("launchers".into()).stack_size(64 << 10);
        thread.spawn(wait).ok().map(|_| sender)
    };
    WAITER.get_or_init(start).as_ref()
}

/// A launcher that has not answered yet.
#[derive(Debug)]
struct Running(Option<process::Child>);

impl Running {
    fn start(launcher: &Launcher, control: OwnedFd, is_inherited: bool) -> Result<Self, Error> {
        let output = || if is_inherited { Stdio::inherit() } else { Stdio::piped() };
        #[expect(clippy::disallowed_methods, reason = "this is where jailed processes start")]
        let mut command = Command::new(&launcher.program);
        command
            .args(&launcher.args)
            .env_clear()
            .envs(lacks::switches())
            .current_dir("/")
            .stdin(Stdio::from(File::from(control)))
            .stdout(output())
            .stderr(output());
        let started = command.spawn();
        started
            .map(|child| Self(Some(child)))
            .map_err(|source| Error::Launcher { program: launcher.program.clone(), source })
    }

    fn into_child(
        mut self,
        control: UnixStream,
        jail: OwnedFd,
        stdin: Option<PipeWriter>,
        places: Places,
    ) -> Result<Child, Error> {
        let Some(mut launcher) = self.0.take() else { return Err(Error::Silent { ended: None }) };
        Ok(Child {
            stdin,
            stdout: launcher.stdout.take(),
            stderr: launcher.stderr.take(),
            launcher: Following { id: launcher.id(), process: Some(launcher) },
            control,
            jail: Arc::new(jail),
            status: Status::Enforced,
            ended: None,
            bound: None,
            places,
        })
    }

    /// Ends it, unless it did so itself, which it is then asked for.
    fn end(mut self) -> Option<ExitStatus> {
        self.take_end()
    }

    fn take_end(&mut self) -> Option<ExitStatus> {
        let mut launcher = self.0.take()?;
        match launcher.try_wait() {
            Ok(Some(ended)) => Some(ended),
            _ => {
                let _ = launcher.kill();
                let _ = launcher.wait();
                None
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.take_end();
    }
}

fn refusal(failure: Failure) -> Error {
    match failure.part {
        Part::Plan => Error::Plan { reason: failure.to_string() },
        Part::Program => Error::Program(failure),
        part => Error::Refused { mend: support::mend(part), failure },
    }
}
