//! Looking at runs, and giving them orders.

use std::sync::Arc;

use domain::fact::{Parking, RunStarted};
use domain::run::Status;
use domain::step::OUTAGE;
use domain::{Fact, Mission, Recorded, RunId, RunState};
use kernel::machine::Order;
use kernel::port::{Journal, JournalError, RunRow};
use store::{Tree, Treeish as _};

use crate::api::{self, Resume, Spent};
use crate::error::{Error, Kind};
use crate::missions::OWNER;
use crate::{Control, view};

/// The most events that one request gives.
const PAGE: usize = 5000;
/// What stands in place of a goal that was forgotten.
const FORGOTTEN: &str = "(forgotten)";
/// How many runs are looked through for a short id.
const SEARCHED: usize = 100_000;

/// What a run was started with: its first event.
#[derive(Debug, Clone)]
pub struct Charter {
    /// The fact.
    pub started: RunStarted,
    /// The mission.
    pub mission: Mission,
}

/// The commit that a mission began at.
pub(crate) fn base(mission: &Mission) -> Result<store::Commit, Error> {
    mission.base.parse().map_err(|_| Error::new(Kind::Internal, "run.damaged", "the run's base is no commit"))
}

impl Charter {
    /// What the changes of the run are counted from: what others merged meanwhile is none of them.
    ///
    /// # Errors
    /// When the record or the tree cannot be read.
    pub(crate) fn counted_from(&self, tree: &Tree) -> Result<store::Commit, Error> {
        let base = base(&self.mission)?;
        Ok(tree.base(&self.started.branch)?.unwrap_or(base))
    }

    /// Reads the first event of a run.
    ///
    /// # Errors
    /// When there is none, or it was forgotten.
    pub fn read(journal: &dyn Journal, run: RunId) -> Result<Self, JournalError> {
        let damaged = |what: &str| JournalError::Damaged { run, seq: 1, what: what.into() };
        let first = journal.history(run, 0, 1)?.into_iter().next();
        let first = first.ok_or(JournalError::NoSuchRun(run))?;
        let Fact::RunStarted(started) = first.header.fact else {
            return Err(damaged("the first event does not start the run"));
        };
        let payload = first.payload.ok_or(JournalError::Forgotten(run))?;
        let mission =
            serde_json::from_slice(&payload.0).map_err(|_| damaged("the mission cannot be read"))?;
        Ok(Self { started, mission })
    }
}

impl Control {
    /// Runs, newest first.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn run_list(&self, only_open: bool) -> Result<Vec<api::Run>, Error> {
        let journal = self.journal();
        self.blocking(move || {
            journal.runs(only_open, PAGE)?.iter().map(|row| run_view(&*journal, row)).collect()
        })
        .await
    }

    /// One run, by its id, the end or the beginning of it, or `last`.
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub async fn run_fetch(&self, name: &str) -> Result<api::Run, Error> {
        let run = self.resolve(name).await?;
        let journal = self.journal();
        self.blocking(move || run_view(&*journal, &journal.run(run)?)).await
    }

    /// Events of a run after `after`, at most `limit`.
    ///
    /// # Errors
    /// When there is no such run.
    pub async fn run_events(&self, name: &str, after: u64, limit: usize) -> Result<Vec<api::Event>, Error> {
        let run = self.resolve(name).await?;
        let (journal, limit) = (self.journal(), limit.clamp(1, PAGE));
        let events = self.blocking(move || Ok(journal.history(run, after, limit)?)).await?;
        self.event_views(events).await
    }

    /// Events of all runs after a position, at most `limit`.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn events_after(&self, position: u64, limit: usize) -> Result<Vec<api::Event>, Error> {
        let (journal, limit) = (self.journal(), limit.clamp(1, PAGE));
        let events = self.blocking(move || Ok(journal.stream(position, limit)?)).await?;
        self.event_views(events).await
    }

    async fn event_views(&self, events: Vec<Recorded>) -> Result<Vec<api::Event>, Error> {
        let (journal, lines) = (self.journal(), self.lines.clone());
        self.blocking(move || Ok(events.iter().map(|event| lines.event(&*journal, event)).collect())).await
    }

    /// What a run has changed since its start: its branch, or its workspace while it moves.
    ///
    /// # Errors
    /// When there is no such run or the tree cannot be read.
    pub async fn run_diff(&self, name: &str) -> Result<api::Diff, Error> {
        let run = self.resolve(name).await?;
        let (journal, layout) = (self.journal(), self.layout.clone());
        let ended = self.blocking({
            let journal = Arc::clone(&journal);
            move || Ok(journal.run(run)?.status == "ended")
        });
        let ended = ended.await?;
        self.blocking(move || {
            let charter = Charter::read(&*journal, run)?;
            let tree = Tree::open_or_create(&layout.tree(charter.mission.project))?;
            let base = charter.counted_from(&tree)?;
            let workspace = tree.workspace_open(&charter.started.branch, &layout.workspace(run));
            // Of a workspace that was taken away its files are kept.
            let left = if workspace.is_err() { tree.left(&run.to_string())? } else { None };
            // A run that ended before its first checkpoint has all of its work in the workspace.
            let (head, diff) = match (workspace, tree.branch_last(&charter.started.branch)) {
                (Ok(workspace), head) if !ended || head.as_ref().is_ok_and(|head| *head == base) => {
                    (None, workspace.diff(&base)?)
                }
                (Err(_), head) if head.as_ref().is_ok_and(|head| *head == base) && left.is_some() => {
                    (None, tree.diff(&base, left.as_ref().unwrap_or(&tree.tree_of(&base)?))?)
                }
                (_, head) => {
                    let head = head?;
                    (Some(head.hex().to_owned()), tree.diff(&base, &head)?)
                }
            };
            Ok(api::Diff {
                run: run.to_string(),
                base: base.hex().to_owned(),
                head,
                files: diff.files.iter().map(view::file).collect(),
                patch: String::from_utf8_lossy(&diff.patch).into_owned(),
            })
        })
        .await
    }

    /// Lets a run rest at its next boundary: what runs comes to its end.
    ///
    /// # Errors
    /// When there is no such run, or it does not move.
    pub async fn run_pause(&self, name: &str) -> Result<(), Error> {
        self.run_order(name, Order::Stop { by: OWNER.into() }).await
    }

    /// Lets a run rest now: what runs is interrupted.
    ///
    /// # Errors
    /// When there is no such run, or it does not move.
    pub async fn run_stop(&self, name: &str) -> Result<(), Error> {
        self.run_order(name, Order::StopNow { by: OWNER.into() }).await
    }

    /// Cancels a run.
    ///
    /// # Errors
    /// When there is no such run, or it has ended.
    pub async fn run_cancel(&self, name: &str) -> Result<(), Error> {
        self.run_order(name, Order::Cancel { by: OWNER.into() }).await
    }

    /// Lets a run go on.
    ///
    /// # Errors
    /// When there is no such run, or it was told to stop and does not rest yet.
    pub async fn run_resume(&self, name: &str, request: Resume) -> Result<(), Error> {
        self.check_halt().await?;
        let run = self.resolve(name).await?;
        let recording = self.recording_prepare(request.record.as_ref()).await?;
        let state = self.renew_key(run, &request.vendor).await?;
        if recording.is_some() {
            let Some(provider) = self.vendors.provider(run) else {
                let detail = format!("run {run} has no model to record; is it over, or is its key missing?");
                return Err(Error::new(Kind::Conflict, "recording.no_model", detail)
                    .hint("set the vendor's key, or leave --record out"));
            };
            self.recording_begin(run, recording, &request.vendor, provider).await?;
        }
        if state.status == Status::Active && state.stopping && self.host.rest(run).is_some() {
            let detail = format!("run {run} was told to stop, and does not rest yet");
            return Err(Error::new(Kind::Conflict, "run.stopping", detail)
                .hint("`regie resume` again when `regie runs` shows it parked"));
        }
        // One that waits for its vendor asks again.
        if state.status == Status::Active && state.outages().next().is_some() {
            return Ok(self.host.order(run, Order::Resume { by: OWNER.into() }).await?);
        }
        // A run that moves needs no order; one that no task drives (its load failed) needs a launch.
        if state.status == Status::Active {
            return Ok(self.host.launch(run, None).await?);
        }
        Ok(self.host.order(run, Order::Resume { by: OWNER.into() }).await?)
    }

    /// Takes a vendor's key for a run, and gives the run's state. For a run that is over none is kept.
    pub(crate) async fn renew_key(&self, run: RunId, vendor: &api::Vendor) -> Result<RunState, Error> {
        let journal = self.journal();
        let (state, model) = self
            .blocking(move || {
                let state = state(&*journal, run)?;
                // Of a run that is over the mission may be forgotten.
                let model = match state.has_ended() {
                    true => None,
                    false => Some(Charter::read(&*journal, run)?.mission.model),
                };
                Ok((state, model))
            })
            .await?;
        if let Some(model) = model {
            // First: a call may be made as soon as there is a provider.
            self.recording_know(run, vendor).await;
            self.vendors.renew(run, &model, vendor)?;
        }
        Ok(state)
    }

    async fn run_order(&self, name: &str, order: Order) -> Result<(), Error> {
        let run = self.resolve(name).await?;
        Ok(self.host.order(run, order).await?)
    }

    /// The run that a name means.
    pub(crate) async fn resolve(&self, name: &str) -> Result<RunId, Error> {
        if let Ok(run) = name.parse() {
            return Ok(run);
        }
        let (journal, name) = (self.journal(), name.to_lowercase());
        self.blocking(move || {
            let rows = journal.runs(false, SEARCHED)?;
            if name == "last" {
                return rows.first().map(|row| row.run).ok_or_else(|| no_run(&name));
            }
            let part = name.strip_prefix("run_").unwrap_or(&name);
            let matches = |row: &&RunRow| {
                let text = row.run.to_string();
                let id = text.strip_prefix("run_").unwrap_or(&text);
                !part.is_empty() && (id.ends_with(part) || id.starts_with(part))
            };
            let mut found = rows.iter().filter(matches);
            match (found.next(), found.next()) {
                (Some(row), None) => Ok(row.run),
                (None, _) => Err(no_run(&name)),
                (Some(_), Some(_)) => Err(Error::new(
                    Kind::Invalid,
                    "run.ambiguous",
                    format!("`{name}` means more than one run"),
                )
                .hint("give more characters of the id; `regie runs` lists them")),
            }
        })
        .await
    }
}

/// What the events of a run lead to.
fn state(journal: &dyn Journal, run: RunId) -> Result<RunState, JournalError> {
    let mut state = RunState::new(run);
    loop {
        let page = journal.history(run, state.seq, PAGE)?;
        for event in &page {
            state.evolve(event.header.at, &event.header.fact);
        }
        if page.len() < PAGE {
            return Ok(state);
        }
    }
}

fn no_run(name: &str) -> Error {
    Error::new(Kind::NotFound, "run.not_found", format!("there is no run `{name}`"))
        .hint("`regie runs` lists them")
}

/// A run as it is shown.
fn run_view(journal: &dyn Journal, row: &RunRow) -> Result<api::Run, Error> {
    let Charter { started, mission } = match Charter::read(journal, row.run) {
        Err(JournalError::Forgotten(_)) => return forgotten_view(journal, row),
        charter => charter?,
    };
    let (reason, code) = last_words(journal, row)?;
    let waiting = row.status == "active" && row.open_gates > 0;
    Ok(api::Run {
        run: row.run.to_string(),
        mission: mission.id.to_string(),
        goal: mission.goal,
        repository: mission.repository,
        line: mission.line,
        branch: started.branch.clone(),
        model: mission.model,
        effort: mission.terms.as_ref().and_then(|terms| terms.effort),
        instead_of: mission.terms.and_then(|terms| terms.instead_of),
        status: if waiting { "waiting" } else { row.status }.into(),
        end: row.end.map(view::name),
        reason,
        code,
        started_at: row.started_at.0,
        updated_at: row.updated_at.0,
        turns: row.turns,
        spent: Spent { tokens: row.tokens, nanodollars: row.nanodollars, unpriced: row.unpriced },
        gates: open_gates(journal, row)?,
        head: row.head.hash.to_string(),
        events: row.head.seq,
        forked: started.forked.as_deref().map(view::origin),
    })
}

/// A run of which only the record is left.
fn forgotten_view(journal: &dyn Journal, row: &RunRow) -> Result<api::Run, Error> {
    let first = journal.history(row.run, 0, 1)?.into_iter().next();
    let Some(Fact::RunStarted(started)) = first.map(|first| first.header.fact) else {
        return Err(JournalError::Forgotten(row.run).into());
    };
    let (reason, code) = last_words(journal, row)?;
    Ok(api::Run {
        run: row.run.to_string(),
        mission: started.mission.to_string(),
        goal: FORGOTTEN.into(),
        repository: String::new(),
        line: String::new(),
        branch: started.branch.clone(),
        model: String::new(),
        effort: None,
        instead_of: None,
        status: row.status.into(),
        end: row.end.map(view::name),
        reason,
        code,
        started_at: row.started_at.0,
        updated_at: row.updated_at.0,
        turns: row.turns,
        spent: Spent { tokens: row.tokens, nanodollars: row.nanodollars, unpriced: row.unpriced },
        gates: Vec::new(),
        head: row.head.hash.to_string(),
        events: row.head.seq,
        forked: started.forked.as_deref().map(view::origin),
    })
}

fn open_gates(journal: &dyn Journal, row: &RunRow) -> Result<Vec<String>, Error> {
    if row.open_gates == 0 {
        return Ok(Vec::new());
    }
    let gates = journal.gates(true)?;
    Ok(gates.iter().filter(|gate| gate.run == row.run).map(|gate| gate.gate.to_string()).collect())
}

/// What an active run waits for when its vendor is out: the last thing that it did was to set that timer.
fn waits_for(journal: &dyn Journal, row: &RunRow) -> Result<Option<String>, Error> {
    #[derive(serde::Deserialize)]
    struct Request {
        reason: String,
    }
    let last = journal.history(row.run, row.head.seq.saturating_sub(2), 2)?;
    let [planned, set] = &last[..] else { return Ok(None) };
    Ok(match (&planned.header.fact, &set.header.fact, &planned.payload) {
        (Fact::StepPlanned(step), Fact::TimerSet { .. }, Some(payload)) if step.tool == OUTAGE => {
            serde_json::from_slice::<Request>(&payload.0).ok().map(|request| request.reason)
        }
        _ => None,
    })
}

/// Why a run ended or rests: its last event says so.
fn last_words(journal: &dyn Journal, row: &RunRow) -> Result<(Option<String>, Option<String>), Error> {
    if row.status == "active" {
        return Ok((waits_for(journal, row)?, None));
    }
    let last = journal.history(row.run, row.head.seq.saturating_sub(1), 1)?.into_iter().next();
    Ok(match last.map(|event| (event.header.fact, event.payload)) {
        Some((Fact::Ended { .. }, Some(payload))) => {
            (Some(String::from_utf8_lossy(&payload.0).into_owned()), None)
        }
        Some((Fact::Parked { reason: Parking::Stopped }, _)) => (Some("stopped by the owner".into()), None),
        Some((Fact::Parked { reason: Parking::Blocked { code, hint } }, _)) => (Some(hint), Some(code)),
        _ => (None, None),
    })
}
