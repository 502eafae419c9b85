//! The recycle bin of all projects: branches of runs that ended long ago, and what workspaces held beyond their
//! branches when they were taken away. What is in it comes back as a branch of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::{ProjectId, RunId, Timestamp};
use kernel::port::{Journal, Records};
use store::{RESTORED, Tree, Treeish as _};

use super::hand::Hand;
use super::view::{Binned, BinnedShown, Restored};
use crate::error::{Error, Kind};
use crate::layout::Layout;
use crate::runs::Charter;
use crate::view;

/// The records of runs whose entry was emptied: nothing of theirs is held any more.
const KIND: &str = "bin";

pub(super) struct Bin {
    pub(super) journal: Arc<dyn Journal>,
    pub(super) records: Arc<dyn Records>,
    pub(super) layout: Layout,
    pub(super) now: Timestamp,
}

/// A time as commits have it.
pub(super) fn seconds(at: Timestamp) -> i64 {
    i64::try_from(at.0 / 1000).unwrap_or(i64::MAX)
}

/// Whether what was held for a run was let go of.
pub(super) fn was_emptied(records: &dyn Records, run: RunId) -> bool {
    // A record that cannot be read keeps what it may be about.
    records.get(KIND, &run.to_string()).is_ok_and(|record| record.is_some())
}

impl Bin {
    pub(super) fn list(&self) -> Result<Vec<Binned>, Error> {
        let mut projects: BTreeMap<ProjectId, Vec<(RunId, Charter)>> = BTreeMap::new();
        for row in self.journal.runs(false, usize::MAX)? {
            if row.status != "ended" {
                continue;
            }
            // What cannot be read of a run has no entry, and nothing of it goes.
            if let Ok(charter) = Charter::read(&*self.journal, row.run) {
                projects.entry(charter.mission.project).or_default().push((row.run, charter));
            }
        }
        let mut entries = Vec::new();
        for (project, runs) in projects {
            let Some(tree) = self.tree(project)? else { continue };
            let (binned, left) = (tree.bin_list()?, tree.left_all()?);
            let binned: BTreeMap<_, _> = binned.iter().map(|entry| (entry.name.as_str(), entry)).collect();
            for (run, charter) in runs {
                let branch = charter.started.branch.as_str();
                if let Some(found) = binned.get(branch) {
                    let at = u64::try_from(found.at).unwrap_or(0).saturating_mul(1000);
                    entries.push(entry(run, &charter, &found.head, Some(at)));
                } else if let Some(files) = left.get(&run.to_string())
                    && let Ok(head) = tree.branch_head(branch)
                    && tree.tree_of(&head)? != *files
                    && !self.layout.room(run).exists()
                {
                    entries.push(entry(run, &charter, &head, None));
                }
            }
        }
        entries.sort_by(|a, b| b.at.cmp(&a.at).then_with(|| b.run.cmp(&a.run)));
        Ok(entries)
    }

    pub(super) fn fetch(&self, run: RunId) -> Result<BinnedShown, Error> {
        let (entry, tree, charter) = self.found(run)?;
        let diff = tree.diff(&charter.counted_from(&tree)?, &files(&tree, &entry)?)?;
        Ok(BinnedShown { entry, files: diff.files.iter().map(view::file).collect() })
    }

    pub(super) fn restore(&self, run: RunId) -> Result<Restored, Error> {
        let (entry, tree, _) = self.found(run)?;
        let branch = format!("{RESTORED}/{run}");
        let head = match entry.at {
            Some(_) => tree.bin_restore(&entry.branch, &branch),
            None => {
                let head = tree.branch_head(&entry.branch)?;
                tree.branch_of_files(&branch, &head, &files(&tree, &entry)?, seconds(self.now))
            }
        };
        let head = head.map_err(|error| match error {
            store::Error::BranchExists { name } => Error::new(
                Kind::Conflict,
                "bin.restored",
                format!("what run {run} left is a branch already: {name}"),
            )
            .hint(format!("have it with `{}`", tree.branch_command(&branch))),
            other => other.into(),
        })?;
        let command = tree.branch_command(&branch);
        Ok(Restored { run: run.to_string(), branch, head: head.hex().to_owned(), command })
    }

    pub(super) fn empty(&self, hand: &Hand, runs: &[RunId]) -> Result<Vec<Binned>, Error> {
        let entries = match runs {
            [] => self.list()?,
            named => named.iter().map(|run| Ok(self.found(*run)?.0)).collect::<Result<_, Error>>()?,
        };
        for entry in &entries {
            let forget = || self.forget(entry).map_err(|error| view::with_causes(&error));
            hand.does("sweep.bin", &entry.run, forget)
                .map_err(|why| Error::new(Kind::Unavailable, "bin.stays", why))?;
        }
        Ok(entries)
    }

    /// Lets go of one entry, for good: that is on record first, so that no collection holds it anew.
    pub(super) fn forget(&self, entry: &Binned) -> Result<(), Error> {
        let damaged = || Error::new(Kind::Internal, "bin.damaged", "an entry of the bin names no run");
        let run: RunId = entry.run.parse().map_err(|_| damaged())?;
        let charter = Charter::read(&*self.journal, run)?;
        let Some(tree) = self.tree(charter.mission.project)? else { return Ok(()) };
        if entry.at.is_some() && self.records.get(KIND, &entry.run)?.is_none() {
            let body = format!("{{\"emptied_at\":{}}}", self.now.0);
            self.records.put(KIND, &entry.run, 0, body.as_bytes())?;
        }
        Ok(tree.run_forget(&entry.branch, &entry.run)?)
    }

    fn found(&self, run: RunId) -> Result<(Binned, Tree, Charter), Error> {
        let name = run.to_string();
        let entry = self.list()?.into_iter().find(|entry| entry.run == name);
        let none = || {
            Error::new(Kind::NotFound, "bin.nothing", format!("run {run} has nothing in the bin"))
                .hint("`regie bin list` shows what is in it; `regie diff` what a run changed")
        };
        let entry = entry.ok_or_else(none)?;
        let charter = Charter::read(&*self.journal, run)?;
        let tree = self.tree(charter.mission.project)?.ok_or_else(none)?;
        Ok((entry, tree, charter))
    }

    /// The git dir of a project. None is made where none is.
    fn tree(&self, project: ProjectId) -> Result<Option<Tree>, Error> {
        let dir = self.layout.tree(project);
        if dir.join("HEAD").exists() { Ok(Some(Tree::open_or_create(&dir)?)) } else { Ok(None) }
    }
}

/// The files that come back with an entry.
fn files(tree: &Tree, entry: &Binned) -> Result<store::TreeId, Error> {
    let gone = || Error::new(Kind::NotFound, "bin.nothing", "the entry has gone meanwhile");
    match entry.at {
        Some(_) => {
            let found = tree.bin_list()?.into_iter().find(|found| found.name == entry.branch);
            found.map(|found| found.files).ok_or_else(gone)
        }
        None => tree.left(&entry.run)?.ok_or_else(gone),
    }
}

fn entry(run: RunId, charter: &Charter, head: &store::Commit, at: Option<u64>) -> Binned {
    Binned {
        run: run.to_string(),
        goal: charter.mission.goal.clone(),
        repository: charter.mission.repository.clone(),
        branch: charter.started.branch.clone(),
        head: head.hex().to_owned(),
        what: if at.is_some() { "branch" } else { "files" }.to_owned(),
        at,
    }
}
