//! A host over fakes, with one run on record.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use domain::budget::Exhausted;
use domain::run::{End, Status};
use domain::{Decision, Fact, Recorded, RunId, RunState, StepNo, Verdict};
use kernel::Driver;
use kernel::host::{Drivers, Error, Host, Ports, Rest};
use kernel::machine::{Input, Order};
use kernel::port::{Action, Authority, Clock, Inbox, Journal as _, Refused, Workspaces};
use testkit::fakes::{CountingRng, ManualExecutor, MemoryJournal, RuntimeClock};
use testkit::sim::{Op, Program, Rule, Script};
use testkit::suite::history::{Chain, lease};

pub(super) const DONE: Status = Status::Ended { end: End::Done };
pub(super) const OWNER: &str = "human:owner";
pub(super) const HOLDER: &str = "daemon:1";
/// How long a gate stays open, in milliseconds.
pub(super) const PATIENCE: u64 = 600_000;

pub(super) struct Bench {
    pub(super) journal: Arc<MemoryJournal>,
    pub(super) executor: Arc<ManualExecutor>,
    pub(super) drivers: Arc<Scripts>,
    pub(super) day: Arc<Day>,
    pub(super) host: Arc<Host>,
    pub(super) run: RunId,
    pub(super) clock: Arc<RuntimeClock>,
}

impl Bench {
    pub(super) fn new(batches: &[&[Op]]) -> Self {
        let program = Arc::new(Program::of(batches));
        let journal = Arc::new(MemoryJournal::default());
        let executor = Arc::new(ManualExecutor::default());
        let drivers = Arc::new(Scripts {
            program: Arc::clone(&program),
            broken: AtomicBool::new(false),
            panics: AtomicBool::new(false),
            rests: AtomicBool::new(false),
            fails_once: AtomicBool::new(false),
        });
        let day = Arc::new(Day { cap: AtomicU64::new(u64::MAX), overlooked: AtomicU64::new(0) });
        let clock = Arc::new(RuntimeClock::begin());
        let ports = Ports {
            journal: Arc::clone(&journal) as _,
            authority: Arc::new(Rules { program, journal: Arc::clone(&journal), day: Arc::clone(&day) }),
            executor: Arc::clone(&executor) as _,
            workspaces: Arc::new(Still),
            drivers: Arc::clone(&drivers) as _,
            clock: Arc::clone(&clock) as _,
            rng: Arc::new(CountingRng::default()),
        };
        let run = begin(&journal, 1);
        let host = Arc::new(Host::new(ports, HOLDER.into()));
        Self { journal, executor, drivers, day, host, run, clock }
    }

    /// The next daemon over the same journal, on a machine whose clock says something else.
    pub(super) fn successor(&self, clock: Arc<dyn Clock>) -> Self {
        let ports = Ports {
            journal: Arc::clone(&self.journal) as _,
            authority: Arc::new(Rules {
                program: Arc::clone(&self.drivers.program),
                journal: Arc::clone(&self.journal),
                day: Arc::clone(&self.day),
            }),
            executor: Arc::clone(&self.executor) as _,
            workspaces: Arc::new(Still),
            drivers: Arc::clone(&self.drivers) as _,
            clock,
            rng: Arc::new(CountingRng::default()),
        };
        let host = Arc::new(Host::new(ports, "daemon:2".into()));
        let (journal, executor, drivers) =
            (Arc::clone(&self.journal), Arc::clone(&self.executor), Arc::clone(&self.drivers));
        let (day, clock) = (Arc::clone(&self.day), Arc::clone(&self.clock));
        Self { journal, executor, drivers, day, host, run: self.run, clock }
    }

    /// Puts another run on record.
    pub(super) fn another(&self, number: u64) -> RunId {
        begin(&self.journal, number)
    }

    pub(super) async fn launch(&self) -> Result<(), Error> {
        self.host.launch(self.run, None).await
    }

    pub(super) async fn order(&self, order: Order) -> Result<(), Error> {
        self.host.order(self.run, order).await
    }

    pub(super) async fn stop(&self) -> Result<(), Error> {
        self.order(Order::Stop { by: OWNER.into() }).await
    }

    pub(super) async fn resume(&self) -> Result<(), Error> {
        self.order(Order::Resume { by: OWNER.into() }).await
    }

    /// Returns when nobody has anything to do: only then paused time goes on.
    pub(super) async fn idle(&self) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    /// Waits until no task drives the run any more, and gives its state on record.
    pub(super) async fn at_rest(&self) -> Status {
        self.at_rest_of(self.run).await
    }

    pub(super) async fn at_rest_of(&self, run: RunId) -> Status {
        let resting = async {
            while let Some(mut rest) = self.host.rest(run) {
                let _ = rest.wait_for(|rest| *rest != Rest::Moving).await;
            }
        };
        // Keeps a broken test from hanging.
        tokio::time::timeout(Duration::from_secs(3_600), resting).await.unwrap();
        self.journal.state(run).status
    }

    pub(super) fn state(&self) -> RunState {
        self.journal.state(self.run)
    }

    pub(super) fn position(&self) -> u64 {
        self.journal.position()
    }

    pub(super) fn facts<T>(&self, wanted: impl Fn(&Fact) -> Option<T>) -> Vec<T> {
        self.journal.events(self.run).iter().filter_map(|event| wanted(&event.header.fact)).collect()
    }
}

fn begin(journal: &MemoryJournal, number: u64) -> RunId {
    let mut chain = Chain::new(number);
    journal.create(chain.start()).unwrap();
    chain.run()
}

pub(super) struct Scripts {
    program: Arc<Program>,
    broken: AtomicBool,
    panics: AtomicBool,
    rests: AtomicBool,
    fails_once: AtomicBool,
}

impl Scripts {
    /// Whether drivers that are made from now on panic when they are asked.
    pub(super) fn panic(&self, panics: bool) {
        self.panics.store(panics, Ordering::Relaxed);
    }

    /// Drivers that are made from now on want to rest until their owner lets them go on.
    pub(super) fn rest(&self) {
        self.rests.store(true, Ordering::Relaxed);
    }

    /// The next driver cannot be made, and those after it can.
    pub(super) fn fail_once(&self) {
        self.fails_once.store(true, Ordering::Relaxed);
    }

    /// Whether drivers can be made from now on.
    pub(super) fn works(&self, works: bool) {
        self.broken.store(!works, Ordering::Relaxed);
    }
}

impl Drivers for Scripts {
    fn driver(&self, _: &Recorded) -> Result<Box<dyn Driver>, Refused> {
        if self.broken.load(Ordering::Relaxed) || self.fails_once.swap(false, Ordering::Relaxed) {
            return Err(Refused { code: "run.undrivable".into(), hint: "the prompt is gone".into() });
        }
        if self.panics.load(Ordering::Relaxed) {
            return Ok(Box::new(Defective));
        }
        if self.rests.load(Ordering::Relaxed) {
            return Ok(Box::new(Resting { is_resumed: false }));
        }
        Ok(Box::new(Script::new(Arc::clone(&self.program))))
    }
}

/// A driver that wants to rest until its owner lets it go on.
struct Resting {
    is_resumed: bool,
}

impl Driver for Resting {
    fn fold(&mut self, header: &domain::Header, _: Option<&domain::Payload>) {
        self.is_resumed |= matches!(header.fact, Fact::Resumed { .. });
    }

    fn inherit(&mut self, _: &domain::Header, _: Option<&domain::Payload>) {}

    fn next(&self, _: &RunState) -> kernel::driver::Next {
        match self.is_resumed {
            true => kernel::driver::Next::End { end: End::Done, reason: "resumed".into() },
            false => kernel::driver::Next::Rest { code: "run.stalled".into(), hint: "say how".into() },
        }
    }

    fn compose(&self, step: StepNo, _: u64) -> Result<bytes::Bytes, kernel::driver::ComposeError> {
        Err(kernel::driver::ComposeError { step, reason: "it asks for nothing".into() })
    }
}

/// A driver with a defect.
struct Defective;

impl Driver for Defective {
    fn inherit(&mut self, _: &domain::Header, _: Option<&domain::Payload>) {}

    fn fold(&mut self, _: &domain::Header, _: Option<&domain::Payload>) {}

    fn next(&self, _: &RunState) -> kernel::driver::Next {
        panic!("a deliberate defect")
    }

    fn compose(&self, _: StepNo, _: u64) -> Result<bytes::Bytes, kernel::driver::ComposeError> {
        panic!("a deliberate defect")
    }
}

struct Rules {
    program: Arc<Program>,
    journal: Arc<MemoryJournal>,
    day: Arc<Day>,
}

/// The cap of the day, and how often a decision is made before another run's reservation is seen.
pub(super) struct Day {
    pub(super) cap: AtomicU64,
    pub(super) overlooked: AtomicU64,
}

impl Day {
    fn is_overlooked(&self) -> bool {
        let one_less = |left: u64| left.checked_sub(1);
        self.overlooked.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok()
    }
}

impl Authority for Rules {
    fn decide(&self, action: &Action<'_>) -> Result<Decision, Exhausted> {
        let held = self.journal.spent_on(0).unwrap() + action.nanodollars;
        if action.nanodollars > 0 && held > self.day_cap() && !self.day.is_overlooked() {
            return Err(Exhausted::Day);
        }
        let verdict = match self.program.op_of(action.tool).map(|(_, op)| op.rule) {
            Some(Rule::Ask) if action.approved.is_none() => Verdict::Ask,
            Some(Rule::Allow | Rule::Ask) => Verdict::Allow,
            _ => Verdict::Deny,
        };
        let gate = action.approved;
        Ok(Decision { verdict, rule: "scripted".into(), lease: lease(1), epoch: 1, gate })
    }

    fn day_cap(&self) -> u64 {
        self.day.cap.load(Ordering::SeqCst)
    }

    fn patience(&self, _: &Action<'_>) -> u64 {
        PATIENCE
    }
}

/// Workspaces in which nothing moves.
struct Still;

impl Workspaces for Still {
    fn snapshot(&self, _: RunId, inbox: Arc<dyn Inbox>) {
        inbox.send(Input::Snapshotted("snapshot".into()));
    }

    fn restore(&self, _: RunId, step: StepNo, _: &str, inbox: Arc<dyn Inbox>) {
        inbox.send(Input::Restored(step));
    }
}
