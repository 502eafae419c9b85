//! The task of one run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use domain::event::Recorded;
use domain::{Fact, Millis, RunId, Timestamp};
use tokio::sync::{mpsc, oneshot, watch};

use super::undriven::Undriven;
use super::{Answers, CLAIM_RENEWAL, CLAIM_TTL, Error, Mailbox, Message, Ports, Rest};
use crate::driver::Driver;
use crate::fault::{Point, point};
use crate::lineage;
use crate::machine::{Context, Halt, Input, Machine, Order, Output};
use crate::port::{Append, Claim, ClaimError, Inbox, Refused};

/// Events read from the journal at a time.
const PAGE: usize = 4096;
/// How often a failing journal is tried again: doubled from the first to the last.
const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_LAST: Duration = Duration::from_secs(30);

pub(super) type Reply = oneshot::Sender<Result<(), Error>>;

/// How a task left its run.
pub(super) enum Left {
    /// Like this.
    To(Rest),
    /// It never had it: whoever launched it is still to be told why.
    Untaken(Error, Reply),
}

pub(super) struct Task {
    ports: Ports,
    holder: String,
    run: RunId,
    mailbox: Mailbox,
    receiver: mpsc::UnboundedReceiver<Message>,
    bell: Arc<watch::Sender<u64>>,
    generation: u64,
    /// Orders that are in force once their append is durable.
    replies: BTreeMap<u64, Vec<Reply>>,
    /// The last ticket that was submitted.
    ticket: u64,
    /// How long the next wait for a failing journal is.
    retry: Duration,
    /// By how much the clock is behind the run's last event, in milliseconds: it was set back while no
    /// daemon ran. The run's own time goes on from there.
    behind: Millis,
}

struct Loaded {
    machine: Machine<Box<dyn Driver>>,
    claim: Claim,
    /// The instant of the last event.
    last: Timestamp,
}

impl Task {
    pub(super) fn new(
        ports: Ports,
        holder: String,
        run: RunId,
        mailbox: Mailbox,
        receiver: mpsc::UnboundedReceiver<Message>,
        bell: Arc<watch::Sender<u64>>,
    ) -> Self {
        Self {
            ports,
            holder,
            run,
            mailbox,
            receiver,
            bell,
            generation: 0,
            replies: BTreeMap::new(),
            ticket: 0,
            retry: RETRY_FIRST,
            behind: 0,
        }
    }

    /// Drives the run until it rests, ends or is lost. `ready` hears that the first load worked, and of an
    /// order when it is on record; `began` hears that the run is in this task's hands.
    pub(super) async fn run(
        mut self,
        order: Option<Order>,
        ready: Reply,
        began: Arc<watch::Sender<bool>>,
    ) -> Left {
        // The daemon holds the home's lock: whoever held the run before is dead.
        let mut loaded = match self.load(true, order.as_ref()).await {
            Ok(loaded) => loaded,
            Err(error) => return Left::Untaken(error, ready),
        };
        let ordered = order.is_some();
        let outputs = match self.claim(&mut loaded, order) {
            Ok(outputs) => outputs,
            Err(error) => {
                let _ = self.ports.journal.release(&loaded.claim);
                return Left::Untaken(error, ready);
            }
        };
        let halt = self.perform(outputs);
        if ordered {
            self.replies.entry(self.ticket).or_default().push(ready);
        } else {
            // From here on the task tries again by itself whatever fails.
            let _ = ready.send(Ok(()));
        }
        began.send_replace(true);
        Left::To(self.keep_on(loaded, halt).await)
    }

    /// Drives the run, and loads it again as often as that is needed.
    async fn keep_on(&mut self, mut loaded: Loaded, mut halt: Option<Halt>) -> Rest {
        loop {
            let reason = match halt.take() {
                Some(reason) => reason,
                None => self.drive(&mut loaded).await,
            };
            // Orders that were not recorded are answered by the drop of their replies.
            self.replies.clear();
            let mut given = None;
            match reason {
                Halt::Ended(end) => return self.leave(&loaded.claim, Rest::Ended(end)),
                Halt::Parked(reason) => return self.leave(&loaded.claim, Rest::Parked(reason)),
                Halt::Fenced => return Rest::Gone,
                Halt::Reload => {}
                Halt::Storage(why) => {
                    tracing::error!(run = %self.run, why, "the journal cannot write; trying again");
                    given = self.pause().await;
                }
            }
            match self.reload(given).await {
                Some((again, first)) => {
                    loaded = again;
                    halt = first;
                }
                None => return Rest::Gone,
            }
        }
    }

    /// Loads the run again after a failed append, to carry an order out that was given meanwhile. `None`
    /// when it cannot be had any more.
    async fn reload(&mut self, mut given: Option<(Order, Reply)>) -> Option<(Loaded, Option<Halt>)> {
        loop {
            self.generation += 1;
            let (order, reply) = given.take().unzip();
            // Whoever has taken the run meanwhile keeps it.
            let error = match self.load(false, order.as_ref()).await {
                Ok(mut loaded) => match self.claim(&mut loaded, order) {
                    Ok(outputs) => {
                        let halt = self.perform(outputs);
                        if let Some(reply) = reply {
                            self.replies.entry(self.ticket).or_default().push(reply);
                        }
                        return Some((loaded, halt));
                    }
                    Err(error) => error,
                },
                Err(error) => error,
            };
            if matches!(
                error,
                Error::Refused(_) | Error::Claim(ClaimError::Held { .. } | ClaimError::Lost(_))
            ) {
                return None;
            }
            tracing::error!(run = %self.run, %error, "the run cannot be loaded again; trying again");
            drop(reply);
            given = self.pause().await;
        }
    }

    /// Waits before the next try. Orders come back as not recorded meanwhile: whoever gave one is not
    /// left waiting for a disk. A cancellation is given back and tried at once: it may need less than the
    /// run needs to go on.
    async fn pause(&mut self) -> Option<(Order, Reply)> {
        let sleep = tokio::time::sleep(self.retry);
        tokio::pin!(sleep);
        loop {
            tokio::select! {
                () = &mut sleep => {
                    self.retry = (self.retry * 2).min(RETRY_LAST);
                    return None;
                }
                message = self.receiver.recv() => match message {
                    Some(Message::Order(order @ Order::Cancel { .. }, reply)) => return Some((order, reply)),
                    Some(Message::Order(_, reply)) => drop(reply.send(Err(Error::NotRecorded))),
                    // For a machine that is gone.
                    Some(Message::Input(..)) => {}
                    None => return None,
                },
            }
        }
    }

    fn leave(&self, claim: &Claim, rest: Rest) -> Rest {
        if let Err(error) = self.ports.journal.release(claim) {
            tracing::warn!(run = %self.run, %error, "the claim was not given back; it expires by itself");
        }
        rest
    }

    /// Claims the run and reads all of it. To be cancelled, a run needs no driver.
    async fn load(&self, force: bool, order: Option<&Order>) -> Result<Loaded, Error> {
        let (ports, run, holder) = (self.ports.clone(), self.run, self.holder.clone());
        let cancels = matches!(order, Some(Order::Cancel { .. }));
        let reading = tokio::task::spawn_blocking(move || {
            let claim = ports.journal.claim(run, &holder, ports.clock.now(), CLAIM_TTL, force)?;
            let history = history(&ports, run)?;
            let Some(first) = history.first() else {
                return Err(Error::Refused(domain::run::Refusal::NotStarted));
            };
            let is_cancelling = |event: &Recorded| matches!(event.header.fact, Fact::CancelRequested { .. });
            let driver = match driver(&ports, first) {
                Err(Error::Driver(Refused { hint, .. })) if cancels || history.iter().any(is_cancelling) => {
                    tracing::warn!(%run, hint, "the run cannot be driven any more; it is brought to its end");
                    Box::new(Undriven)
                }
                driver => driver?,
            };
            let last = history.iter().map(|event| event.header.at).max().unwrap_or(first.header.at);
            Ok(Loaded { machine: Machine::load(run, &history, driver), claim, last })
        });
        reading.await.unwrap_or_else(|error| {
            let hint = format!("run {run} cannot be loaded: {error}");
            Err(Error::Driver(Refused { code: "run.load_failed".into(), hint }))
        })
    }

    fn claim(&mut self, loaded: &mut Loaded, order: Option<Order>) -> Result<Vec<Output>, Error> {
        self.behind = loaded.last.since(self.ports.clock.now());
        let context = self.context();
        Ok(loaded.machine.claim(&context, loaded.claim.fence, &self.holder, order)?)
    }

    /// The run's time: it never goes back, so that its events stay in order and what it waits for
    /// comes after what was left to wait.
    fn now(&self) -> Timestamp {
        self.ports.clock.now().plus(self.behind)
    }

    fn context(&self) -> Context<'_> {
        Context { now: self.now(), authority: &*self.ports.authority, rng: &*self.ports.rng }
    }

    /// Feeds the machine until it halts.
    async fn drive(&mut self, loaded: &mut Loaded) -> Halt {
        let mut renewal = tokio::time::interval(Duration::from_millis(CLAIM_RENEWAL));
        renewal.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let sleep = self.sleep(&loaded.machine);
            let message = tokio::select! {
                message = self.receiver.recv() => message,
                () = sleep => Some(Message::Input(self.generation, Input::Tick)),
                _ = renewal.tick() => match self.renew(&loaded.claim) {
                    Ok(()) => continue,
                    Err(halt) => return halt,
                },
            };
            let Some(message) = message else { return Halt::Fenced };
            if let Some(halt) = self.take(&mut loaded.machine, message) {
                return halt;
            }
        }
    }

    /// Prolongs the claim. A claim that cannot be written is not lost: until somebody else takes the run
    /// it is ours, and the fence tells.
    fn renew(&self, claim: &Claim) -> Result<(), Halt> {
        match self.ports.journal.renew(claim, self.ports.clock.now(), CLAIM_TTL) {
            Ok(()) => Ok(()),
            Err(ClaimError::Storage(why)) => {
                tracing::warn!(run = %self.run, why, "the claim could not be prolonged; trying again");
                Ok(())
            }
            Err(_) => Err(Halt::Fenced),
        }
    }

    /// Until the next gate expires or timer fires. The wall clock may be set while we sleep, so a
    /// sleep is cut into pieces of a minute.
    fn sleep(&self, machine: &Machine<Box<dyn Driver>>) -> impl Future<Output = ()> + use<> {
        let wait = machine.wake_at().map(|due| due.since(self.now()).clamp(1, 60_000));
        async move {
            match wait {
                Some(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
                None => std::future::pending().await,
            }
        }
    }

    fn take(&mut self, machine: &mut Machine<Box<dyn Driver>>, message: Message) -> Option<Halt> {
        match message {
            Message::Input(generation, _) if generation != self.generation => None,
            Message::Input(_, input) => {
                if matches!(input, Input::Finished(..)) {
                    point(Point::ResultReceived);
                }
                self.acknowledge(&input);
                let outputs = machine.handle(&self.context(), input);
                self.perform(outputs)
            }
            Message::Order(order, reply) => match machine.order(&self.context(), order) {
                Ok(outputs) => {
                    let halt = self.perform(outputs);
                    self.replies.entry(self.ticket).or_default().push(reply);
                    halt
                }
                Err(refusal) => {
                    let _ = reply.send(Err(Error::Refused(refusal)));
                    None
                }
            },
        }
    }

    /// Tells those who wait that their order is on record, and rings the bell.
    fn acknowledge(&mut self, input: &Input) {
        let Input::Appended(ticket, Ok(appended)) = input else { return };
        for reply in self.replies.remove(ticket).unwrap_or_default() {
            let _ = reply.send(Ok(()));
        }
        let position = appended.position;
        self.bell.send_if_modified(|last| {
            let newer = position > *last;
            *last = position.max(*last);
            newer
        });
    }

    fn perform(&mut self, outputs: Vec<Output>) -> Option<Halt> {
        let inbox: Arc<dyn Inbox> =
            Arc::new(Answers { mailbox: self.mailbox.clone(), generation: self.generation });
        let mut halt = None;
        for output in outputs {
            match output {
                Output::Append(ticket, append) => {
                    self.ticket = ticket;
                    submit(&self.ports, Arc::clone(&inbox), ticket, append);
                }
                Output::Start(work) => {
                    point(Point::BeforeEffect);
                    self.ports.executor.start(work, Arc::clone(&inbox));
                }
                Output::Status(work) => self.ports.executor.status(work, Arc::clone(&inbox)),
                Output::Probe(work) => self.ports.executor.probe(work, Arc::clone(&inbox)),
                Output::Kill(work) => self.ports.executor.kill(work, Arc::clone(&inbox)),
                Output::Snapshot => self.ports.workspaces.snapshot(self.run, Arc::clone(&inbox)),
                Output::Restore(step, snapshot) => {
                    self.ports.workspaces.restore(self.run, step, &snapshot, Arc::clone(&inbox));
                }
                Output::Halted(reason) => halt = Some(reason),
            }
        }
        halt
    }
}

/// Submits an append and passes the fault points around it.
fn submit(ports: &Ports, inbox: Arc<dyn Inbox>, ticket: u64, append: Append) {
    let has = |wanted: fn(&Fact) -> bool| append.events.iter().any(|event| wanted(&event.header.fact));
    let intends = has(|fact| matches!(fact, Fact::StepIntended { .. }));
    let completes = has(|fact| matches!(fact, Fact::StepCompleted { .. }));
    let answers = has(|fact| matches!(fact, Fact::GateAnswered { .. }));
    if intends {
        point(Point::BeforeIntent);
    }
    ports.journal.append(
        append,
        Box::new(move |result| {
            if result.is_ok() {
                if intends {
                    point(Point::IntentCommitted);
                }
                if completes {
                    point(Point::ResultCommitted);
                }
                if answers {
                    point(Point::GateAnswered);
                }
            }
            inbox.send(Input::Appended(ticket, result));
        }),
    );
    if intends {
        point(Point::IntentSubmitted);
    }
    if completes {
        point(Point::ResultSubmitted);
    }
}

/// The driver of a run, which knows what the run goes on from.
fn driver(ports: &Ports, first: &Recorded) -> Result<Box<dyn Driver>, Error> {
    let mut driver = ports.drivers.driver(first).map_err(Error::Driver)?;
    inherit(ports, first, &mut driver)?;
    Ok(driver)
}

/// Tells a driver what its run goes on from.
fn inherit(ports: &Ports, first: &Recorded, driver: &mut dyn Driver) -> Result<(), Error> {
    let Some(forked) = lineage::origin(&first.header.fact) else { return Ok(()) };
    let events = lineage::inherited(&*ports.journal, forked).map_err(|error| {
        let hint = domain::causes::in_full(&error);
        Error::Driver(Refused { code: "run.lineage".into(), hint })
    })?;
    for event in &events {
        driver.inherit(&event.header, event.payload.as_ref());
    }
    Ok(())
}

/// All events of a run.
fn history(ports: &Ports, run: RunId) -> Result<Vec<Recorded>, Error> {
    let mut events: Vec<Recorded> = Vec::new();
    loop {
        let after = events.last().map_or(0, |event| event.header.seq);
        let page = ports.journal.history(run, after, PAGE)?;
        let last = page.len() < PAGE;
        events.extend(page);
        if last {
            return Ok(events);
        }
    }
}
