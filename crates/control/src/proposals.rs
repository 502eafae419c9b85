//! Proposals: what runs have asked to be merged, and what became of it.

use domain::fact::Denial;
use domain::gate::Answer;
use domain::{Fact, GateId, Outcome, RunId, StepNo};
use engine::host::{MERGE, MergeRequest};
use kernel::port::Journal;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Kind};
use crate::policy::Files;
use crate::reads::What;
use crate::runs::Charter;
use crate::{Control, api, view};

/// Events looked at in one go.
const PAGE: usize = 512;
/// The most runs whose proposals are listed.
const MOST_RUNS: usize = 500;
/// Labelled things of a read manifest that a proposal names.
const MOST_NAMED: usize = 20;

/// A proposal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    /// The run.
    pub run: String,
    /// The step that asks.
    pub step: u64,
    /// What the owner asked for.
    pub goal: String,
    /// The agent's own account, which is no evidence.
    pub summary: String,
    /// The repository.
    pub repository: String,
    /// The owner's branch.
    pub line: String,
    /// The commit that is to be merged.
    pub head: String,
    /// The changed files.
    pub files: Vec<api::File>,
    /// Lines added.
    pub added: u64,
    /// Lines removed.
    pub removed: u64,
    /// What was checked, in one sentence.
    pub checked: String,
    /// The commands that passed.
    pub checks: Vec<String>,
    /// What of the changes others would execute or trust.
    pub export: Option<trust::export::Report>,
    /// The labels of all that the run has read, by today's rules.
    pub taint: Vec<String>,
    /// What of that has a label, and its labels.
    pub read: Vec<Labelled>,
    /// `waits`, `merged`, `refused`, `expired`, `denied`, `failed`, or `open` before anything was decided.
    pub state: String,
    /// The gate that asked, where one did.
    pub gate: Option<String>,
    /// Who answered it.
    pub by: Option<String>,
    /// The rule that decided.
    pub rule: Option<String>,
    /// When it was made, in milliseconds.
    pub at: u64,
}

/// Something with a label that a run has read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Labelled {
    /// What.
    pub what: What,
    /// Its labels.
    pub labels: Vec<String>,
}

impl Control {
    /// The last proposal of each run, the latest first; those that wait, or all.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn proposal_list(&self, all: bool) -> Result<Vec<Proposal>, Error> {
        let (journal, files) = (self.journal(), self.files.clone());
        self.blocking(move || {
            let mut found = Vec::new();
            for row in journal.runs(!all, MOST_RUNS)? {
                // What was forgotten has nothing to show.
                let Ok(proposals) = proposals(&*journal, &files, row.run) else { continue };
                found.extend(proposals.into_iter().next_back().filter(|one| all || one.state == "waits"));
            }
            Ok(found)
        })
        .await
    }

    /// The proposals of a run, in the order in which it made them.
    ///
    /// # Errors
    /// When there is no such run, or it has proposed nothing.
    pub async fn proposal_fetch(&self, run: &str) -> Result<Vec<Proposal>, Error> {
        let (journal, files, run) = (self.journal(), self.files.clone(), self.resolve(run).await?);
        self.blocking(move || {
            let found = proposals(&*journal, &files, run)?;
            if found.is_empty() {
                return Err(Error::new(
                    Kind::NotFound,
                    "proposal.none",
                    format!("{run} has proposed no merge"),
                )
                .hint("`regie show` says how far it is, `regie diff` what it has changed"));
            }
            Ok(found)
        })
        .await
    }
}

/// What is known of a proposal while its run's events are read.
struct Made {
    step: StepNo,
    at: u64,
    request: MergeRequest,
    state: &'static str,
    gate: Option<GateId>,
    by: Option<String>,
    rule: Option<String>,
}

fn proposals(journal: &dyn Journal, files: &Files, run: RunId) -> Result<Vec<Proposal>, Error> {
    let made = made(journal, run)?;
    if made.is_empty() {
        return Ok(Vec::new());
    }
    let charter = Charter::read(journal, run)?;
    let manifest = crate::readers::listed(files, run).unwrap_or_default();
    let labelled = manifest.read.into_iter().filter(|entry| !entry.labels.is_empty());
    let read: Vec<Labelled> =
        labelled.map(|entry| Labelled { what: entry.what, labels: entry.labels }).take(MOST_NAMED).collect();
    let view = |made: Made| Proposal {
        run: run.to_string(),
        step: made.step.0,
        goal: charter.mission.goal.clone(),
        summary: made.request.summary,
        repository: charter.mission.repository.clone(),
        line: made.request.line,
        head: made.request.head,
        files: made.request.files.iter().map(view::proposed_file).collect(),
        added: made.request.added,
        removed: made.request.removed,
        checked: made.request.checked,
        checks: made.request.checks,
        export: made.request.export,
        taint: manifest.taint.clone(),
        read: read.clone(),
        state: made.state.into(),
        gate: made.gate.map(|gate| gate.to_string()),
        by: made.by,
        rule: made.rule,
        at: made.at,
    };
    Ok(made.into_iter().map(view).collect())
}

fn made(journal: &dyn Journal, run: RunId) -> Result<Vec<Made>, Error> {
    let (mut made, mut after): (Vec<Made>, u64) = (Vec::new(), 0);
    loop {
        let page = journal.history(run, after, PAGE)?;
        let Some(last) = page.last() else { return Ok(made) };
        after = last.header.seq;
        for event in page {
            let at = event.header.at.0;
            if let Fact::StepPlanned(planned) = &event.header.fact
                && planned.tool == MERGE
                && let Some(payload) = &event.payload
                && let Ok(request) = serde_json::from_slice::<MergeRequest>(&payload.0)
            {
                let step = planned.step;
                made.push(Made { step, at, request, state: "open", gate: None, by: None, rule: None });
            }
            if let Some(one) = made.last_mut() {
                one.hear(event.header.fact);
            }
        }
    }
}

impl Made {
    fn hear(&mut self, fact: Fact) {
        match fact {
            Fact::GateOpened { gate, subject, decision, .. } if subject == self.step => {
                (self.state, self.gate) = ("waits", Some(gate));
                self.rule = decision.map(|decision| decision.rule);
            }
            Fact::GateAnswered { gate, answer, by } if Some(gate) == self.gate => {
                self.by = Some(by);
                self.state = match answer {
                    Answer::Approved | Answer::WasDone | Answer::Repeat => "open",
                    Answer::Refused => "refused",
                    Answer::Expired => "expired",
                };
            }
            Fact::StepIntended { step, decision, .. } if step == self.step => self.rule = Some(decision.rule),
            Fact::StepDenied { step, reason: Denial::Policy { decision } } if step == self.step => {
                (self.state, self.rule) = ("denied", Some(decision.rule));
            }
            Fact::StepCompleted { step, outcome, .. } if step == self.step => {
                self.state = if outcome == Outcome::Succeeded { "merged" } else { "failed" };
            }
            _ => {}
        }
    }
}
