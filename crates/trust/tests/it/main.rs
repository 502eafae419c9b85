//! The authorisation point from outside: rules, leases, the door.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod acts;
mod door;
mod export;
mod halt;
mod labels;
mod leases;
mod merges;
mod narrowing;
mod policy;
mod provenance;
mod rules;
mod shell;
mod takes;
mod world;
