//! Random commands: whatever is asked of a run, its history stays one that the rules allow.

use std::collections::{BTreeMap, BTreeSet};

use domain::budget::Caps;
use domain::fact::{Denial, End, Parking};
use domain::gate::{Answer, Question};
use domain::run::{Command, Refusal};
use domain::{Amount, Effect, Fact, GateId, Outcome, RunId, RunState, StepKind, StepNo, Timestamp, Verdict};
use proptest::prelude::*;

use crate::samples;

const ANSWERS: [Answer; 5] =
    [Answer::Approved, Answer::Refused, Answer::Expired, Answer::WasDone, Answer::Repeat];
const EFFECTS: [Effect; 5] =
    [Effect::Read, Effect::WorkspaceWrite, Effect::IdempotentWrite, Effect::NonIdempotent, Effect::ModelCall];

/// Numbers that become one command. Most of them name what exists, so that most are accepted.
type Raw = (u8, u8, u8);

fn command(state: &RunState, (kind, a, b): Raw) -> Command {
    let by = || "human:owner".to_owned();
    let open: Vec<_> = state.open.keys().copied().collect();
    let step = open.get(usize::from(a) % (open.len() + 1)).copied().unwrap_or(StepNo(u64::from(a)));
    let gates: Vec<_> = state.gates.keys().copied().collect();
    let unknown = GateId::from_bytes([a; 16]);
    let gate = gates.get(usize::from(a) % (gates.len() + 1)).copied().unwrap_or(unknown);
    let question = if b % 2 == 0 { Question::Approve } else { Question::WasItDone };
    match kind % 23 {
        0..3 => {
            let step = if a == 0 { step } else { state.next_step };
            let kind = match b % 4 {
                0 => StepKind::WaitHuman,
                1 => StepKind::Timer,
                _ => StepKind::ToolCall,
            };
            Command::Plan(samples::planned(step, kind, EFFECTS[usize::from(a) % 5]))
        }
        3..6 => {
            let verdict = if b == 0 { Verdict::Deny } else { Verdict::Allow };
            let decision = samples::decision(verdict);
            Command::Intend { step, decision, reserved: samples::amount(), snapshot: Some("snap".into()) }
        }
        6 => Command::Deny { step, reason: Denial::Cancelled },
        7..9 => Command::Complete {
            step,
            outcome: Outcome::Succeeded,
            spent: Amount::CALL,
            artifacts: Vec::new(),
        },
        9 => Command::DeclareUncertain { step },
        10 => Command::LoseModelCall { step },
        11 => Command::Restore { step },
        12 => Command::Return { step },
        13..15 => Command::OpenGate {
            gate: unknown,
            step: open.last().copied().unwrap_or(step),
            subject: step,
            question,
            decision: None,
            expires_at: Timestamp(u64::from(b)),
        },
        15 => Command::AnswerGate { gate, action: None, answer: ANSWERS[usize::from(b) % 5], by: by() },
        16 => Command::SetTimer { step, due: Timestamp(u64::from(b)) },
        17 => Command::FireTimer { step },
        18 => Command::Claim { fence: u64::from(b), holder: "node:here".into() },
        19 if b % 8 == 0 => Command::Cancel { by: by() },
        19 if b % 8 == 1 => Command::StopNow { by: by() },
        19 => Command::Stop { by: by() },
        20 if b % 2 == 0 => Command::Park { reason: Parking::Stopped },
        20 => Command::Resume { by: by() },
        21 => Command::Say { by: by(), now: b % 2 == 0 },
        _ if b % 4 == 0 => Command::End(End::Done),
        _ => Command::Start(samples::started()),
    }
}

/// The rules, told once more over the facts alone.
#[derive(Default)]
struct History {
    planned: u64,
    intended: BTreeMap<StepNo, u32>,
    running: BTreeSet<StepNo>,
    closed: BTreeSet<StepNo>,
    gates: BTreeSet<GateId>,
    fence: u64,
    ended: bool,
}

impl History {
    fn take(&mut self, fact: &Fact) {
        assert!(!self.ended, "{} after the end", fact.name());
        match fact {
            Fact::StepPlanned(planned) => {
                self.planned += 1;
                assert_eq!(planned.step.0, self.planned, "steps are numbered in order");
            }
            Fact::StepIntended { step, attempt, decision, .. } => {
                assert_eq!(decision.verdict, Verdict::Allow);
                let tries = self.intended.entry(*step).or_default();
                *tries += 1;
                assert_eq!(tries, attempt, "tries are numbered in order");
                self.running.insert(*step);
            }
            Fact::StepReturned { step }
            | Fact::ModelCallLost { step, .. }
            | Fact::WorkspaceRestored { step, .. } => {
                assert!(self.running.remove(step), "{} of no try", fact.name());
            }
            Fact::StepUncertain { step } => assert!(self.running.contains(step)),
            Fact::StepCompleted { step, .. } => {
                assert!(self.running.remove(step), "a result without an intention");
                assert!(self.closed.insert(*step), "a second result");
            }
            Fact::StepDenied { step, .. } => {
                assert!(!self.running.contains(step), "what may have happened is denied");
                assert!(self.closed.insert(*step), "a second result");
            }
            Fact::TimerFired { step } => assert!(self.closed.insert(*step), "a second result"),
            Fact::GateOpened { gate, .. } => assert!(self.gates.insert(*gate), "a gate opens twice"),
            Fact::GateAnswered { gate, .. } => assert!(self.gates.remove(gate), "a second answer"),
            Fact::Claimed { fence, .. } => {
                assert!(*fence > self.fence, "a fence only rises");
                self.fence = *fence;
            }
            Fact::Ended { .. } => {
                assert!(self.running.is_empty() && self.gates.is_empty(), "something is open at the end");
                self.ended = true;
            }
            _ => {}
        }
    }
}

fn check(raw: &[(Raw, u8)]) {
    let mut state = RunState::new(RunId::from_bytes([9; 16]));
    let mut history = History::default();
    let mut now = Timestamp(0);
    let started = domain::fact::RunStarted { caps: Caps::default(), ..samples::started() };
    let first = state.decide(now, Command::Start(started)).unwrap();
    first.iter().for_each(|fact| state.evolve(now, fact));
    for (raw, wait) in raw {
        now = now.plus(u64::from(*wait));
        let command = command(&state, *raw);
        let ended = state.has_ended();
        let answers = match &command {
            Command::AnswerGate { gate, answer: Answer::Repeat, .. } => {
                state.gates.get(gate).map(|open| open.subject)
            }
            _ => None,
        };
        match state.decide(now, command.clone()) {
            Ok(facts) => {
                for fact in &facts {
                    history.take(fact);
                    state.evolve(now, fact);
                }
                if let Some(subject) = answers {
                    history.running.remove(&subject);
                }
            }
            Err(refusal) => {
                let starts = matches!(command, Command::Start(_));
                let expected = if starts { Refusal::AlreadyStarted } else { Refusal::Ended };
                assert!(!ended || refusal == expected, "{refusal} after the end");
            }
        }
        let held = state.open.values().fold(Amount::default(), |sum, open| sum.plus(open.reserved()));
        assert_eq!(held, state.budget.reserved, "after {command:?}");
        assert!(state.open.keys().all(|step| *step < state.next_step));
        assert!(state.open.keys().all(|step| !history.closed.contains(step)), "a closed step is open");
        let waits: BTreeSet<_> = state.gates.keys().copied().collect();
        assert_eq!(waits, history.gates, "after {command:?}");
        assert!(state.gates.values().all(|gate| state.open.contains_key(&gate.subject)), "after {command:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]
    #[test]
    fn any_commands_lead_to_a_history_that_the_rules_allow(
        raw in proptest::collection::vec((any::<Raw>(), 0..4_u8), 0..120)
    ) {
        check(&raw);
    }
}

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

/// A run with one step that may take 30 minutes, begun at its first minute.
fn working() -> RunState {
    let mut state = RunState::new(RunId::from_bytes([1; 16]));
    let caps = Caps::default();
    let started = domain::fact::RunStarted { caps, ..samples::started() };
    state.evolve(Timestamp(0), &Fact::RunStarted(started));
    let planned = samples::planned(StepNo(1), StepKind::ModelCall, Effect::ModelCall);
    let planned = domain::fact::StepPlanned { timeout: 30 * MINUTE, ..planned };
    state.evolve(Timestamp(MINUTE), &Fact::StepPlanned(planned));
    state
}

#[test]
fn hours_in_which_nobody_can_have_worked_are_not_active_time() {
    let mut state = working();
    assert_eq!(state.active_time(Timestamp(20 * MINUTE)), 20 * MINUTE, "a long step counts whole");
    let asleep = state.active_time(Timestamp(10 * HOUR));
    assert!(asleep <= 36 * MINUTE, "{asleep}");
    // It is the same when the result is on record, and what follows counts again.
    let done = Fact::StepCompleted {
        step: StepNo(1),
        outcome: Outcome::Succeeded,
        spent: Amount::CALL,
        artifacts: Vec::new(),
    };
    state.evolve(Timestamp(10 * HOUR), &done);
    assert_eq!(state.active_time(Timestamp(10 * HOUR)), asleep);
    assert_eq!(state.active_time(Timestamp(10 * HOUR + MINUTE)), asleep + MINUTE);
    // A clock that was set back takes nothing away.
    assert_eq!(state.active_time(Timestamp(0)), 0);
}

#[test]
fn what_waits_for_an_instant_or_a_human_is_not_taken_for_sleep_twice() {
    let mut state = working();
    let timer = samples::planned(StepNo(2), StepKind::Timer, Effect::Read);
    state.evolve(Timestamp(2 * MINUTE), &Fact::StepPlanned(timer));
    state.evolve(
        Timestamp(2 * MINUTE),
        &Fact::TimerSet { step: StepNo(2), due: Timestamp(HOUR + 2 * MINUTE) },
    );
    assert_eq!(state.active_time(Timestamp(HOUR)), HOUR, "an awaited instant counts");
    state.evolve(Timestamp(HOUR), &Fact::Parked { reason: Parking::Stopped });
    assert_eq!(state.active_time(Timestamp(50 * HOUR)), HOUR);
    state.evolve(Timestamp(50 * HOUR), &Fact::Resumed { by: "human:owner".into() });
    assert_eq!(state.active_time(Timestamp(50 * HOUR)), HOUR);
}
