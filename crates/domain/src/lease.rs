//! A run's authority, and the decisions made under it.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::budget::Caps;
use crate::grants::Grants;
use crate::id::{GateId, LeaseId, RunId};
use crate::label::Labels;
use crate::time::Timestamp;

/// What a run, or the bearer of a token, may do. A lease is only ever narrowed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The row's key.
    pub id: LeaseId,
    /// The run that holds it; without one it is held by whoever bears its token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The lease that it was narrowed from. It holds as long as that one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<LeaseId>,
    /// Who acts, as `agent:coder`.
    pub principal: String,
    /// On whose behalf, as `human:owner`.
    pub on_behalf_of: String,
    /// Why it was granted.
    pub purpose: String,
    /// Tools it allows, by name.
    pub tools: Vec<String>,
    /// The files of the workspace that it allows; all of them in a lease of an earlier Regie.
    #[serde(default, skip_serializing_if = "Grants::is_everything")]
    pub paths: Grants,
    /// What may be used under it, where that is bounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Caps>,
    /// The labels of what it may take in at most, where that is bounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Labels>,
    /// When it was granted; unknown of a lease of an earlier Regie.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted_at: Option<Timestamp>,
    /// When it ends by itself.
    pub expires_at: Timestamp,
    /// Raised by every change; an append that carries an older epoch is refused.
    pub epoch: u64,
    /// Whether it was taken back.
    pub revoked: bool,
}

/// The answer of the authorisation point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The step may start.
    #[n(0)]
    Allow,
    /// A human is asked first.
    #[n(1)]
    Ask,
    /// The step must not happen.
    #[n(2)]
    Deny,
}

/// A decision with its grounds, recorded with the step it belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(map)]
pub struct Decision {
    /// What was decided.
    #[n(0)]
    pub verdict: Verdict,
    /// The rule that decided, in words that an owner can read.
    #[n(1)]
    pub rule: String,
    /// The lease under which the action was judged.
    #[n(2)]
    pub lease: LeaseId,
    /// Its epoch at that moment. The append expects it, so that a revocation in between wins.
    #[n(3)]
    pub epoch: u64,
    /// The gate whose approval turned an *ask* into an *allow*.
    #[n(4)]
    pub gate: Option<GateId>,
}
