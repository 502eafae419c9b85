//! Runs machines on real ports, one task a run.
//!
//! A task loads its run, claims it, and feeds the machine with what the ports answer. When an append
//! fails the machine is thrown away and loaded again from the journal: there is no other state.

mod task;
mod undriven;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::fact::{End, Parking};
use domain::run::Refusal;
use domain::{Millis, RunId};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;

use crate::driver::Driver;
use crate::machine::{Input, Order};
use crate::port::{
    Authority, ClaimError, Clock, Executor, Inbox, Journal, JournalError, Refused, Rng, Workspaces,
};

/// How long a claim holds without being renewed, in milliseconds.
pub const CLAIM_TTL: Millis = 90_000;
/// How often a claim is renewed, in milliseconds.
pub const CLAIM_RENEWAL: Millis = 30_000;
/// How often an order is handed to a run whose task is just ending.
const HANDOVER_TRIES: u32 = 50;
const HANDOVER_PAUSE: Duration = Duration::from_millis(20);

/// The real outside.
#[derive(Clone)]
pub struct Ports {
    /// Events and claims.
    pub journal: Arc<dyn Journal>,
    /// The authorisation point.
    pub authority: Arc<dyn Authority>,
    /// Executes steps.
    pub executor: Arc<dyn Executor>,
    /// Keeps workspaces.
    pub workspaces: Arc<dyn Workspaces>,
    /// Makes drivers.
    pub drivers: Arc<dyn Drivers>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub rng: Arc<dyn Rng>,
}

/// Makes the driver of a run from its first event.
pub trait Drivers: Send + Sync {
    /// A driver that has folded nothing yet.
    ///
    /// # Errors
    /// What is missing to drive the run, and how to mend it.
    fn driver(&self, started: &domain::Recorded) -> Result<Box<dyn Driver>, Refused>;
}

/// Why an order was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The run's rules forbid it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The run cannot be claimed.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// The run cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The run cannot be driven.
    #[error("{}", .0.hint)]
    Driver(Refused),
    /// The run came to its end, or to rest, before the order reached it, or the journal cannot write.
    #[error("the order could not be recorded; look at the run with `regie show` and try again")]
    NotRecorded,
    /// The daemon ends.
    #[error("the daemon is ending; give the order again, which starts another one")]
    Closed,
}

/// Where a run's task is, for those who wait for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rest {
    /// It moves.
    Moving,
    /// It is over.
    Ended(End),
    /// It rests.
    Parked(Parking),
    /// Somebody else has it, or it could not be loaded again.
    Gone,
}

pub(crate) enum Message {
    /// For the machine of this generation; a later one must not hear it.
    Input(u64, Input),
    Order(Order, oneshot::Sender<Result<(), Error>>),
}

/// The sending half of a run's task.
#[derive(Clone)]
pub(crate) struct Mailbox(mpsc::UnboundedSender<Message>);

/// Where the answers to one machine go. What was asked by a machine that is gone is not answered to
/// the one that was loaded in its place: it asks for itself.
pub(crate) struct Answers {
    mailbox: Mailbox,
    generation: u64,
}

impl Inbox for Answers {
    fn send(&self, input: Input) {
        let _ = self.mailbox.0.send(Message::Input(self.generation, input));
    }
}

struct Live {
    mailbox: Mailbox,
    rest: watch::Receiver<Rest>,
    /// Whether its task has it. Closed without a yes once the entry of a failed launch is gone.
    begun: watch::Receiver<bool>,
    task: AbortHandle,
}

#[derive(Default)]
struct Table {
    runs: HashMap<RunId, Live>,
    is_closed: bool,
}

/// What a launch finds.
enum Place {
    /// The answer of the task that it has started.
    Mine(oneshot::Receiver<Result<(), Error>>),
    /// Another launch was faster.
    Taken(watch::Receiver<bool>),
}

/// Hosts the runs of one daemon.
pub struct Host {
    ports: Ports,
    holder: String,
    live: Arc<Mutex<Table>>,
    bell: Arc<watch::Sender<u64>>,
}

impl Host {
    /// A host that claims runs as `holder`.
    pub fn new(ports: Ports, holder: String) -> Self {
        let bell = Arc::new(watch::Sender::new(ports.journal.position()));
        Self { ports, holder, live: Arc::default(), bell }
    }

    /// Rings with the position of the last durable event. It is a bell: what happened is in the
    /// journal.
    pub fn bell(&self) -> watch::Receiver<u64> {
        self.bell.subscribe()
    }

    /// Rings by hand, after events that did not pass the host (a run's first ones).
    pub fn ring(&self) {
        self.bell.send_replace(self.ports.journal.position());
    }

    /// Where a run is; `None` when this host does not drive it.
    pub fn rest(&self, run: RunId) -> Option<watch::Receiver<Rest>> {
        self.lock().runs.get(&run).map(|live| live.rest.clone())
    }

    /// The runs that this host drives.
    pub fn live(&self) -> Vec<RunId> {
        self.lock().runs.keys().copied().collect()
    }

    /// Claims a run and drives it; returns when its task has it, and tries by itself whatever fails
    /// later. With an order, a run that rests is woken to carry it out, and this returns when the order
    /// is on record; a run that is live already takes orders through [`order`](Self::order).
    ///
    /// # Errors
    /// When the run cannot be read, claimed or driven, or the order is refused. Nothing has changed
    /// then, but for the fence.
    pub async fn launch(&self, run: RunId, order: Option<Order>) -> Result<(), Error> {
        loop {
            let mut begun = match self.place(run, order.as_ref())? {
                Place::Mine(started) => return started.await.unwrap_or(Err(Error::NotRecorded)),
                Place::Taken(_) if order.is_some() => return Err(Error::NotRecorded),
                Place::Taken(begun) => begun,
            };
            // One that fails is gone from the table by then: this launch takes its place.
            if begun.wait_for(|begun| *begun).await.is_ok() {
                return Ok(());
            }
        }
    }

    /// Starts the task of a run that has none.
    fn place(&self, run: RunId, order: Option<&Order>) -> Result<Place, Error> {
        let mut table = self.lock();
        if table.is_closed {
            return Err(Error::Closed);
        }
        let free = match table.runs.entry(run) {
            Entry::Occupied(taken) => return Ok(Place::Taken(taken.get().begun.clone())),
            Entry::Vacant(free) => free,
        };
        let (sender, receiver) = mpsc::unbounded_channel();
        let mailbox = Mailbox(sender);
        let (rest_sender, rest) = watch::channel(Rest::Moving);
        let began = Arc::new(watch::Sender::new(false));
        let begun = began.subscribe();
        let task = task::Task::new(
            self.ports.clone(),
            self.holder.clone(),
            run,
            mailbox.clone(),
            receiver,
            Arc::clone(&self.bell),
        );
        let (ready, started) = oneshot::channel();
        // A defect in one run must not leave it for ever in the hands of a task that is gone.
        let driving = tokio::spawn(task.run(order.cloned(), ready, Arc::clone(&began)));
        free.insert(Live { mailbox, rest, begun, task: driving.abort_handle() });
        let live = Arc::clone(&self.live);
        tokio::spawn(async move {
            let end = driving.await.unwrap_or_else(|error| {
                if !error.is_cancelled() {
                    tracing::error!(%run, %error, "the task of a run ended without a word");
                }
                task::Left::To(Rest::Gone)
            });
            // Before anybody hears of it: whoever is told of a failure may launch again at once.
            live.lock().unwrap_or_else(PoisonError::into_inner).runs.remove(&run);
            drop(began);
            let rest = match end {
                task::Left::To(rest) => rest,
                task::Left::Untaken(error, ready) => {
                    let _ = ready.send(Err(error));
                    Rest::Gone
                }
            };
            rest_sender.send_replace(rest);
        });
        Ok(Place::Mine(started))
    }

    /// Lets go of every run, as the death of this process would: what is on record counts, and the next
    /// daemon goes on from there. Nothing is launched any more.
    pub async fn close(&self) {
        let rests: Vec<_> = {
            let mut table = self.lock();
            table.is_closed = true;
            table.runs.values().for_each(|live| live.task.abort());
            table.runs.values().map(|live| live.rest.clone()).collect()
        };
        for mut rest in rests {
            let _ = rest.wait_for(|rest| *rest != Rest::Moving).await;
        }
    }

    /// Gives an order to a run, and returns when it is on record.
    ///
    /// # Errors
    /// When it is refused or cannot be recorded.
    pub async fn order(&self, run: RunId, order: Order) -> Result<(), Error> {
        for _ in 0..HANDOVER_TRIES {
            match self.send(run, order.clone()).await {
                Some(Err(Error::NotRecorded)) | None => {}
                Some(result) => return result,
            }
            // It came to rest, or is about to: wake it with the order.
            match self.launch(run, Some(order.clone())).await {
                Err(Error::NotRecorded) => tokio::time::sleep(HANDOVER_PAUSE).await,
                result => return result,
            }
        }
        Err(Error::NotRecorded)
    }

    /// `None` when the run is not live here.
    async fn send(&self, run: RunId, order: Order) -> Option<Result<(), Error>> {
        let mailbox = self.lock().runs.get(&run).map(|live| live.mailbox.clone())?;
        let (reply, answer) = oneshot::channel();
        mailbox.0.send(Message::Order(order, reply)).ok()?;
        Some(answer.await.unwrap_or(Err(Error::NotRecorded)))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Table> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
