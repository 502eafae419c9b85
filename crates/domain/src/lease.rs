//! A run's authority, and the decisions made under it.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::id::{GateId, LeaseId, RunId};
use crate::time::Timestamp;

/// What a run may do. A lease is only ever narrowed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The row's key.
    pub id: LeaseId,
    /// The run that holds it.
    pub run: RunId,
    /// Who acts, as `agent:coder`.
    pub principal: String,
    /// On whose behalf, as `human:owner`.
    pub on_behalf_of: String,
    /// Why it was granted.
    pub purpose: String,
    /// Tools it allows, by name.
    pub tools: Vec<String>,
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
