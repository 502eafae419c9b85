//! The tree with history: branches, workspaces, snapshots, proposals, merges.
//!
//! The owner's repository is read, and written only by [`Tree::deliver`]. Everything else happens
//! in a git dir of Regie's own that lies outside every workspace, so that nothing an agent wrote
//! (configuration, hooks, filters, attributes, nested repositories) is ever obeyed by a git that
//! runs on the host.
#![forbid(unsafe_code)]

mod alteration;
mod archive;
mod attributes;
mod blame;
mod checkout;
mod deliver;
mod diff;
mod doubt;
pub mod engine;
mod error;
mod follow;
mod forked;
pub mod git;
mod hold;
mod id;
mod include;
mod keep;
mod lens;
mod made;
mod manners;
mod message;
mod objects;
mod odb;
pub mod owner;
mod proposal;
mod purge;
mod quick;
mod recycle;
mod revert;
mod scratch;
mod seen;
mod snapshot;
mod submodule;
mod tree;
mod uncommitted;
mod view;
mod workspace;

pub use alteration::{Alteration, Content, Entry};
pub use archive::{Named, Told, checksum};
pub use blame::Origin;
pub use deliver::Delivery;
pub use diff::{Diff, FileChange, Status};
pub use engine::{Engine, Plain};
pub use error::Error;
pub use follow::Followed;
pub use id::{Commit, TreeId, Treeish};
pub use include::{INCLUDE_FILE, Included};
pub use keep::PutBy;
pub use made::remove_all;
pub use manners::Manners;
pub use message::{KEY_TRAILER, Message, Provenance, Signature};
pub use owner::Owner;
pub use proposal::Proposal;
pub use recycle::RESTORED;
pub use revert::Undoing;
pub use scratch::Scratch;
pub use snapshot::{Skipped, Snapshot, Why};
pub use submodule::Submodules;
pub use tree::{Tree, former_ref};
pub use uncommitted::Uncommitted;
pub use workspace::Workspace;
