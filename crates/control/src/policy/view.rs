//! What is asked about the rules, and what is answered.

use serde::{Deserialize, Serialize};

/// The rules that count in a place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// The files that are looked for, also those that are not there.
    pub files: Vec<PolicyFile>,
    /// The rules: the built-in ones, then those of each file that makes sense.
    pub rules: Vec<PolicyRule>,
}

/// A file of rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyFile {
    /// As decisions name it, as `policy.toml`.
    pub file: String,
    /// Where it lies.
    pub path: String,
    /// `owner`, `project` or `repository`.
    pub level: String,
    /// Whether it is there.
    pub exists: bool,
    /// Whether its rules count in the place that was asked for; other projects' files are only looked at.
    pub counts: bool,
    /// How many rules it has.
    pub rules: u64,
    /// What makes no sense in it, with its line and how to mend it. Until then its tool calls are denied.
    pub problem: Option<String>,
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyRule {
    /// Its name; `null` for a built-in one.
    pub name: Option<String>,
    /// `deny`, `ask` or `allow`.
    pub verdict: String,
    /// `built_in`, `owner`, `project` or `repository`.
    pub level: String,
    /// The file.
    pub file: Option<String>,
    /// Its line there.
    pub line: Option<u64>,
    /// Why, in words; may be empty.
    pub about: String,
    /// The rules that it lifts.
    pub lifts: Vec<String>,
}

/// Asks what would be decided.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explain {
    /// A directory in the project's repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The action in words, as `shell git push`.
    pub action: String,
    /// Who acts; the built-in coding agent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// Labels of what it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Labels of what the run has read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taint: Vec<String>,
}

/// What would be decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explained {
    /// `deny`, `ask` or `allow`.
    pub verdict: String,
    /// The rule that decides, as a decision on record names it.
    pub rule: String,
    /// Every rule that holds, the built-in one first.
    pub held: Vec<Held>,
    /// The commands that a shell line is seen to start.
    pub commands: Vec<String>,
    /// Where seeing ends; empty when all of it was seen.
    pub unclear: Vec<String>,
}

/// A rule that holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Its name; `null` for a built-in one.
    pub name: Option<String>,
    /// `deny`, `ask` or `allow`.
    pub verdict: String,
    /// The file.
    pub file: Option<String>,
    /// Its line there.
    pub line: Option<u64>,
    /// Why, in words; may be empty.
    pub about: String,
    /// The rule that takes its question away.
    pub lifted_by: Option<String>,
}

/// Asks what was decided about a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskWhy {
    /// A run: an id, the end of one, or `last`.
    pub run: String,
    /// A step, as `12`, or an event, as `@34`.
    pub of: String,
}

/// What was decided about a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Why {
    /// The run.
    pub run: String,
    /// The step.
    pub step: u64,
    /// Its kind.
    pub kind: String,
    /// Its tool, or the model.
    pub tool: String,
    /// Its effect class.
    pub effect: String,
    /// Its risk class.
    pub risk: String,
    /// Its request; `null` where it is composed of what was recorded before.
    pub request: serde_json::Value,
    /// What is on record, in order.
    pub decisions: Vec<Judged>,
    /// What today's rules say of it, as of the instant of the last decision, without its approval; `null` for a step that nobody judges.
    pub today: Option<Judged>,
}

/// A decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judged {
    /// The event, in the run; 0 for what would be decided now.
    pub seq: u64,
    /// When.
    pub at: u64,
    /// `deny`, `ask` or `allow`; of an answer `approved`, `refused`, `expired`, …
    pub verdict: String,
    /// The rule, or who answered.
    pub rule: String,
    /// The lease that it was judged under.
    pub lease: Option<String>,
    /// The lease's epoch.
    pub epoch: Option<u64>,
    /// The gate.
    pub gate: Option<String>,
}
