//! Runs to write: chains of sealed events, by hand or at random, the same for the same seed.

use domain::budget::{Amount, Caps};
use domain::event::{self, Head};
use domain::fact::{Denial, End, Forked, Parking, RunStarted, StepPlanned};
use domain::gate::{Answer, Question};
use domain::run::{Command, OpenStep, Phase};
use domain::{
    Decision, Digest, Effect, Event, Fact, GateId, LeaseId, MissionId, Outcome, Payload, ProjectId, Risk,
    RunId, RunState, Source, StepKind, StepNo, Timestamp, Verdict,
};
use kernel::port::{Append, DayCap, Expect};

/// Where the clock of these histories stands at first: noon of a UTC day.
pub const NOON: Timestamp = Timestamp(20_000 * 86_400_000 + 43_200_000);

/// A seeded stream of numbers (SplitMix64).
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// The same numbers for the same seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub const fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, 0 when that is 0.
    pub const fn below(&mut self, bound: u64) -> u64 {
        match self.roll().checked_rem(bound) {
            Some(number) => number,
            None => 0,
        }
    }

    /// So many bytes.
    pub fn bytes(&mut self, count: u64) -> Vec<u8> {
        (0..count).map(|_| self.roll().to_le_bytes()[0]).collect()
    }
}

/// A run whose next appends are sealed one after another, whether or not they were written.
#[derive(Debug, Clone)]
pub struct Chain {
    /// What the events lead to.
    pub state: RunState,
    /// The end of the chain.
    pub head: Head,
    /// The fence that the next appends expect.
    pub fence: u64,
    /// The lease and epoch that the next appends expect.
    pub lease: Option<(LeaseId, u64)>,
    /// The cap that appends expect to fit under.
    pub day: Option<DayCap>,
    /// The time of the next events.
    pub now: Timestamp,
    dice: Dice,
}

impl Chain {
    /// A run of its own for each number.
    pub fn new(number: u64) -> Self {
        let mut dice = Dice::new(number);
        let mut random = [0; 10];
        random.copy_from_slice(&dice.bytes(10));
        let now = NOON.plus(number);
        Self {
            state: RunState::new(RunId::new(now.0, random)),
            head: Head::EMPTY,
            fence: 0,
            lease: None,
            day: None,
            now,
            dice,
        }
    }

    /// The run.
    pub const fn run(&self) -> RunId {
        self.state.id
    }

    /// The append that starts the run.
    pub fn start(&mut self) -> Append {
        self.start_from(None)
    }

    /// The append that starts the run as one that goes on from another.
    pub fn start_from(&mut self, forked: Option<Forked>) -> Append {
        let started = RunStarted {
            mission: MissionId::new(self.now.0, [1; 10]),
            project: ProjectId::new(self.now.0, [2; 10]),
            principal: "agent:coder".into(),
            on_behalf_of: "human:owner".into(),
            lease: lease(1),
            branch: format!("coder/{}", self.run()),
            driver: "native/1".into(),
            engine: "0.1.0".into(),
            system: Digest::of(b"system"),
            tools: Digest::of(b"tools"),
            caps: Caps::default(),
            forked: forked.map(Box::new),
        };
        self.write(vec![(Fact::RunStarted(started), b"{\"goal\":\"mend it\"}".to_vec())])
    }

    /// An append of these facts with their payloads.
    pub fn write(&mut self, facts: Vec<(Fact, Vec<u8>)>) -> Append {
        let expect = Expect { fence: self.fence, head: self.head, lease: self.lease, day: self.day };
        let events = facts
            .into_iter()
            .map(|(fact, payload)| {
                self.state.evolve(self.now, &fact);
                Event { at: self.now, source: Source::Kernel, fact, payload: Payload(payload) }
            })
            .collect();
        let dice = &mut self.dice;
        let events = event::seal(self.state.id, self.head, events, || {
            (u128::from(dice.roll()) << 64 | u128::from(dice.roll())).to_le_bytes()
        });
        if let Some(last) = events.last() {
            self.head = Head { seq: last.header.seq, hash: last.hash };
        }
        Append { run: self.state.id, expect, events }
    }

    /// The append of one whole step: plan, intention and result.
    pub fn step(&mut self, payload: &[u8]) -> Append {
        let planned = plan(self.state.next_step, StepKind::ToolCall, Effect::Read, 0);
        let step = planned.step;
        self.write(vec![
            (Fact::StepPlanned(planned), payload.to_vec()),
            (intended(step, 0), Vec::new()),
            (completed(step, Amount::CALL), payload.to_vec()),
        ])
    }

    /// Makes up to `count` appends of random commands that the run's rules allow.
    pub fn wander(&mut self, count: usize) -> Vec<Append> {
        let mut appends = Vec::new();
        for _ in 0..count.saturating_mul(4) {
            if appends.len() == count || self.state.has_ended() {
                break;
            }
            self.now = self.now.plus(self.dice.below(3_000_000));
            let commands = (0..=self.dice.below(3)).map(|_| self.command()).collect::<Vec<_>>();
            let mut ahead = self.state.clone();
            let mut facts = Vec::new();
            for command in commands {
                for fact in ahead.decide(self.now, command).unwrap_or_default() {
                    ahead.evolve(self.now, &fact);
                    let size = self.dice.below(400);
                    facts.push((fact, self.dice.bytes(size)));
                }
            }
            if !facts.is_empty() {
                appends.push(self.write(facts));
            }
        }
        appends
    }

    fn command(&mut self) -> Command {
        let open = self.pick_step();
        let step = open.as_ref().map_or(StepNo::FIRST, |open| open.planned.step);
        let by = "human:owner".to_owned();
        match self.dice.below(41) {
            0 => Command::Cancel { by },
            1 if self.now.0.is_multiple_of(2) => Command::StopNow { by },
            1 => Command::Stop { by },
            2 => Command::Park { reason: Parking::Stopped },
            3..6 => Command::Resume { by },
            6 => Command::End(End::Partial),
            7 => Command::Claim { fence: self.state.fence.saturating_add(1), holder: "daemon".into() },
            8..11 => Command::LoseModelCall { step },
            11 => Command::Restore { step },
            12 => Command::Return { step },
            13 => Command::DeclareUncertain { step },
            14 => Command::Deny { step, reason: Denial::Cancelled },
            40 => Command::Say { by, now: true },
            15..19 => self.open_gate(step),
            19..23 => self.answer(),
            23..30 => self.plan(),
            30..36 => Command::Intend {
                step,
                decision: decision(),
                reserved: open.map_or(Amount::CALL, |open| open.planned.reserve),
                snapshot: Some("snapshot".into()),
            },
            _ => Command::Complete {
                step,
                outcome: Outcome::Succeeded,
                spent: Amount { nanodollars: self.dice.below(900), tokens: 7, turns: 1, ..Amount::CALL },
                artifacts: vec![Digest::of(b"report")],
            },
        }
    }

    fn pick_step(&mut self) -> Option<OpenStep> {
        let which = self.dice.below(self.state.open.len() as u64);
        self.state.open.values().nth(usize::try_from(which).unwrap_or(0)).cloned()
    }

    fn plan(&mut self) -> Command {
        let kinds = [
            (StepKind::ModelCall, Effect::ModelCall),
            (StepKind::ToolCall, Effect::Read),
            (StepKind::ToolCall, Effect::WorkspaceWrite),
            (StepKind::ToolCall, Effect::NonIdempotent),
            (StepKind::WaitHuman, Effect::Read),
        ];
        let which = usize::try_from(self.dice.below(kinds.len() as u64)).unwrap_or(0);
        let (kind, effect) = kinds[which];
        Command::Plan(plan(self.state.next_step, kind, effect, self.dice.below(1_000)))
    }

    /// A gate as the kernel opens them: before a planned step, or about an uncertain one.
    fn open_gate(&mut self, subject: StepNo) -> Command {
        let step = self.state.open.values().find(|open| {
            open.planned.kind == StepKind::WaitHuman
                && open.phase == Phase::Planned
                && open.planned.step != subject
        });
        let step = step.map_or(StepNo(0), |open| open.planned.step);
        let question = match self.state.open.get(&subject).map(|open| &open.phase) {
            Some(Phase::Planned) => Some(Question::Approve),
            Some(Phase::Uncertain { .. }) => Some(Question::WasItDone),
            _ => None,
        };
        let mut random = [0; 10];
        random.copy_from_slice(&self.dice.bytes(10));
        Command::OpenGate {
            gate: GateId::new(self.now.0, random),
            // There is no step 0: the rules refuse a gate that has nothing to ask.
            step: if question.is_some() { step } else { StepNo(0) },
            subject,
            question: question.unwrap_or(Question::Approve),
            decision: Some(decision()),
            expires_at: self.now.plus(60_000_000),
        }
    }

    fn answer(&mut self) -> Command {
        let which = usize::try_from(self.dice.below(self.state.gates.len() as u64)).unwrap_or(0);
        let gate = self.state.gates.keys().nth(which).copied();
        let answers = [Answer::Approved, Answer::Refused, Answer::Expired, Answer::WasDone, Answer::Repeat];
        let answer = answers[usize::try_from(self.dice.below(5)).unwrap_or(0)];
        let gate = gate.unwrap_or(GateId::from_bytes([0; 16]));
        Command::AnswerGate { gate, action: None, answer, by: "human:owner".into() }
    }
}

/// A lease's key for each number.
pub fn lease(number: u8) -> LeaseId {
    LeaseId::new(NOON.0, [number; 10])
}

/// A decision that allows.
pub fn decision() -> Decision {
    Decision {
        verdict: Verdict::Allow,
        rule: "tools in the workspace".into(),
        lease: lease(1),
        epoch: 1,
        gate: None,
    }
}

/// A planned step that reserves this much money.
pub fn plan(step: StepNo, kind: StepKind, effect: Effect, nanodollars: u64) -> StepPlanned {
    StepPlanned {
        step,
        kind,
        effect,
        risk: Risk::Read,
        tool: "read".into(),
        request: Digest::of(&step.0.to_le_bytes()),
        composed_upto: None,
        reserve: Amount { nanodollars, ..Amount::CALL },
        timeout: 60_000,
    }
}

/// The intention of a step that reserves this much money.
pub fn intended(step: StepNo, nanodollars: u64) -> Fact {
    let reserved = Amount { nanodollars, ..Amount::CALL };
    Fact::StepIntended { step, attempt: 1, decision: decision(), reserved, snapshot: None }
}

/// The result of a step.
pub const fn completed(step: StepNo, spent: Amount) -> Fact {
    Fact::StepCompleted { step, outcome: Outcome::Succeeded, spent, artifacts: Vec::new() }
}
