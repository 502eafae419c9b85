//! What the door reads of a journal: whether a run has merged.

use domain::budget::Amount;
use domain::event::{self, Head};
use domain::fact::{Fact, StepPlanned};
use domain::{
    Digest, Effect, Event, Millis, Outcome, Payload, Recorded, Risk, RunId, Source, StepKind, StepNo,
    Timestamp,
};
use kernel::port::{
    Append, AppendError, Appended, Claim, ClaimError, GateRow, Journal, JournalError, OnAppended, RunRow,
    Verification,
};
use trust::History;

use crate::world::run;

/// A journal of one run that can only be read.
struct Shut(Vec<Recorded>);

fn shut() -> JournalError {
    JournalError::Storage("read-only".into())
}

impl Journal for Shut {
    fn create(&self, append: Append) -> Result<Appended, AppendError> {
        Err(AppendError::HeadMoved(append.run))
    }

    fn append(&self, append: Append, done: OnAppended) {
        done(Err(AppendError::HeadMoved(append.run)));
    }

    fn claim(&self, run: RunId, _: &str, _: Timestamp, _: Millis, _: bool) -> Result<Claim, ClaimError> {
        Err(ClaimError::Lost(run))
    }

    fn renew(&self, claim: &Claim, _: Timestamp, _: Millis) -> Result<(), ClaimError> {
        Err(ClaimError::Lost(claim.run))
    }

    fn release(&self, _: &Claim) -> Result<(), ClaimError> {
        Ok(())
    }

    fn history(&self, run: RunId, after_seq: u64, limit: usize) -> Result<Vec<Recorded>, JournalError> {
        let events: Vec<Recorded> = self.0.iter().filter(|event| event.header.run == run).cloned().collect();
        if events.is_empty() {
            return Err(JournalError::NoSuchRun(run));
        }
        Ok(events.into_iter().filter(|event| event.header.seq > after_seq).take(limit).collect())
    }

    fn stream(&self, _: u64, _: usize) -> Result<Vec<Recorded>, JournalError> {
        Err(shut())
    }

    fn position(&self) -> u64 {
        0
    }

    fn runs(&self, _: bool, _: usize) -> Result<Vec<RunRow>, JournalError> {
        Err(shut())
    }

    fn run(&self, _: RunId) -> Result<RunRow, JournalError> {
        Err(shut())
    }

    fn gates(&self, _: bool) -> Result<Vec<GateRow>, JournalError> {
        Err(shut())
    }

    fn spent_on(&self, _: u64) -> Result<u64, JournalError> {
        Err(shut())
    }

    fn verify(&self) -> Result<Verification, JournalError> {
        Err(shut())
    }
}

fn planned(step: u64, kind: StepKind, tool: &str) -> Fact {
    Fact::StepPlanned(StepPlanned {
        step: StepNo(step),
        kind,
        effect: Effect::IdempotentWrite,
        risk: Risk::External,
        tool: tool.into(),
        request: Digest::of(b"{}"),
        composed_upto: None,
        reserve: Amount::CALL,
        timeout: 1,
    })
}

fn completed(step: u64, outcome: Outcome) -> Fact {
    Fact::StepCompleted { step: StepNo(step), outcome, spent: Amount::CALL, artifacts: Vec::new() }
}

#[track_caller]
fn check(facts: Vec<Fact>, merged: bool) {
    // More than one page of other things comes first.
    let filler = (0..1_500).map(|_| Fact::Resumed { by: "human:owner".into() });
    let events = filler
        .chain(facts)
        .map(|fact| Event { at: Timestamp(1), source: Source::Kernel, fact, payload: Payload::EMPTY })
        .collect();
    let recorded = event::seal(run(), Head::EMPTY, events, || [0; 16])
        .into_iter()
        .map(|sealed| Recorded {
            position: sealed.header.seq,
            header: sealed.header,
            payload: None,
            hash: sealed.hash,
        })
        .collect();
    assert_eq!(Shut(recorded).has_merged(run()), Ok(merged));
}

#[test]
fn only_a_merge_step_that_succeeded_counts() {
    use StepKind::{Timer, ToolCall, WaitHuman};
    check(vec![], false);
    check(vec![planned(1, ToolCall, "merge")], false);
    check(vec![planned(1, ToolCall, "merge"), completed(1, Outcome::Failed)], false);
    check(vec![planned(1, ToolCall, "shell"), completed(1, Outcome::Succeeded)], false);
    check(vec![planned(1, WaitHuman, "merge"), completed(1, Outcome::Succeeded)], false);
    check(vec![planned(1, Timer, "merge"), completed(1, Outcome::Succeeded)], false);
    check(
        vec![planned(1, ToolCall, "merge"), planned(2, WaitHuman, "merge"), completed(1, Outcome::Succeeded)],
        true,
    );
}

#[test]
fn a_run_that_cannot_be_read_is_no_answer() {
    let why = Shut(Vec::new()).has_merged(run()).unwrap_err();
    assert!(why.contains("there is no run"), "{why}");
    assert!(History::spent_on(&Shut(Vec::new()), 1).is_err());
}
