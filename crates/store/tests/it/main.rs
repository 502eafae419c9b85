//! The behaviour of the store, with the real git and real directories.
#![allow(missing_docs)]

mod deliver;
mod hostile;
mod line;
mod owner;
mod restore;
mod world;
