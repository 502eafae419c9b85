//! What the driver keeps of a run, and which step leads where.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::budget::Exhausted;
use domain::fact::{Denial, RunStarted};
use domain::run::End;
use domain::{
    Criterion, Digest, Fact, Header, Mission, Outcome, Payload, RunId, StepKind, StepNo, Timestamp,
};
use models::{Block, Extras, Message, Request};

use super::conversation::Conversation;
use super::done::Definition;
use super::extras::Asked;
use super::images::Eyes;
use super::relief::Relief;
use super::stall::Stall;
use super::turn::Turn;
use super::written::Written;
use crate::config::Config;
use crate::host::{self, Checkpoint, DeliverRequest};
use crate::prompt::{self, Unmet};
use crate::{output, words};

/// What comes next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stage {
    /// The run has not started.
    Fresh,
    /// The project is set up.
    SettingUp,
    /// The model is asked.
    Asking,
    /// The model is asked for a summary of the conversation, which is then replaced by it.
    Compacting,
    /// The calls of a turn are due.
    Acting,
    /// The criteria that the agent proposed are run once, before the work goes on.
    Trying,
    /// The run gets nowhere and rests.
    Stalled { what: String },
    /// The vendor takes the conversation no longer, and the run rests.
    Refused { code: String, message: String },
    /// The vendor asked to wait; or nothing is waited for, and the reason is what the owner is to see.
    Pausing { until: Timestamp, why: String },
    /// The workspace is committed before the criteria are judged.
    Checkpointing,
    /// Regie's line moved under the proposal: the same commit, with the line as it is now, is judged and
    /// proposed again.
    Following,
    /// The criteria are judged.
    Judging,
    /// The proposal is merged.
    Merging,
    /// The merge is brought to the owner.
    Delivering { request: DeliverRequest },
    /// The workspace is committed a last time, then the run ends.
    Saving { end: End, reason: String },
    /// The run ends.
    Over { end: End, reason: String },
}

/// What an open step is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Job {
    SetUp,
    Ask,
    Compact,
    Call(usize),
    Checkpoint,
    Verdict(usize),
    Merge,
    Deliver,
    Timer,
}

/// How far the judgement of one criterion is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Judgement {
    Due,
    Planned,
    Passed,
    Failed(Unmet),
}

#[derive(Debug)]
pub(super) struct View {
    pub(super) config: Arc<Config>,
    pub(super) run: Option<RunId>,
    pub(super) started: Option<RunStarted>,
    pub(super) mission: Option<Mission>,
    pub(super) stage: Stage,
    /// What every request repeats: model, system, tools. Its messages are those of the conversation.
    pub(super) request: Request,
    /// What is asked beside it.
    pub(super) asked: Asked,
    /// Whether the model is shown images.
    pub(super) eyes: Eyes,
    /// The bytes of system and tools.
    pub(super) fixed: usize,
    pub(super) conversation: Conversation,
    pub(super) relief: Relief,
    /// The steps that asked for a summary.
    pub(super) compactions: BTreeSet<StepNo>,
    /// Instruction files that the model was given, and those that go with the results of this turn.
    pub(super) instructed: BTreeSet<String>,
    pub(super) news: Vec<(String, String)>,
    /// Why requests can no longer be composed: a content is forgotten or unreadable.
    pub(super) broken: Option<String>,
    pub(super) turn: Turn,
    pub(super) judgements: Vec<Judgement>,
    pub(super) checkpoint: Option<Checkpoint>,
    /// The model's last prose.
    pub(super) words: String,
    /// Whether a tool may have changed the workspace since the last checkpoint.
    pub(super) touched: bool,
    /// Model calls in a row that failed, and of them those that the vendor asked to delay.
    pub(super) failures: u32,
    pub(super) pauses: u32,
    /// Answers in a row that had to be asked to go on.
    pub(super) nudges: u32,
    /// Refusals of the stop hook in a row on the same commit.
    pub(super) refusals: u32,
    pub(super) refused_at: Option<String>,
    /// How often Regie's line moved under the proposal, or was in conflict with it.
    pub(super) moves: u32,
    /// Paths that the agent was asked to resolve.
    pub(super) unresolved: Vec<String>,
    pub(super) definition: Definition,
    pub(super) stall: Stall,
    pub(super) written: Written,
    /// What the owner said and the model has not read.
    pub(super) unread: Vec<String>,
    /// Events that came before the first of this run: positions count over all of them.
    pub(super) offset: u64,
    /// The last position, and when that was.
    pub(super) position: u64,
    pub(super) at: Timestamp,
    /// Whether the last event was the one that the run goes on with from another one.
    pub(super) is_at_fork: bool,
    jobs: BTreeMap<StepNo, Job>,
}

impl View {
    pub(super) fn new(config: Arc<Config>) -> Self {
        let request = Request {
            model: String::new(),
            max_tokens: config.max_output_tokens,
            system: config.system.clone(),
            tools: config.toolbox.specs(),
            messages: Vec::new(),
            effort: config.effort,
            extras: Extras::default(),
        };
        let tools = request.tools.iter();
        let tools: usize = tools.map(|tool| tool.description.len() + tool.input_schema.as_str().len()).sum();
        Self {
            fixed: request.system.len() + tools,
            asked: Asked::default(),
            eyes: Eyes::default(),
            conversation: Conversation::default(),
            relief: Relief::default(),
            compactions: BTreeSet::new(),
            instructed: BTreeSet::new(),
            news: Vec::new(),
            config,
            run: None,
            started: None,
            mission: None,
            stage: Stage::Fresh,
            request,
            broken: None,
            turn: Turn::default(),
            judgements: Vec::new(),
            checkpoint: None,
            words: String::new(),
            touched: false,
            failures: 0,
            pauses: 0,
            nudges: 0,
            refusals: 0,
            refused_at: None,
            moves: 0,
            unresolved: Vec::new(),
            definition: Definition::default(),
            stall: Stall::default(),
            written: Written::default(),
            unread: Vec::new(),
            offset: 0,
            position: 0,
            at: Timestamp(0),
            is_at_fork: false,
            jobs: BTreeMap::new(),
        }
    }

    pub(super) fn fold(&mut self, header: &Header, payload: Option<&Payload>) {
        if let Fact::RunStarted(_) = header.fact {
            self.offset = self.position;
        }
        let seq = self.offset.saturating_add(header.seq);
        (self.position, self.at) = (seq, header.at);
        let was_at_fork = std::mem::take(&mut self.is_at_fork);
        match &header.fact {
            Fact::RunStarted(started) => self.start(header, started, payload),
            Fact::StepPlanned(planned) => {
                if planned.kind == StepKind::Compaction {
                    self.compactions.insert(planned.step);
                }
                if let Some(job) = self.job_of(planned.kind, &planned.tool) {
                    self.jobs.insert(planned.step, job);
                }
            }
            Fact::StepCompleted { step, outcome, .. } => {
                if let Some(job) = self.jobs.remove(step) {
                    self.completed(seq, job, *outcome, payload);
                }
            }
            Fact::StepDenied { step, reason } => {
                if let Some(job) = self.jobs.remove(step) {
                    self.denied(seq, job, reason);
                }
            }
            Fact::TimerFired { step } if matches!(self.stage, Stage::Pausing { .. }) => {
                self.jobs.remove(step);
                self.stage = Stage::Asking;
            }
            Fact::StepIntended { step, snapshot: Some(snapshot), .. } => self.intended(*step, snapshot),
            // The owner let it go on: what failed before counts no more.
            Fact::Resumed { .. } => self.resumed(seq),
            Fact::Said { now, .. } => self.said(seq, *now, was_at_fork, payload),
            _ => {}
        }
        self.hear(seq);
        self.relieve(seq);
    }

    /// Whether this step is one of the driver's that is open.
    pub(super) fn is_planned(&self, step: StepNo) -> bool {
        self.jobs.contains_key(&step)
    }

    /// Whether a step is open.
    pub(super) fn is_busy(&self) -> bool {
        !self.jobs.is_empty()
    }

    fn start(&mut self, header: &Header, started: &RunStarted, payload: Option<&Payload>) {
        let is_first = self.started.is_none();
        self.run = Some(header.run);
        self.started = Some(started.clone());
        self.begin_steps();
        let mission = payload.and_then(|payload| serde_json::from_slice::<Mission>(&payload.0).ok());
        let Some(mission) = mission else {
            return self.give_up("the mission of this run was forgotten or cannot be read".into());
        };
        let tools = self.config.toolbox.to_bytes().unwrap_or_default();
        if Digest::of(self.config.system.as_bytes()) != started.system || Digest::of(&tools) != started.tools
        {
            return self.give_up(
                "the system text or the tool list is not the one that this run was started with".into(),
            );
        }
        self.request.model.clone_from(&mission.model);
        self.asked.begin(self.position, &started.driver, &mission);
        self.open_eyes(&started.driver, mission.terms.as_ref().is_some_and(|terms| terms.blind));
        self.relief.clears = started.driver != super::UNCLEARED;
        let is_old = started.driver == super::UNCLEARED || started.driver == super::UNWATCHED;
        self.stall.watches = !is_old;
        self.written.watches = started.driver == super::NAME;
        self.definition.is_asked =
            !is_old && mission.done.is_empty() && self.config.toolbox.find(super::done::TOOL).is_some();
        match (started.forked.as_deref(), is_first) {
            (Some(_), true) => {
                self.give_up("what this run goes on from is not there".into());
            }
            (Some(forked), false) => self.go_on_from(forked, mission),
            (None, _) => {
                self.pin(self.position, prompt::goal(&mission, self.definition.is_asked));
                self.judgements = vec![Judgement::Due; mission.done.len()];
                self.stage = first_stage(&mission);
                self.mission = Some(mission);
            }
        }
    }

    /// The steps of this run are numbered from 1, whatever it inherits.
    fn begin_steps(&mut self) {
        self.jobs.clear();
        self.compactions.clear();
    }

    /// What a step is for follows from the stage it was planned in: steps are planned in order.
    fn job_of(&mut self, kind: StepKind, tool: &str) -> Option<Job> {
        match (kind, &self.stage) {
            (StepKind::ModelCall, _) => Some(Job::Ask),
            (StepKind::Compaction, _) => Some(Job::Compact),
            (StepKind::Timer, _) => Some(Job::Timer),
            (StepKind::Checkpoint, _) => Some(Job::Checkpoint),
            (StepKind::Verdict, _) => {
                let at = self.judgements.iter().position(|judgement| *judgement == Judgement::Due)?;
                *self.judgements.get_mut(at)? = Judgement::Planned;
                Some(Job::Verdict(at))
            }
            (StepKind::ToolCall, Stage::SettingUp) => Some(Job::SetUp),
            (StepKind::ToolCall, Stage::Acting) => self.turn.plan().map(Job::Call),
            (StepKind::ToolCall, Stage::Merging) if tool == host::MERGE => Some(Job::Merge),
            (StepKind::ToolCall, Stage::Delivering { .. }) if tool == host::DELIVER => Some(Job::Deliver),
            _ => None,
        }
    }

    fn completed(&mut self, seq: u64, job: Job, outcome: Outcome, payload: Option<&Payload>) {
        match job {
            Job::SetUp => self.set_up(seq, outcome, payload),
            Job::Ask => self.model_answered(seq, outcome, payload),
            Job::Compact => self.compacted(seq, outcome, payload),
            Job::Call(at) => {
                self.touched |= self.turn.writes(at);
                self.note_call(seq, at, outcome, payload);
                let path = output::read(payload).and_then(|output| output.path);
                self.turn.answer(at, super::answer::result(outcome, payload), path);
                self.look(at, payload);
                self.settle_turn(seq);
            }
            Job::Checkpoint => self.checkpointed(seq, outcome, payload),
            Job::Verdict(at) => self.judged(seq, at, outcome, payload),
            Job::Merge => self.merge_done(outcome, payload),
            Job::Deliver => self.delivered(outcome, payload),
            Job::Timer => self.stage = Stage::Asking,
        }
    }

    fn denied(&mut self, seq: u64, job: Job, reason: &Denial) {
        if let Job::Call(at) = job {
            match reason {
                Denial::Budget { cap } => self.turn.exhausted = Some(*cap),
                Denial::Cancelled => self.turn.cancelled = true,
                Denial::Policy { .. } | Denial::Gate { .. } | Denial::Interrupted => {}
            }
            self.turn.answer(at, Err(words::denial(reason)), None);
            return self.settle_turn(seq);
        }
        match (job, reason) {
            (_, Denial::Cancelled) => self.finish(End::Cancelled, "cancelled by the owner".into()),
            (_, Denial::Budget { cap }) if job == Job::SetUp => self.exhausted(*cap),
            (Job::SetUp, _) => self.not_set_up(seq, reason),
            (Job::Merge, Denial::Gate { .. } | Denial::Policy { .. }) => self.merge_refused(reason),
            (Job::Verdict(at), Denial::Interrupted) => self.judge_again(at),
            // It is planned again, after what the owner said.
            (Job::Ask, Denial::Interrupted) => self.stage = Stage::Asking,
            (Job::Compact, Denial::Interrupted) => {}
            (Job::Deliver, _) => self.left_undelivered(&words::denial(reason)),
            (_, Denial::Budget { cap }) => self.exhausted(*cap),
            (job, _) => {
                let what = match job {
                    Job::Ask | Job::Compact => "asking the model",
                    Job::Verdict(_) => "running a criterion",
                    _ => "committing the workspace",
                };
                let reason = format!("{what} was refused: {}; {}", words::denial(reason), self.kept());
                self.finish(End::Blocked, reason);
            }
        }
    }

    /// Appends a message of Regie's own.
    pub(super) fn say(&mut self, seq: u64, text: String) {
        self.push(seq, Message::user(vec![Block::text(text)]));
    }

    /// Appends a message that no compaction takes away: the owner's words, a project's instructions.
    pub(super) fn pin(&mut self, seq: u64, text: String) {
        self.conversation.pin(seq, Message::user(vec![Block::text(text)]));
    }

    pub(super) fn push(&mut self, seq: u64, message: Message) {
        self.conversation.push(seq, message, None);
    }

    /// The request of a step that was planned right after the event `upto`. Fails when the bytes of an image
    /// are not there.
    pub(super) fn request_at(&self, kind: StepKind, upto: u64) -> Result<Request, String> {
        let forgotten = self.asked.forgotten(upto);
        let mut messages = self.conversation.messages(upto, forgotten, &self.config.images)?;
        if kind == StepKind::Compaction {
            messages.push(Message::user(vec![Block::text(prompt::COMPACT)]));
        }
        Ok(Request { messages, extras: self.asked.at(upto), ..self.request.clone() })
    }

    /// The criteria that are still to be run, as commands.
    pub(super) fn due_criteria(&self) -> impl Iterator<Item = &str> {
        let done = self.mission.iter().flat_map(|mission| &mission.done);
        done.zip(&self.judgements)
            .filter(|(_, judgement)| **judgement == Judgement::Due)
            .map(|(Criterion::Command { command }, _)| command.as_str())
    }

    /// The run can go nowhere: what it is made of cannot be read.
    pub(super) fn give_up(&mut self, why: String) {
        self.finish(End::Failed, why.clone());
        self.broken = Some(why);
    }

    /// Ends the run. The first end stands.
    pub(super) fn finish(&mut self, end: End, reason: String) {
        if !matches!(self.stage, Stage::Over { .. }) {
            self.stage = Stage::Over { end, reason };
        }
    }

    /// A cap is reached: the work is committed once more, which costs nothing.
    pub(super) fn exhausted(&mut self, cap: Exhausted) {
        let caps = self.started.as_ref().map(|started| started.caps).unwrap_or_default();
        let limit = match cap {
            Exhausted::Tokens => format!(" of {}", caps.tokens),
            Exhausted::Dollars => format!(" of {}", words::dollars(caps.nanodollars)),
            Exhausted::Calls => format!(" of {}", caps.calls),
            Exhausted::Turns => format!(" of {}", caps.turns),
            Exhausted::Time => format!(" of {}", words::seconds(caps.millis)),
            Exhausted::Day => String::new(),
        };
        let reason = format!("the cap on {}{limit} is reached", cap.noun());
        match std::mem::replace(&mut self.stage, Stage::Fresh) {
            Stage::Over { end, reason } => self.stage = Stage::Over { end, reason },
            Stage::Saving { end, reason } => {
                let reason = format!("{reason}; {}", self.kept());
                self.stage = Stage::Over { end, reason };
            }
            _ if self.touched => {
                self.stage = Stage::Saving { end: End::BudgetExhausted, reason };
            }
            _ => {
                let reason = format!("{reason}; {}", self.kept());
                self.stage = Stage::Over { end: End::BudgetExhausted, reason };
            }
        }
    }

    pub(super) fn branch(&self) -> &str {
        self.started.as_ref().map_or("", |started| started.branch.as_str())
    }

    /// The commit of the last checkpoint; `None` while nothing was changed.
    pub(super) fn commit(&self) -> Option<&str> {
        self.checkpoint.as_ref().and_then(|checkpoint| checkpoint.commit.as_deref())
    }

    /// What the changes are counted against since the last checkpoint.
    pub(super) fn base(&self) -> Option<&str> {
        self.checkpoint.as_ref().map(|checkpoint| checkpoint.base.as_str())
    }

    /// What is left of the work, for the owner.
    pub(super) fn kept(&self) -> String {
        match self.commit() {
            Some(commit) => format!("branch `{}` keeps the work at {}", self.branch(), short(commit)),
            None if self.touched => "changes are in the workspace, nothing was committed".into(),
            None => "nothing was changed".into(),
        }
    }
}

/// What a run begins with: the setup, unless there is none or what it made is there already.
pub(super) fn first_stage(mission: &Mission) -> Stage {
    match &mission.environment {
        Some(environment) if !environment.kept => Stage::SettingUp,
        _ => Stage::Asking,
    }
}

/// A commit as people write it.
pub(super) fn short(commit: &str) -> &str {
    prompt::cut(commit, 12)
}
