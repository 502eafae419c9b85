//! Undoing a merge. The run is over, so that nothing can be added to its events; what the owner does
//! with its merge is a record of its own, written before the act and completed after it.

use domain::{Digest, Fact, MissionId, Outcome, RunId};
use engine::host::{Delivered, MERGE, Merged};
use kernel::port::{Journal, RecordError, Records};
use serde::{Deserialize, Serialize};
use store::{Commit, Message, Signature, Tree, Undoing};

use crate::api;
use crate::error::{Error, Kind};
use crate::missions::OWNER;
use crate::runs::Charter;
use crate::{Control, Layout, view};

/// The record kind; the key is the run's id as text.
pub const KIND: &str = "undo";
/// Events read at a time.
const PAGE: usize = 4096;
/// How often it follows a line that other missions move.
const MOVES: usize = 5;

/// What is on record of an undo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undo {
    /// Who asked for it.
    pub by: String,
    /// When, in milliseconds since the Unix epoch.
    pub at: u64,
    /// The merge that is taken back.
    pub merge: String,
    /// The owner's branch.
    pub line: String,
    /// The head of Regie's line that the act was meant for.
    pub expected: String,
    /// How far it came. One that is only intended is completed by the same order again.
    pub state: State,
    /// The commit that took it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

/// How far an undo came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// On record; it may have happened.
    Intended,
    /// It could not be done and changed nothing.
    Refused,
    /// It has happened.
    Done,
}

/// One undo, with all that it works on. Everything here waits for disks and programs.
struct Act<'a> {
    records: &'a dyn Records,
    tree: Tree,
    charter: &'a Charter,
    run: RunId,
    at: u64,
    manners: store::Manners,
}

impl Control {
    /// Takes the merge of a run or mission back with a new commit on Regie's line, and delivers it as a
    /// merge is delivered.
    ///
    /// # Errors
    /// When nothing was merged, it was undone already, or later changes are in conflict with it.
    pub async fn run_undo(&self, name: &str) -> Result<api::Undone, Error> {
        let run = match name.parse::<MissionId>() {
            Ok(mission) => self.run_of(mission).await?,
            Err(_) => self.resolve(name).await?,
        };
        let (journal, records, layout) =
            (self.journal(), std::sync::Arc::clone(&self.records), self.layout.clone());
        let (at, manners) = (self.clock().now().0, (self.manners)());
        self.blocking(move || undo(&*journal, &*records, &layout, run, at, manners)).await
    }

    /// The run of a mission that merged last, else any of its runs.
    async fn run_of(&self, mission: MissionId) -> Result<RunId, Error> {
        let journal = self.journal();
        self.blocking(move || {
            let mut of_mission = None;
            for row in journal.runs(false, usize::MAX)? {
                if Charter::read(&*journal, row.run).is_ok_and(|charter| charter.mission.id == mission) {
                    if merged(&*journal, row.run)?.is_some() {
                        return Ok(row.run);
                    }
                    of_mission = of_mission.or(Some(row.run));
                }
            }
            if let Some(run) = of_mission {
                return Ok(run);
            }
            Err(Error::new(Kind::NotFound, "mission.not_found", format!("there is no mission `{mission}`"))
                .hint("`regie runs --json` lists missions with their runs"))
        })
        .await
    }
}

fn undo(
    journal: &dyn Journal,
    records: &dyn Records,
    layout: &Layout,
    run: RunId,
    at: u64,
    manners: store::Manners,
) -> Result<api::Undone, Error> {
    if journal.run(run)?.status != "ended" {
        return Err(Error::new(Kind::Conflict, "undo.run_open", format!("run {run} has not ended"))
            .hint("wait for its end, or `regie cancel` it"));
    }
    let charter = Charter::read(journal, run)?;
    let merge = merged(journal, run)?.ok_or_else(|| {
        Error::new(Kind::Conflict, "undo.nothing_merged", format!("run {run} has merged nothing"))
            .hint("`regie show` says how it ended")
    })?;
    let tree = Tree::open_or_create(&layout.tree(charter.mission.project))?;
    let act = Act { records, tree, charter: &charter, run, at, manners };
    act.carry_out(&merge)
}

/// The merge commit that a run has made.
pub(crate) fn merged(journal: &dyn Journal, run: RunId) -> Result<Option<String>, Error> {
    let (mut seq, mut merges, mut found) = (0, Vec::new(), None);
    loop {
        let page = journal.history(run, seq, PAGE)?;
        for event in &page {
            seq = event.header.seq;
            match (&event.header.fact, &event.payload) {
                (Fact::StepPlanned(planned), _) if planned.tool == MERGE => merges.push(planned.step),
                (Fact::StepCompleted { step, outcome: Outcome::Succeeded, .. }, Some(payload))
                    if merges.contains(step) =>
                {
                    found = serde_json::from_slice::<Merged>(&payload.0).ok().or(found);
                }
                _ => {}
            }
        }
        if page.len() < PAGE {
            return Ok(found.map(|merged| merged.commit));
        }
    }
}

impl Act<'_> {
    fn carry_out(&self, merge: &str) -> Result<api::Undone, Error> {
        let (mut undo, mut version) = self.intend(merge)?;
        let commit = loop {
            match self.revert(&undo) {
                Ok(commit) => break commit,
                Err(store::Error::Moved { .. }) if version < MOVES as u64 * 2 => {
                    // Another mission was a moment earlier: the act is meant for the line as it is now.
                    undo.expected = self.line_head()?;
                    version = self.put(&undo, version)?;
                }
                Err(error) => {
                    undo.state = State::Refused;
                    self.put(&undo, version)?;
                    return Err(refused(&error, &undo));
                }
            }
        };
        let delivered = self.deliver(&commit)?;
        undo.state = State::Done;
        undo.commit = Some(commit.to_string());
        self.put(&undo, version)?;
        let files = self.tree.diff(&object(&undo.expected)?, &commit)?.files;
        Ok(api::Undone {
            run: self.run.to_string(),
            mission: self.charter.mission.id.to_string(),
            goal: self.charter.mission.goal.clone(),
            line: undo.line,
            merge: undo.merge,
            commit: commit.to_string(),
            files: files.iter().map(view::file).collect(),
            delivered,
        })
    }

    /// Puts the intention on record, or finds one that a crash has left open.
    fn intend(&self, merge: &str) -> Result<(Undo, u64), Error> {
        let known = self.records.get(KIND, &self.run.to_string())?;
        let version = known.as_ref().map_or(0, |record| record.version);
        let known: Option<Undo> = known
            .map(|record| serde_json::from_slice(&record.body))
            .transpose()
            .map_err(|error| Error::new(Kind::Internal, "undo.damaged", view::with_causes(&error)))?;
        match known {
            Some(undo) if undo.state == State::Done => {
                let by = undo.commit.unwrap_or_default();
                let detail = format!("the merge of run {} was undone already, by {by}", self.run);
                Err(Error::new(Kind::Conflict, "undo.already", detail)
                    .hint("to have it back, revert that commit with git, or start a new mission"))
            }
            Some(undo) if undo.state == State::Intended => Ok((undo, version)),
            _ => {
                let undo = Undo {
                    by: OWNER.into(),
                    at: self.at,
                    merge: merge.to_owned(),
                    line: self.charter.mission.line.clone(),
                    expected: self.line_head()?,
                    state: State::Intended,
                    commit: None,
                };
                let version = self.put(&undo, version)?;
                Ok((undo, version))
            }
        }
    }

    fn put(&self, undo: &Undo, version: u64) -> Result<u64, Error> {
        let body = serde_json::to_vec(undo)
            .map_err(|error| Error::new(Kind::Internal, "internal", view::with_causes(&error)))?;
        self.records.put(KIND, &self.run.to_string(), version, &body).map_err(|error| match error {
            RecordError::Moved { .. } => Error::new(
                Kind::Conflict,
                "undo.busy",
                format!("the merge of run {} is being undone by somebody else", self.run),
            )
            .hint("look at the branch, and repeat it if it is still needed"),
            other => other.into(),
        })
    }

    fn line_head(&self) -> Result<String, Error> {
        let line = &self.charter.mission.line;
        let head = self.tree.line_head(line)?;
        Ok(head.ok_or_else(|| store::Error::BranchMissing { name: line.clone() })?.to_string())
    }

    fn revert(&self, undo: &Undo) -> Result<Commit, store::Error> {
        let mission = &self.charter.mission;
        let goal: String = mission.goal.split_whitespace().collect::<Vec<_>>().join(" ");
        let message = Message {
            subject: format!("Undo: {}", goal.chars().take(60).collect::<String>()),
            body: format!("This takes back the merge {}.", undo.merge),
            trailers: [
                ("Regie-Undoes", undo.merge.clone()),
                ("Regie-Run", self.run.to_string()),
                ("Regie-Mission", mission.id.to_string()),
                ("Regie-Principal", undo.by.clone()),
                ("Regie-On-Behalf-Of", self.charter.started.on_behalf_of.clone()),
                ("Regie-Lease", self.charter.started.lease.to_string()),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
        };
        let signature = Signature {
            name: undo.by.clone(),
            email: "owner@regie.invalid".into(),
            seconds: i64::try_from(undo.at / 1000).unwrap_or(i64::MAX),
        };
        let key = Digest::of(format!("regie/undo/{}/{}", self.run, undo.merge).as_bytes()).to_string();
        let named = |text: &str| {
            text.parse::<Commit>()
                .map_err(|_| store::Error::BranchMissing { name: text.chars().take(60).collect() })
        };
        let (merge, keep) = (named(&undo.merge)?, named(&mission.base)?);
        let expected_line_head = &named(&undo.expected)?;
        let undoing = Undoing { line: &undo.line, merge: &merge, keep: &keep, expected_line_head };
        self.tree.revert(&undoing, &message, &signature, &key)
    }

    fn deliver(&self, commit: &Commit) -> Result<Delivered, Error> {
        let mission = &self.charter.mission;
        let repository = std::path::Path::new(&mission.repository);
        Ok(match self.tree.deliver(repository, &mission.line, commit, self.manners)? {
            store::Delivery::FastForwarded { to, note, .. } => {
                Delivered::FastForwarded { commit: to.to_string(), note }
            }
            store::Delivery::AlreadyThere => Delivered::AlreadyThere,
            store::Delivery::Left { reason, command } => Delivered::Left { reason, command },
        })
    }
}

fn object(text: &str) -> Result<Commit, Error> {
    text.parse().map_err(|_| Error::new(Kind::Internal, "undo.damaged", "the record names no commit"))
}

fn refused(error: &store::Error, undo: &Undo) -> Error {
    let detail = view::with_causes(error);
    match error {
        store::Error::Conflict { paths } => {
            let paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
            let detail = format!(
                "the merge cannot be undone: later changes touch the same places in {}",
                paths.join(", ")
            );
            Error::new(Kind::Conflict, "undo.conflict", detail)
                .hint(format!("undo the later mission first, or `git revert -m 1 {}` by hand", undo.merge))
        }
        store::Error::NothingToUndo { .. } => Error::new(Kind::Conflict, "undo.gone", detail).mend_apart(),
        store::Error::NotMerged { .. } => Error::new(Kind::Conflict, "undo.not_on_line", detail).mend_apart(),
        _ => Error::new(Kind::Unavailable, "store.failed", detail).hint("see `regie doctor`"),
    }
}
