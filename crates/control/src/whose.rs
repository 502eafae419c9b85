//! Who changed a line: the commit that it comes from, and what the journal knows of that. A commit's own words
//! are not believed, since anybody who commits writes them; the run that they name must have it on record.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use domain::gate::Answer;
use domain::{Fact, GateId, RunId, StepNo};
use kernel::port::{Journal, Records};
use serde::{Deserialize, Serialize};
use store::engine::{Engine as _, Git};
use store::{Provenance, Tree, Treeish as _};

use crate::Control;
use crate::error::{Error, Kind};
use crate::missions::{PROJECT, Project};
use crate::runs::Charter;
use crate::undo;

/// Events looked at in one go.
const PAGE: usize = 512;

/// Asks who changed a file, or a line of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhoChanged {
    /// A directory of the repository.
    pub project: String,
    /// The file, below the root of the repository.
    pub path: String,
    /// The line, counted from 1.
    #[serde(default)]
    pub line: Option<u64>,
}

/// Lines, and where they come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// The first of the lines.
    pub first: u64,
    /// How many there are.
    pub lines: u64,
    /// The commit.
    pub commit: String,
    /// Its subject.
    pub subject: String,
    /// The name that it was committed under.
    pub by: String,
    /// When, in milliseconds.
    pub at: u64,
    /// Where it comes from, when a run of this home has it on record; what a commit says of itself is not
    /// enough.
    pub origin: Option<Whose>,
}

/// Where a commit comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whose {
    /// Who acted.
    pub principal: String,
    /// For whom.
    pub on_behalf_of: String,
    /// The run.
    pub run: String,
    /// The lease.
    pub lease: String,
    /// The goal.
    pub goal: String,
    /// The rule under which it was merged; `null` while it is not.
    pub rule: Option<String>,
    /// The gate that approved the merge; `null` where none was asked.
    pub gate: Option<String>,
    /// Who approved.
    pub approved_by: Option<String>,
}

impl Control {
    /// Where the lines of a file come from, as Regie's line of the owner's branch has it.
    ///
    /// # Errors
    /// When there is no such file or line, or no run was ever started on the repository.
    pub async fn who_changed(&self, wanted: WhoChanged) -> Result<Vec<Changed>, Error> {
        let (journal, records, layout) =
            (self.journal(), std::sync::Arc::clone(&self.records), self.layout.clone());
        self.blocking(move || {
            let path = inside(&wanted.path)?;
            let owner = Tree::inspect(Path::new(&wanted.project))?;
            let nothing = || {
                let detail = format!("Regie has no line of {} in {}", owner.branch, owner.root.display());
                Error::new(Kind::NotFound, "audit.no_line", detail).hint("a mission there begins one")
            };
            let record = records.get(PROJECT, &Project::key(&owner.root))?.ok_or_else(nothing)?;
            let project: Project = serde_json::from_slice(&record.body).map_err(|_| nothing())?;
            let tree = Tree::open_or_create(&layout.tree(project.id))?;
            let head = tree.line_head(&owner.branch)?.ok_or_else(nothing)?;
            let mut found = tree.blame(&head, &path)?;
            if let Some(line) = wanted.line {
                found.retain(|origin| origin.first <= line && line - origin.first < origin.lines);
                for origin in &mut found {
                    (origin.first, origin.lines) = (line, 1);
                }
            }
            if found.is_empty() {
                let line = wanted.line.map(|line| format!(" with a line {line}")).unwrap_or_default();
                let detail = format!("Regie's line of {} has no file {}{line}", owner.branch, path.display());
                return Err(Error::new(Kind::NotFound, "audit.no_such_line", detail));
            }
            let (git, mut known) = (Git::new(tree), HashMap::new());
            let mut changed = Vec::new();
            for origin in found {
                let record = git.record(&origin.commit)?;
                let told = (origin.commit.clone(), record.provenance.clone());
                let whose = match known.get(&told.0) {
                    Some(whose) => Option::clone(whose),
                    None => {
                        let whose = on_record(&*journal, &*records, origin.commit.hex(), &told.1)?;
                        known.insert(told.0, whose.clone());
                        whose
                    }
                };
                changed.push(Changed {
                    first: origin.first,
                    lines: origin.lines,
                    commit: origin.commit.to_string(),
                    subject: record.subject,
                    by: record.by,
                    at: u64::try_from(record.seconds).unwrap_or(0).saturating_mul(1000),
                    origin: whose,
                });
            }
            Ok(changed)
        })
        .await
    }
}

/// A path below the root of a repository, and nothing else.
pub(crate) fn inside(path: &str) -> Result<PathBuf, Error> {
    let path = PathBuf::from(path);
    if path.components().all(|part| matches!(part, Component::Normal(_))) && !path.as_os_str().is_empty() {
        return Ok(path);
    }
    let detail = format!("{} is no file below the root of the repository", path.display());
    Err(Error::new(Kind::Invalid, "audit.path", detail))
}

/// What the journal knows of a commit; nothing when the run that it names does not.
fn on_record(
    journal: &dyn Journal,
    records: &dyn Records,
    commit: &str,
    told: &Provenance,
) -> Result<Option<Whose>, Error> {
    let Ok(run) = told.run.parse::<RunId>() else { return Ok(None) };
    let Ok(charter) = Charter::read(journal, run) else { return Ok(None) };
    let (mut seq, mut is_known) = (0, false);
    let (mut merges, mut checkpoints): (Vec<StepNo>, Vec<StepNo>) = Default::default();
    let mut answers: HashMap<GateId, String> = HashMap::new();
    let (mut rule, mut gate) = (None, None);
    loop {
        let page = journal.history(run, seq, PAGE)?;
        let Some(last) = page.last() else { break };
        seq = last.header.seq;
        for event in &page {
            match &event.header.fact {
                Fact::StepPlanned(planned) if planned.tool == engine::host::MERGE => {
                    merges.push(planned.step)
                }
                Fact::StepPlanned(planned) if planned.tool == engine::host::CHECKPOINT => {
                    checkpoints.push(planned.step);
                }
                Fact::StepIntended { step, decision, .. } if merges.contains(step) => {
                    (rule, gate) = (Some(decision.rule.clone()), decision.gate);
                }
                Fact::GateAnswered { gate, answer: Answer::Approved, by } => {
                    answers.insert(*gate, by.clone());
                }
                // A result of the host names the commits that it made; what jails answer is not asked.
                Fact::StepCompleted { step, .. } if merges.contains(step) || checkpoints.contains(step) => {
                    let payload = event.payload.as_ref().map(|payload| payload.0.as_slice());
                    is_known |= payload.is_some_and(|bytes| names(bytes, commit));
                }
                _ => {}
            }
        }
    }
    // The commit that took a merge back is in a record of its own.
    let undone = || records.get(undo::KIND, &run.to_string()).ok().flatten();
    if !is_known && !undone().is_some_and(|record| contains(&record.body, commit)) {
        return Ok(None);
    }
    Ok(Some(Whose {
        principal: told.principal.clone(),
        on_behalf_of: told.on_behalf_of.clone(),
        run: run.to_string(),
        lease: told.lease.clone(),
        goal: charter.mission.goal,
        approved_by: gate.and_then(|gate| answers.get(&gate).cloned()),
        gate: gate.map(|gate| gate.to_string()),
        rule,
    }))
}

/// Whether a result says `"commit": …` of this commit, at its top.
fn names(bytes: &[u8], commit: &str) -> bool {
    if !contains(bytes, commit) {
        return false;
    }
    let value: Result<serde_json::Value, _> = serde_json::from_slice(bytes);
    value.is_ok_and(|value| value.get("commit").and_then(|found| found.as_str()) == Some(commit))
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}
