//! Requests and results of the steps that the daemon itself executes. The driver plans them, the
//! daemon's host executor reads the requests and writes the results; all are JSON.

use domain::{Digest, MissionId, RunId};
use serde::{Deserialize, Serialize};

/// The tool name of a checkpoint step.
pub const CHECKPOINT: &str = "checkpoint";
/// The tool name of a verdict step.
pub const VERDICT: &str = "verdict";
/// The tool name of a verdict step before the work: the files are as they were when it is over.
pub const TRIAL: &str = "trial";
/// The tool name of a merge step.
pub const MERGE: &str = "merge";
/// The tool name of a deliver step.
pub const DELIVER: &str = "deliver";

/// The tool name of the step that sets the project up.
pub const SETUP: &str = runner::spec::SETUP;

/// Asks to set the project up: in the form of a tool call, as it runs in the jail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetupRequest {
    /// [`SETUP`].
    pub tool: String,
    /// What is to run.
    pub input: SetupInput,
}

/// The command of a setup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetupInput {
    /// The shell line.
    pub command: String,
    /// Where it comes from, as `regie.toml:3`.
    pub from: String,
    /// Variables of the owner's environment that it is given, by name.
    pub sees: Vec<String>,
}

/// A commit's message.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Message {
    /// The first line.
    pub subject: String,
    /// The agent's own account; may be empty.
    pub body: String,
    /// Provenance, as `Regie-Run`. The host adds the key of the step.
    pub trailers: Vec<(String, String)>,
}

/// Asks to commit the workspace to the run's branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointRequest {
    /// The run's branch.
    pub branch: String,
    /// The commit that the run started from: what the changes are counted against.
    pub base: String,
    /// The owner's branch whose line the work goes to.
    pub line: String,
    /// The commit's message.
    pub message: Message,
    /// Commits nothing and stands by this earlier commit: what was judged on it since has left files in
    /// the workspace that are no part of the proposal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<String>,
    /// Whether what others have merged into the line comes into the branch first, so that what is judged
    /// is what the merge will give.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub follow: bool,
    /// Paths that the agent was asked to resolve: marks that are left in them are a conflict still.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unresolved: Vec<String>,
}

/// The workspace as it was committed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The head of the run's branch; `None` while its tree equals the base's. The same tree has the
    /// same commit: a checkpoint without new changes names the last one again.
    pub commit: Option<String>,
    /// The commit that the changes are counted against: the one of the request, or the line that the
    /// branch has followed.
    pub base: String,
    /// The head of Regie's own line at that moment, which a merge then expects.
    #[serde(default)]
    pub line_head: Option<String>,
    /// Changed files, base to commit.
    pub files: Vec<FileChange>,
    /// Lines added in all.
    pub added: u64,
    /// Lines removed in all.
    pub removed: u64,
    /// The whole patch, an artifact.
    #[serde(default)]
    pub patch: Option<Digest>,
    /// Its beginning.
    #[serde(default)]
    pub patch_preview: String,
    /// Whether what others have merged came into the workspace with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub followed: bool,
    /// Paths that hold both versions between marks, because others changed the same places.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<String>,
    /// What of the changes others would execute or trust.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub export: Option<trust::export::Report>,
}

/// One changed file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// Its path, lossy where it is not UTF-8.
    pub path: String,
    /// `added`, `modified`, `deleted`, `renamed`, …
    pub status: String,
    /// Lines added.
    pub added: u64,
    /// Lines removed.
    pub removed: u64,
}

/// Asks to judge one criterion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictRequest {
    /// The shell line; it passes when it exits with 0.
    pub command: String,
}

/// Asks to merge a proposal into Regie's own line of the owner's branch. It is what a gate is bound
/// to, so everything that the owner decides upon is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeRequest {
    /// The run.
    pub run: RunId,
    /// Its mission.
    pub mission: MissionId,
    /// What the owner asked for.
    pub goal: String,
    /// The run's branch.
    pub branch: String,
    /// The commit that is merged.
    pub head: String,
    /// The commit that the run started from.
    pub base: String,
    /// The owner's branch.
    pub line: String,
    /// What Regie's line must still be.
    pub expected_line_head: Option<String>,
    /// What was checked, in one plain sentence; says so when nothing was.
    pub checked: String,
    /// The commands that passed.
    pub checks: Vec<String>,
    /// The same commands where the agent proposed them, and what they are worth; empty where they are the
    /// owner's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proposed: Vec<Proposed>,
    /// What of the changes others would execute or trust, which the owner sees first. Absent in the
    /// requests of drivers that know no export gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub export: Option<trust::export::Report>,
    /// Changed files.
    pub files: Vec<FileChange>,
    /// The owner's own uncommitted changes that the run started from, by their paths: the merge brings
    /// them along. They are not among `files`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncommitted: Vec<String>,
    /// Lines added in all.
    pub added: u64,
    /// Lines removed in all.
    pub removed: u64,
    /// The whole patch, an artifact.
    pub patch: Option<Digest>,
    /// The agent's closing words: its own account, not evidence.
    pub summary: String,
    /// The merge commit's message.
    pub message: Message,
}

/// A criterion that the agent proposed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposed {
    /// The shell line.
    pub command: String,
    /// What it proves, in the agent's words.
    pub why: String,
    /// How it stood before the work.
    pub before: Before,
}

/// How a criterion stood when it was frozen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Before {
    /// It failed, so that passing says something.
    Failed,
    /// It passed already, on the files of the start: it says little about the goal.
    Passed,
    /// It passed already, but the work had begun.
    PassedAtWork,
    /// The owner interrupted the trial.
    Untried,
}

impl Before {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Failed => "failed before",
            Self::Passed => "passed already before the work",
            Self::PassedAtWork => "passed already when it was proposed, with the work begun",
            Self::Untried => "was not tried before",
        }
    }
}

/// A merge that was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merged {
    /// The merge commit on Regie's line.
    pub commit: String,
}

/// A merge that was not done; the payload of a failed merge step.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MergeFailed {
    /// What happened and how to mend it.
    pub message: String,
    /// Paths in conflict.
    #[serde(default)]
    pub conflicts: Vec<String>,
    /// Whether Regie's line has moved since the checkpoint: the same commit may be proposed to the line
    /// as it is now.
    #[serde(default)]
    pub moved: bool,
}

/// Asks to bring a merge to the owner's branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliverRequest {
    /// The merge commit. The host refuses one that is not on Regie's line.
    pub commit: String,
    /// The owner's branch.
    pub line: String,
}

/// What became of the owner's branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "delivery", rename_all = "snake_case")]
pub enum Delivered {
    /// It was fast-forwarded, files and index with it.
    FastForwarded {
        /// Its new head.
        commit: String,
        /// What the owner should know of the hook that follows a merge.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// It had the commit already.
    AlreadyThere,
    /// It was left alone.
    Left {
        /// Why.
        reason: String,
        /// The exact command that takes the merge over.
        command: String,
    },
}

/// Any other failure of a host's step: the payload of a failed checkpoint or deliver step.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HostFailure {
    /// A stable code, as `store.disk_full`.
    #[serde(default)]
    pub code: String,
    /// What happened and how to mend it.
    pub message: String,
}
