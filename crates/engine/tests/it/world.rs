//! A run in memory: what the driver asks for becomes facts by the rules of `domain`, as in the kernel.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use domain::budget::Amount;
use domain::event::{self, Head};
use domain::fact::{Denial, End, Fact, Forked, Purpose, RunStarted, StepPlanned};
use domain::gate::Answer;
use domain::run::Command;
use domain::{
    Caps, Criterion, Decision, Digest, Effect, Event, GateId, LeaseId, Mission, MissionId, Outcome, Payload,
    ProjectId, Recorded, Risk, RunId, RunState, Source, StepKind, StepNo, Timestamp, Verdict,
};
use engine::{Config, Native, Tool, Toolbox};
use kernel::driver::{Driver, Next, Request};
use models::Adapter;
use models::Credential;
use models::{Block, RawJson, Response, Stop, ToolSpec, Usage};
use serde::Serialize;
use serde_json::json;

pub(crate) fn run_id() -> RunId {
    RunId::from_bytes([7; 16])
}

fn tool(name: &str, effect: Effect, risk: Risk) -> Tool {
    Tool {
        spec: ToolSpec {
            name: name.into(),
            description: format!("The tool {name}."),
            input_schema: RawJson::parse(r#"{"type":"object"}"#).unwrap(),
        },
        effect,
        risk,
        deferred: false,
    }
}

pub(crate) fn toolbox() -> Toolbox {
    Toolbox::new(vec![
        tool("read", Effect::Read, Risk::Read),
        tool("shell", Effect::WorkspaceWrite, Risk::Workspace),
        tool("post", Effect::NonIdempotent, Risk::External),
    ])
    .unwrap()
}

/// The adapter itself, made once: it reads the system's certificates.
fn wire() -> &'static Adapter {
    static WIRE: OnceLock<Adapter> = OnceLock::new();
    WIRE.get_or_init(|| {
        let key = Credential::Key(models::Secret::new("unused".to_owned()));
        Adapter::new(models::Config::new(models::Wire::Messages, key, "http://127.0.0.1:1")).unwrap()
    })
}

pub(crate) fn config() -> Config {
    let compose = Arc::new(|request: &models::Request| models::Provider::compose(wire(), request));
    let price = models::catalogue::price("claude-opus-5-5");
    Config { price, ..Config::new("You are a test.", toolbox(), compose) }
}

pub(crate) fn mission(done: &[&str]) -> Mission {
    let config = config();
    Mission {
        id: MissionId::from_bytes([1; 16]),
        goal: "Make the failing test pass".into(),
        project: ProjectId::from_bytes([2; 16]),
        repository: "/home/owner/project".into(),
        line: "main".into(),
        base: "b".repeat(40),
        done: done.iter().map(|command| Criterion::Command { command: (*command).into() }).collect(),
        caps: Caps::default(),
        model: "claude-opus-5-5".into(),
        system: Digest::of(config.system.as_bytes()),
        tools: Digest::of(&config.toolbox.to_bytes().unwrap()),
        approve_merge: false,
        allow_unjailed: false,
        uncommitted: Vec::new(),
        withheld: Vec::new(),
        environment: None,
        services: Vec::new(),
        terms: None,
    }
}

pub(crate) struct World {
    pub(crate) config: Arc<Config>,
    pub(crate) driver: Native,
    pub(crate) state: RunState,
    pub(crate) events: Vec<Recorded>,
    pub(crate) requests: BTreeMap<StepNo, Bytes>,
    pub(crate) now: u64,
    /// The content of the workspace, as snapshots before writes name it.
    pub(crate) files: Option<String>,
    head: Head,
    /// The events that the run goes on from.
    inherited: Vec<Recorded>,
}

impl World {
    pub(crate) fn new(done: &[&str]) -> Self {
        Self::with(mission(done), config())
    }

    pub(crate) fn with(mission: Mission, config: Config) -> Self {
        Self::driven_by(engine::native::NAME, mission, config)
    }

    /// A run that was started with this driver.
    pub(crate) fn driven_by(name: &str, mission: Mission, config: Config) -> Self {
        let config = Arc::new(config);
        let mut world = Self {
            driver: Native::new(config.clone()),
            config,
            state: RunState::new(run_id()),
            events: Vec::new(),
            requests: BTreeMap::new(),
            now: 1_000,
            files: None,
            head: Head::EMPTY,
            inherited: Vec::new(),
        };
        let started = RunStarted {
            mission: mission.id,
            project: mission.project,
            principal: "agent:coder".into(),
            on_behalf_of: "human:owner".into(),
            lease: LeaseId::from_bytes([3; 16]),
            branch: "coder/run".into(),
            driver: name.into(),
            engine: "test".into(),
            system: mission.system,
            tools: mission.tools,
            caps: mission.caps,
            forked: None,
        };
        world.tell(Command::Start(started), &mission);
        world
    }

    /// A run that goes on from the first `seq` events of this one.
    pub(crate) fn forked(&self, seq: usize, purpose: Purpose, mission: &Mission) -> Self {
        let mut inherited = self.inherited.clone();
        inherited.extend_from_slice(&self.events[..seq]);
        let mut world = Self {
            driver: Native::new(self.config.clone()),
            config: self.config.clone(),
            state: RunState::new(run_id()),
            events: Vec::new(),
            requests: BTreeMap::new(),
            now: self.now,
            files: self.files.clone(),
            head: Head::EMPTY,
            inherited,
        };
        world.driver = world.reloaded();
        let Fact::RunStarted(parent) = &self.events[0].header.fact else { panic!("it has not started") };
        let last = &self.events[seq - 1];
        let forked = Forked {
            parent: run_id(),
            step: StepNo(0),
            seq: last.header.seq,
            head: last.hash,
            snapshot: (purpose == Purpose::Fork).then(|| "5".repeat(40)),
            purpose,
        };
        let started = RunStarted {
            mission: mission.id,
            branch: "coder/fork".into(),
            caps: mission.caps,
            forked: Some(Box::new(forked)),
            ..parent.clone()
        };
        world.tell(Command::Start(started), mission);
        world
    }

    /// How many events came before its own.
    pub(crate) fn inherited(&self) -> usize {
        self.inherited.len()
    }

    /// Its criteria, as commands.
    pub(crate) fn criteria(&self) -> Vec<String> {
        let mission: Mission = serde_json::from_slice(&self.events[0].payload.as_ref().unwrap().0).unwrap();
        mission.done.into_iter().map(|Criterion::Command { command }| command).collect()
    }

    /// How many events there are up to and with the result of a step.
    pub(crate) fn upto(&self, step: &StepPlanned) -> usize {
        let is_result =
            |fact: &Fact| matches!(fact, Fact::StepCompleted { step: of, .. } if *of == step.step);
        self.facts().position(is_result).unwrap() + 1
    }

    pub(crate) fn tell(&mut self, command: Command, payload: &impl Serialize) {
        self.tell_bytes(command, serde_json::to_vec(payload).unwrap());
    }

    pub(crate) fn tell_bytes(&mut self, command: Command, payload: Vec<u8>) {
        self.now += 10;
        let at = Timestamp(self.now);
        let facts = self.state.decide(at, command).unwrap();
        for fact in facts {
            let event = Event { at, source: Source::Kernel, fact, payload: Payload(payload.clone()) };
            for sealed in event::seal(run_id(), self.head, vec![event], || [0; 16]) {
                self.head = Head { seq: sealed.header.seq, hash: sealed.hash };
                self.state.evolve(at, &sealed.header.fact);
                self.driver.fold(&sealed.header, Some(&sealed.payload));
                self.events.push(Recorded {
                    position: sealed.header.seq,
                    header: sealed.header,
                    payload: Some(sealed.payload),
                    hash: sealed.hash,
                });
            }
        }
    }

    /// Asks the driver and plans what it wants.
    #[track_caller]
    pub(crate) fn go(&mut self) -> Vec<StepPlanned> {
        match self.driver.next(&self.state) {
            Next::Run(specs) => {
                let upto = self.state.seq;
                specs
                    .into_iter()
                    .map(|spec| {
                        let step = self.state.next_step;
                        let bytes = spec.request.bytes().clone();
                        let (payload, composed_upto) = match spec.request {
                            Request::Whole(bytes) => (bytes.to_vec(), None),
                            Request::Composed(_) => (Vec::new(), Some(upto)),
                        };
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
                        self.requests.insert(step, bytes);
                        self.tell_bytes(Command::Plan(planned.clone()), payload);
                        if let Some(due) = spec.due {
                            self.tell(Command::SetTimer { step, due }, &());
                        }
                        planned
                    })
                    .collect()
            }
            other => panic!("the driver does not want steps: {other:?}"),
        }
    }

    /// Asks the driver, which must want exactly one step of this tool.
    #[track_caller]
    pub(crate) fn one(&mut self, tool: &str) -> StepPlanned {
        let steps = self.go();
        assert_eq!(steps.iter().map(|step| step.tool.as_str()).collect::<Vec<_>>(), [tool]);
        steps.into_iter().next().unwrap()
    }

    #[track_caller]
    pub(crate) fn end(&self) -> (End, String) {
        match self.driver.next(&self.state) {
            Next::End { end, reason } => (end, reason),
            other => panic!("the run has not ended: {other:?}"),
        }
    }

    pub(crate) fn intend(&mut self, step: &StepPlanned) {
        let decision = Decision {
            verdict: Verdict::Allow,
            rule: "allowed".into(),
            lease: LeaseId::from_bytes([3; 16]),
            epoch: 1,
            gate: None,
        };
        let snapshot = self.files.clone().filter(|_| step.effect == Effect::WorkspaceWrite);
        let intend = Command::Intend { step: step.step, decision, reserved: step.reserve, snapshot };
        self.tell_bytes(intend, Vec::new());
    }

    pub(crate) fn done(&mut self, step: &StepPlanned, outcome: Outcome, payload: &impl Serialize) {
        self.done_bytes(step, outcome, serde_json::to_vec(payload).unwrap());
    }

    pub(crate) fn done_bytes(&mut self, step: &StepPlanned, outcome: Outcome, payload: Vec<u8>) {
        self.intend(step);
        let turns = u64::from(step.kind == StepKind::ModelCall);
        let spent = Amount { turns, ..Amount::CALL };
        let artifacts = Vec::new();
        self.tell_bytes(Command::Complete { step: step.step, outcome, spent, artifacts }, payload);
    }

    pub(crate) fn deny(&mut self, step: &StepPlanned, reason: Denial) {
        self.tell_bytes(Command::Deny { step: step.step, reason }, Vec::new());
    }

    /// The model is asked and answers.
    #[track_caller]
    pub(crate) fn model(&mut self, response: &Response) -> StepPlanned {
        let step = self.one("claude-opus-5-5");
        self.done(&step, Outcome::Succeeded, response);
        step
    }

    /// The checkpoint is made with this commit.
    #[track_caller]
    pub(crate) fn checkpoint(&mut self, commit: Option<&str>) {
        let step = self.one("checkpoint");
        self.done(&step, Outcome::Succeeded, &checkpoint(commit));
    }

    /// One criterion is judged.
    #[track_caller]
    pub(crate) fn verdict(&mut self, code: i32, text: &str) {
        self.criterion("verdict", code, text);
    }

    /// One criterion is tried before the work.
    #[track_caller]
    pub(crate) fn trial(&mut self, code: i32, text: &str) {
        self.criterion("trial", code, text);
    }

    #[track_caller]
    fn criterion(&mut self, tool: &str, code: i32, text: &str) {
        let step = self.one(tool);
        let outcome = if code == 0 { Outcome::Succeeded } else { Outcome::Failed };
        self.done(&step, outcome, &output(text, code));
    }

    /// A human is asked about a step, as the kernel does it.
    pub(crate) fn gate(&mut self, subject: &StepPlanned, gate: GateId) {
        let step = self.state.next_step;
        let wait = StepPlanned { step, kind: StepKind::WaitHuman, effect: Effect::Read, ..subject.clone() };
        self.tell_bytes(Command::Plan(wait), Vec::new());
        let expires_at = Timestamp(u64::MAX);
        let (question, subject) = (domain::gate::Question::Approve, subject.step);
        let open = Command::OpenGate { gate, step, subject, question, decision: None, expires_at };
        self.tell_bytes(open, Vec::new());
    }

    pub(crate) fn fire(&mut self, step: &StepPlanned) {
        self.tell_bytes(Command::FireTimer { step: step.step }, Vec::new());
    }

    /// The same run, read from the journal again.
    pub(crate) fn reloaded(&self) -> Native {
        let mut driver = Native::new(self.config.clone());
        for event in &self.inherited {
            driver.inherit(&event.header, event.payload.as_ref());
        }
        for event in &self.events {
            driver.fold(&event.header, event.payload.as_ref());
        }
        driver
    }

    /// The request of a step as JSON.
    pub(crate) fn request(&self, step: &StepPlanned) -> serde_json::Value {
        serde_json::from_slice(&self.requests[&step.step]).unwrap()
    }

    /// The messages that the next model call would send.
    pub(crate) fn messages(&mut self) -> serde_json::Value {
        let Next::Run(specs) = self.driver.next(&self.state) else { panic!("no model call is due") };
        let body: serde_json::Value = serde_json::from_slice(specs[0].request.bytes()).unwrap();
        body["messages"].clone()
    }

    /// The text of the last user message that the next model call would send.
    pub(crate) fn last_said(&mut self) -> String {
        let messages = self.messages();
        let last = messages.as_array().unwrap().last().unwrap();
        let texts: Vec<&str> =
            last["content"].as_array().unwrap().iter().filter_map(|block| block["text"].as_str()).collect();
        texts.join("\n")
    }

    pub(crate) fn facts(&self) -> impl Iterator<Item = &Fact> {
        self.events.iter().map(|event| &event.header.fact)
    }
}

pub(crate) fn output(text: &str, code: i32) -> serde_json::Value {
    json!({
        "text": text, "exit_code": code, "is_error": code != 0, "truncated_bytes": 0,
        "artifact": null, "duration_ms": 400, "jail": {"state": "enforced"},
    })
}

pub(crate) fn checkpoint(commit: Option<&str>) -> serde_json::Value {
    let files = commit.map(|_| json!({"path": "sum.js", "status": "modified", "added": 1, "removed": 1}));
    json!({
        "commit": commit, "base": "b".repeat(40), "line_head": "b".repeat(40),
        "files": files.into_iter().collect::<Vec<_>>(), "added": 1, "removed": 1,
        "patch": Digest::of(b"patch"), "patch_preview": "",
    })
}

fn raw(value: serde_json::Value) -> Block {
    Block::from_raw(RawJson::encode(&value).unwrap()).unwrap()
}

pub(crate) fn call(id: &str, name: &str, input: serde_json::Value) -> Block {
    raw(json!({"type": "tool_use", "id": id, "name": name, "input": input}))
}

/// A call whose input the adapter found broken, as it is journaled.
pub(crate) fn broken_call(id: &str, name: &str, why: &str) -> Block {
    let text = if why == "refused" { "" } else { r#","text":"{\"comm""# };
    let text = format!(
        r#"{{"raw":{{"type":"tool_use","id":"{id}","name":"{name}","input":{{}}}},"input_error":{{"why":"{why}"{text}}}}}"#
    );
    serde_json::from_str(&text).unwrap()
}

pub(crate) fn thinking() -> Block {
    raw(json!({"type": "thinking", "thinking": "hm", "signature": "c2ln"}))
}

pub(crate) fn answer(stop: Stop, blocks: Vec<Block>) -> Response {
    Response {
        blocks,
        stop,
        usage: Usage { input: 100, output: 20, cache_read: 0, cache_write: 0 },
        lost: Usage::default(),
        asked: "claude-opus-5-5".into(),
        model: "claude-opus-5-5".into(),
        request_id: None,
        attempts: 1,
    }
}

pub(crate) fn says(text: &str) -> Response {
    answer(Stop::EndTurn, vec![Block::text(text)])
}

pub(crate) fn calls(blocks: Vec<Block>) -> Response {
    answer(Stop::ToolUse, blocks)
}

pub(crate) fn shell(id: &str, command: &str) -> Block {
    call(id, "shell", json!({ "command": command }))
}

pub(crate) fn by_policy(rule: &str) -> Denial {
    Denial::Policy {
        decision: Decision {
            verdict: Verdict::Deny,
            rule: rule.into(),
            lease: LeaseId::from_bytes([3; 16]),
            epoch: 1,
            gate: None,
        },
    }
}

pub(crate) fn at_gate(answer: Answer) -> Denial {
    Denial::Gate { gate: GateId::from_bytes([4; 16]), answer }
}
