//! The native driver from outside: hand-made runs, composed bytes, and what holds for all runs.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod chaos;
mod done;
mod endings;
mod faults;
mod flow;
mod fork;
mod relief;
mod said;
mod setup;
mod stall;
mod timeline;
mod wire;
mod world;
mod written;
