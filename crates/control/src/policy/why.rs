//! What was decided about a step, from the record, and what today's rules would say.

use std::collections::HashSet;

use domain::fact::{Denial, StepPlanned};
use domain::gate::Answer;
use domain::{Decision, Fact, GateId, Payload, Recorded, RunId, StepKind, StepNo, Timestamp};
use kernel::port::{Action, Journal};

use super::view::{AskWhy, Judged, Why};
use crate::error::{Error, Kind};
use crate::runs::Charter;
use crate::{Control, view};

/// Events read at a time.
const PAGE: usize = 1024;

impl Control {
    /// What was decided about a step of a run, under which rule and lease, and what would be decided now.
    ///
    /// # Errors
    /// When there is no such run or step, or the journal cannot be read.
    pub async fn policy_why(&self, asked: AskWhy) -> Result<Why, Error> {
        let run = self.resolve(&asked.run).await?;
        let (journal, authority, now) =
            (self.journal(), std::sync::Arc::clone(&self.ports.authority), self.clock().now());
        self.blocking(move || {
            let step = step_meant(&*journal, run, &asked.of)?;
            let mut found = Found::default();
            every(&*journal, run, |event| found.take(event, step))?;
            let (planned, payload) = found.planned.ok_or_else(|| missing(&asked.of))?;
            let started = Charter::read(&*journal, run)?.started;
            let request = payload.as_ref().map_or(&[][..], |payload| &payload.0);
            let today = (planned.kind != StepKind::WaitHuman && planned.composed_upto.is_none()).then(|| {
                // A lease ends with its run: today's rules are asked as of the instant of the decision.
                let then = found.decisions.last().map_or(now, |decision| Timestamp(decision.at));
                let action = Action {
                    run,
                    principal: &started.principal,
                    lease: started.lease,
                    step,
                    kind: planned.kind,
                    effect: planned.effect,
                    risk: planned.risk,
                    tool: &planned.tool,
                    request,
                    digest: planned.request,
                    nanodollars: 0,
                    approved: None,
                    now: then,
                };
                authority.decide(&action).ok().map(|decision| decided(0, now.0, decision))
            });
            Ok(Why {
                run: run.to_string(),
                step: step.0,
                kind: planned.kind.name().into(),
                tool: planned.tool.clone(),
                effect: view::name(planned.effect),
                risk: view::name(planned.risk),
                request: payload.as_ref().map_or(serde_json::Value::Null, view::content),
                decisions: found.decisions,
                today: today.flatten(),
            })
        })
        .await
    }
}

#[derive(Default)]
struct Found {
    planned: Option<(StepPlanned, Option<Payload>)>,
    gates: HashSet<GateId>,
    decisions: Vec<Judged>,
}

impl Found {
    fn take(&mut self, event: Recorded, wanted: StepNo) {
        let (seq, at) = (event.header.seq, event.header.at.0);
        let answer = |answer: Answer, gate: GateId, by: String| Judged {
            seq,
            at,
            verdict: view::name(answer),
            rule: by,
            lease: None,
            epoch: None,
            gate: Some(gate.to_string()),
        };
        match event.header.fact {
            Fact::StepPlanned(planned) if planned.step == wanted => {
                self.planned = Some((planned, event.payload))
            }
            Fact::StepIntended { step, decision, .. } if step == wanted => {
                self.decisions.push(decided(seq, at, decision));
            }
            Fact::GateOpened { gate, subject, decision, .. } if subject == wanted => {
                self.gates.insert(gate);
                self.decisions.extend(
                    decision.map(|decision| Judged {
                        gate: Some(gate.to_string()),
                        ..decided(seq, at, decision)
                    }),
                );
            }
            Fact::GateAnswered { gate, answer: given, by } if self.gates.contains(&gate) => {
                self.decisions.push(answer(given, gate, by));
            }
            Fact::StepDenied { step, reason: Denial::Policy { decision } } if step == wanted => {
                self.decisions.push(decided(seq, at, decision));
            }
            _ => {}
        }
    }
}

fn decided(seq: u64, at: u64, decision: Decision) -> Judged {
    Judged {
        seq,
        at,
        verdict: view::name(decision.verdict),
        rule: decision.rule,
        lease: Some(decision.lease.to_string()),
        epoch: Some(decision.epoch),
        gate: decision.gate.map(|gate| gate.to_string()),
    }
}

/// The step that is meant by `12`, or by the event `@34`.
fn step_meant(journal: &dyn Journal, run: RunId, of: &str) -> Result<StepNo, Error> {
    let unclear = || {
        Error::new(Kind::Invalid, "policy.step", format!("`{of}` is neither a step nor an event"))
            .hint("write a step as 12 and an event as @34; `regie show` and `regie log` number them")
    };
    let Some(seq) = of.strip_prefix('@') else {
        return of.parse().map(StepNo).map_err(|_| unclear());
    };
    let seq: u64 = seq.parse().map_err(|_| unclear())?;
    let event = journal.history(run, seq.saturating_sub(1), 1)?.into_iter().next();
    let event = event.filter(|event| event.header.seq == seq).ok_or_else(|| missing(of))?;
    let (step, gate) = match event.header.fact {
        Fact::StepPlanned(planned) => (Some(planned.step), None),
        Fact::StepIntended { step, .. }
        | Fact::StepDenied { step, .. }
        | Fact::StepCompleted { step, .. }
        | Fact::StepUncertain { step }
        | Fact::StepReturned { step } => (Some(step), None),
        Fact::GateOpened { subject, .. } => (Some(subject), None),
        Fact::GateAnswered { gate, .. } => (None, Some(gate)),
        _ => (None, None),
    };
    let mut meant = step;
    if let Some(wanted) = gate {
        every(journal, run, |event| {
            if let Fact::GateOpened { gate, subject, .. } = event.header.fact
                && gate == wanted
            {
                meant = Some(subject);
            }
        })?;
    }
    meant.ok_or_else(|| {
        Error::new(Kind::Invalid, "policy.step", format!("the event `{of}` is about no step"))
            .hint("`regie log` shows which events are")
    })
}

fn every(journal: &dyn Journal, run: RunId, mut each: impl FnMut(Recorded)) -> Result<(), Error> {
    let mut after = 0;
    loop {
        let page = journal.history(run, after, PAGE)?;
        let is_last = page.len() < PAGE;
        for event in page {
            after = event.header.seq;
            each(event);
        }
        if is_last {
            return Ok(());
        }
    }
}

fn missing(of: &str) -> Error {
    Error::new(Kind::NotFound, "policy.step", format!("the run has no step or event `{of}`"))
        .hint("`regie show` and `regie log` number them")
}
