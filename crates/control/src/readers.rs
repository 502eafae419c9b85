//! Who has read a file, and what a run has read: questions to the read manifests.

mod summary;

use std::path::Path;
use std::sync::Arc;

use domain::RunId;
use serde::{Deserialize, Serialize};
use store::Tree;
use trust::policy::resource;

use crate::Control;
use crate::error::{Error, Kind};
use crate::missions::project_known;
use crate::policy::Files;
use crate::reads::{Read, What};
use crate::runs::Charter;
use crate::whose::inside;

pub(crate) use summary::summary;
pub use summary::{ReadSummary, Tainted};

/// Asks who has read a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhoRead {
    /// A directory of the repository.
    pub project: String,
    /// The file, below the root of the repository.
    pub path: String,
}

/// Steps of a run that have read a file in one way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reader {
    /// The run.
    pub run: String,
    /// Who acted.
    pub principal: String,
    /// The lease.
    pub lease: String,
    /// The goal.
    pub goal: String,
    /// `file` when the file itself was asked for, `below` when a folder was searched that it lies in, `workspace` when a
    /// program had all files before it: then it may have read this one.
    pub how: String,
    /// The tool of the first of the steps.
    pub tool: String,
    /// The steps, each by its number.
    pub steps: Vec<u64>,
    /// When the first of them was, in milliseconds.
    pub first_at: u64,
    /// When the last of them was, in milliseconds.
    pub last_at: u64,
}

/// What a run has read, and what it is tainted with by today's rules.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The labels of all of it.
    pub taint: Vec<String>,
    /// Each thing that it has read, in the order in which it first did.
    pub read: Vec<ManifestEntry>,
}

/// One thing that a run has read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestEntry {
    /// What: a file, all below a folder, the workspace, or something outside.
    pub what: What,
    /// Its labels.
    pub labels: Vec<String>,
    /// The run, where it is the one that this one goes on from; else `null`.
    pub inherited_from: Option<String>,
    /// The tool of the first step.
    pub tool: String,
    /// The steps, each by its number.
    pub steps: Vec<u64>,
    /// When the first of them was, in milliseconds.
    pub at: u64,
}

/// The most runs that are looked through.
const MOST_RUNS: usize = 10_000;

impl Control {
    /// The runs of a project that have read a file or may have, the latest first.
    ///
    /// # Errors
    /// When there is no such project, or records, journal or tree cannot be read.
    pub async fn who_read(&self, wanted: WhoRead) -> Result<Vec<Reader>, Error> {
        let (files, journal, records) = (self.files.clone(), self.journal(), Arc::clone(&self.records));
        let layout = self.layout.clone();
        self.blocking(move || {
            let path = inside(&wanted.path)?.to_string_lossy().into_owned();
            let owner = Tree::inspect(Path::new(&wanted.project))?;
            let project = project_known(&*records, &owner.root)?.ok_or_else(|| {
                let detail = format!("no run was ever started on {}", owner.root.display());
                Error::new(Kind::NotFound, "audit.no_project", detail).hint("a mission there begins one")
            })?;
            let tree = Tree::open_or_create(&layout.tree(project))?;
            let mut found = Vec::new();
            for row in journal.runs(false, MOST_RUNS)? {
                // What was forgotten answers nothing any more.
                let Ok(charter) = Charter::read(&*journal, row.run) else { continue };
                if charter.mission.project == project {
                    let place = Place { charter: &charter, tree: &tree, path: &path };
                    found.extend(place.readers(row.run, &manifest(&files, row.run)?)?);
                }
            }
            Ok(found)
        })
        .await
    }

    /// What a run has read.
    ///
    /// # Errors
    /// When there is no such run, or the journal, the rules or the tree cannot be read.
    pub async fn run_reads(&self, run: &str) -> Result<Manifest, Error> {
        let (files, run) = (self.files.clone(), self.resolve(run).await?);
        self.blocking(move || listed(&files, run)).await
    }
}

fn manifest(files: &Files, run: RunId) -> Result<Vec<Read>, Error> {
    files.reads().manifest(run).map_err(unreadable)
}

/// A file as a run may have had it before itself.
struct Place<'a> {
    charter: &'a Charter,
    tree: &'a Tree,
    path: &'a str,
}

impl Place<'_> {
    fn readers(&self, run: RunId, reads: &[Read]) -> Result<Vec<Reader>, Error> {
        let mut found: Vec<Reader> = Vec::new();
        // The run that this one goes on from answers for itself.
        for read in reads.iter().filter(|read| read.run == run) {
            let how = match &read.what {
                What::File(path) if path == self.path => "file",
                What::Below(folder) if resource::is_below(self.path, folder) && self.is_searched()? => {
                    "below"
                }
                What::Workspace if self.is_shown()? => "workspace",
                _ => continue,
            };
            match found.iter_mut().find(|reader| reader.how == how) {
                Some(reader) => {
                    reader.steps.push(read.step.0);
                    reader.last_at = read.at;
                }
                None => found.push(Reader {
                    run: run.to_string(),
                    principal: self.charter.started.principal.clone(),
                    lease: self.charter.started.lease.to_string(),
                    goal: self.charter.mission.goal.clone(),
                    how: how.into(),
                    tool: read.tool.clone(),
                    steps: vec![read.step.0],
                    first_at: read.at,
                    last_at: read.at,
                }),
            }
        }
        Ok(found)
    }

    /// Whether the file was in the run's commit when it began, or is on its branch.
    fn is_searched(&self) -> Result<bool, Error> {
        let base = crate::runs::base(&self.charter.mission)?;
        let head = self.tree.branch_head(&self.charter.started.branch).ok();
        for commit in [Some(base), head].into_iter().flatten() {
            if self.tree.has_file(&commit, Path::new(self.path))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_shown(&self) -> Result<bool, Error> {
        Ok(self.charter.mission.withheld.iter().any(|path| path == self.path) || self.is_searched()?)
    }
}

pub(crate) fn listed(files: &Files, run: RunId) -> Result<Manifest, Error> {
    let reads = manifest(files, run)?;
    let (_, labels) = files.labels_of(run).map_err(unreadable)?;
    let names = |labels: domain::Labels| labels.iter().map(|label| label.as_str().to_owned()).collect();
    let mut read: Vec<(RunId, ManifestEntry)> = Vec::new();
    for one in reads {
        let same = read.iter_mut().find(|(of, entry)| *of == one.run && entry.what == one.what);
        match same {
            Some((_, entry)) => entry.steps.push(one.step.0),
            None => read.push((
                one.run,
                ManifestEntry {
                    labels: names(labels.of_what(&one.what).map_err(unreadable)?),
                    inherited_from: (one.run != run).then(|| one.run.to_string()),
                    what: one.what,
                    tool: one.tool,
                    steps: vec![one.step.0],
                    at: one.at,
                },
            )),
        }
    }
    Ok(Manifest {
        taint: names(labels.all().map_err(unreadable)?),
        read: read.into_iter().map(|(_, entry)| entry).collect(),
    })
}

fn unreadable(why: String) -> Error {
    Error::new(Kind::Unavailable, "audit.reads", why).mend_apart()
}
