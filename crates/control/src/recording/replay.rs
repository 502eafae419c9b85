//! A recorded run again, with the real machine, the real driver and the real reading of the wire.
//!
//! The machine knows nothing of the outside, so all that came from there is fed to it again: the
//! owner's words and answers, decisions, results of tools and checkpoints from the events, answers of
//! models from what came over the wire. What it makes of that (each request, each fact, each
//! payload) must be what was recorded. What led to an event is given when the event is due and not before,
//! so that the order of things is the recorded one.

mod cause;

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use domain::event::Sealed;
use domain::fact::StepPlanned;
use domain::run::Status;
use domain::{Digest, Event, Fact, Mission, Recorded, StepKind, StepNo, Terms, Timestamp};
use kernel::Driver;
use kernel::host::Drivers;
use kernel::machine::{Context, Input, Machine, Order, Output};
use kernel::port::{Appended, Work};

use super::difference::{Difference, Sides};
use super::foreseen::{Foreseen, Shelf};
use super::format::{Manifest, Written, recorded};
use super::read::{self, Recording, Taped};
use crate::drivers::NativeDrivers;
use crate::{api, view};

/// What became of a replay.
#[derive(Debug)]
pub struct Replayed {
    /// What the recording is of.
    pub manifest: Manifest,
    /// The run as far as it was replayed.
    pub events: Vec<api::Event>,
    /// How many steps there were.
    pub steps: u64,
    /// How many calls were read from the wire again.
    pub calls: u64,
    /// How many answers were taken from the events: their calls were made before the recording began.
    pub unheard: u64,
    /// Whether the run was over.
    pub is_over: bool,
    /// Where it went another way.
    pub difference: Option<Difference>,
}

/// Replays a recording.
///
/// # Errors
/// When it is none, of another Regie, or not what was written.
pub async fn replay(dir: &Path) -> Result<Replayed, read::Error> {
    let recording = Recording::open(dir)?;
    let drivers = drivers(&recording);
    let mut replay = Replay::new(&recording, &drivers);
    let difference = match replay.run().await {
        Ok(()) | Err(Stop::Over) => None,
        Err(Stop::Difference(difference)) => Some(*difference),
        Err(Stop::Read(error)) => return Err(error),
    };
    let is_over = matches!(replay.history.last().map(|event| &event.header.fact), Some(Fact::Ended { .. }));
    let Replay { history, steps, calls, unheard, .. } = replay;
    let events = view::shown(&history);
    Ok(Replayed { manifest: recording.manifest, events, steps, calls, unheard, is_over, difference })
}

/// Why a replay goes no further.
enum Stop {
    /// It went another way.
    Difference(Box<Difference>),
    /// The recording cannot be read on.
    Read(read::Error),
    /// The record ends here.
    Over,
}

/// What was last asked about a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Running,
    Asking,
    Probing,
    Killing,
    Restoring,
}

/// A step that the machine waits for.
#[derive(Debug, Clone)]
struct Asked {
    what: What,
    work: Work,
}

struct Replay<'a> {
    recording: &'a Recording,
    foreseen: Arc<Foreseen>,
    drivers: &'a dyn Drivers,
    terms: Option<Terms>,
    machine: Option<Machine<Box<dyn Driver>>>,
    /// What was replayed: the events as this replay made them.
    history: Vec<Recorded>,
    asked: BTreeMap<StepNo, Asked>,
    wants_snapshot: bool,
    /// Appends that are not acknowledged yet.
    appended: VecDeque<u64>,
    /// Digests of masked requests, and what they are on record as.
    digests: BTreeMap<Digest, Digest>,
    /// Whether anything was masked so far.
    masked: bool,
    steps: u64,
    calls: u64,
    unheard: u64,
}

impl<'a> Replay<'a> {
    fn new(recording: &'a Recording, drivers: &'a dyn Drivers) -> Self {
        let mut masked = false;
        if let Some(Fact::RunStarted(started)) =
            recording.events.first().map(|first| &first.event.header.fact)
        {
            masked = Digest::of(&recording.system) != started.system;
        }
        masked |= recording.inherited.iter().any(|written| written.masked);
        Self {
            recording,
            foreseen: Arc::new(Foreseen::new(recording.events.clone())),
            drivers,
            terms: terms(recording),
            machine: None,
            history: Vec::new(),
            asked: BTreeMap::new(),
            wants_snapshot: false,
            appended: VecDeque::new(),
            digests: BTreeMap::new(),
            masked,
            steps: 0,
            calls: 0,
            unheard: 0,
        }
    }

    async fn run(&mut self) -> Result<(), Stop> {
        // What the owner began the run with is no doing of the machine.
        while let Some(written) = self.foreseen.next().cloned()
            && !matches!(written.event.header.fact, Fact::Claimed { .. })
        {
            self.passed(&written, written.event.clone());
        }
        while self.foreseen.next().is_some() {
            let before = self.place();
            if !self.acknowledge()? {
                match self.machine {
                    None => self.take_over()?,
                    Some(_) => self.cause().await?,
                }
            }
            if self.place() == before {
                return Err(self.differs("the record goes on, and the replay does not".into()));
            }
        }
        Ok(())
    }

    /// Where the replay stands: it must not stand still.
    fn place(&self) -> (usize, Vec<(StepNo, What)>, bool, usize, bool) {
        let asked = self.asked.iter().map(|(step, asked)| (*step, asked.what)).collect();
        (self.history.len(), asked, self.wants_snapshot, self.appended.len(), self.machine.is_some())
    }

    /// A new daemon takes the run over.
    fn take_over(&mut self) -> Result<(), Stop> {
        let Some(written) = self.foreseen.next().cloned() else { return Ok(()) };
        let Fact::Claimed { fence, holder } = &written.event.header.fact else {
            return Err(self.differs("the run goes on without having been taken over".into()));
        };
        let driver = match self.history.first().map(|first| self.drivers.driver(first)) {
            Some(Ok(mut driver)) => {
                for inherited in &self.recording.inherited {
                    driver.inherit(&inherited.event.header, inherited.event.payload.as_ref());
                }
                driver
            }
            Some(Err(refused)) => {
                return Err(self.differs(format!("the run cannot be driven: {}", refused.hint)));
            }
            None => return Err(self.differs("the run goes on before it has begun".into())),
        };
        let mut machine = Machine::load(self.recording.manifest.run, &self.history, driver);
        // Given together with the claim, it is decided at the same instant.
        let order = self.foreseen.second().filter(|second| second.event.header.at == written.event.header.at);
        let order = order.and_then(|second| self.order(second));
        let foreseen = Arc::clone(&self.foreseen);
        let context = context(&foreseen, written.event.header.at);
        let outputs = machine.claim(&context, *fence, holder, order);
        self.machine = Some(machine);
        match outputs {
            Ok(outputs) => self.perform(outputs),
            Err(refusal) => Err(self.differs(format!("the run's own rules refuse the claim: {refusal}"))),
        }
    }

    /// Tells the machine that an append is durable; false when there is none. An order that came before a
    /// rest was durable goes first, as it did then.
    fn acknowledge(&mut self) -> Result<bool, Stop> {
        let Some(ticket) = self.appended.front().copied() else { return Ok(false) };
        let last = self.history.last();
        let status = self.machine.as_ref().map(|machine| &machine.state().status);
        let rests = matches!(status, Some(Status::Parked { .. }));
        let next = self.foreseen.next();
        let is_woken = next.is_some_and(|next| !matches!(next.event.header.fact, Fact::Claimed { .. }));
        if rests && is_woken {
            return Ok(false);
        }
        self.appended.pop_front();
        let (at, position) = last.map(|last| (last.header.at, last.header.seq)).unwrap_or_default();
        self.feed(at, Input::Appended(ticket, Ok(Appended { position })))?;
        Ok(true)
    }

    fn feed(&mut self, at: Timestamp, input: Input) -> Result<(), Stop> {
        let foreseen = Arc::clone(&self.foreseen);
        let Some(machine) = &mut self.machine else { return Ok(()) };
        let outputs = machine.handle(&context(&foreseen, at), input);
        self.perform(outputs)
    }

    fn give(&mut self, at: Timestamp, order: Order) -> Result<(), Stop> {
        let foreseen = Arc::clone(&self.foreseen);
        let Some(machine) = &mut self.machine else { return Ok(()) };
        match machine.order(&context(&foreseen, at), order) {
            Ok(outputs) => self.perform(outputs),
            Err(refusal) => Err(self.differs(format!("the run's own rules refuse the order: {refusal}"))),
        }
    }

    fn perform(&mut self, outputs: Vec<Output>) -> Result<(), Stop> {
        for output in outputs {
            match output {
                Output::Append(ticket, append) => {
                    for sealed in append.events {
                        let claims = matches!(sealed.header.fact, Fact::Claimed { .. });
                        let next = self.foreseen.next().map(|next| &next.event.header.fact);
                        if !claims && matches!(next, Some(Fact::Claimed { .. })) {
                            // It never became durable: a crash took it, or another run was a moment earlier.
                            self.lose();
                            return Ok(());
                        }
                        self.compare(sealed)?;
                    }
                    self.appended.push_back(ticket);
                }
                Output::Start(work) => {
                    self.compare_request(&work)?;
                    self.ask(What::Running, work);
                }
                Output::Status(work) => self.ask(What::Asking, work),
                Output::Probe(work) => self.ask(What::Probing, work),
                Output::Kill(work) => self.ask(What::Killing, work),
                Output::Snapshot => self.wants_snapshot = true,
                Output::Restore(step, _) => {
                    if let Some(asked) = self.asked.get_mut(&step) {
                        asked.what = What::Restoring;
                    }
                }
                Output::Halted(_) => self.lose(),
            }
        }
        Ok(())
    }

    fn ask(&mut self, what: What, work: Work) {
        self.asked.insert(work.step, Asked { what, work });
    }

    /// Lets go of the machine, as the death of a daemon does.
    fn lose(&mut self) {
        self.machine = None;
        self.foreseen.forget();
        self.asked.clear();
        self.wants_snapshot = false;
        self.appended.clear();
    }

    /// Holds an event against the one on record.
    fn compare(&mut self, sealed: Sealed) -> Result<(), Stop> {
        let Some(written) = self.foreseen.next().cloned() else { return Err(Stop::Over) };
        let expected = &written.event.header;
        if let (Fact::StepPlanned(ours), Fact::StepPlanned(theirs)) = (&sealed.header.fact, &expected.fact) {
            self.compare_planned(ours, theirs, &written)?;
        }
        let replayed = json(&self.on_record(&sealed.header.fact));
        if let Some(sides) = Sides::of(&json(&expected.fact), &replayed) {
            return Err(self.differs_in("the fact is another one".into(), sides));
        }
        if expected.source != sealed.header.source {
            return Err(self.differs(format!("it comes from {:?} on record", expected.source)));
        }
        if let Some(payload) = &written.event.payload
            && let Some(sides) = Sides::of(&payload.0, &sealed.payload.0)
        {
            return Err(self.differs_in("the content is another one".into(), sides));
        }
        let header = sealed.header;
        let (run, seq) = (header.run, header.seq);
        let event =
            Event { at: header.at, source: header.source, fact: header.fact, payload: sealed.payload };
        self.passed(&written, recorded(run, seq, event));
        Ok(())
    }

    /// A digest stands for bytes that may have been masked since: then the bytes are compared.
    fn compare_planned(
        &mut self,
        ours: &StepPlanned,
        theirs: &StepPlanned,
        written: &Written,
    ) -> Result<(), Stop> {
        if ours.request == theirs.request || self.digests.contains_key(&ours.request) {
            return Ok(());
        }
        let is_known_by_content = match ours.composed_upto {
            None => written.masked,
            Some(upto) => {
                let attempts =
                    (1..=8).filter_map(|attempt| self.recording.call(theirs.step, attempt).transpose());
                let taped = attempts.map(|call| call.map_err(Stop::Read)).next().transpose()?;
                let composed = self.machine.as_ref().map(|machine| machine.driver().compose(ours.step, upto));
                match (taped, composed) {
                    (Some(taped), Some(Ok(bytes))) => {
                        if let Some(sides) = Sides::of(&taped.request, &bytes) {
                            return Err(self.differs_in("the request is another one".into(), sides));
                        }
                        taped.call.masked
                    }
                    _ => self.masked,
                }
            }
        };
        if is_known_by_content {
            self.digests.insert(ours.request, theirs.request);
        }
        // What was masked is compared as the content; anything else shows as another fact.
        Ok(())
    }

    /// A fact with the digests that are on record.
    fn on_record(&self, fact: &Fact) -> Fact {
        let known = |digest: &Digest| self.digests.get(digest).copied().unwrap_or(*digest);
        let mut fact = fact.clone();
        match &mut fact {
            Fact::StepPlanned(planned) => planned.request = known(&planned.request),
            Fact::GateOpened { action, .. } => *action = known(action),
            _ => {}
        }
        fact
    }

    /// Holds the request of a call against the one that was sent.
    fn compare_request(&mut self, work: &Work) -> Result<(), Stop> {
        if !is_model(work.kind) {
            return Ok(());
        }
        let Some(Taped { request, .. }) = self.taped(work)? else { return Ok(()) };
        match Sides::of(&request, &work.request) {
            Some(sides) => {
                let (step, event) = (Some(work.step), self.history.last().map_or(0, |last| last.header.seq));
                let what = "the request to the model is another one".into();
                Err(Stop::Difference(Box::new(Difference { event, step, what, sides: Some(sides) })))
            }
            None => Ok(()),
        }
    }

    fn taped(&self, work: &Work) -> Result<Option<Taped>, Stop> {
        self.recording.call(work.step, work.attempt).map_err(Stop::Read)
    }

    /// An event is as it was.
    fn passed(&mut self, written: &Written, event: Recorded) {
        if let Fact::StepPlanned(_) = event.header.fact {
            self.steps += 1;
        }
        self.masked |= written.masked;
        self.foreseen.pass();
        self.history.push(event);
    }

    fn differs(&self, what: String) -> Stop {
        let due = self.foreseen.next().map(|written| &written.event.header);
        let (event, step) = due.map_or((0, None), |header| (header.seq, header.fact.step()));
        let due = due.map(|header| format!(" (on record: {})", header.fact.name())).unwrap_or_default();
        Stop::Difference(Box::new(Difference { event, step, what: format!("{what}{due}"), sides: None }))
    }

    fn differs_in(&self, what: String, sides: Sides) -> Stop {
        match self.differs(what) {
            Stop::Difference(difference) => {
                Stop::Difference(Box::new(Difference { sides: Some(sides), ..*difference }))
            }
            other => other,
        }
    }
}

/// The drivers that the run was moved by.
fn drivers(recording: &Recording) -> NativeDrivers {
    let mut shelf = recording.images.clone();
    if let Some(Fact::RunStarted(started)) = recording.events.first().map(|first| &first.event.header.fact) {
        shelf.insert(started.system, recording.system.clone());
        shelf.insert(started.tools, recording.tools.clone());
    }
    NativeDrivers::new(Arc::new(Shelf(shelf)), Arc::new(models::wire::compose))
}

/// The terms that the run began on.
fn terms(recording: &Recording) -> Option<Terms> {
    let payload = recording.events.first()?.event.payload.as_ref()?;
    let mission: Mission = serde_json::from_slice(&payload.0).ok()?;
    Some(mission.terms.unwrap_or_else(|| models::catalogue::terms(&mission.model)))
}

fn context(foreseen: &Foreseen, now: Timestamp) -> Context<'_> {
    Context { now, authority: foreseen, rng: foreseen }
}

const fn is_model(kind: StepKind) -> bool {
    matches!(kind, StepKind::ModelCall | StepKind::Compaction)
}

fn json(fact: &Fact) -> Vec<u8> {
    serde_json::to_vec(fact).unwrap_or_default()
}

#[cfg(test)]
mod tests;
