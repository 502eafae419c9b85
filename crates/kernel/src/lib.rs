//! Durable execution.
//!
//! The kernel drives runs to their end whatever dies on the way. Nothing in it knows what a model,
//! a file or a process is: it plans, authorises, records, starts, awaits and recovers *steps*.
//!
//! | module | what lives there |
//! |---|---|
//! | [`driver`] | what moves a run forward: a pure reducer over its events |
//! | [`port`] | the outside: journal, records, artifacts, clock, randomness, authority, executor, workspaces |
//! | [`machine`] | the sans-I/O state machine of one run: inputs in, outputs out |
//! | [`lineage`] | what a run inherits from the run that it goes on from |
//! | [`host`] | runs machines on real ports, one task a run |
//! | [`fault`] | named points where a test may kill the process |
#![forbid(unsafe_code)]

pub mod driver;
pub mod fault;
pub mod host;
pub mod lineage;
pub mod machine;
pub mod port;

pub use driver::{Driver, Next, StepSpec};
pub use machine::{Input, Machine, Output};
