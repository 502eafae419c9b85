//! What the threads of a runner share, and what it does with each request.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use domain::StepNo;
use kernel::fault::{Point, point};
use kernel::port::Refused;
use sandbox::Launcher;

use super::peer::Peer;
use super::{Error, failed};
use crate::config::Config;
use crate::jail;
use crate::job::{Failure, Job};
use crate::services::Services;
use crate::spool::Spool;
use crate::supervise::Bell;
use crate::wire::{self, Answer, Request, Work};

/// How long a new runner waits for its first daemon at least.
const FIRST_WITHIN: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug)]
pub(super) struct Desk {
    config: Config,
    spool: Spool,
    services: Services,
    launcher: Launcher,
    state: Mutex<State>,
    changed: Bell,
}

#[derive(Debug)]
struct State {
    fence: u64,
    running: BTreeMap<StepNo, Running>,
    peers: Vec<Peer>,
    peers_so_far: u64,
    /// Whether the daemon said goodbye.
    is_over: bool,
    /// When somebody was last connected or something ran.
    busy_at: Instant,
}

/// A step that runs.
#[derive(Debug)]
struct Running {
    attempt: u32,
    stop: Arc<Bell>,
    /// The daemons that want to know when it is gone.
    killers: Vec<u64>,
}

impl State {
    fn tell(&self, answer: &Answer) {
        self.peers.iter().filter(|peer| peer.is_greeted).for_each(|peer| peer.send(answer));
    }

    fn tell_one(&self, id: u64, answer: &Answer) {
        self.peers.iter().filter(|peer| peer.id == id).for_each(|peer| peer.send(answer));
    }
}

impl Desk {
    pub(super) fn open(config: Config, spool: Spool) -> Result<Self, Error> {
        let state = State {
            fence: spool.fence().map_err(Error::Spool)?,
            running: BTreeMap::new(),
            peers: Vec::new(),
            peers_so_far: 0,
            is_over: false,
            busy_at: Instant::now(),
        };
        let changed = Bell::new().map_err(failed("make a pipe"))?;
        let launcher = jail::launcher(&config);
        Ok(Self { config, spool, services: Services::default(), launcher, state: Mutex::new(state), changed })
    }

    /// Uses the time until the next step.
    pub(super) fn prepare(&self) {
        jail::prepare(&self.config, &self.launcher);
    }

    /// Ends what runs beside the steps.
    pub(super) fn close(&self) {
        self.services.end();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When this runner may leave; `None` while it is needed.
    pub(super) fn leaves_at(&self, idle: Duration) -> Option<Instant> {
        let state = self.state();
        match () {
            // Who is connected may be about to start something; who comes is let in by the thread
            // that asks this, so nobody can get in between the answer and the leaving.
            () if !state.running.is_empty() || !state.peers.is_empty() => None,
            () if state.is_over => Some(state.busy_at),
            // Somebody has started it, and is on the way.
            () if state.peers_so_far == 0 => state.busy_at.checked_add(idle.max(FIRST_WITHIN)),
            () => state.busy_at.checked_add(idle),
        }
    }

    /// Gives back what was only kept for steps to come.
    pub(super) fn retire(&self) {
        self.spool.give_reserve_up();
    }

    /// What to poll for a change of [`Desk::leaves_at`].
    pub(super) fn changed(&self) -> impl std::os::fd::AsFd + '_ {
        self.changed.fd()
    }

    pub(super) fn note_change(&self) {
        self.changed.reset();
    }

    pub(super) fn admit(&self, peer: impl FnOnce(u64) -> Peer) -> u64 {
        let mut state = self.state();
        state.peers_so_far += 1;
        let id = state.peers_so_far;
        state.peers.push(peer(id));
        id
    }

    pub(super) fn dismiss(&self, id: u64) {
        let mut state = self.state();
        state.peers.retain(|peer| peer.id != id);
        state.busy_at = Instant::now();
        self.changed.ring();
    }

    pub(super) fn greet(&self, id: u64) {
        let hello = Answer::Hello { version: wire::VERSION, run: self.config.run };
        let mut state = self.state();
        state.tell_one(id, &hello);
        state.is_over = false;
        for peer in state.peers.iter_mut().filter(|peer| peer.id == id) {
            peer.is_greeted = true;
        }
    }

    pub(super) fn handle(self: &Arc<Self>, id: u64, request: Request) {
        match request {
            Request::Hello { .. } => {}
            Request::Start { work } => self.start(id, work),
            Request::Status { work } => self.status(id, &work),
            Request::Kill { step, fence } => self.kill(id, step, fence),
            Request::Forget { upto, fence } => self.forget(upto, fence),
            Request::Bye => {
                let mut state = self.state();
                state.is_over = true;
                self.changed.ring();
            }
        }
    }

    /// Whether a fence still counts. A higher one is on disk before anything happens under it.
    fn is_current(&self, state: &mut State, fence: u64) -> Result<bool, Refused> {
        if fence > state.fence {
            self.spool
                .raise_fence(fence)
                .map_err(|error| Refused { code: "runner.spool".into(), hint: error.to_string() })?;
            state.fence = fence;
        }
        Ok(fence == state.fence)
    }

    fn start(self: &Arc<Self>, id: u64, work: Work) {
        point(Point::RunnerReceived);
        let (step, attempt) = (work.step, work.attempt);
        let mut state = self.state();
        let answer = match self.place(&mut state, &work) {
            Err(Refused { code, hint }) => Answer::Refused { step, attempt, code, hint },
            Ok(Placed::Spooled(result)) => Answer::Finished { result },
            Ok(Placed::Running) => Answer::Started { step, attempt },
            Ok(Placed::New(stop)) => {
                let (desk, its_stop) = (Arc::clone(self), Arc::clone(&stop));
                // It waits for the state before it can end, so it is among the running ones by then.
                match std::thread::Builder::new().spawn(move || desk.run(&work, &its_stop)) {
                    Ok(_) => {
                        state.running.insert(step, Running { attempt, stop, killers: Vec::new() });
                        Answer::Started { step, attempt }
                    }
                    Err(error) => {
                        let Refused { code, hint } = no_resources("thread", &error);
                        Answer::Refused { step, attempt, code, hint }
                    }
                }
            }
        };
        state.tell_one(id, &answer);
    }

    /// What to do with work that arrives.
    fn place(&self, state: &mut State, work: &Work) -> Result<Placed, Refused> {
        let refused = |code: &str, hint: String| Err(Refused { code: code.into(), hint });
        if work.run != self.config.run {
            return refused(
                "runner.run",
                format!("this runner serves {}, not {}", self.config.run, work.run),
            );
        }
        if !self.is_current(state, work.fence)? {
            return refused(
                "runner.fenced",
                format!("another daemon owns this run now (fence {}, yours {})", state.fence, work.fence),
            );
        }
        match state.running.get(&work.step) {
            Some(running) if running.attempt == work.attempt => return Ok(Placed::Running),
            Some(running) => {
                return refused(
                    "runner.busy",
                    format!("attempt {} of step {} still runs; kill it first", running.attempt, work.step),
                );
            }
            None => {}
        }
        if let Some(result) = self.spool.answer(work) {
            return Ok(Placed::Spooled(Box::new(result)));
        }
        let stop = Bell::new().map_err(|error| no_resources("pipe", &error))?;
        Ok(Placed::New(Arc::new(stop)))
    }

    /// Runs a step, on a thread of its own.
    fn run(&self, work: &Work, stop: &Bell) {
        let (step, attempt) = (work.step, work.attempt);
        let progress = |text: String| {
            let answer = Answer::Progress { step, text };
            let state = self.state();
            state.peers.iter().filter(|peer| peer.is_greeted).for_each(|peer| peer.offer(&answer));
        };
        let Self { config, spool, services, launcher, .. } = self;
        let job = Job { config, spool, services, launcher, work, stop, progress: &progress };
        // A defect in one step must not leave it running for ever in the eyes of the daemon.
        let ended = std::panic::catch_unwind(AssertUnwindSafe(|| job.run()))
            .unwrap_or_else(|_| Err(Failure::Lost("the runner failed inside; report this".into())));
        let answer = match ended {
            Ok(result) => Answer::Finished { result: Box::new(result) },
            Err(Failure::Refused(Refused { code, hint })) => Answer::Refused { step, attempt, code, hint },
            Err(Failure::Lost(reason)) => {
                tracing::error!(step = step.0, reason, "a step has no result");
                Answer::Lost { step, attempt }
            }
        };
        let mut state = self.state();
        let killers = state.running.remove(&step).map(|running| running.killers).unwrap_or_default();
        state.busy_at = Instant::now();
        state.tell(&answer);
        for id in killers {
            state.tell_one(id, &Answer::Killed { step });
        }
        self.changed.ring();
        drop(state);
        self.prepare();
    }

    fn status(&self, id: u64, work: &Work) {
        let mut state = self.state();
        let step = work.step;
        let answer = match self.is_current(&mut state, work.fence) {
            Ok(false) => Answer::Fenced { step, current: state.fence },
            // An answer does not depend on whether the fence could be written.
            Ok(true) | Err(_) => Answer::Status {
                step,
                state: match (state.running.contains_key(&step), self.spool.answer(work)) {
                    (true, _) => wire::State::Running,
                    (false, Some(result)) => wire::State::Spooled(Box::new(result)),
                    (false, None) => wire::State::Unknown,
                },
            },
        };
        state.tell_one(id, &answer);
    }

    fn kill(&self, id: u64, step: StepNo, fence: u64) {
        let mut state = self.state();
        if let Ok(false) = self.is_current(&mut state, fence) {
            let answer = Answer::Fenced { step, current: state.fence };
            return state.tell_one(id, &answer);
        }
        match state.running.get_mut(&step) {
            Some(running) => {
                running.killers.push(id);
                running.stop.ring();
            }
            None => state.tell_one(id, &Answer::Killed { step }),
        }
    }

    fn forget(&self, upto: StepNo, fence: u64) {
        let mut state = self.state();
        let is_current = self.is_current(&mut state, fence);
        drop(state);
        if let Ok(true) = is_current
            && let Err(error) = self.spool.forget(upto)
        {
            tracing::warn!(%error, "results stay in the spool");
        }
    }
}

fn no_resources(what: &str, error: &std::io::Error) -> Refused {
    Refused {
        code: "runner.resources".into(),
        hint: format!("the system gives the runner no further {what} ({error}); raise its limits (ulimit)"),
    }
}

/// What becomes of work that arrives.
enum Placed {
    New(Arc<Bell>),
    Running,
    Spooled(Box<wire::Spooled>),
}
