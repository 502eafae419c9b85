//! One run's side of the conversation: what the kernel waits for, and what it is told.

use std::collections::HashMap;
use std::sync::Arc;

use domain::{Amount, Payload, RunId, StepNo};
use kernel::Input;
use kernel::port::{Artifacts, Finished, Inbox, Refused, Status, Work};
use tokio::sync::{broadcast, mpsc, watch};

use super::link::{Error, Link};
use super::{Configs, Progress};
use crate::config::Config;
use crate::wire::{self, Answer, Request, Spooled, State};
use crate::{orphan, spool};

/// What the kernel wants.
pub(super) enum Command {
    Start(Work, Arc<dyn Inbox>),
    Status(Work, Arc<dyn Inbox>),
    Kill(Work, Arc<dyn Inbox>),
    Forget(StepNo, u64),
    Bye,
}

/// See the module.
pub(super) struct Station {
    run: RunId,
    configs: Arc<dyn Configs>,
    artifacts: Arc<dyn Artifacts>,
    progress: broadcast::Sender<Progress>,
    link: Option<Link>,
    waiting: HashMap<StepNo, Waiting>,
    killers: HashMap<StepNo, (u64, Vec<Arc<dyn Inbox>>)>,
}

/// A step that somebody waits for.
struct Waiting {
    work: Work,
    inbox: Arc<dyn Inbox>,
    mode: Mode,
}

/// What is waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Its end.
    End,
    /// Its status, for the kernel.
    Status,
    /// Its status, after the connection was lost.
    Resume,
    /// Its end, if it runs at all.
    Kill,
}

impl Station {
    pub(super) fn new(
        run: RunId,
        configs: Arc<dyn Configs>,
        artifacts: Arc<dyn Artifacts>,
        progress: broadcast::Sender<Progress>,
    ) -> Self {
        Self {
            run,
            configs,
            artifacts,
            progress,
            link: None,
            waiting: HashMap::new(),
            killers: HashMap::new(),
        }
    }

    /// Serves until the executor lets go of it.
    pub(super) async fn serve(
        mut self,
        mut commands: mpsc::UnboundedReceiver<Command>,
        mut closing: watch::Receiver<bool>,
    ) {
        loop {
            tokio::select! {
                biased;
                // What still waits is not begun.
                () = closed(&mut closing) => {
                    self.say(&Request::Bye).await;
                    return;
                }
                command = commands.recv() => match command {
                    Some(command) => self.obey(command).await,
                    None => return,
                },
                answer = next(&mut self.link) => match answer {
                    Some(answer) => self.take(answer).await,
                    None => self.reconnect().await,
                },
            }
        }
    }

    async fn obey(&mut self, command: Command) {
        match command {
            Command::Start(work, inbox) => self.start(work, inbox).await,
            Command::Status(work, inbox) => self.status(work, inbox).await,
            Command::Kill(work, inbox) => self.kill(work, inbox).await,
            Command::Forget(upto, fence) => {
                if let Ok(true) = self.find().await {
                    self.say(&Request::Forget { upto, fence }).await;
                }
            }
            Command::Bye => {
                if let Ok(true) = self.find().await {
                    self.say(&Request::Bye).await;
                }
            }
        }
    }

    async fn start(&mut self, work: Work, inbox: Arc<dyn Inbox>) {
        let (step, attempt) = (work.step, work.attempt);
        let refuse = |refused| inbox.send(Input::Refused(step, attempt, refused));
        let Some(wire_work) = worded(&work) else {
            return refuse(Refused {
                code: "runner.request".into(),
                hint: format!(
                    "a runner takes tool calls and verdicts whose request is UTF-8, not this {}",
                    work.kind.name()
                ),
            });
        };
        if let Err(refused) = self.open().await {
            return refuse(refused);
        }
        self.waiting.insert(step, Waiting { work, inbox, mode: Mode::End });
        self.say(&Request::Start { work: wire_work }).await;
    }

    async fn status(&mut self, work: Work, inbox: Arc<dyn Inbox>) {
        let step = work.step;
        let Some(wire_work) = worded(&work) else {
            return inbox.send(Input::Status(step, Status::Unknown));
        };
        match self.find().await {
            Ok(true) => {
                self.waiting.insert(step, Waiting { work, inbox, mode: Mode::Status });
                self.say(&Request::Status { work: wire_work }).await;
            }
            Ok(false) => self.settle(Waiting { work, inbox, mode: Mode::Status }).await,
            Err(refused) => {
                tracing::warn!(run = %self.run, step = step.0, hint = refused.hint, "a step's status is unknown");
                inbox.send(Input::Status(step, Status::Unknown));
            }
        }
    }

    async fn kill(&mut self, work: Work, inbox: Arc<dyn Inbox>) {
        let (step, fence) = (work.step, work.fence);
        if !matches!(self.find().await, Ok(true)) {
            return inbox.send(Input::Killed(step));
        }
        self.killers.entry(step).or_insert((fence, Vec::new())).1.push(inbox.clone());
        self.waiting.entry(step).or_insert(Waiting { work, inbox, mode: Mode::Kill });
        self.say(&Request::Kill { step, fence }).await;
    }

    /// Says something; a connection that ends by it is found out by listening.
    async fn say(&mut self, request: &Request) {
        if let Some(link) = &mut self.link
            && let Err(error) = link.say(request).await
        {
            tracing::debug!(run = %self.run, %error, "the connection to a runner has ended");
        }
    }

    fn config(&self) -> Result<Config, Refused> {
        self.configs.config(self.run)
    }

    /// Whether there is a living runner, now connected. When there is none, its jails are gone too.
    async fn find(&mut self) -> Result<bool, Refused> {
        if self.link.is_none() {
            let config = self.config()?;
            self.link = Link::find(&config).await.map_err(|error| unavailable(&error))?;
            if self.link.is_none() {
                let _ = tokio::task::spawn_blocking(move || orphan::reap(&config.spool)).await;
            }
        }
        Ok(self.link.is_some())
    }

    /// Makes sure that there is a living runner, now connected.
    async fn open(&mut self) -> Result<(), Refused> {
        if self.link.is_none() {
            self.link = Some(Link::open(&self.config()?).await.map_err(|error| unavailable(&error))?);
        }
        Ok(())
    }

    /// The connection has ended: the runner is asked again, or has died.
    async fn reconnect(&mut self) {
        self.link = None;
        if self.waiting.is_empty() && self.killers.is_empty() {
            return;
        }
        if let Ok(true) = self.find().await {
            let mut requests = Vec::new();
            for waiting in self.waiting.values_mut().filter(|waiting| waiting.mode != Mode::Kill) {
                if waiting.mode == Mode::End {
                    waiting.mode = Mode::Resume;
                }
                requests.extend(worded(&waiting.work).map(|work| Request::Status { work }));
            }
            let kills =
                self.killers.iter().map(|(step, (fence, _))| Request::Kill { step: *step, fence: *fence });
            requests.extend(kills);
            for request in &requests {
                self.say(request).await;
            }
            return;
        }
        let mut waiting: Vec<_> = self.waiting.drain().map(|(_, waiting)| waiting).collect();
        waiting.sort_by_key(|waiting| waiting.work.step);
        for waiting in waiting {
            self.settle(waiting).await;
        }
        for (step, (_, inboxes)) in self.killers.drain() {
            inboxes.iter().for_each(|inbox| inbox.send(Input::Killed(step)));
        }
    }

    /// Answers for a runner that is no more, from what it has left.
    async fn settle(&self, waiting: Waiting) {
        let Waiting { work, inbox, mode } = waiting;
        let (step, attempt) = (work.step, work.attempt);
        let found = self.config().ok().zip(worded(&work)).and_then(|(config, work)| {
            let read = spool::read(&config.spool, step);
            read.ok().flatten().filter(|spooled| spooled.answers(&work))
        });
        let finished = match found {
            Some(spooled) => Some(self.finished(spooled).await),
            None => None,
        };
        match (mode, finished) {
            (Mode::Status, Some(finished)) => inbox.send(Input::Status(step, Status::Spooled(finished))),
            (Mode::Status, None) => inbox.send(Input::Status(step, Status::Unknown)),
            (_, Some(finished)) => inbox.send(Input::Finished(step, attempt, finished)),
            (Mode::End | Mode::Resume, None) => inbox.send(Input::Lost(step, attempt)),
            (Mode::Kill, None) => {}
        }
    }

    async fn take(&mut self, answer: Answer) {
        match answer {
            Answer::Hello { .. } | Answer::Started { .. } => {}
            Answer::Progress { step, text } => {
                let _ = self.progress.send(Progress { run: self.run, step, text });
            }
            Answer::Finished { result } => self.take_finished(*result).await,
            Answer::Refused { step, attempt, code, hint } => {
                if let Some(waiting) = self.ended(step, attempt) {
                    waiting.inbox.send(Input::Refused(step, attempt, Refused { code, hint }));
                }
            }
            Answer::Lost { step, attempt } => {
                if let Some(waiting) = self.ended(step, attempt) {
                    waiting.inbox.send(Input::Lost(step, attempt));
                }
            }
            Answer::Status { step, state } => self.take_status(step, state).await,
            Answer::Killed { step } => {
                if self.waiting.get(&step).is_some_and(|waiting| waiting.mode == Mode::Kill) {
                    self.waiting.remove(&step);
                }
                let (_, inboxes) = self.killers.remove(&step).unwrap_or_default();
                inboxes.iter().for_each(|inbox| inbox.send(Input::Killed(step)));
            }
            Answer::Fenced { step, current } => self.take_fenced(step, current),
        }
    }

    /// The waiting one of an attempt that ended without a result. Who asked for the status is told that.
    fn ended(&mut self, step: StepNo, attempt: u32) -> Option<Waiting> {
        let waiting = self.waiting.get(&step)?;
        if waiting.mode == Mode::Status || waiting.work.attempt != attempt {
            return None;
        }
        self.waiting.remove(&step)
    }

    async fn take_finished(&mut self, result: Spooled) {
        let step = result.step;
        let is_awaited = self.waiting.get(&step).is_some_and(|waiting| {
            waiting.mode != Mode::Status && worded(&waiting.work).is_some_and(|work| result.answers(&work))
        });
        if is_awaited && let Some(waiting) = self.waiting.remove(&step) {
            let finished = self.finished(result).await;
            waiting.inbox.send(Input::Finished(step, waiting.work.attempt, finished));
        }
    }

    async fn take_status(&mut self, step: StepNo, state: State) {
        let Some(waiting) = self.waiting.get_mut(&step) else { return };
        let (inbox, attempt, mode) = (waiting.inbox.clone(), waiting.work.attempt, waiting.mode);
        if !matches!(mode, Mode::Status | Mode::Resume) {
            return;
        }
        if state == State::Running {
            waiting.mode = Mode::End;
        } else {
            self.waiting.remove(&step);
        }
        match (mode, state) {
            (Mode::Status, State::Running) => inbox.send(Input::Status(step, Status::Running)),
            (_, State::Running) => {}
            (Mode::Status, State::Unknown) => inbox.send(Input::Status(step, Status::Unknown)),
            (_, State::Unknown) => inbox.send(Input::Lost(step, attempt)),
            (Mode::Status, State::Spooled(result)) => {
                let finished = self.finished(*result).await;
                inbox.send(Input::Status(step, Status::Spooled(finished)));
            }
            (_, State::Spooled(result)) => {
                let finished = self.finished(*result).await;
                inbox.send(Input::Finished(step, attempt, finished));
            }
        }
    }

    /// Another daemon owns the run. This one must not act on the workspace any more, so it is told
    /// that the step runs, which is all that it may know, and never that it was killed.
    fn take_fenced(&mut self, step: StepNo, current: u64) {
        tracing::warn!(run = %self.run, step = step.0, current, "another daemon owns this run");
        self.killers.remove(&step);
        if let Some(waiting) = self.waiting.remove(&step)
            && waiting.mode == Mode::Status
        {
            waiting.inbox.send(Input::Status(step, Status::Running));
        }
    }

    /// The kernel's form of a result, with its long output as an artifact.
    async fn finished(&self, spooled: Spooled) -> Finished {
        let step = spooled.step;
        let file = self.config().ok().map(|config| {
            let file = spool::output_path(&config.spool, step);
            // Where the version before left it.
            if file.exists() { file } else { config.spool.join(format!("{step}.output")) }
        });
        let store = Arc::clone(&self.artifacts);
        let Spooled { outcome, mut output, has_artifact, .. } = spooled;
        if has_artifact && let Some(file) = file {
            let kept = tokio::task::spawn_blocking(move || {
                let bytes = std::fs::read(file).map_err(|error| error.to_string())?;
                store.put(&bytes).map_err(|error| error.to_string())
            });
            match kept.await.unwrap_or_else(|error| Err(error.to_string())) {
                Ok(digest) => output.artifact = Some(digest),
                Err(error) => {
                    tracing::warn!(run = %self.run, error, "a long output is not kept");
                    output.text.push_str("\n[the whole output could not be kept]");
                }
            }
        }
        Finished {
            outcome,
            spent: Amount::CALL,
            artifacts: output.artifact.into_iter().collect(),
            payload: Payload(serde_json::to_vec(&output).unwrap_or_default()),
        }
    }
}

/// Returns when the runners are to end. An executor that is only gone leaves them be.
async fn closed(closing: &mut watch::Receiver<bool>) {
    if closing.wait_for(|closing| *closing).await.is_err() {
        std::future::pending().await
    }
}

/// The next answer of the runner; without a connection there is never one.
async fn next(link: &mut Option<Link>) -> Option<Answer> {
    match link {
        Some(link) => link.hear().await,
        None => std::future::pending().await,
    }
}

/// The work for the wire, if a runner takes it.
fn worded(work: &Work) -> Option<wire::Work> {
    use domain::StepKind::{ToolCall, Verdict};
    matches!(work.kind, ToolCall | Verdict).then(|| wire::Work::of(work)).flatten()
}

fn unavailable(error: &Error) -> Refused {
    Refused { code: "runner.unavailable".into(), hint: domain::causes::in_full(error) }
}
