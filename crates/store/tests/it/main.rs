//! The behaviour of the store, with the real git and real directories.
#![allow(missing_docs)]
#![expect(clippy::unwrap_used, reason = "in a test, also in what it calls, a failure is a panic")]

mod alteration;
mod contract;
mod deliver;
mod follow;
mod hostile;
mod keep;
mod large;
mod line;
mod made;
mod manners;
mod objects;
mod owner;
mod restore;
mod revert;
mod scratch;
mod stealth;
mod submodule;
mod unchanged;
mod uncommitted;
mod world;
