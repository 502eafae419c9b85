//! What is asked about leases and the halt, and what is answered.

use serde::{Deserialize, Serialize};

/// What a lease is to hold; what is absent is as wide as where it comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseWanted {
    /// Tools, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Files that may be read, as patterns relative to the repository's root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<Vec<String>>,
    /// Files that may be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write: Option<Vec<String>>,
    /// The labels of what it takes in at most; of what has others nothing is read under it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sees: Option<Vec<String>>,
}

impl LeaseWanted {
    /// Whether nothing is said.
    pub fn is_blank(&self) -> bool {
        *self == Self::default()
    }
}

/// Asks for a lease that is held by whoever bears its token.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MintLease {
    /// The lease that it is narrowed from; without one it is a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// What it is to hold.
    #[serde(flatten)]
    pub wanted: LeaseWanted,
    /// Who bears it, as `agent:reviewer`.
    pub holder: String,
    /// What for.
    #[serde(default)]
    pub purpose: String,
    /// How long, in milliseconds.
    pub millis: u64,
}

/// A lease that was minted.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Minted {
    /// The lease.
    pub lease: Lease,
    /// The token of its bearer. It is told here and never again.
    pub token: String,
}

/// Shows the lease and nothing of the token.
impl std::fmt::Debug for Minted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Minted").field("lease", &self.lease).finish_non_exhaustive()
    }
}

/// A lease as it is at this moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The lease.
    pub lease: String,
    /// `holds`, `expired` or `revoked`; with any that it comes from.
    pub state: String,
    /// The run that holds it.
    pub run: Option<String>,
    /// The lease that it was narrowed from.
    pub parent: Option<String>,
    /// Who acts.
    pub principal: String,
    /// On whose behalf.
    pub on_behalf_of: String,
    /// What for.
    pub purpose: String,
    /// Tools, by name.
    pub tools: Vec<String>,
    /// Files that may be read.
    pub read: Vec<String>,
    /// Files that may be written.
    pub write: Vec<String>,
    /// The labels of what it takes in at most; `null` where that is not bounded.
    #[serde(default)]
    pub sees: Option<Vec<String>>,
    /// When it was granted.
    pub granted_at: Option<u64>,
    /// When it ends by itself.
    pub expires_at: u64,
}

/// A lease with what came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseRecord {
    /// The lease.
    #[serde(flatten)]
    pub lease: Lease,
    /// Those that it comes from, the root last.
    pub above: Vec<String>,
    /// Those that were narrowed from it.
    pub below: Vec<String>,
    /// How many decisions under it allowed something.
    pub allowed: u64,
    /// Decisions under it that asked or denied, in order.
    pub refused: Vec<Decided>,
    /// What was done to it.
    pub acts: Vec<Act>,
}

/// A decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided {
    /// The event.
    pub seq: u64,
    /// When.
    pub at: u64,
    /// The step.
    pub step: u64,
    /// `ask` or `deny`.
    pub verdict: String,
    /// The rule, in words.
    pub rule: String,
}

/// Something that was done outside of any run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Act {
    /// Who did it.
    pub by: String,
    /// The lease that it was decided under.
    pub lease: Option<String>,
    /// What.
    pub what: String,
    /// To what.
    pub of: String,
    /// When it was intended.
    pub at: u64,
    /// The rule that allowed it.
    pub rule: String,
    /// How it ended; without, it was cut short.
    pub outcome: Option<String>,
}

/// Somebody who acts here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Role {
    /// Who, as `agent:coder`.
    pub principal: String,
    /// The leases that it holds at this moment.
    pub leases: Vec<String>,
    /// How many of the latest thousand runs were its own.
    pub runs: u64,
    /// The latest of them, the newest first.
    pub recent: Vec<RecentRun>,
}

/// A run of a role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecentRun {
    /// The run.
    pub run: String,
    /// `active`, `waiting`, `parked` or `ended`.
    pub status: String,
    /// What for.
    pub goal: String,
    /// When it started.
    pub started_at: u64,
}

/// Asks for the halt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaiseHalt {
    /// Why, in the owner's words.
    #[serde(default)]
    pub why: String,
}

/// How the halt stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Halt {
    /// Whether everything is halted.
    pub is_on: bool,
    /// Who turned it last.
    pub by: String,
    /// When.
    pub at: u64,
    /// Why.
    pub why: String,
    /// Leases that this request took back.
    #[serde(default)]
    pub revoked: usize,
    /// Runs that this request stopped.
    #[serde(default)]
    pub stopped: Vec<String>,
    /// Runs that could not be stopped, with the reason. Nothing is allowed to them either.
    #[serde(default)]
    pub unstopped: Vec<String>,
}
