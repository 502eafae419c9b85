//! The driver under test: moves through a program, folding only from events.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use domain::run::End;
use domain::{Fact, Header, Outcome, Payload, RunState, StepKind, StepNo, Timestamp};
use kernel::driver::{ComposeError, Driver, Next, Request, StepSpec};

use super::program::{Act, Op, Program, tool_of};

/// See the module.
#[derive(Debug, Clone)]
pub struct Script {
    program: Arc<Program>,
    view: View,
    /// It stands in for a driver that is lost: it asks for nothing.
    is_lost: bool,
}

/// What the driver knows from events alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    planned: usize,
    /// Operations that were planned in what is inherited, and have no result there.
    again: Vec<usize>,
    steps: BTreeMap<StepNo, usize>,
    requests: BTreeMap<StepNo, String>,
    /// What came of each closed operation, in words.
    pub results: BTreeMap<usize, String>,
    last: Timestamp,
    over: Option<End>,
}

/// What a refused operation leaves in [`View::results`].
pub(super) const DENIED: &str = "denied";
/// What a timer leaves in [`View::results`].
pub(super) const FIRED: &str = "fired";

/// What a completed operation leaves in [`View::results`].
pub(super) fn result_text(outcome: Outcome, payload: &str) -> String {
    format!("{outcome:?}:{payload}")
}

/// FNV-1a: fast where SHA-256 would only slow the simulator.
pub(super) fn fingerprint<'a>(parts: impl IntoIterator<Item = &'a str>) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        for byte in part.bytes().chain([0xff]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}

impl Script {
    /// A driver that has folded nothing.
    pub fn new(program: Arc<Program>) -> Self {
        Self { program, view: View::default(), is_lost: false }
    }

    /// What stands in for a driver that cannot be made any more. It folds all the same, for the comparison.
    pub(super) fn lost(mut self) -> Self {
        self.is_lost = true;
        self
    }

    /// What it knows.
    pub const fn view(&self) -> &View {
        &self.view
    }

    fn request(&self, index: usize) -> String {
        let seen = fingerprint(self.view.results.values().map(String::as_str));
        format!("op {index} after {seen:016x}")
    }

    fn close(&mut self, step: StepNo, result: String, end_if_model: Option<End>) {
        let Some(index) = self.view.steps.remove(&step) else { return };
        if self.program.op(index).is_some_and(|op| op.act == Act::Model) {
            self.view.over = self.view.over.or(end_if_model);
        }
        self.view.requests.remove(&step);
        self.view.results.insert(index, result);
    }

    fn spec(&self, index: usize, op: &Op) -> StepSpec {
        let bytes = Bytes::from(self.request(index));
        let due = match op.act {
            Act::Timer(delay) => Some(self.view.last.plus(delay)),
            _ => None,
        };
        StepSpec {
            kind: op.kind(),
            effect: op.effect(),
            risk: op.risk(),
            tool: tool_of(index),
            request: if op.composed { Request::Composed(bytes) } else { Request::Whole(bytes) },
            reserve: op.reserve(),
            timeout: 1_000,
            due,
        }
    }
}

impl View {
    /// How many operations have been planned.
    pub(super) const fn planned(&self) -> usize {
        self.planned
    }

    /// The operation that is planned next.
    fn take_next(&mut self) -> usize {
        if self.again.is_empty() {
            self.planned += 1;
            return self.planned - 1;
        }
        self.again.remove(0)
    }
}

impl Driver for Script {
    fn inherit(&mut self, header: &Header, payload: Option<&Payload>) {
        self.fold(header, payload);
    }

    fn fold(&mut self, header: &Header, payload: Option<&Payload>) {
        self.view.last = header.at;
        match &header.fact {
            Fact::RunStarted(started) if started.forked.is_some() => {
                // The numbers of steps begin anew, and what has no result is planned anew.
                self.view.again.extend(std::mem::take(&mut self.view.steps).into_values());
                self.view.again.sort_unstable();
                self.view.requests.clear();
            }
            Fact::StepPlanned(planned) if planned.kind != StepKind::WaitHuman => {
                let index = self.view.take_next();
                self.view.steps.insert(planned.step, index);
                if planned.composed_upto.is_some() {
                    let request = self.request(index);
                    self.view.requests.insert(planned.step, request);
                }
            }
            Fact::StepCompleted { step, outcome, .. } => {
                let bytes = payload.map(|payload| payload.0.as_slice()).unwrap_or_default();
                let text = result_text(*outcome, &String::from_utf8_lossy(bytes));
                let end = (*outcome != Outcome::Succeeded).then_some(End::Failed);
                self.close(*step, text, end);
            }
            Fact::StepDenied { step, .. } => self.close(*step, DENIED.into(), Some(End::Blocked)),
            Fact::TimerFired { step } => self.close(*step, FIRED.into(), None),
            _ => {}
        }
    }

    fn next(&self, _: &RunState) -> Next {
        if self.is_lost {
            return Next::Wait;
        }
        if let Some(end) = self.view.over {
            return Next::End { end, reason: "a model call did not succeed".into() };
        }
        if !self.view.again.is_empty() {
            let again = self.view.again.iter().filter_map(|index| Some((*index, self.program.op(*index)?)));
            return Next::Run(again.map(|(index, op)| self.spec(index, op)).collect());
        }
        match self.program.batch_at(self.view.planned) {
            Some(batch) => {
                let specs = batch.iter().enumerate();
                Next::Run(specs.map(|(place, op)| self.spec(self.view.planned + place, op)).collect())
            }
            None => Next::End { end: End::Done, reason: "the program is through".into() },
        }
    }

    fn compose(&self, step: StepNo, _: u64) -> Result<Bytes, ComposeError> {
        let request = self.view.requests.get(&step).filter(|_| !self.is_lost).cloned();
        request.map(Bytes::from).ok_or_else(|| ComposeError { step, reason: "the step is not open".into() })
    }
}
