//! What was found: in order, bounded, and never silently.

use std::collections::BTreeMap;

use domain::Digest;
use serde::{Deserialize, Serialize};

use super::kind::Kind;
use super::rules::Rules;

/// Findings that a report lists. The rest is counted.
const LISTED: usize = 200;
/// Findings that are held at most while changes are looked at.
const HELD: usize = 20_000;

/// How a finding stands with the owner's rules. The order is that of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// The merge is refused.
    Denied,
    /// The owner is asked.
    Asks,
    /// The rules let it pass.
    Allowed,
}

/// What happened to the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Altered {
    /// It is new there.
    Added,
    /// Its content is another.
    Modified,
    /// It can be executed now, or no longer; the content is the same.
    Mode,
    /// It became a link, a file or a submodule.
    Type,
    /// It is gone.
    Deleted,
}

/// One change that others would execute or trust.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Finding {
    /// How it stood with the owner's rules when the workspace was committed. The door judges it again.
    pub standing: Standing,
    /// What it is about.
    pub kind: Kind,
    /// Its path. Bytes that are not UTF-8 or that a terminal would obey or hide are written as `\xNN` and
    /// `\u{N}`, a backslash as two.
    pub path: String,
    /// What happened.
    pub change: Altered,
    /// Why it matters, in one line.
    pub why: String,
    /// What has changed in it: keys, sources, characters; may be empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub what: Vec<String>,
    /// The first changed line, from 1, where it has lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The object's id; empty where it is gone.
    pub content: String,
    /// Whether the owner has approved exactly this at an earlier gate of the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub seen: bool,
}

/// How many findings of one kind there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// The kind.
    pub kind: Kind,
    /// How many, listed or not.
    pub number: u64,
}

/// All that was found in a proposal.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Report {
    /// The gravest, in order: by standing, kind and path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// All of them, counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counts: Vec<Count>,
    /// How many are counted only.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unlisted: u64,
    /// The digest of the rules that they were ordered by.
    pub rules: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Finding {
    /// What makes it the same finding at a later gate: what it is about, where, and the exact content.
    pub fn identity(&self) -> Digest {
        let parts = (self.kind, &self.path, self.change, &self.content, &self.what);
        Digest::of(&serde_json::to_vec(&parts).unwrap_or_default())
    }
}

impl Report {
    /// How many findings there are, listed or not.
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|count| count.number).sum()
    }

    /// The counts in one line, as `2 hook, 1 ci`.
    pub fn counted(&self) -> String {
        let all: Vec<_> =
            self.counts.iter().map(|count| format!("{} {}", count.number, count.kind.name())).collect();
        all.join(", ")
    }
}

/// Findings as they come, in bounded room.
#[derive(Debug)]
pub(super) struct Heap {
    rules: Rules,
    held: Vec<Finding>,
    counts: BTreeMap<Kind, u64>,
}

impl Heap {
    pub(super) fn new(rules: Rules) -> Self {
        Self { rules, held: Vec::new(), counts: BTreeMap::new() }
    }

    pub(super) fn push(&mut self, mut finding: Finding) {
        finding.standing = self.rules.standing(finding.kind, &finding.path);
        let count = self.counts.entry(finding.kind).or_default();
        *count = count.saturating_add(1);
        self.held.push(finding);
        if self.held.len() >= HELD {
            self.held.sort_unstable();
            self.held.truncate(LISTED);
        }
    }

    pub(super) fn close(mut self) -> Report {
        self.held.sort_unstable();
        self.held.truncate(LISTED);
        let counts: Vec<_> = self.counts.into_iter().map(|(kind, number)| Count { kind, number }).collect();
        let total: u64 = counts.iter().map(|count| count.number).sum();
        let listed = u64::try_from(self.held.len()).unwrap_or(u64::MAX);
        Report {
            unlisted: total.saturating_sub(listed),
            findings: self.held,
            counts,
            rules: self.rules.digest(),
        }
    }
}
