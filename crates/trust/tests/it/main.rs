//! The authorisation point from outside: rules, leases, the door.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod door;
mod export;
mod leases;
mod policy;
mod rules;
mod shell;
mod world;
