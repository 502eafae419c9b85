//! One fact of each variant, with every field set to something that shows in its bytes.

use domain::budget::{Caps, Exhausted};
use domain::fact::{Denial, End, Forked, Parking, Purpose, RunStarted, StepPlanned};
use domain::gate::{Answer, Question};
use domain::{
    Amount, Decision, Digest, Effect, Fact, GateId, LeaseId, MissionId, Outcome, ProjectId, Risk, RunId,
    StepKind, StepNo, Timestamp, Verdict,
};

pub(crate) const STEP: StepNo = StepNo(7);

pub(crate) fn amount() -> Amount {
    Amount { tokens: 1, nanodollars: 2, calls: 3, unpriced: 4, turns: 5 }
}

pub(crate) fn decision(verdict: Verdict) -> Decision {
    Decision {
        verdict,
        rule: "rule".into(),
        lease: LeaseId::from_bytes([1; 16]),
        epoch: 9,
        gate: Some(GateId::from_bytes([2; 16])),
    }
}

pub(crate) fn started() -> RunStarted {
    RunStarted {
        mission: MissionId::from_bytes([3; 16]),
        project: ProjectId::from_bytes([4; 16]),
        principal: "agent:coder".into(),
        on_behalf_of: "human:owner".into(),
        lease: LeaseId::from_bytes([5; 16]),
        branch: "coder/run".into(),
        driver: "native/1".into(),
        engine: "0.1.0".into(),
        system: Digest::of(b"system"),
        tools: Digest::of(b"tools"),
        caps: Caps { tokens: 1, nanodollars: 2, calls: 3, turns: 4, millis: 5 },
        forked: None,
    }
}

pub(crate) fn forked() -> Box<Forked> {
    Box::new(Forked {
        parent: RunId::from_bytes([8; 16]),
        step: STEP,
        seq: 40,
        head: Digest::of(b"head"),
        snapshot: Some("snap".into()),
        purpose: Purpose::FollowUp,
    })
}

pub(crate) fn planned(step: StepNo, kind: StepKind, effect: Effect) -> StepPlanned {
    StepPlanned {
        step,
        kind,
        effect,
        risk: Risk::External,
        tool: "shell".into(),
        request: Digest::of(b"request"),
        composed_upto: Some(6),
        reserve: amount(),
        timeout: 60_000,
    }
}

/// Every variant, some of them twice where a field is an enumeration of its own.
pub(crate) fn facts() -> Vec<Fact> {
    let gate = GateId::from_bytes([6; 16]);
    let by = || "human:owner".to_owned();
    vec![
        Fact::RunStarted(started()),
        Fact::Claimed { fence: 300, holder: "node:here".into() },
        Fact::StepPlanned(planned(STEP, StepKind::ToolCall, Effect::NonIdempotent)),
        Fact::StepIntended {
            step: STEP,
            attempt: 2,
            decision: decision(Verdict::Allow),
            reserved: amount(),
            snapshot: Some("snap".into()),
        },
        Fact::StepDenied { step: STEP, reason: Denial::Policy { decision: decision(Verdict::Deny) } },
        Fact::StepDenied { step: STEP, reason: Denial::Gate { gate, answer: Answer::Expired } },
        Fact::StepDenied { step: STEP, reason: Denial::Budget { cap: Exhausted::Day } },
        Fact::StepDenied { step: STEP, reason: Denial::Cancelled },
        Fact::StepCompleted {
            step: STEP,
            outcome: Outcome::TimedOut,
            spent: amount(),
            artifacts: vec![Digest::of(b"artifact")],
        },
        Fact::StepUncertain { step: STEP },
        Fact::ModelCallLost { step: STEP, attempt: 1, spent: amount() },
        Fact::WorkspaceRestored { step: STEP, snapshot: "snap".into() },
        Fact::GateOpened {
            gate,
            step: StepNo(8),
            subject: STEP,
            question: Question::WasItDone,
            action: Digest::of(b"action"),
            decision: Some(decision(Verdict::Ask)),
            expires_at: Timestamp(99),
        },
        Fact::GateAnswered { gate, answer: Answer::Repeat, by: by() },
        Fact::TimerSet { step: STEP, due: Timestamp(100) },
        Fact::TimerFired { step: STEP },
        Fact::StopRequested { by: by() },
        Fact::CancelRequested { by: by() },
        Fact::Parked { reason: Parking::Stopped },
        Fact::Parked {
            reason: Parking::Blocked { code: "model.key_missing".into(), hint: "set the key".into() },
        },
        Fact::Resumed { by: by() },
        Fact::Ended { end: End::BudgetExhausted },
        Fact::StepReturned { step: STEP },
        Fact::Said { by: by(), now: true },
        Fact::StepDenied { step: STEP, reason: Denial::Interrupted },
        Fact::RunStarted(RunStarted { forked: Some(forked()), ..started() }),
        Fact::Interrupted { by: by() },
    ]
}
