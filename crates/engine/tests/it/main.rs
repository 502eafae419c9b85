//! The native driver from outside: hand-made runs, composed bytes, and what holds for all runs.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod chaos;
mod deferred;
mod done;
mod endings;
mod extras;
mod faults;
mod flow;
mod fork;
mod golden;
mod images;
mod relief;
mod said;
mod setup;
mod stall;
mod story;
mod timeline;
mod wire;
mod world;
mod written;
