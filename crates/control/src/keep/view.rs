//! What is asked about the home, and what is answered. Sizes are bytes on disk.

use serde::{Deserialize, Serialize};

/// What lies in the home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// The home.
    pub home: String,
    /// All of it.
    pub bytes: u64,
    /// Its parts, the largest first.
    pub parts: Vec<Part>,
    /// The projects, the largest first.
    pub projects: Vec<OfProject>,
    /// The runs, the largest first.
    pub runs: Vec<OfRun>,
}

/// A part of the home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// `journal`, `index`, `artifacts`, `trees`, `work`, `cache`, `spool`, `log` or `other`.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

/// What a project takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfProject {
    /// The project.
    pub project: String,
    /// The root of the owner's repository.
    pub repository: String,
    /// Its git directory.
    pub tree: u64,
    /// So much of it are files that the owner's repository holds as well: they take no room of their own.
    #[serde(default, skip_serializing_if = "is_none")]
    pub shared: u64,
    /// What its tools keep.
    pub cache: u64,
    /// The workspaces of its runs.
    pub work: u64,
}

/// What a run takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfRun {
    /// The run.
    pub run: String,
    /// `active`, `parked` or `ended`.
    pub status: String,
    /// The goal.
    pub goal: String,
    /// When its last event was written.
    pub updated_at: u64,
    /// Its workspace.
    pub work: u64,
    /// What its runner has written down.
    pub spool: u64,
    /// The artifacts that its events name; one that several runs share counts for each of them.
    pub artifacts: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_none(bytes: &u64) -> bool {
    *bytes == 0
}

/// What may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sweep {
    /// Only say what would go.
    #[serde(default)]
    pub dry_run: bool,
    /// How long ago a run must have ended, in milliseconds.
    pub older_than: u64,
    /// What all caches may take together, in bytes.
    pub caches: u64,
    /// How long ago a run must have ended for its branch to go into the bin, in milliseconds; without it none
    /// does.
    #[serde(default)]
    pub branches: Option<u64>,
    /// How long what is in the bin stays there, in milliseconds; without it everything does.
    #[serde(default)]
    pub bin: Option<u64>,
}

/// What a run left that is no branch any more, or that its branch does not have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binned {
    /// The run.
    pub run: String,
    /// The goal.
    pub goal: String,
    /// The root of the owner's repository.
    pub repository: String,
    /// The branch that it was.
    pub branch: String,
    /// The head of the branch.
    pub head: String,
    /// `branch`: all of it is in the bin; `files`: the branch stands, and the bin has what its workspace held
    /// beyond it.
    pub what: String,
    /// Since when the branch has been in the bin; `null` for files.
    pub at: Option<u64>,
}

/// One entry of the bin, looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BinnedShown {
    /// The entry.
    pub entry: Binned,
    /// What its files have changed since the run's start.
    pub files: Vec<crate::api::File>,
}

/// A branch that came back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// The run.
    pub run: String,
    /// The branch, in Regie's git directory.
    pub branch: String,
    /// Its head.
    pub head: String,
    /// What the owner types to have it.
    pub command: String,
}

/// What of the bin is to go for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmptyBin {
    /// These runs; with none named, all.
    #[serde(default)]
    pub runs: Vec<String>,
}

/// What went.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swept {
    /// Whether it is only said.
    pub dry_run: bool,
    /// What was, or would be, freed.
    pub freed: u64,
    /// One row a thing.
    pub items: Vec<Item>,
}

/// A thing that goes or stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// `workspace`, `branch`, `bin`, `spool`, `left_over`, `cache`, `artifacts` or `objects`.
    pub what: String,
    /// The run or project, or a path.
    pub name: String,
    /// What it takes.
    pub bytes: u64,
    /// Whether it goes.
    pub goes: bool,
    /// Why it stays, or what is kept of it.
    pub note: Option<String>,
}

/// What is to be forgotten of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forget {
    /// This step alone; otherwise all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// Only say what would go.
    #[serde(default)]
    pub dry_run: bool,
    /// Also the runs that go on from it.
    #[serde(default)]
    pub with_forks: bool,
}

/// What was forgotten, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Forgotten {
    /// Whether nothing was done.
    pub dry_run: bool,
    /// The runs.
    pub runs: Vec<ForgottenRun>,
    /// What is not reached by it, in words.
    pub stays: Vec<String>,
}

/// What goes of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgottenRun {
    /// The run.
    pub run: String,
    /// What it was about; empty where that is forgotten.
    pub goal: String,
    /// The step that alone goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// Contents of events.
    pub contents: u64,
    /// Artifacts that nothing else refers to.
    pub artifacts: u64,
    /// Their size.
    pub bytes: u64,
    /// The size of its workspace.
    pub workspace: u64,
    /// The branch that goes, with snapshots and what is in the bin of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
}
