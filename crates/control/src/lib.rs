//! The use cases: what the CLI, the server and the gateways all call.
//!
//! | module | what lives there |
//! |---|---|
//! | [`api`] | the requests and views of `/api/v1`, shared by server and clients |
//! | [`error`] | why a use case failed: stable code, status, mend |
//! | [`missions`] | starting a mission: import, branch, workspace, lease, first event |
//! | `room` | whether a mission's first request fits its model |
//! | [`runs`] | looking at runs; pause, stop, cancel, resume |
//! | [`say`] | what the owner says to a run on its way |
//! | [`fork`] | a run that goes on from another one, of the same mission or of one that follows |
//! | [`catalogue`] | what endpoints say of their models, kept in the home |
//! | [`costs`], [`search`] | what was spent; words in all missions |
//! | `environments` | what setups made, kept for later runs |
//! | [`gates`] | what waits for the owner, and the answers |
//! | [`undo`] | taking a merge back |
//! | [`leases`], `roles`, `halt` | authority as the owner handles it; who acts; the kill switch |
//! | [`notify`] | what the owner is told of |
//! | [`policy`] | the owner's rules: which files count, what they say, what a gate allows always |
//! | [`keep`] | what lies in the home, and what of it may go |
//! | [`audit`] | verification of the chains |
//! | [`executor`] | who executes which step: the vendor, the host, the jail |
//! | [`workspaces`] | the kernel's workspace port over the store |
//! | [`recording`] | a run in a directory that can be replayed: writing, scrubbing, replaying |
//! | [`drivers`] | the driver of a run, from its artifacts |
//! | [`vendors`], `health` | vendors' keys, in memory only; who did not answer lately |
//! | `route` | which model a new mission begins with |
//! | [`layout`] | where things lie under the home |
//! | `archive` | a project in a standard form, and back |
//! | `whose` | who changed a line, under which lease, and who let it in |
//! | [`view`] | from what is on record to what is shown |
#![forbid(unsafe_code)]

mod act;
pub mod api;
mod archive;
pub mod audit;
pub mod catalogue;
pub mod costs;
pub mod drivers;
mod environments;
pub mod error;
pub mod executor;
pub mod fork;
pub mod gates;
pub mod keep;
pub mod layout;
pub mod leases;
pub mod missions;
pub mod notify;
pub mod policy;
mod proposals;
pub mod recording;
pub mod runs;
pub mod say;
pub mod search;
pub mod undo;
pub mod vendors;
pub mod view;
pub mod workspaces;

mod control;
mod halt;
mod health;
mod point;
mod readers;
mod reads;
mod roles;
mod room;
mod route;
mod start;
mod unborn;
mod whose;

pub use control::{Control, Parts, deltas};
pub use error::Error;
pub use layout::Layout;
