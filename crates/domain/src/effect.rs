//! What a step does to the world, how risky that is, and how far a content is trusted.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// What repeating a step would do. It decides how a step is recovered whose intention is on record
/// and whose result is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Changes nothing: run again.
    #[n(0)]
    Read,
    /// Changes the workspace only: its processes are killed, the snapshot is restored, run again.
    #[n(1)]
    WorkspaceWrite,
    /// Repeating it under the same key changes nothing more: run again with the key.
    #[n(2)]
    IdempotentWrite,
    /// Must not be repeated blindly: probed, else the owner is asked.
    #[n(3)]
    NonIdempotent,
    /// A paid call to a model: run again, the first attempt recorded as lost and as spent.
    #[n(4)]
    ModelCall,
}

/// How much can go wrong, for policy.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// Reads inside the jail, or asks a model.
    #[n(0)]
    Read,
    /// Writes in the workspace.
    #[n(1)]
    Workspace,
    /// Uses the network.
    #[n(2)]
    Network,
    /// Leaves the house, or cannot be taken back.
    #[n(3)]
    External,
}

/// Where a fact or a content comes from; earlier is trusted more.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Regie itself: the kernel's own bookkeeping.
    #[n(0)]
    Kernel,
    /// The owner.
    #[n(1)]
    Owner,
    /// An agent's own words.
    #[n(2)]
    Agent,
    /// The output of a tool.
    #[n(3)]
    Tool,
    /// Content from the web.
    #[n(4)]
    Web,
}
