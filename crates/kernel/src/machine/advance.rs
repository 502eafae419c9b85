//! Moving forward: what can start, starts; what is due, fires; when nothing is open, the driver is
//! asked.

use bytes::Bytes;
use domain::budget::Amount;
use domain::fact::{Denial, End, Parking, RunStarted, StepPlanned};
use domain::gate::{Answer, Question};
use domain::lease::Verdict;
use domain::run::{Command, OpenStep, Phase, Status as RunStatus};
use domain::step::OUTAGE;
use domain::{
    Decision, Digest, Effect, Millis, Outcome, Payload, Risk, RunId, Source, StepKind, StepNo, Timestamp,
};

use super::{Context, Flight, Halt, Machine, Output, Workspace};
use crate::driver::{Driver, Next, Request, StepSpec};
use crate::port::{self, Action, DayCap, Finished, Refused, Work};

/// Who answers for the kernel.
pub(super) const KERNEL: &str = "svc:kernel";

impl<D: Driver> Machine<D> {
    /// Goes as far as it can without an answer from outside.
    pub(super) fn advance(&mut self, context: &Context<'_>) {
        if let RunStatus::Parked { reason } = &self.state.status {
            // Loaded for an order that leaves it at rest, such as the answer to a gate.
            let halt = Output::Halted(Halt::Parked(reason.clone()));
            self.batch.after.push(halt);
        }
        while self.is_moving() {
            self.expire_gates(context);
            self.fire_timers(context);
            if self.state.cancelling {
                self.cancel(context);
                return;
            }
            self.interrupt(context);
            if self.is_resting() {
                self.park_when_idle(context);
                return;
            }
            if !self.start_what_can(context) {
                return;
            }
        }
    }

    fn expire_gates(&mut self, context: &Context<'_>) {
        let due: Vec<_> =
            self.state.gates.iter().filter(|(_, gate)| gate.expires_at <= context.now).collect();
        let due: Vec<_> = due.into_iter().map(|(id, _)| *id).collect();
        for gate in due {
            let command =
                Command::AnswerGate { gate, action: None, answer: Answer::Expired, by: KERNEL.into() };
            self.must(context, command);
        }
    }

    fn fire_timers(&mut self, context: &Context<'_>) {
        let due: Vec<_> = self
            .state
            .open
            .iter()
            .filter(|(_, open)| matches!(open.phase, Phase::Sleeping { due } if due <= context.now))
            .map(|(step, _)| *step)
            .collect();
        for step in due {
            self.must(context, Command::FireTimer { step });
        }
    }

    fn is_resting(&self) -> bool {
        self.state.stopping || self.rest.is_some()
    }

    /// Rests as soon as no step is between its intention and its result.
    fn park_when_idle(&mut self, context: &Context<'_>) {
        self.ask_about_intended();
        // What waits to be repeated has nobody who executes it: it stays intended until the resume.
        let busy =
            self.state.open.iter().any(|(step, open)| {
                matches!(open.phase, Phase::Intended { .. }) && !self.repeat.contains(step)
            });
        if busy || !self.flights.is_empty() {
            return;
        }
        let reason = self.rest.take().unwrap_or(Parking::Stopped);
        self.must(context, Command::Park { reason: reason.clone() });
        self.batch.after.push(Output::Halted(Halt::Parked(reason)));
    }

    /// Asks the executors about steps whose intention is on record and that nobody is known to execute.
    fn ask_about_intended(&mut self) {
        let unknown: Vec<_> = self
            .state
            .open
            .iter()
            .filter(|(step, open)| {
                matches!(open.phase, Phase::Intended { .. })
                    && !self.flights.contains_key(step)
                    && !self.repeat.contains(step)
            })
            .map(|(step, _)| *step)
            .collect();
        for step in unknown {
            self.ask(step);
        }
    }

    /// Starts what can start. True when the driver should be asked, or something changed at once.
    fn start_what_can(&mut self, context: &Context<'_>) -> bool {
        self.ask_about_intended();
        if self.state.open.is_empty() {
            return self.ask_driver(context);
        }
        let mut changed = false;
        for step in self.startable() {
            changed |= self.try_start(context, step);
            if self.halted || self.is_resting() {
                return true;
            }
        }
        changed
    }

    /// Steps run one by one in their order; only adjacent reads run side by side.
    fn startable(&self) -> Vec<StepNo> {
        let mut startable = Vec::new();
        let mut reads_only = true;
        for (step, open) in self.state.open.iter().filter(|(_, open)| open.is_executed()) {
            let first = startable.is_empty() && reads_only && self.is_first_executed(*step);
            let read = open.planned.effect == Effect::Read;
            if !(first || (reads_only && read)) {
                break;
            }
            if self.may_be_started(*step, open) {
                startable.push(*step);
            }
            reads_only &= read && !matches!(open.phase, Phase::Asked { .. } | Phase::Uncertain { .. });
        }
        startable
    }

    fn is_first_executed(&self, step: StepNo) -> bool {
        self.state.open.iter().find(|(_, open)| open.is_executed()).is_some_and(|(first, _)| *first == step)
    }

    fn may_be_started(&self, step: StepNo, open: &OpenStep) -> bool {
        let idle = !self.flights.contains_key(&step);
        idle && (open.phase == Phase::Planned || self.repeat.contains(&step))
    }

    /// Judges a step and records the intention, the gate or the refusal. True when the step left its
    /// place, false when it waits for something.
    fn try_start(&mut self, context: &Context<'_>, step: StepNo) -> bool {
        let Some(open) = self.state.open.get(&step).cloned() else { return false };
        let Some(request) = self.request(step) else { return true };
        let snapshot = match self.snapshot_for(&open) {
            Ok(snapshot) => snapshot,
            Err(Waiting) => return false,
        };
        match self.judge(context, &open, &request) {
            Ok(decision) if decision.verdict == Verdict::Allow => {
                self.intend(context, step, &open, decision, snapshot);
            }
            // Its first try is on record and may have happened: it can be closed, not denied.
            _ if self.repeat.remove(&step) => self.write_off(context, step, Outcome::Failed),
            Err(reason) => self.must(context, Command::Deny { step, reason }),
            Ok(decision) => self.open_gate(context, step, Question::Approve, Some(decision)),
        }
        true
    }

    /// The snapshot that a `workspace_write` needs before it starts; asks for one when there is none.
    fn snapshot_for(&mut self, open: &OpenStep) -> Result<Option<String>, Waiting> {
        if open.planned.effect != Effect::WorkspaceWrite {
            return Ok(None);
        }
        match &self.workspace {
            Workspace::Fresh(snapshot) => Ok(Some(snapshot.clone())),
            Workspace::Taking => Err(Waiting),
            Workspace::Stale => {
                self.take_snapshot();
                Err(Waiting)
            }
        }
    }

    fn take_snapshot(&mut self) {
        self.workspace = Workspace::Taking;
        self.outputs.push(Output::Snapshot);
    }

    /// Allow or ask, or the reason why not. A step that must not start any more, because its
    /// intention was recorded by an earlier daemon and its fate is known, never comes here.
    fn judge(&mut self, context: &Context<'_>, open: &OpenStep, request: &[u8]) -> Result<Decision, Denial> {
        let Some(started) = self.state.started.as_ref() else { return Err(Denial::Cancelled) };
        let planned = &open.planned;
        let action = action(self.state.id, started, open, request, context.now);
        let decision = context.authority.decide(&action).map_err(|cap| Denial::Budget { cap })?;
        // The append expects the epoch of the oldest decision in it: a newer one must not hide it.
        let lease = (decision.lease, decision.epoch);
        let oldest = self.batch.lease.map_or(lease, |kept| if kept.1 <= lease.1 { kept } else { lease });
        self.batch.lease = Some(oldest);
        match decision.verdict {
            Verdict::Deny => return Err(Denial::Policy { decision }),
            // An approval is asked for once: a policy that still asks has changed its mind.
            Verdict::Ask if open.approved.is_some() => return Err(Denial::Policy { decision }),
            Verdict::Allow | Verdict::Ask => {}
        }
        let mut budget = self.state.budget;
        budget.settle(open.reserved(), Amount::default());
        let elapsed = if saves_work(open) { 0 } else { self.state.active_time(context.now) };
        budget.check(planned.reserve, elapsed).map_err(|cap| Denial::Budget { cap })?;
        Ok(decision)
    }

    fn intend(
        &mut self,
        context: &Context<'_>,
        step: StepNo,
        open: &OpenStep,
        decision: Decision,
        snapshot: Option<String>,
    ) {
        let reserved = open.planned.reserve;
        if reserved.nanodollars > 0 {
            if self.batch.holds_answer() {
                // A refused reservation takes its batch with it. A tool's result is asked for again; an
                // answer of the model would have to be paid again, so it is written before.
                self.flush();
                self.batch.lease = Some((decision.lease, decision.epoch));
            }
            let (day, nanodollars) = (context.now.day(), context.authority.day_cap());
            self.batch.day = Some(DayCap { day, nanodollars });
        }
        self.must(context, Command::Intend { step, decision, reserved, snapshot });
        self.repeat.remove(&step);
        if let Some(mut work) = self.work(step) {
            if !saves_work(open) {
                work.timeout = work.timeout.min(self.time_left(context));
            }
            self.flights.insert(step, Flight::Starting);
            self.batch.after.push(Output::Start(work));
        }
        // While the model thinks, the workspace stands still: the next write finds its snapshot ready.
        if open.planned.effect == Effect::ModelCall && self.workspace == Workspace::Stale {
            self.take_snapshot();
        }
    }

    /// Until just past the cap on time, when a step has no business any more.
    fn time_left(&self, context: &Context<'_>) -> Millis {
        let cap = self.state.budget.caps.millis;
        cap.saturating_sub(self.state.active_time(context.now)).saturating_add(1)
    }

    /// Plans a `wait_human` step and opens its gate.
    pub(super) fn open_gate(
        &mut self,
        context: &Context<'_>,
        subject: StepNo,
        question: Question,
        decision: Option<Decision>,
    ) {
        let (Some(open), Some(started)) = (self.state.open.get(&subject), &self.state.started) else {
            return;
        };
        let request = self.requests.get(&subject).map(|bytes| &bytes[..]).unwrap_or_default();
        let asked = action(self.state.id, started, open, request, context.now);
        let patience = context.authority.patience(&asked);
        let planned = open.planned.clone();
        let step = self.state.next_step;
        self.must(
            context,
            Command::Plan(StepPlanned {
                step,
                kind: StepKind::WaitHuman,
                effect: Effect::Read,
                risk: Risk::Read,
                tool: planned.tool,
                request: planned.request,
                composed_upto: None,
                reserve: Amount::default(),
                timeout: 0,
            }),
        );
        let gate = port::gate_id(context.now, context.rng);
        let expires_at = context.now.plus(patience);
        self.must(context, Command::OpenGate { gate, step, subject, question, decision, expires_at });
    }

    fn ask_driver(&mut self, context: &Context<'_>) -> bool {
        match self.driver.next(&self.state) {
            Next::Wait => false,
            Next::Run(specs) if specs.is_empty() => false,
            Next::Run(specs) => {
                let upto = self.state.seq;
                for spec in specs {
                    self.plan(context, spec, upto);
                }
                true
            }
            Next::Rest { code, hint } => {
                self.rest_for(Refused { code, hint });
                true
            }
            Next::End { end, reason } => {
                self.end(context, end, reason);
                true
            }
        }
    }

    pub(super) fn end(&mut self, context: &Context<'_>, end: End, reason: String) {
        self.must_with(context, Source::Kernel, Command::End(end), Payload(reason.into_bytes()));
        self.batch.after.push(Output::Halted(Halt::Ended(end)));
    }

    fn plan(&mut self, context: &Context<'_>, spec: StepSpec, upto: u64) {
        let step = self.state.next_step;
        let bytes = spec.request.bytes().clone();
        let (payload, composed_upto) = match &spec.request {
            Request::Whole(bytes) => (Payload(bytes.to_vec()), None),
            Request::Composed(_) => (Payload::EMPTY, Some(upto)),
        };
        let tool = spec.tool.clone();
        let planned = StepPlanned {
            step,
            kind: spec.kind,
            effect: spec.effect,
            risk: spec.risk,
            tool: spec.tool,
            request: Digest::of(&bytes),
            composed_upto,
            reserve: spec.reserve,
            timeout: spec.timeout,
        };
        self.must_with(context, Source::Agent, Command::Plan(planned), payload);
        self.requests.insert(step, bytes);
        if spec.kind == StepKind::Timer {
            let due = spec.due.unwrap_or(context.now);
            // No sleep that counts outlasts the cap on time: the next step is then denied for it.
            let due = if tool == OUTAGE { due } else { due.min(context.now.plus(self.time_left(context))) };
            self.must(context, Command::SetTimer { step, due });
        }
    }

    /// The exact request of an open step. When it cannot be had, the run rests and says why.
    fn request(&mut self, step: StepNo) -> Option<Bytes> {
        if let Some(bytes) = self.requests.get(&step) {
            return Some(bytes.clone());
        }
        let planned = &self.state.open.get(&step)?.planned;
        let composed = match planned.composed_upto {
            Some(upto) => self.driver.compose(step, upto).map_err(|error| error.to_string()),
            None => Err(format!("the request of step {step} was forgotten")),
        };
        let composed = composed.and_then(|bytes| {
            if Digest::of(&bytes) == planned.request {
                Ok(bytes)
            } else {
                Err(format!("step {step} would not be the request that was recorded"))
            }
        });
        match composed {
            Ok(bytes) => {
                self.requests.insert(step, bytes.clone());
                Some(bytes)
            }
            Err(why) => {
                let hint = format!("{why}; cancel the run, or resume it with the Regie that started it");
                self.rest_for(Refused { code: "run.request_unavailable".into(), hint });
                None
            }
        }
    }

    /// A step as an executor needs it. `None` when its request cannot be had; the run rests then.
    pub(super) fn work(&mut self, step: StepNo) -> Option<Work> {
        let request = self.request(step)?;
        Some(Work { request, ..self.named(step)? })
    }

    /// A step as an executor needs it that is to end it: which one it is, and not what it does.
    pub(super) fn named(&self, step: StepNo) -> Option<Work> {
        let open = self.state.open.get(&step)?;
        Some(Work {
            run: self.state.id,
            step,
            attempt: open.attempts,
            key: Work::key_of(self.state.id, step),
            fence: self.fence,
            kind: open.planned.kind,
            effect: open.planned.effect,
            tool: open.planned.tool.clone(),
            request: Bytes::new(),
            timeout: open.planned.timeout,
        })
    }

    /// Records a result.
    pub(super) fn complete(&mut self, context: &Context<'_>, step: StepNo, finished: Finished) {
        let Some(open) = self.state.open.get(&step) else { return };
        let source = match open.planned.kind {
            StepKind::ModelCall | StepKind::Compaction => Source::Agent,
            StepKind::Checkpoint => Source::Kernel,
            _ => Source::Tool,
        };
        // A checkpoint may bring in what others have merged: a roll-back to before it would take that away.
        if open.planned.effect == Effect::WorkspaceWrite || open.planned.kind == StepKind::Checkpoint {
            self.workspace = Workspace::Stale;
        }
        let Finished { outcome, spent, payload, artifacts } = finished;
        // A call that was cut off is billed, and nobody told how much: its reservation counts as used.
        let cut_off = matches!(outcome, Outcome::Cancelled | Outcome::TimedOut)
            && open.planned.effect == Effect::ModelCall;
        let spent = if cut_off { open.reserved() } else { spent };
        self.must_with(context, source, Command::Complete { step, outcome, spent, artifacts }, payload);
    }
}

/// A step cannot start yet.
struct Waiting;

/// A checkpoint keeps what was paid for: that the time is over is no reason to lose it.
const fn saves_work(open: &OpenStep) -> bool {
    matches!(open.planned.kind, StepKind::Checkpoint)
}

/// An open step as the authorisation point sees it.
fn action<'a>(
    run: RunId,
    started: &'a RunStarted,
    open: &'a OpenStep,
    request: &'a [u8],
    now: Timestamp,
) -> Action<'a> {
    let planned = &open.planned;
    Action {
        run,
        principal: &started.principal,
        lease: started.lease,
        step: planned.step,
        kind: planned.kind,
        effect: planned.effect,
        risk: planned.risk,
        tool: &planned.tool,
        request,
        digest: planned.request,
        nanodollars: planned.reserve.nanodollars,
        approved: open.approved,
        now,
    }
}
