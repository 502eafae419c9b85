//! The jail, tried from inside: every probe is also shown to succeed outside of it, where that
//! means anything, so that no test passes because its probe is broken.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bomb;
mod bounds;
mod compile;
mod exec;
mod files;
mod hostile;
mod jail;
mod lacking;
mod layered;
mod lifetime;
mod limits;
mod network;
mod open_network;
mod prepared;
mod probe;
mod processes;
mod programs;
mod protected;
mod refusals;
