//! The driver of Regie's own loop: turns of a model call and its tool calls, then the stop hook
//! (checkpoint and criteria), then the merge behind its gate and the delivery.
//!
//! Everything that decides happens while events are folded into the [`View`]; `next` only says what
//! the view's stage asks for. So a run that is loaded again stands exactly where it stood.

mod answer;
mod conversation;
pub(crate) mod deferred;
pub(crate) mod done;
mod extras;
mod finish;
mod fork;
mod images;
mod relief;
mod said;
mod setup;
pub(crate) mod stall;
mod turn;
mod view;
mod written;

use std::sync::Arc;

use bytes::Bytes;
use domain::budget::Amount;
use domain::run::End;
use domain::{Effect, Header, Payload, Risk, RunState, StepKind, StepNo};
use kernel::driver::{ComposeError, Driver, Next, Request, StepSpec};
use models::catalogue;
use serde::Serialize;

use crate::config::Config;
use crate::host::{self, CheckpointRequest, VerdictRequest};
pub use done::TOOL as DEFINE_DONE;
pub use stall::CODE as STALLED;
use view::{Stage, View};

/// The name and version that runs of this driver carry in [`domain::fact::RunStarted::driver`].
pub const NAME: &str = "native/4";

/// The version before: its requests say nothing of caching, and ask for no summary of the reasoning.
const PLAIN: &str = "native/3";

/// The second version: its runs go on, are not watched for repetitions, and define nothing themselves.
pub(crate) const UNWATCHED: &str = "native/2";

/// The first version: like the second, and old tool results are never cleared.
pub(crate) const UNCLEARED: &str = "native/1";

/// Whether this driver drives runs that were started with the driver `name`.
pub fn drives(name: &str) -> bool {
    [NAME, PLAIN, UNWATCHED, UNCLEARED].contains(&name)
}

/// The native driver of one run.
#[derive(Debug)]
pub struct Native {
    view: View,
}

impl Native {
    /// A driver before the first event of its run.
    pub fn new(config: Arc<Config>) -> Self {
        Self { view: View::new(config) }
    }

    /// The prose that the model said last; empty before it said anything.
    pub fn last_words(&self) -> &str {
        &self.view.words
    }

    fn ask(&self, kind: StepKind) -> Next {
        let view = &self.view;
        let bytes = match view.composed(kind, u64::MAX) {
            Ok(bytes) => bytes,
            Err(error) => {
                return ended(End::Failed, format!("the next request to the model cannot be made: {error}"));
            }
        };
        let size = view.size_as_text(bytes.len());
        let estimate = catalogue::estimate(size, view.config.max_output_tokens, view.config.price.as_ref());
        let reserve = Amount {
            tokens: estimate.input.saturating_add(estimate.output),
            nanodollars: estimate.nanodollars.unwrap_or(0),
            unpriced: u64::from(estimate.nanodollars.is_none()),
            turns: u64::from(kind == StepKind::ModelCall),
            ..Amount::CALL
        };
        Next::Run(vec![StepSpec {
            kind,
            effect: Effect::ModelCall,
            risk: Risk::Read,
            tool: view.request.model.clone(),
            request: Request::Composed(bytes),
            reserve,
            timeout: view.config.model_timeout,
            due: None,
        }])
    }

    fn act(&self) -> Next {
        let timeout = self.view.config.tool_timeout;
        let specs = self.view.turn.due().map(|call| StepSpec {
            kind: StepKind::ToolCall,
            effect: call.effect,
            risk: call.risk,
            tool: call.name.clone(),
            request: Request::Whole(call.request.clone()),
            reserve: Amount::CALL,
            timeout,
            due: None,
        });
        Next::Run(specs.collect())
    }

    /// Effect `workspace_write`: what a setup changes outside of the workspace is the project's own cache,
    /// and downloading a package once more is harmless. So a setup that a crash cut short is cleaned away
    /// and run again, without a second question.
    fn set_up(&self) -> Next {
        let Some(request) = self.view.setup_request() else {
            return ended(End::Failed, "there is no setup to run; please report it".into());
        };
        Next::Run(vec![StepSpec {
            kind: StepKind::ToolCall,
            effect: Effect::WorkspaceWrite,
            risk: Risk::External,
            tool: host::SETUP.into(),
            request: Request::Whole(json(&request)),
            reserve: Amount::CALL,
            timeout: self.view.config.setup_timeout,
            due: None,
        }])
    }

    fn checkpoint(&self) -> Next {
        let Some(mission) = &self.view.mission else { return Next::Wait };
        let keep = match self.view.stage {
            Stage::Following => self.view.commit(),
            _ => None,
        };
        // The last commit of a run that ends is the agent's work and nothing else.
        let follow = !matches!(self.view.stage, Stage::Saving { .. });
        self.host_step(
            StepKind::Checkpoint,
            host::CHECKPOINT,
            Risk::Workspace,
            &CheckpointRequest {
                branch: self.view.branch().to_owned(),
                base: self.view.base().unwrap_or(&mission.base).to_owned(),
                line: mission.line.clone(),
                message: self.view.commit_message("Checkpoint"),
                keep: keep.map(str::to_owned),
                follow,
                unresolved: self.view.unresolved.clone(),
            },
        )
    }

    fn judge(&self) -> Next {
        let tool = if self.view.stage == Stage::Trying { host::TRIAL } else { host::VERDICT };
        let specs = self.view.due_criteria().map(|command| {
            let request = VerdictRequest { command: command.to_owned() };
            StepSpec {
                kind: StepKind::Verdict,
                effect: Effect::WorkspaceWrite,
                risk: Risk::Workspace,
                tool: tool.into(),
                request: Request::Whole(json(&request)),
                reserve: Amount::CALL,
                timeout: self.view.config.tool_timeout,
                due: None,
            }
        });
        Next::Run(specs.collect())
    }

    fn host_step(&self, kind: StepKind, tool: &str, risk: Risk, request: &impl Serialize) -> Next {
        Next::Run(vec![StepSpec {
            kind,
            effect: Effect::IdempotentWrite,
            risk,
            tool: tool.into(),
            request: Request::Whole(json(request)),
            // Committing costs nothing that a cap would bound.
            reserve: if kind == StepKind::Checkpoint { Amount::default() } else { Amount::CALL },
            timeout: self.view.config.host_timeout,
            due: None,
        }])
    }
}

impl Driver for Native {
    fn fold(&mut self, header: &Header, payload: Option<&Payload>) {
        self.view.fold(header, payload);
    }

    fn inherit(&mut self, header: &Header, payload: Option<&Payload>) {
        self.view.fold(header, payload);
    }

    fn next(&self, state: &RunState) -> Next {
        if state.cancelling {
            return ended(End::Cancelled, "cancelled by the owner".into());
        }
        match &self.view.stage {
            Stage::Fresh => Next::Wait,
            Stage::SettingUp => self.set_up(),
            Stage::Asking => self.ask(StepKind::ModelCall),
            Stage::Compacting => self.ask(StepKind::Compaction),
            Stage::Acting => self.act(),
            Stage::Pausing { until, why } => Next::Run(vec![StepSpec {
                kind: StepKind::Timer,
                effect: Effect::Read,
                risk: Risk::Read,
                tool: "timer".into(),
                request: Request::Whole(json(&Reason { reason: why })),
                reserve: Amount::default(),
                timeout: 0,
                due: Some(*until),
            }]),
            Stage::Checkpointing | Stage::Following | Stage::Saving { .. } => self.checkpoint(),
            Stage::Judging | Stage::Trying => self.judge(),
            Stage::Stalled { what } => {
                Next::Rest { code: STALLED.into(), hint: self.view.stalled_hint(what) }
            }
            Stage::Refused { code, message } => Next::Rest {
                code: code.clone(),
                hint: format!("{message}; no image is left that could be hidden. `regie resume` asks again"),
            },
            Stage::Merging => match self.view.merge_request() {
                Some(request) => self.host_step(StepKind::ToolCall, host::MERGE, Risk::External, &request),
                None => ended(End::Failed, "there is no commit to merge; please report it".into()),
            },
            Stage::Delivering { request } => {
                self.host_step(StepKind::ToolCall, host::DELIVER, Risk::External, request)
            }
            Stage::Over { end, reason } => ended(*end, self.view.last_reason(*end, reason)),
        }
    }

    fn compose(&self, step: StepNo, upto: u64) -> Result<Bytes, ComposeError> {
        let view = &self.view;
        let failed = |reason| ComposeError { step, reason };
        if let Some(why) = &view.broken {
            return Err(failed(why.clone()));
        }
        let kind = match view.compactions.contains(&step) {
            true => StepKind::Compaction,
            false => StepKind::ModelCall,
        };
        view.composed(kind, view.offset.saturating_add(upto)).map_err(failed)
    }
}

#[derive(Serialize)]
struct Reason<'a> {
    reason: &'a str,
}

fn ended(end: End, reason: String) -> Next {
    Next::End { end, reason }
}

/// The requests of this crate are plain structs, which JSON can always hold.
fn json(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).unwrap_or_default().into()
}
